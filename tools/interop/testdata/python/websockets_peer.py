"""The peer websockets, as client and server."""

import asyncio

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory, ServerPerMessageDeflateFactory

from payload import digest, main, payload, say


def _extensions(deflate, factory, open_bits):
    if not deflate:
        return []
    bits = deflate["bits"]
    return [
        factory(
            server_no_context_takeover=not deflate["takeover"],
            client_no_context_takeover=not deflate["takeover"],
            server_max_window_bits=bits or None,
            client_max_window_bits=bits or open_bits,
        )
    ]


async def _send(ws, message):
    data = payload(message)
    pieces = message["pieces"]
    text = message["kind"] != "binary"
    if pieces > 1:
        size = -(-len(data) // pieces)
        data = [data[i * size : (i + 1) * size] for i in range(pieces)]
    await ws.send(data, text=text)


async def _play(ws, scenario):
    received = []
    pong = ""
    try:
        waiter = None
        if scenario["ping"]:
            waiter = await ws.ping(scenario["ping"])
        for message in scenario["send"]:
            await _send(ws, message)
        close = scenario["close"]
        while not close or len(received) < scenario["receive"]:
            received.append(digest(await ws.recv()))
        if waiter:
            await waiter
            pong = scenario["ping"]  # the library compares
        await ws.close(close["code"], close["reason"])
    except ConnectionClosed:
        pass
    await ws.wait_closed()
    return {
        "agreed": ws.response.headers.get("Sec-WebSocket-Extensions", ""),
        "received": received,
        "pong": pong,
        "code": ws.close_code,
        "reason": ws.close_reason,
        "clean": ws.protocol.close_rcvd is not None and ws.protocol.close_sent is not None,
        "errors": [],
    }


async def _client(scenario):
    extensions = _extensions(scenario["deflate"], ClientPerMessageDeflateFactory, True)
    async with connect(scenario["url"], compression=None, extensions=extensions, max_size=None, proxy=None) as ws:
        return await _play(ws, scenario)


async def _server(scenario):
    report = asyncio.get_running_loop().create_future()

    async def handle(ws):
        report.set_result(await _play(ws, scenario))

    extensions = _extensions(scenario["deflate"], ServerPerMessageDeflateFactory, None)
    async with serve(handle, "127.0.0.1", 0, compression=None, extensions=extensions, max_size=None) as server:
        say({"port": server.sockets[0].getsockname()[1]})
        return await report


main(_client, _server)
