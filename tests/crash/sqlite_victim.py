"""A process that writes until it is killed: `python -m tests.crash.sqlite_victim URL WORKER COMMITS`.

Takes over or opens three runs of its slot and appends to all of them, alone and together.
Prints a line for every step after it was acknowledged; with COMMITS it ends by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from remit.store.sqlite import SqliteStore
from remit.store.units import Claim
from tests.support.journal import LEASE_MS, Hand, open_held

RUNS = 3


async def main(url: str, worker: str, commits: int) -> None:
    print("opening", flush=True)
    store = SqliteStore(url)
    await store.open()
    slot = worker.partition("-")[0]
    hands = [await hold(store, f"{slot}-{number}", worker) for number in range(RUNS)]
    for turn in itertools.count(1):
        if turn > commits > 0:
            break
        if turn % 3:
            await say(store, hands[turn % RUNS], f"{worker}-{turn}")
        else:
            await asyncio.gather(*(say(store, hand, f"{worker}-{turn}") for hand in hands))
    await store.close()
    print("done", flush=True)


async def hold(store: SqliteStore, run: str, worker: str) -> Hand:
    row = await store.read_row("default", run)
    if row is None:
        return await open_held(store, run, worker=worker)
    claimed = await store.claim(Claim(row.run_key, row.epoch, worker, LEASE_MS, dead=row.worker))
    assert claimed is not None, "nobody else takes a run of this slot"
    hand = Hand(store, claimed)
    await store.append(hand.start(worker))
    return hand


async def say(store: SqliteStore, hand: Hand, token: str) -> None:
    unit = hand.step(f'"{token}"'.encode())
    await store.append(unit)
    print("ack", hand.row.run, unit.seq_after, token, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
