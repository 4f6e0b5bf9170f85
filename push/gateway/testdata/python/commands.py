"""What a client that stays connected does."""

import re

from centrifuge import DuplicateSubscriptionError, StreamPosition

from harness import equal, increasing, numbers, raises


async def connects_and_disconnects(test):
    node = await test.start()
    person = await node.connect(name="shop", version="1.2", data={"device": "till"})
    connected = await person.seen("connected")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", connected.client), connected
    await person.sdk.disconnect()
    equal((await person.seen("disconnected")).code, 0)

    await person.sdk.connect()
    again = await person.seen("connected", 2)
    assert again.client != connected.client, "each connection has a name of its own"
    equal(person.times("error"), 0, "errors")


async def subscribes_to_a_hundred_channels(test):
    node = await test.start()
    channels = [f"long:{i}" for i in numbers(1, 100)]
    early = await node.client()  # knows its subscriptions before it connects
    late = await node.connect()
    followers = [await early.follow(channel) for channel in channels]
    await early.sdk.connect()
    followers += [await late.follow(channel) for channel in channels]
    for follower in followers:
        ctx = await follower.seen("subscribed")
        equal([ctx.recoverable, ctx.positioned, ctx.was_recovering, ctx.recovered], [True, True, False, False])

    publisher = (await early.seen("connected")).client
    offsets = {channel: [] for channel in channels}
    for n in numbers(1, 3):
        for channel in channels:
            await early.sdk.publish(channel, f"client {n}")
        broadcast = await node.api("broadcast", channels=channels, data=f"api {n}", tags={"round": str(n)})
        for channel, response in zip(channels, broadcast["responses"]):
            offsets[channel].append(response["result"]["offset"])
    for follower in followers:
        await follower.got("api 3")
        equal(follower.data, [f"{by} {n}" for n in numbers(1, 3) for by in ("client", "api")])
        increasing(follower.offsets)
        from_api = [pub for pub in follower.publications.items if pub.info is None]
        equal([pub.offset for pub in from_api], offsets[follower.sdk.channel], "offsets")
        equal([pub.tags for pub in from_api], [{"round": str(n)} for n in numbers(1, 3)], "tags")
        from_client = [pub for pub in follower.publications.items if pub.info is not None]
        equal([pub.info.client for pub in from_client], [publisher] * 3, "publishers")


async def publishes_whatever_is_json(test):
    node = await test.start()
    person = await node.connect()
    follower = await person.subscribed("news")
    values = [{"price": 1.5, "nested": {"list": [1, None, True]}}, "text", "ключ \u2028 \n\r", [], {}, 0, -12.75, True, "x" * 50_000, "end"]
    for value in values:
        await person.sdk.publish("news", value)
    await follower.got("end")
    equal(follower.data, values)
    history = await follower.sdk.history(limit=-1)
    equal([pub.data for pub in history.publications], values)
    await node.publish("news", *values[:5], "end of the API")
    await follower.got("end of the API")
    equal(follower.data[len(values) : -1], values[:5])


async def unsubscribes(test):
    node = await test.start()
    person = await node.connect()
    left = await person.subscribed("news")
    kept = await person.subscribed("weather")
    await node.publish("news", 1)
    await left.got(1)

    await left.sdk.unsubscribe()
    equal((await left.seen("unsubscribed")).code, 0)
    await person.sdk.publish("news", 2)  # comes after the unsubscribe command, on the same connection
    await person.sdk.publish("weather", "fair")
    await kept.got("fair")
    equal(left.data, [1])

    await left.sdk.subscribe()  # the client has kept its position
    ctx = await left.seen("subscribed", 2)
    equal([ctx.was_recovering, ctx.recovered], [True, True])
    await left.got(2)
    equal(left.data, [1, 2])


