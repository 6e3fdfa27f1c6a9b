"""A process that writes until it is killed: `python -m tests.crash.sqlite_victim URL WORKER COMMITS`.

Takes over or opens three runs of its slot and appends to all of them, alone and together.
Prints a line for every step after it was acknowledged; with COMMITS it ends by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from remit.store.sqlite import SqliteStore
from tests.support.scribe import Scribe

RUNS = 3


async def main(url: str, worker: str, commits: int) -> None:
    print("opening", flush=True)
    store = SqliteStore(url)
    await store.open()
    slot = worker.partition("-")[0]
    scribes = [await hold(store, f"{slot}-{number}", worker) for number in range(RUNS)]
    for turn in itertools.count(1):
        if turn > commits > 0:
            break
        if turn % 3:
            await say(scribes[turn % RUNS], f"{worker}-{turn}")
        else:
            await asyncio.gather(*(say(scribe, f"{worker}-{turn}") for scribe in scribes))
    await store.close()
    print("done", flush=True)


async def hold(store: SqliteStore, run: str, worker: str) -> Scribe:
    row = await store.read_row("default", run)
    if row is None:
        return await Scribe.open(store, run, worker=worker)
    scribe = await Scribe.take_over(store, row, worker=worker)
    assert scribe is not None, "nobody else takes a run of this slot"
    return scribe


async def say(scribe: Scribe, token: str) -> None:
    seq = await scribe.step(f'"{token}"'.encode())
    print("ack", scribe.row.run, seq, token, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
