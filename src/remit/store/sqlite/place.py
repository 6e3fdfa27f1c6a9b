"""Place: the file and its two companions, and whether they are still those that SQLite opened.

    the file    who moves or replaces it takes what is written to where nobody looks
    PATH-wal    the log: what was committed lately stands here alone
    PATH-shm    where the processes agree on who writes, and where in the log

SQLite deletes the companions when the last connection of all processes closes. While ours are
open they stay, as long as our locks are there; and POSIX drops all locks of a process on a file
when any descriptor of it is closed: Python's own `sqlite3`, which is another library in the same
process, does it by opening the file and closing it. The next process to close then takes itself
for the last. From there on SQLite commits to a file without a name, and reports success.
"""

from __future__ import annotations

import os

from remit.errors import CommitUnknown, StoreUnavailable

FileId = tuple[int, int]  # device and inode

_HINT = (
    "Stop all programs that use the file, put back what was moved, and start again; in a process "
    "of Remit's open the file with `apsw` alone."
)


def file_id(path: str) -> FileId | None:
    """Which file a path leads to; None where it leads to none."""
    try:
        found = os.stat(path)  # never open(): closing it would drop SQLite's locks
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Place:
    """Made when the connections are open and have read, so that the companions are there.

    is_lost: a commit may have gone to a log that nobody else sees. What is read from here would show it.
    """

    def __init__(self, path: str) -> None:
        self._log = path + "-wal"
        self._seen = {name: file_id(name) for name in (path, self._log, path + "-shm")}
        self.is_lost = False

    def check(self) -> None:
        """Before a commit. Raises StoreUnavailable `store.moved`."""
        if self.is_lost:  # it waited while that became known
            raise moved(self._log)
        for name, seen in self._seen.items():
            if seen is None or file_id(name) != seen:
                raise moved(name)

    def check_committed(self) -> None:
        """After a commit. Raises CommitUnknown, and then it is lost."""
        if file_id(self._log) != self._seen[self._log]:
            self.is_lost = True
            raise CommitUnknown(f"{self._log} was removed or replaced while SQLite committed.", hint=_HINT)


def moved(name: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Nothing was written: {name} was moved, deleted or replaced since it was opened.",
        code="store.moved",
        hint=_HINT,
    )