async def reads_history(test):
    node = await test.start()
    person = await node.connect()
    follower = await person.subscribed("news")
    await person.publish("news", *numbers(1, 10))
    whole = await follower.sdk.history(limit=-1)
    equal([pub.data for pub in whole.publications], numbers(1, 10))
    increasing([pub.offset for pub in whole.publications])
    equal(whole.offset, whole.publications[-1].offset)

    def at(n):
        return StreamPosition(whole.publications[n - 1].offset, whole.epoch)

    head = await follower.sdk.history()
    equal((head.publications, head.offset, head.epoch), ([], whole.offset, whole.epoch))
    for options, want in [
        ({"limit": 3}, [1, 2, 3]),
        ({"limit": 3, "reverse": True}, [10, 9, 8]),
        ({"limit": 2, "since": at(4)}, [5, 6]),
        ({"limit": 100, "since": at(9)}, [10]),
        ({"limit": 100, "since": at(10)}, []),
        ({"limit": 3, "since": at(4), "reverse": True}, [3, 2, 1]),
    ]:
        history = await person.sdk.history("news", **options)
        equal([pub.data for pub in history.publications], want, f"with {options}")
    await raises(112, follower.sdk.history(limit=1, since=StreamPosition(at(4).offset, "another")))

    await person.publish("short:news", *numbers(1, 20))
    history = await person.sdk.history("short:news", limit=-1)
    equal([pub.data for pub in history.publications], numbers(11, 20), "no more than the namespace keeps")


async def tells_who_is_present(test):
    node = await test.start()
    people = [await node.connect(), await node.connect()]
    followers = [await person.subscribed("room") for person in people]
    ids = [(await person.seen("connected")).client for person in people]
    present = (await followers[0].sdk.presence()).clients
    equal({id: (info.client, info.user) for id, info in present.items()}, {id: (id, "") for id in ids})
    stats = await followers[0].sdk.presence_stats()
    equal((stats.num_clients, stats.num_users), (2, 1))
    equal(await node.api("presence_stats", channel="room"), {"num_clients": 2, "num_users": 1})

    await followers[0].sdk.unsubscribe()
    rest = (await people[0].sdk.presence("room")).clients
    equal(list(rest), [ids[1]])


async def refuses(test):
    node = await test.start()
    person = await node.connect()
    await raises(108, person.sdk.rpc("sum", [1, 2]))
    await raises(102, person.sdk.publish("nowhere:news", 1))
    await raises(102, person.sdk.history("nowhere:news", limit=1))
    await raises(102, person.sdk.presence("nowhere:news"))
    await raises(102, person.sdk.presence_stats("nowhere:news"))
    nowhere = await person.follow("nowhere:news")
    equal((await nowhere.seen("unsubscribed")).code, 102)

    await person.subscribed("news")
    try:
        person.sdk.new_subscription("news")
        raise AssertionError("a second subscription to the same channel was made")
    except DuplicateSubscriptionError:
        pass
    for i in numbers(1, 127):  # with news, as many as are allowed
        await person.subscribed(f"long:{i}")
    one_more = await person.follow("long:128")
    equal((await one_more.seen("unsubscribed")).code, 106)
    equal([event for event, _ in person.events.items], ["connecting", "connected"], "none of this ends the connection")


async def is_sent_away_and_comes_back(test):
    node = await test.start()
    person = await node.connect()
    follower = await person.subscribed("news")
    for times, code in enumerate((3000, 3499, 4000), 2):
        client = (await person.seen("connected", times - 1)).client
        await node.api("disconnect", client=client, code=code, reason="go elsewhere")
        ctx = await person.seen("connecting", times)
        equal((ctx.code, ctx.reason), (code, "go elsewhere"))
        await node.publish("news", code)
        equal((await follower.seen("subscribed", times)).recovered, True, "recovered")
        await follower.got(code)
    equal(follower.data, [3000, 3499, 4000])

    client = (await person.seen("connected", 4)).client
    await node.api("disconnect", client=client, code=3500, reason="stay away")
    equal((await person.seen("disconnected")).code, 3500)
    equal(person.times("connecting"), 4, "attempts")
