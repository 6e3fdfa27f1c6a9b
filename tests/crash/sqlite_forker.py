"""A process that forks while its store is open: `python -m tests.crash.sqlite_forker PATH`.

The child tries the store, lets go of it, so that its connections are destroyed there, and
ends. It does not run exit handlers: closing the parent's event loop would take the loop's
wake-up out of an epoll that both processes share. Prints what the child got, what became
of the log, and what the parent could still do.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import weakref

from remit.errors import StoreClosed
from remit.store.sqlite import SqliteStore
from tests.support.journal import open_held


def main(path: str) -> None:
    with asyncio.Runner() as runner:
        store = SqliteStore(path)
        runner.run(store.open())
        hand = runner.run(open_held(store, "r-1"))
        log = os.stat(path + "-wal").st_ino
        child = os.fork()
        if child == 0:
            asyncio.run(use(store))
            connection = weakref.ref(store._writer._connection)
            del store, hand
            gc.collect()
            print("child let go of its connections:", connection() is None, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("child ended with", status)
        print("log is the same:", os.stat(path + "-wal").st_ino == log)
        unit = hand.step()
        runner.run(store.append(unit))
        print("parent wrote entry", unit.seq_after)
        runner.run(store.close())


async def use(store: SqliteStore) -> None:
    for attempt in (store.now(), store.read_row("default", "r-1"), store.renewer(), store.release(1, 1)):
        try:
            await attempt
        except StoreClosed as exc:
            print("child got", exc.code, flush=True)
    await store.close()


if __name__ == "__main__":
    main(sys.argv[1])
