"""What the scenarios stand on: a node to talk to, clients that can be cut off, and waiting that ends.

The scenarios run in a process of cmd/sluice/python_test.go, which owns the nodes. A scenario asks for one with a line of JSON on
standard output, {"do": "start", "args": [...]}, and is answered with one on standard input. What else is printed is only logged.
"""

import asyncio
import contextlib
import json
import socket
import sys
import urllib.request
from pathlib import Path

from centrifuge import Client, ClientEventHandler, SubscriptionEventHandler

# How long anything may take, in seconds; waiting for more than that has failed. It is only reached by failures.
PATIENCE = 30


class Test:
    """The scenario as the Go test sees it. At its end everything that was opened is closed."""

    def __init__(self):
        self.stack = contextlib.AsyncExitStack()
        self._turn = asyncio.Lock()

    async def __aenter__(self):
        await self.stack.__aenter__()
        return self

    async def __aexit__(self, *exc):
        return await self.stack.__aexit__(*exc)

    async def ask(self, **request):
        """Has the Go test do something and returns what it answers."""
        async with self._turn:
            print(json.dumps(request), flush=True)
            line = await asyncio.to_thread(sys.stdin.readline)
        assert line, "the test went away"
        return json.loads(line)

    async def start(self):
        """Starts a node. There is one at a time."""
        return await self._start("--insecure", "--config", str(Path(__file__).with_name("node.yaml").resolve()))

    async def start_secure(self):
        """Starts a node that clients and callers tell who they are."""
        return await self._start("--config", str((Path(__file__).parents[1] / "sdk" / "tokens.yaml").resolve()))

    async def _start(self, *args):
        node = Node(self, list(args))
        await node.start()
        return node


class Node:
    """A running sluice serve."""

    def __init__(self, test, args):
        self._test = test
        self._args = args
        self.address = ""

    async def start(self):
        """Starts the process, on ports of its own."""
        self.address = (await self._test.ask(do="start", args=self._args))["address"]

    async def restart(self):
        """Kills the process and starts another, elsewhere: clients that connect again find it, as behind a load balancer."""
        await self._test.ask(do="kill")
        await self.start()

    async def terminate(self):
        """Sends SIGTERM and returns the exit code."""
        return (await self._test.ask(do="terminate"))["code"]

    async def api(self, method, **request):
        """Calls a method of the HTTP API and returns its result."""
        return await asyncio.to_thread(self._api, method, request)

    def _api(self, method, request):
        url = f"http://{self.address}/api/{method}"
        call = urllib.request.Request(url, data=json.dumps(request).encode(), headers={"X-API-Key": "key"})
        with _direct.open(call, timeout=PATIENCE) as response:
            reply = json.load(response)
        assert "error" not in reply, f"{method}: {reply['error']}"
        return reply["result"]

    async def publish(self, channel, *all_data):
        """Publishes in order, through the API, and returns the positions."""
        return [await self.api("publish", channel=channel, data=data) for data in all_data]

    async def client(self, **options):
        """Returns a client that has not been told to connect yet."""
        person = Person(await self._test.stack.enter_async_context(Line(self)), options)
        self._test.stack.push_async_callback(person.sdk.disconnect)
        return person

    async def connect(self, **options):
        """Returns a client that is connected."""
        person = await self.client(**options)
        await person.sdk.connect()
        await person.seen("connected")
        return person


# The API is asked directly, whatever proxy the environment names.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Line:
    """The way from one client to the node: a relay that can be cut, with all that is on it, and slowed down."""

    def __init__(self, node):
        self._node = node
        self._offline = False
        self._writers = set()
        self._relays = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._server = None
        self.connections = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"ws://{host}:{port}/connection/websocket"
        return self

    async def __aexit__(self, *exc):
        self.cut()
        self.speed_up()
        self._server.close()
        await self._server.wait_closed()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def cut(self):
        """Resets the connections and refuses others until mend is called."""
        self._offline = True
        self.interrupt()

    def mend(self):
        """Lets the client through again."""
        self._offline = False

    def interrupt(self):
        """Resets the connections; the client can make others at once."""
        for writer in list(self._writers):
            writer.transport.abort()

    def slow_down(self):
        """Reads very slowly what the node sends: so much a second that the node does not take the client for dead."""
        self._flows.clear()

    def speed_up(self):
        """Reads as fast as it can again."""
        self._flows.set()

    async def _relay(self, reader, writer):
        if self._offline:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.add(writer)
        self._relays.add(asyncio.current_task())
        node_writer = None
        try:
            node_reader, node_writer = await self._reach()
            self._writers.add(node_writer)
            up = asyncio.create_task(self._pump(reader, node_writer, None))
            down = asyncio.create_task(self._pump(node_reader, writer, self._flows))
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            for pump in (up, down):
                pump.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
        except OSError:
            pass  # there is no node at the moment: the client is refused
        finally:
            for each in (writer, node_writer):
                if each is not None:
                    self._writers.discard(each)
                    each.close()
            self._relays.discard(asyncio.current_task())

    async def _reach(self):
        """Connects to the node, with small buffers, so that the node soon notices a client that reads slowly."""
        host, port = self._node.address.rsplit(":", 1)
        node = socket.socket(socket.AF_INET)
        try:
            node.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
            node.setblocking(False)
            await asyncio.get_running_loop().sock_connect(node, (host, int(port)))
            return await asyncio.open_connection(sock=node, limit=4096)
        except BaseException:
            node.close()
            raise

    @staticmethod
    async def _pump(reader, writer, flows):
        while True:
            if flows is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(flows.wait(), 1)
            data = await reader.read(1 << 16)
            if not data:
                return
            writer.write(data)
            await writer.drain()


