"""What a client does that is told that what it has is not valid any more, and one whose position has an epoch and no offset."""

import json

from centrifuge import DeltaType

from harness import equal, numbers


class _Form:
    """A form of the protocol: what an application gives and gets, and the options of a client that has it."""

    def __init__(self, protobuf):
        self.options = {"use_protobuf": protobuf}
        self._protobuf = protobuf

    def values(self, follower):
        return [json.loads(data) if self._protobuf else data for data in follower.data]


_JSON, _PROTOBUF = _Form(False), _Form(True)


async def _by_disconnect(node, person, followers, times):
    """Invalidates the state of the whole connection."""
    client = (await person.seen("connected", person.times("connected"))).client
    before = person.times("connecting")
    await node.api("disconnect", client=client, code=3014, reason="reset")
    ctx = await person.seen("connecting", before + 1)
    equal((ctx.code, ctx.reason), (3014, "reset"))


async def _by_unsubscribe(node, person, followers, times):
    """Invalidates the state of each subscription alone. The connection goes on."""
    connections = person.times("connected")
    client = (await person.seen("connected", connections)).client
    for follower in followers:
        await node.api("unsubscribe", channel=follower.sdk.channel, client=client, code=2502, reason="reset")
    for follower in followers:
        equal((await follower.seen("subscribing", times)).code, 2502)
    equal(person.times("connected"), connections, "connections")


async def _forgets(test, form):
    """Resets a client over and over: it begins anew, misses nothing from then on, and recovers from its new position."""
    node = await test.start()
    person = await node.connect(**form.options)
    followers = [await person.subscribed("long:news"), await person.subscribed("deltas:a", delta=DeltaType.FOSSIL)]
    epochs = [(await follower.seen("subscribed")).stream_position.epoch for follower in followers]
    n = 0

    def value(i):
        return {"i": i, "pad": "the same in all of them " * 10}

    async def publish():
        nonlocal n
        n += 1
        for follower in followers:
            await node.publish(follower.sdk.channel, value(n))

    async def complete():
        for follower in followers:
            await follower.publications.at_least(n)
            equal(form.values(follower), [value(i) for i in numbers(1, n)])
            equal(follower.offsets, numbers(1, n))

    times = 1
    for _ in range(3):
        for reset in (_by_disconnect, _by_unsubscribe):
            await publish()
            await complete()
            times += 1
            await reset(node, person, followers, times)
            for follower, epoch in zip(followers, epochs):
                ctx = await follower.seen("subscribed", times)
                equal((ctx.was_recovering, ctx.recovered), (True, False), "was recovering and recovered")
                equal((ctx.stream_position.offset, ctx.stream_position.epoch), (n, epoch), "the position")
            await publish()  # a difference to what the client has forgotten would not decode
            await complete()

            await person.cut()  # from its new position it recovers
            await publish()
            person.line.mend()
            times += 1
            for follower in followers:
                ctx = await follower.seen("subscribed", times)
                equal((ctx.was_recovering, ctx.recovered), (True, True), "was recovering and recovered")
            await complete()
    for follower in followers:
        equal([name for name, _ in follower.events.items if name == "error"], [], "errors")


async def forgets_in_json(test):
    await _forgets(test, _JSON)


async def forgets_in_protobuf(test):
    await _forgets(test, _PROTOBUF)


async def _recovers_from_nothing(test, form):
    """A client that has subscribed to a channel without publications has an epoch and no offset: it recovers from the first publication on,
    and not in another epoch."""
    node = await test.start()
    person = await node.connect(**form.options)
    follower = await person.subscribed("long:new")
    position = (await follower.seen("subscribed")).stream_position
    equal(position.offset, 0)
    assert position.epoch, "a channel without publications has no epoch"
    await person.cut()  # and once more without any publication
    person.line.mend()
    still = await follower.seen("subscribed", 2)
    equal((still.was_recovering, still.recovered, still.stream_position), (True, True, position))
    await person.cut()
    await node.publish("long:new", 1, 2, 3)
    person.line.mend()
    ctx = await follower.seen("subscribed", 3)
    equal((ctx.was_recovering, ctx.recovered), (True, True))
    await follower.publications.at_least(3)
    await follower.sdk.unsubscribe()
    await node.publish("long:new", 4)
    await follower.sdk.subscribe()
    await follower.publications.at_least(4)
    equal((form.values(follower), follower.offsets), (numbers(1, 4), numbers(1, 4)))

    empty = await person.subscribed("long:empty")
    await node.restart()
    fresh = await empty.seen("subscribed", 2)
    equal((fresh.was_recovering, fresh.recovered, fresh.stream_position.offset), (True, False, 0))
    assert fresh.stream_position.epoch not in ("", position.epoch), "the epoch of the node before"
    await node.publish("long:empty", 1)  # the same number as in the epoch that is over
    await empty.publications.at_least(1)
    await person.cut()
    await node.publish("long:empty", 2)
    person.line.mend()
    equal((await empty.seen("subscribed", 3)).recovered, True)
    await empty.publications.at_least(2)
    equal((form.values(empty), empty.offsets), ([1, 2], [1, 2]))


async def recovers_from_nothing_in_json(test):
    await _recovers_from_nothing(test, _JSON)


async def recovers_from_nothing_in_protobuf(test):
    await _recovers_from_nothing(test, _PROTOBUF)
