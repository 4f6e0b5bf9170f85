"""How the official client gets tokens, presents them, and gets others when they end."""

import base64
import hashlib
import hmac
import json
import time

from centrifuge import UnauthorizedError

from harness import Record, equal

_SECRET = "a secret that only the scenarios know"


def _part(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _token(seconds=600, secret=_SECRET, **claims):
    """Returns a token as a back end makes it, which ends so many seconds from now."""
    claims = {"sub": "ann", "exp": int(time.time()) + seconds} | claims
    text = _part(b'{"alg":"HS256"}') + b"." + _part(json.dumps(claims).encode())
    return (text + b"." + _part(hmac.digest(secret.encode(), text, hashlib.sha256))).decode()


class _Source:
    """Gives tokens that end after so many seconds, one after the other, the last one again and again."""

    def __init__(self, *seconds, **claims):
        self.calls = Record()
        self._seconds, self._claims = seconds, claims

    async def give(self, channel=""):
        self.calls.add(channel)
        return _token(self._seconds[min(len(self.calls.items), len(self._seconds)) - 1], **self._claims)


async def _unauthorized(channel=""):
    raise UnauthorizedError


async def refreshes_its_connection(test):
    node = await test.start_secure()
    source = _Source(2)
    person = await node.connect(get_token=source.give)
    await source.calls.at_least(3)
    equal(person.line.connections, 1)
    equal([name for name, _ in person.events.items], ["connecting", "connected"])


async def asks_for_another_when_its_token_has_ended(test):
    node = await test.start_secure()
    source = _Source(600)
    person = await node.connect(token=_token(-100), get_token=source.give)
    equal(len(source.calls.items), 1)
    equal(person.times("disconnected"), 0)


async def connects_again_when_its_new_token_has_ended(test):
    node = await test.start_secure()
    source = _Source(2, -100, 600)
    person = await node.connect(get_token=source.give)
    equal((await person.seen("connecting", 2)).code, 3005)
    await person.seen("connected", 2)
    equal(len(source.calls.items), 3)


async def stops_with_an_invalid_token(test):
    node = await test.start_secure()
    for bad in (_token(secret="another secret, which the node does not know"), "bogus", ""):
        person = await node.client(token=bad)
        await person.sdk.connect()
        equal((await person.seen("disconnected")).code, 3500)
        equal(person.line.connections, 1)


async def stops_when_it_is_unauthorized(test):
    node = await test.start_secure()
    person = await node.client(get_token=_unauthorized)
    await person.sdk.connect()
    equal((await person.seen("disconnected")).code, 1)  # the SDK's own
    equal(person.line.connections, 0)


async def subscribes_with_a_token_and_refreshes_it(test):
    node = await test.start_secure()
    person = await node.connect(token=_token())
    source = _Source(-100, 2, channel="secret:a")  # the first one has ended already
    follower = await person.subscribed("secret:a", get_token=source.give)
    await source.calls.at_least(4)
    equal(source.calls.items[0], "secret:a")
    await node.publish("secret:a", 1)
    await follower.got(1)
    equal(person.line.connections, 1)
    equal(len(follower.lives), 1, "times subscribed")


async def is_kept_out_of_a_private_channel(test):
    node = await test.start_secure()
    person = await node.connect(token=_token())
    refusals = {
        "none": ({}, 103),
        "of another user": ({"token": _token(sub="bob", channel="secret:a")}, 103),
        "for another channel": ({"token": _token(channel="secret:b")}, 103),
        "of a connection": ({"token": _token()}, 103),
        "unauthorized": ({"get_token": _unauthorized}, 1),  # the SDK's own
    }
    for name, (options, code) in refusals.items():
        follower = await person.follow("secret:a", **options)
        equal((await follower.seen("unsubscribed")).code, code, name)
        person.sdk.remove_subscription(follower.sdk)
    equal(person.line.connections, 1)