class Record:
    """A list that grows while somebody waits for it to."""

    def __init__(self):
        self.items = []
        self._grown = asyncio.Event()

    def add(self, item):
        self.items.append(item)
        self._grown.set()
        self._grown = asyncio.Event()

    async def until(self, test, what):
        """Waits until test holds for the items and returns what it returned. what says in the error what was waited for."""
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := test(self.items)) is None:
                    await self._grown.wait()
                return found
        except TimeoutError:
            last = self.items[-5:]
            raise AssertionError(f"waited in vain for {what}; there were {len(self.items)}, ending with {last}") from None

    async def nth(self, name, nth):
        """Waits for the nth event of a name and returns what came with it."""

        def find(items):
            found = [ctx for event, ctx in items if event == name]
            return found[nth - 1] if len(found) >= nth else None

        return await self.until(find, f"{name} ({nth})")

    async def at_least(self, n):
        """Waits for n items."""
        await self.until(lambda items: items if len(items) >= n else None, f"{n} items")


class Person(ClientEventHandler):
    """The official client, as an application has it, and the line it uses."""

    def __init__(self, line, options):
        self.line = line
        self.events = Record()  # connecting, connected, disconnected and error, with what the client says of them
        self.sdk = Client(
            line.url,
            events=self,
            proxy=None,
            timeout=PATIENCE,
            **{"min_reconnect_delay": 0.02, "max_reconnect_delay": 0.1, **options},
        )

    async def on_connecting(self, ctx):
        self.events.add(("connecting", ctx))

    async def on_connected(self, ctx):
        self.events.add(("connected", ctx))

    async def on_disconnected(self, ctx):
        self.events.add(("disconnected", ctx))

    async def on_error(self, ctx):
        self.events.add(("error", ctx))

    async def seen(self, name, nth=1):
        """Waits until the client has come to a state for the nth time and returns what it said then."""
        return await self.events.nth(name, nth)

    def times(self, name):
        """How often the client has come to a state."""
        return sum(event == name for event, _ in self.events.items)

    async def cut(self):
        """Breaks the connection and keeps the client from making another until line.mend is called."""
        before = self.times("connecting")
        self.line.cut()
        await self.seen("connecting", before + 1)

    async def follow(self, channel, **options):
        """Makes a subscription and begins it."""
        follower = Follower(self.sdk, channel, options)
        await follower.sdk.subscribe()
        return follower

    async def subscribed(self, channel, **options):
        """Returns a subscription that has begun."""
        follower = await self.follow(channel, **options)
        await follower.seen("subscribed")
        return follower

    async def publish(self, channel, *all_data):
        """Publishes in order and returns when all are acknowledged."""
        for i in range(0, len(all_data), 200):
            await asyncio.gather(*(self.sdk.publish(channel, data) for data in all_data[i : i + 200]))


class Follower(SubscriptionEventHandler):
    """A subscription with all that it got."""

    def __init__(self, client, channel, options):
        self.events = Record()  # subscribing, subscribed, unsubscribed and error, with what the client says of them
        self.publications = Record()
        self.lives = []  # what the client said when it was subscribed, and how many publications it had then
        self.sdk = client.new_subscription(
            channel, events=self, min_resubscribe_delay=0.02, max_resubscribe_delay=0.1, **options
        )

    async def on_subscribing(self, ctx):
        self.events.add(("subscribing", ctx))

    async def on_subscribed(self, ctx):
        self.lives.append((ctx, len(self.publications.items)))
        self.events.add(("subscribed", ctx))

    async def on_unsubscribed(self, ctx):
        self.events.add(("unsubscribed", ctx))

    async def on_error(self, ctx):
        self.events.add(("error", ctx))

    async def on_publication(self, ctx):
        self.publications.add(ctx.pub)

    @property
    def data(self):
        return [pub.data for pub in self.publications.items]

    @property
    def offsets(self):
        return [pub.offset for pub in self.publications.items]

    async def seen(self, name, nth=1):
        """Waits until the subscription has come to a state for the nth time and returns what the client said then."""
        return await self.events.nth(name, nth)

    async def got(self, data):
        """Waits for a publication with this data."""
        looked = 0

        def find(items):
            nonlocal looked
            looked, fresh = len(items), items[looked:]
            return next((pub for pub in reversed(fresh) if pub.data == data), None)

        return await self.publications.until(find, f"publication {_short(data)}")


def equal(got, want, what=""):
    """Fails unless both are the same."""
    assert got == want, f"{what or 'got'}: {_short(got)}, want {_short(want)}"


def increasing(numbers):
    """Fails unless each number is greater than the one before."""
    for before, after in zip(numbers, numbers[1:]):
        assert after > before, f"{after} comes after {before}"


def numbers(first, last):
    """The list [first, ..., last]."""
    return list(range(first, last + 1))


async def raises(code, attempt):
    """Fails unless the node answers an attempt with an error of this code."""
    try:
        await attempt
    except Exception as e:
        assert getattr(e, "code", None) == code, f"{e!r}, want error {code}"
    else:
        raise AssertionError(f"there was no error, want {code}")


def _short(value):
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:300]} … {text[-300:]}"
