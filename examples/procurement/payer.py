"""A payer: the process that goes on with every payment that is open, and that gets killed.

    python -m examples.procurement.payer AT_ONCE

It is given no list: what is to be done stands in the ledger. A line of JSON for each run goes
to the standard output when that run ends or waits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator

import remit
from examples.procurement.desk import desk
from examples.procurement.invoice import pay_invoice

LEASE_MS = 5_000
TURNS_MAX = 5  # for one run, by one process
OPEN = ("queued", "running", "waiting", "in_doubt")


async def main(at_once: int) -> None:
    """Go on with all open runs, oldest first, `at_once` of them side by side."""
    async with remit.open(desk().ledger_url, lease_ms=LEASE_MS) as rt:
        rows = await rt.list(flow="pay_invoice", limit=1_000)
        due = iter([row.run for row in reversed(rows) if row.status in OPEN])
        await asyncio.gather(*(work(rt, due) for _ in range(at_once)))


async def work(rt: remit.Runtime, due: Iterator[str]) -> None:
    """Take one run after the other, until each ends or waits for somebody."""
    for run in due:
        for turn in range(1, TURNS_MAX + 1):
            try:
                outcome = await rt.resume(run, pay_invoice)
            except remit.EffectDidNotHappen:
                continue  # judged anew, and called under the same key
            if outcome.status == "in_doubt" and turn < TURNS_MAX:
                continue  # the next turn asks the bank again
            say(outcome)
            break


def say(outcome: remit.Outcome) -> None:
    """One line, at once: whoever watches may be about to kill us."""
    told = {"run": outcome.run, "status": str(outcome.status), "code": outcome.code, "waits": outcome.waits_for}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
