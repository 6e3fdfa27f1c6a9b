"""Forks: which SQLite files were open when this process was forked, whoever opened them, with whatever library.

It is noted by the fork itself and can't be found out later, so `import remit` brings the note,
and no database with it: a server that imports the application and then forks its workers opens
nothing of Remit's before. What was forked before the import isn't known.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress

inherited: set[tuple[int, int]] = set()  # device and inode; what was inherited once stays so
process = os.getpid()  # another one than the running one after a fork that Python was not told of

_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")
_MAGIC = b"SQLite format 3\0"


def _inherit() -> None:
    """In the child, before any of its own code runs."""
    global process
    process = os.getpid()
    for path in _DESCRIPTORS:
        with suppress(OSError):  # not there, or no descriptor left to read it with
            _note_descriptors(os.listdir(path))
            break
    _note_connections()


def _note_descriptors(names: list[str]) -> None:
    """Databases, under whatever name they are found by now. To close an inherited one drops the child's locks, too."""
    for name in names:
        with suppress(OSError, ValueError):  # no file, or one that is only written to
            found = os.fstat(int(name))
            if stat.S_ISREG(found.st_mode) and os.pread(int(name), len(_MAGIC), 0) == _MAGIC:
                inherited.add((found.st_dev, found.st_ino))


def _note_connections() -> None:
    """By name, where the descriptors can't be listed or nothing is in the file yet."""
    apsw = sys.modules.get("apsw")
    if apsw is None:
        return
    for connection in apsw.connections():
        with suppress(OSError, apsw.Error):  # deleted, or closed
            found = os.stat(connection.filename)
            inherited.add((found.st_dev, found.st_ino))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inherit)
