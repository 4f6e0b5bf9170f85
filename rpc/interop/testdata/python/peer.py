"""A client and servers with Apache Thrift for Python. Each line of standard input is a task, each line of standard output its answer, both in JSON:

{"dialect": D, "port": P, "seed": S}  makes calls, with texts made from the seed:  {"calls": how many were answered, "errors": [...]}
{"dialect": D}                        starts a server until the program ends:      {"port": P}
"""

import collections
import json
import queue
import random
import sys
import threading

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAcceleratedFactory, TBinaryProtocolFactory
from thrift.protocol.TCompactProtocol import TCompactProtocolFactory
from thrift.protocol.THeaderProtocol import THeaderProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.Thrift import TApplicationException
from thrift.transport.THeaderTransport import THeaderSubprotocolID, THeaderTransformID
from thrift.transport.TSocket import TServerSocket, TSocket
from thrift.transport.TTransport import TBufferedTransportFactory, TFramedTransportFactory

from echo import Echo, Newer
from echo.ttypes import Failure

CLIENTS, CALLS = 4, 60
BOUND_MS = 60_000  # how long a client waits for an answer


class ZlibProtocolFactory(THeaderProtocolFactory):
    """THeader with compressed messages."""

    def getProtocol(self, transport):
        protocol = super().getProtocol(transport)
        protocol.add_transform(THeaderTransformID.ZLIB)
        return protocol


# The factories of transport and protocol of each dialect.
DIALECTS = {
    "THeader binary": (TBufferedTransportFactory(), THeaderProtocolFactory()),
    "THeader compact": (TBufferedTransportFactory(), THeaderProtocolFactory(default_protocol=THeaderSubprotocolID.COMPACT)),
    "THeader binary zlib": (TBufferedTransportFactory(), ZlibProtocolFactory()),
    "framed binary": (TFramedTransportFactory(), TBinaryProtocolAcceleratedFactory()),
    "framed compact": (TFramedTransportFactory(), TCompactProtocolFactory()),
    "unframed binary": (TBufferedTransportFactory(), TBinaryProtocolFactory()),
    "unframed compact": (TBufferedTransportFactory(), TCompactProtocolFactory()),
}


def make_text(rng):
    """Returns a text: none, 64 KiB, or something short."""
    kind = rng.randrange(30)
    if kind == 0:
        return "x" * (64 << 10)
    if kind < 4:
        return ""
    return "".join(rng.choices("ab\0 é漢😀", k=rng.randrange(200)))


class Calls:
    """The calls of one client, and what was wrong with their answers."""

    def __init__(self, dialect, port, seed):
        self.answered, self.errors = 0, []
        self._dialect, self._port, self._rng = dialect, port, random.Random(seed)

    def _check(self, what, call, want, error=None):
        try:
            got = call()
        except Exception as e:
            self.answered += 1
            if error is None or not error(e):
                self.errors.append(f"{what}: {e!r}")
            return
        self.answered += 1
        if error is not None or got != want:
            self.errors.append(f"{what}: {got!r:.100}, want {want!r:.100}")

    def run(self):
        """Makes all calls."""
        transports, protocols = DIALECTS[self._dialect]
        socket = TSocket("127.0.0.1", self._port)
        socket.setTimeout(BOUND_MS)
        transport = transports.getTransport(socket)
        try:
            transport.open()
            self._make(Newer.Client(protocols.getProtocol(transport)))
        except Exception as e:
            self.errors.append(repr(e))
        finally:
            transport.close()

    def _make(self, client):
        for i in range(CALLS):
            text = make_text(self._rng)
            self._check(f"call {i}", lambda: client.Echo(text), text)
        self._check("Fail", lambda: client.Fail("why"), None, lambda e: isinstance(e, Failure) and e.why == "why")
        self._check(
            "Fail without a reason",
            lambda: client.Fail(""),
            None,
            lambda e: isinstance(e, TApplicationException) and e.type == TApplicationException.INTERNAL_ERROR,
        )
        self._check(
            "Nothing",
            lambda: client.Nothing("a"),
            None,
            lambda e: isinstance(e, TApplicationException) and e.type == TApplicationException.UNKNOWN_METHOD,
        )
        news = f"news {self._rng.random()}"
        for i in range(3):
            client.Tell(news)
            self._check("Told", lambda: client.Told(news), i + 1)
        has_headers = self._dialect.startswith("THeader")
        if has_headers:
            client._oprot.set_header(b"key", b"value")
        self._check("Header", lambda: client.Header("key"), "value" if has_headers else "")


def call(task):
    """Several clients at once."""
    clients = [Calls(task["dialect"], task["port"], task["seed"] + i) for i in range(CLIENTS)]
    threads = [threading.Thread(target=c.run) for c in clients]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return {"calls": sum(c.answered for c in clients), "errors": [e for c in clients for e in c.errors][:10]}


class Handler:
    """The methods of the service."""

    def __init__(self):
        self.headers = threading.local()
        self._lock, self._told = threading.Lock(), collections.Counter()

    def Echo(self, text):
        return text

    def Fail(self, text):
        raise Failure(text) if text else ValueError("no reason")

    def Tell(self, text):
        with self._lock:
            self._told[text] += 1

    def Told(self, text):
        with self._lock:
            return self._told[text]

    def Header(self, key):
        return self.headers.read().get(key.encode(), b"").decode()


class Processor(Echo.Processor):
    """Lets the handler read the headers of a call."""

    def process(self, iprot, oprot):
        self._handler.headers.read = getattr(iprot, "get_headers", dict)
        return super().process(iprot, oprot)


class ServerSocket(TServerSocket):
    """Tells the port that the kernel has chosen."""

    def __init__(self, ports):
        super().__init__("127.0.0.1", 0)
        self._ports = ports

    def listen(self):
        super().listen()
        self._ports.put(self.handle.getsockname()[1])


def serve(task):
    """Starts a server."""
    ports = queue.Queue()
    server = TThreadedServer(Processor(Handler()), ServerSocket(ports), *DIALECTS[task["dialect"]], daemon=True)
    threading.Thread(target=server.serve, daemon=True).start()
    return {"port": ports.get()}


for line in sys.stdin:
    task = json.loads(line)
    print(json.dumps(call(task) if "port" in task else serve(task)), flush=True)
