"""A process that answers: `python -m tests.attack.boundary_answers URL BY CHOICE ID VERSION [ID VERSION ...]`.

It opens the store, says "ready", and answers each question when it is told to by a line: so that two of them
answer at the same moment. For each it prints "won" or the code that it was refused with.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import remit


async def main(url: str, by: str, choice: Any, *asks: str) -> None:
    async with remit.open(url) as rt:
        await rt.authority()
        print("ready", flush=True)
        for ask, version in zip(asks[::2], asks[1::2], strict=True):
            sys.stdin.readline()
            try:
                await rt.decide(ask, choice, by=by, seen=version)
                print("won", flush=True)
            except remit.Refused as refused:
                print(refused.code, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
