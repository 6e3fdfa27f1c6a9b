"""A process that pays and dies: `python -m tests.attack.boundary_payer URL BOOK WHERE`.

Each call of the outside world is a line in BOOK, synced. WHERE is "before" (in a step ahead of the payment) or
"after" (when the line is written and before anybody is told); anything else dies nowhere. The last line that it
prints is how the run stands.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import remit
from tests.support.office import BUYER, DANA, RUN, die

CONTRACT = remit.Contract(version="1", resume={"buyer"})


def note(book: str, line: str) -> None:
    descriptor = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.fsync(descriptor)
    os.close(descriptor)


def payment(book: str, where: str) -> remit.Flow[Any]:
    """The flow of this process, and of whoever goes on with it."""

    @remit.effect
    def pay(amount: int, *, key: str) -> str:
        note(book, f"paid {amount} {key}")
        if where == "after":
            die()
        return f"paid {amount}"

    def early() -> str:
        if where == "before":
            die()
        return "ready"

    @remit.flow(contract=CONTRACT, name="payment")
    async def flow(run: remit.Run) -> str:
        await run.step(early)
        outcome: str = await run.effect(pay, 5)
        return outcome

    return flow


async def main(url: str, book: str, where: str) -> None:
    async with remit.open(url) as rt:
        outcome = await rt.run(payment(book, where), id=RUN, by=BUYER, behalf=DANA)
        print(outcome.status, outcome.code, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
