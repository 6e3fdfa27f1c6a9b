"""Place: the file and its two companions, and whether they are still those that SQLite opened.

    the file    who moves or replaces it takes what is written to where nobody looks
    PATH-wal    the log: what was committed lately stands here alone
    PATH-shm    where the processes agree on who writes, and where in the log

SQLite deletes the companions when the last connection of all processes closes. While ours are
open they stay, as long as our locks are there; and POSIX drops all locks of a process on a file
when any descriptor of it is closed: Python's own `sqlite3`, which is another library in the same
process, does it by opening the file and closing it. The next process to close then takes itself
for the last. From there on SQLite commits to a file without a name, and reports success.

Whatever comes to a folder, leaves it or is renamed there gives the folder a new `ctime`, which
nobody can set. So where the folder is as it was when all three were found, they are not looked at:
after each look at the log Linux gives the next write to it a time of its own, which every sync
has to carry to the disk as well (a fifth of a small commit).
"""

from __future__ import annotations

import os
import time

from remit.errors import CommitUnknown, StoreUnavailable

FileId = tuple[int, int]  # device and inode
FolderMark = tuple[int, int, int]  # device, inode and ctime in nanoseconds

# Two changes within a tick may have the same time. Kernels tick at least every 10 ms; a time that is a multiple of
# this may be one of a file system that counts in whole or in two seconds.
_TICK_NS, _TICK_COARSE_NS = 50_000_000, 3_000_000_000
_COARSE_NS = 10_000_000

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


def _folder_mark(folder: str) -> FolderMark | None:
    """What is another one after any change from now on; None where it leads to none, or changed just now."""
    now_ns = time.time_ns()
    try:
        found = os.stat(folder)
    except OSError:
        return None
    if not _is_settled(found.st_ctime_ns, now_ns):
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _is_settled(changed_ns: int, now_ns: int) -> bool:
    """Whether a change from now on has another time than the last one. In nanoseconds."""
    return changed_ns + (_TICK_NS if changed_ns % _COARSE_NS else _TICK_COARSE_NS) < now_ns


class Place:
    """Made when the connections are open and have read, so that the companions are there.

    is_lost: a commit may have gone to a log that nobody else sees. What is read from here would show it.
    """

    def __init__(self, path: str) -> None:
        self._folder, self._log = os.path.dirname(path), path + "-wal"
        self._seen = {name: file_id(name) for name in (path, self._log, path + "-shm")}
        self._mark: FolderMark | None = None  # of the folder when all three were there
        self.is_lost = False

    def check(self) -> None:
        """Before a commit. Raises StoreUnavailable `store.moved`."""
        if self.is_lost:  # it waited while that became known
            raise moved(self._log)
        mark = _folder_mark(self._folder)  # before the files: what changes meanwhile gives another
        if mark is not None and mark == self._mark:
            return
        for name, seen in self._seen.items():
            if seen is None or file_id(name) != seen:
                raise moved(name)
        self._mark = mark

    def check_committed(self) -> None:
        """After a commit. Raises CommitUnknown, and then it is lost."""
        if self._mark is not None and _folder_mark(self._folder) == self._mark:
            return
        if file_id(self._log) != self._seen[self._log]:
            self.is_lost = True
            raise CommitUnknown(f"{self._log} was removed or replaced while SQLite committed.", hint=_HINT)


def moved(name: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Nothing was written: {name} was moved, deleted or replaced since it was opened.",
        code="store.moved",
        hint=_HINT,
    )
