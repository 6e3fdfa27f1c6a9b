"""A victim: appends to a `file:` store, and kills itself with SIGKILL at a named place of the rewrite for step-3.

    python -m tests.crash.file_victim PATH PLACE

It wraps the calls to the system from outside; the product knows nothing of it. Each append
that came back is printed, so that the parent knows what was promised.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import Any

from remit.store.file import FileStore
from tests.support.journal import open_held

PLACES = ("before write", "half written", "before sync", "before rename", "after rename", "after folder sync")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(place: str) -> None:
    """From here on, the next call at `place` is the last."""
    write, fsync, rename = os.write, os.fsync, os.rename

    def is_folder(descriptor: int) -> bool:
        return stat.S_ISDIR(os.fstat(descriptor).st_mode)

    def dying_write(descriptor: int, data: Any) -> int:
        if place == "before write":
            die()
        if place == "half written":
            write(descriptor, data[: len(data) // 2])
            die()
        return write(descriptor, data)

    def dying_fsync(descriptor: int) -> None:
        if place == "before sync" and not is_folder(descriptor):
            die()
        fsync(descriptor)
        if place == "after folder sync" and is_folder(descriptor):
            die()

    def dying_rename(source: str, target: str) -> None:
        if place == "before rename":
            die()
        rename(source, target)
        if place == "after rename":
            die()

    replaced: dict[str, Callable[..., Any]] = {"write": dying_write, "fsync": dying_fsync, "rename": dying_rename}
    for name, function in replaced.items():
        setattr(os, name, function)


async def main(path: str, place: str) -> None:
    store = FileStore(path)
    await store.open()
    hand = await open_held(store, "po-1")
    for number in range(3):
        await store.append(hand.step(b"%d" % number, name=f"step-{number}"))
        print(number, flush=True)
    arm(place)
    await store.append(hand.step(b"3", name="step-3"))
    raise AssertionError(f"nothing was called at {place!r}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
