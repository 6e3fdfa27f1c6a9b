"""A process that decides about a payment: `python -m tests.attack.decider URL BOOK DECISION WAIT`.

Each body writes a line into BOOK, outside the database. With WAIT=wait it stands still before
it pays, until somebody kills it; otherwise it goes on and prints its outcome, or the code it was refused with.
"""

from __future__ import annotations

import asyncio
import os
import sys

import remit


async def main(url: str, book: str, decision: str, wait: str) -> None:
    def note(line: str) -> None:
        descriptor = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    @remit.step
    async def decide(amount: int) -> str:
        note(f"decided {decision}")
        return decision

    @remit.step
    async def pay(found: str) -> str:
        print("paying", flush=True)
        if wait == "wait":
            await asyncio.Event().wait()
        note(f"paid {found}" if found == "approved" else "nothing paid")
        return found

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def payment(run: remit.Run, amount: int) -> str:
        note("flow")
        outcome: str = await run.step(pay, await run.step(decide, amount))
        return outcome

    async with remit.open(url, lease_ms=600_000) as rt:
        try:
            print((await rt.run(payment, 82_000, id="pay-7")).value, flush=True)
        except remit.RemitError as refused:
            print(refused.code, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
