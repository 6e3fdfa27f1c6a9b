"""Opens a file from before migration 3, which renames its tables: `python -m tests.crash.rename_victim ...`

each OLD FOLDER     copies of OLD, FOLDER/0.db and so on, each opened in a child that kills itself before its
                    statement of that number; a line for each: the statement, or `opened` when none was left
open PATH RUN       waits for a line, opens PATH with whoever else does, and begins RUN there
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import sys

import apsw

from remit.store.sqlite import SqliteStore
from tests.support.journal import open_held


def kill_each(old: str, folder: str) -> None:
    for number in itertools.count():
        path = f"{folder}/{number}.db"
        shutil.copy(old, path)
        child = os.fork()
        if child == 0:
            kill_before(number)
            asyncio.run(begin(path))
            print("opened", flush=True)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
            return


def kill_before(number: int) -> None:
    """Before this process's statement of that number, over all its connections."""
    left = itertools.count(number, -1)

    def trace(_: object, sql: str, __: object) -> bool:
        if next(left) == 0:
            print(" ".join(sql.split()), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    apsw.connection_hooks.append(lambda connection: setattr(connection, "exec_trace", trace))


async def begin(path: str, run: str | None = None) -> None:
    store = SqliteStore(path)
    await store.open()
    if run is not None:
        hand = await open_held(store, run)
        await store.append(hand.step())
        print(store.ledger.origin, store.ledger.schema, flush=True)
    await store.close()


if __name__ == "__main__":
    if sys.argv[1] == "each":
        kill_each(*sys.argv[2:])
    else:
        print("ready", flush=True)
        sys.stdin.readline()
        asyncio.run(begin(*sys.argv[2:]))
