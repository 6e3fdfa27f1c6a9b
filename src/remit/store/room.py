"""Room: whether a write failed because its disk is full. Who is told so makes room, and looks at no owner or mode.

A system call says so itself. SQLite says it of what it writes to its files, and calls it an I/O error where
the memory that its processes share can't grow, or one of its files can't be made: then the disk is looked at.
"""

from __future__ import annotations

import errno
import os

ROOM_HINT = "Make room on the disk and call again."

# SQLite's shared memory grows by half of this, and a part of that may be there already.
_ROOM_BYTES_MIN = 64 * 1024


def is_out_of_room(exc: OSError) -> bool:
    """Whether it is an error of a full disk, or of a quota that is used up."""
    return exc.errno in (errno.ENOSPC, errno.EDQUOT)


def has_no_room(path: str) -> bool:
    """Whether the disk of this file is full: hardly a block is free for this user, or no further file can be made."""
    try:
        disk = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return False
    is_root = os.geteuid() == 0
    blocks, files = (disk.f_bfree, disk.f_ffree) if is_root else (disk.f_bavail, disk.f_favail)
    return blocks * disk.f_frsize < _ROOM_BYTES_MIN or (disk.f_files > 0 and files <= 0)  # some count no files
