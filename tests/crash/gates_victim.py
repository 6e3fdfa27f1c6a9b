"""A process that goes on with a run of two gates, and dies: `python -m tests.crash.gates_victim URL BOOK PLACE`.

    terms   a question of the flow's own, and a step behind it
    pay     an effect that needs a yes of its own

What the step and the effect do is a line in BOOK, synced. Every call of the store passes a place before and after
it, named as in the matrix of one effect; the process ends at its PLACE as a power cut would end it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import remit
from remit.store.protocol import Store
from remit.store.url import store_for
from tests.crash.errand import Watched
from tests.crash.voyage import Stage
from tests.support.office import RUN, die

HOUR = timedelta(hours=1)
CONTRACT = remit.Contract(
    version="1",
    resume="anyone",
    effects={"pay": remit.Rule(approval=remit.Approval({"director"}, HOUR))},
)


def two_gates(book: Path) -> remit.Flow[Any]:
    """The flow of this process, and of whoever goes on with it."""

    def note(line: str) -> None:
        descriptor = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
        os.close(descriptor)

    def sign() -> str:
        note("signed")
        return "signed"

    @remit.effect
    def pay(amount: int, *, key: str) -> str:
        note(f"paid {amount}")
        return f"paid {amount}"

    @remit.flow(contract=CONTRACT, name="two_gates")
    async def flow(run: remit.Run) -> str:
        await run.approve("terms", {"days": 30}, roles={"director"}, within=HOUR)
        await run.step(sign)
        paid: str = await run.effect(pay, 5)
        return paid

    return flow


async def main(url: str, book: str, place: str) -> None:
    stage = Stage(Path(book).parent, place, "kill", die)
    store = cast(Store, Watched(store_for(url, clock=None), stage))
    async with remit.open(store, lease_ms=600_000) as rt:  # whoever waits for it to run out waits too long
        outcome = await rt.run(two_gates(Path(book)), id=RUN)
    print(f"it lived: {outcome.status} {outcome.waits_for}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
