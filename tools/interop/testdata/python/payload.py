"""The payloads, the same in every language (see scenario_test.go), and the exchange of scenarios and answers."""

import asyncio
import hashlib
import json
import sys

_LINE = "Grüße, 世界 🎉 ".encode()


def payload(message):
    """Generates the data of a message: repetitive text, digits that do not repeat, or bytes."""
    size = message["size"]
    if message["kind"] == "text":
        whole, rest = divmod(size, len(_LINE))
        return _LINE * whole + b"." * rest
    data = bytearray(size)
    x = 1
    for i in range(size):
        x = (x * 75 + 74) % 65537
        data[i] = b"0123456789abcdef"[x >> 4 & 15] if message["kind"] == "digits" else x & 255
    return bytes(data)


def digest(data):
    """Describes a received message."""
    kind = "text" if isinstance(data, str) else "binary"
    if isinstance(data, str):
        data = data.encode()
    return {"kind": kind, "size": len(data), "sha1": hashlib.sha1(data).hexdigest()}


def say(value):
    """Answers with a line."""
    print(json.dumps(value), flush=True)


def main(client, server):
    """Reads scenarios, one a line, and answers each with a line that reports the result.

    A scenario without a URL makes the peer a server for one connection; it then answers with its port first.
    """

    async def run():
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            scenario = json.loads(line)
            say(await (client if scenario["url"] else server)(scenario))

    asyncio.run(run())
