"""A process that reserves until it is killed: `python -m tests.crash.boundary_victim URL SLOT`.

Each entry it writes reserves of one ceiling and takes a business key of the entry's own name; every third goes
with another run's in one batch, and every fifth is refused, since a key of that name is taken already.
Prints a line for every entry after it was acknowledged.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from remit.errors import Moved
from remit.facts.announced import DoubtTold
from remit.facts.names import AUTHORITY
from remit.store.marks import Announce, Fence, Reserve, TakeKey
from remit.store.protocol import Store
from remit.store.units import Unit
from remit.store.url import store_for
from tests.support.journal import Hand, open_held, opening

SCOPE, AMOUNT, CEILING = "all", 7, 10**9
TAKEN = "taken"  # by the run that is opened first


async def main(url: str, slot: str) -> None:
    print("opening", flush=True)
    store = store_for(url)
    await store.open()
    await store.open_run(opening(store, AUTHORITY, flow=AUTHORITY))  # unless the other one was faster
    authority = await store.read_row("default", AUTHORITY)
    assert authority is not None
    fence = Fence(authority.run_key, authority.head)
    hands = [await open_held(store, f"{slot}-{i}") for i in range(3)]
    for turn in itertools.count(1):
        if turn % 5 == 0:
            await refused(store, hands, turn % 3, fence)
        elif turn % 3:
            await say(store, hands[turn % 3], fence)
        else:
            await asyncio.gather(*(say(store, hand, fence) for hand in hands))


def reserving(hand: Hand, key: str, fence: Fence) -> Unit:
    unit = hand.step()
    unit.fence = fence
    unit.marks = (TakeKey(key, "pay"), Reserve(SCOPE, AMOUNT, CEILING), Announce(DoubtTold(call=key)))
    return unit


async def say(store: Store, hand: Hand, fence: Fence) -> None:
    key = f"{hand.row.run}/{hand.pen.seq + 1}"
    await store.append(reserving(hand, key, fence))
    print("ack", key, flush=True)


async def refused(store: Store, hands: list[Hand], at: int, fence: Fence) -> None:
    """A unit that reserves first and is refused for its key; the run goes on where it was."""
    row = await store.read_row("default", hands[at].row.run)
    assert row is not None
    unit = hands[at].step()
    unit.fence, unit.marks = fence, (Reserve(SCOPE, AMOUNT, CEILING), TakeKey(TAKEN, f"pay#{unit.seq_after}"))
    try:
        await store.append(unit)
        print("ack", f"{row.run}/{unit.seq_after}", flush=True)  # the first of all: it has the key now
    except Moved:
        hands[at] = Hand(store, row)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
