"""A worker: the process that takes up every purchase of a month, and that gets killed.

    python -m examples.procurement.worker MONTH AT_ONCE

It does not know whether it is the first. The same call starts a purchase, goes on with one
that a dead worker left, and answers with the outcome of one that has ended. A line of JSON
for each purchase goes to the standard output; it ends with 0, or with 5 when Remit refused
a purchase whose journal does not verify.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator

import remit
from examples.procurement.desk import desk
from examples.procurement.flow import purchase
from examples.procurement.payments import Request, published

LEASE_MS = 5_000  # a death is seen at once on one machine; where it can't be, this is how long it takes


async def main(month: str, at_once: int) -> int:
    """Run all purchases of a month, `at_once` of them side by side; the exit status."""
    waiting = iter(published(month).requests)
    async with remit.open(desk().ledger_url, lease_ms=LEASE_MS) as rt:
        refused = await asyncio.gather(*(work(rt, waiting) for _ in range(at_once)))
    return remit.Tampered.exit_status if any(refused) else 0


async def work(rt: remit.Runtime, waiting: Iterator[Request]) -> int:
    """Take one purchase after the other; how many were refused. A refusal stops that purchase and no other."""
    refused = 0
    for request in waiting:
        try:
            outcome = await rt.run(purchase, request, id=request.run, by="agent:buyer")
        except (remit.Tampered, remit.RunQuarantined) as exc:
            refused += 1
            say(run=request.run, refused=exc.code, message=exc.message, hint=exc.hint)
        else:
            say(run=request.run, status=str(outcome.status))
    return refused


def say(**told: str) -> None:
    """One line, at once: whoever watches may be about to kill us."""
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], int(sys.argv[2]))))
