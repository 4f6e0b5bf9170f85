"""The client in the Protobuf form of the protocol: what an application gives and gets is bytes."""

import json

from harness import equal, increasing, numbers, raises


def _encode(value):
    return json.dumps(value).encode()


def _decode(publications):
    return [json.loads(pub.data) for pub in publications]


async def walks_through_everything_in_protobuf(test):
    node = await test.start()
    person = await node.connect(use_protobuf=True, name="shop", data=_encode({"device": "till"}))
    others = [await person.follow(f"long:{i}") for i in numbers(1, 50)]
    for other in others:
        await other.seen("subscribed")
    follower = await person.subscribed("news")
    for n in numbers(1, 20):
        await person.sdk.publish("news", _encode({"n": n}))
        await node.publish("news", {"n": -n})
    await follower.publications.at_least(40)
    equal(_decode(follower.publications.items), [{"n": n * by} for n in numbers(1, 20) for by in (1, -1)])
    increasing(follower.offsets)
    history = await follower.sdk.history(limit=3, reverse=True)
    equal(_decode(history.publications), [{"n": -20}, {"n": 20}, {"n": -19}])
    equal(history.offset, follower.offsets[-1])
    presence = await person.sdk.presence("news")
    equal(list(presence.clients), [(await person.seen("connected")).client])
    stats = await person.sdk.presence_stats("news")
    equal((stats.num_clients, stats.num_users), (1, 1))
    await raises(102, person.sdk.publish("nowhere:a", _encode(1)))
    await raises(107, person.sdk.publish("news", b"no JSON"))
    paced = await person.sdk.rpc("sluice.pace", _encode({"channel": "news", "interval": 0}))
    assert isinstance(json.loads(paced.data), dict), paced


async def recovers_in_protobuf(test):
    node = await test.start()
    person = await node.connect(use_protobuf=True)
    follower = await person.subscribed("news")
    n = 0
    for life in numbers(2, 4):
        await node.publish("news", n + 1)
        n += 1
        await follower.publications.at_least(n)
        await person.cut()
        await node.publish("news", *numbers(n + 1, n + 20))
        n += 20
        person.line.mend()
        ctx = await follower.seen("subscribed", life)
        equal((ctx.was_recovering, ctx.recovered), (True, True))
        await follower.publications.at_least(n)
    equal(_decode(follower.publications.items), numbers(1, n))
    connected = await person.seen("connected", person.times("connected"))
    await node.api("disconnect", client=connected.client, code=3500, reason="go away")
    equal((await person.seen("disconnected")).code, 3500)
