"""Runs one scenario: python run.py NAME. Without a name it prints the names of all, as a JSON array.

A scenario is a coroutine of one of the modules below whose name does not begin with an underscore. It is given the test, see
harness.py, and fails by raising.
"""

import asyncio
import inspect
import json
import sys

import commands
import protobuf
import recovery
import reset
import tokens
from harness import Test

scenarios = {
    name: scenario
    for module in (commands, protobuf, recovery, reset, tokens)
    for name, scenario in vars(module).items()
    if inspect.iscoroutinefunction(scenario) and scenario.__module__ == module.__name__ and not name.startswith("_")
}


async def _run(name):
    async with Test() as test:
        await scenarios[name](test)


if len(sys.argv) < 2:
    print(json.dumps(list(scenarios)))
else:
    asyncio.run(_run(sys.argv[1]))
