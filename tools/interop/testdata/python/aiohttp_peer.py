"""The peer aiohttp, as client and server. It cannot send fragments or configure context takeover."""

import asyncio

from aiohttp import ClientSession, WSMsgType, web

from payload import digest, main, payload, say


async def _play(ws, scenario):
    received = []
    pong = reason = ""
    errors = []
    if scenario["ping"]:
        await ws.ping(scenario["ping"].encode())
    for message in scenario["send"]:
        data = payload(message)
        if message["kind"] == "binary":
            await ws.send_bytes(data)
        else:
            await ws.send_str(data.decode())
    close = scenario["close"]
    while not close or len(received) < scenario["receive"] or pong != scenario["ping"]:
        message = await ws.receive()
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            received.append(digest(message.data))
        elif message.type is WSMsgType.PONG:
            pong = bytes(message.data).decode()
        elif message.type is WSMsgType.PING:
            await ws.pong(message.data)
        else:
            if message.type is WSMsgType.CLOSE:
                reason = message.extra or ""
            elif message.type is WSMsgType.ERROR:
                errors.append(repr(message.data))
            break
    else:
        await ws.close(code=close["code"], message=close["reason"].encode())
    error = ws.exception()
    if error:
        errors.append(repr(error))
    return {
        "received": received,
        "pong": pong,
        "code": ws.close_code,
        "reason": reason,
        "clean": error is None and ws.close_code != 1006,
        "errors": errors,
    }


def _options(scenario):
    # A client sees pongs only if it answers pings itself.
    return {"autoping": not scenario["ping"], "max_msg_size": 0}


async def _client(scenario):
    deflate = scenario["deflate"]
    bits = (deflate["bits"] or 15) if deflate else 0
    async with ClientSession() as session:
        async with session.ws_connect(scenario["url"], compress=bits, **_options(scenario)) as ws:
            agreed = ws._response.headers.get("Sec-WebSocket-Extensions", "")
            return {"agreed": agreed, **await _play(ws, scenario)}


async def _server(scenario):
    report = asyncio.get_running_loop().create_future()

    async def handle(request):
        ws = web.WebSocketResponse(compress=scenario["deflate"] is not None, **_options(scenario))
        await ws.prepare(request)
        agreed = ws.headers.get("Sec-WebSocket-Extensions", "")
        report.set_result({"agreed": agreed, **await _play(ws, scenario)})
        return ws

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    say({"port": runner.addresses[0][1]})
    try:
        return await report
    finally:
        await runner.cleanup()


main(_client, _server)
