"""What a client learns that was cut off."""

import asyncio

from harness import equal, increasing, numbers


async def _begin(node, channel):
    """Returns a publisher, a reader and its subscription to the channel, which has got the publications 1 to 5."""
    publisher, reader = await node.connect(), await node.connect()
    follower = await reader.subscribed(channel)
    await publisher.publish(channel, *numbers(1, 5))
    await follower.got(5)
    return publisher, reader, follower


async def _flood(node, channel, n, data):
    """Publishes the same many times, a hundred with each request."""
    for _ in range(n // 100):
        await node.api("broadcast", channels=[channel] * 100, data=data)


async def _resumed(follower, resumed, nth=2):
    """Fails unless the subscription was resumed, or not, when it was subscribed for the nth time."""
    ctx = await follower.seen("subscribed", nth)
    equal((ctx.was_recovering, ctx.recovered), (True, resumed), "was recovering and recovered")
    return ctx


async def recovers_what_it_missed(test):
    node = await test.start()
    _, reader, follower = await _begin(node, "news")
    await reader.cut()
    positions = await node.publish("news", *numbers(6, 25))
    reader.line.mend()
    await _resumed(follower, True)
    await follower.got(25)
    await node.publish("news", 26)
    await follower.got(26)
    equal(follower.data, numbers(1, 26))
    equal(follower.offsets[5:25], [position["offset"] for position in positions])
    increasing(follower.offsets)

    await reader.cut()  # and once more, having missed nothing
    reader.line.mend()
    await _resumed(follower, True, 3)
    await node.publish("news", 27)
    await follower.got(27)
    equal(follower.data, numbers(1, 27))


async def recovers_after_going_away(test):
    node = await test.start()
    _, reader, follower = await _begin(node, "news")
    for away in numbers(1, 5):
        await reader.sdk.disconnect()
        await reader.seen("disconnected", away)
        await node.publish("news", *(f"{away}/{i}" for i in numbers(1, 10)))
        await reader.sdk.connect()
        await _resumed(follower, True, away + 1)
        await follower.got(f"{away}/10")
    equal(follower.data, numbers(1, 5) + [f"{away}/{i}" for away in numbers(1, 5) for i in numbers(1, 10)])
    increasing(follower.offsets)


# More was missed than one reply holds, by number and by size: the rest follows as pushes, nothing twice and nothing left out.
async def recovers_more_than_a_reply_holds(test):
    node = await test.start()
    publisher, reader, follower = await _begin(node, "long:news")
    large = [f"{i} {'x' * 10_000}" for i in numbers(1, 40)]
    await reader.cut()
    await publisher.publish("long:news", *numbers(6, 3000))
    await node.publish("long:news", *large)
    reader.line.mend()
    await _resumed(follower, True)
    await node.publish("long:news", "end")
    await follower.got("end")
    equal(follower.data, numbers(1, 3000) + large + ["end"])
    increasing(follower.offsets)


async def recovers_many_subscriptions(test):
    node = await test.start()
    reader = await node.connect()
    channels = [f"long:{i}" for i in numbers(1, 100)]
    followers = [await reader.subscribed(channel) for channel in channels]
    for times in numbers(1, 3):
        await reader.cut()
        for n in numbers(1, 10):
            await node.api("broadcast", channels=channels, data=10 * (times - 1) + n)
        reader.line.mend()
        for follower in followers:
            await _resumed(follower, True, times + 1)
    for follower in followers:
        await node.publish(follower.sdk.channel, "end")
        await follower.got("end")
        equal(follower.data, numbers(1, 30) + ["end"])


# The connection breaks while publications are under way, and again while what was missed is.
async def recovers_from_cuts_under_load(test):
    node = await test.start()
    publisher, reader, follower = await _begin(node, "long:news")
    publishing = asyncio.create_task(publisher.publish("long:news", *numbers(6, 8000)))
    for cut in numbers(1, 6):
        await follower.publications.at_least(cut * 1000)
        reader.line.interrupt()
        await _resumed(follower, True, cut + 1)
    await publishing
    await follower.got(8000)
    equal(follower.data, numbers(1, 8000))
    increasing(follower.offsets)


# A client that reads too slowly for what its channel keeps is told so, subscribes again by itself, and learns that it was not told
# everything. Its other channel is not disturbed.
async def resubscribes_after_a_loss(test):
    node = await test.start()
    reader = await node.connect()
    slow, calm = await reader.subscribed("short:news"), await reader.subscribed("news")
    reader.line.slow_down()
    await _flood(node, "short:news", 12_000, "x" * 2000)  # more than sockets and the node hold together
    await node.publish("news", "calm")
    reader.line.speed_up()

    equal((await slow.seen("subscribing", 2)).code, 2500)
    await _resumed(slow, False)
    await calm.got("calm")
    # It may have happened several times, and perhaps it is about to: then the next publication is not for it either.
    live = asyncio.create_task(slow.got("live"))
    while not live.done():
        await node.publish("short:news", "live")
        await asyncio.wait([live], timeout=1)
    await live
    # From each subscribing to the next nothing is left out.
    starts = [(ctx.stream_position.offset, have) for ctx, have in slow.lives]
    ends = [have for _, have in starts[1:]] + [len(slow.offsets)]
    for (offset, first), end in zip(starts, ends):
        equal(slow.offsets[first:end], numbers(offset + 1, offset + end - first), "between losses")
    assert len(slow.offsets) < 12_001, "nothing was lost"
    assert not any(ctx.recovered for ctx, _ in slow.lives), slow.lives
    equal(reader.line.connections, 1, "connections")


async def starts_fresh_after_too_long_a_gap(test):
    node = await test.start()
    _, reader, follower = await _begin(node, "short:news")
    await reader.cut()
    await _flood(node, "short:news", 10_000, "lost")  # a node keeps some more than the history for a while
    reader.line.mend()
    await _resumed(follower, False)
    await node.publish("short:news", "live")
    await follower.got("live")
    equal(follower.data, [1, 2, 3, 4, 5, "live"])

    await reader.cut()  # from its new position it recovers
    await node.publish("short:news", "missed")
    reader.line.mend()
    await _resumed(follower, True, 3)
    await follower.got("missed")


async def starts_fresh_in_another_epoch(test):
    node = await test.start()
    _, _, follower = await _begin(node, "news")
    epoch = (await follower.seen("subscribed")).stream_position.epoch
    await node.restart()
    ctx = await _resumed(follower, False)
    assert ctx.stream_position.epoch != epoch, "a new life of the channel has the epoch of the old one"
    await node.publish("news", *numbers(1, 10))  # whatever the offsets are in this epoch
    await follower.got(10)
    equal(follower.data, numbers(1, 5) + numbers(1, 10))


async def goes_elsewhere_at_shutdown(test):
    node = await test.start()
    people = [await node.connect() for _ in range(20)]
    followers = [await person.subscribed("news") for person in people]
    equal(await node.terminate(), 0, "exit code")
    for person in people:
        ctx = await person.seen("connecting", 2)
        equal((ctx.code, ctx.reason), (3001, "shutdown"))
    await node.start()
    for follower in followers:
        await _resumed(follower, False)
