"""Locks on files that end with the process that holds them, however it ends, and with nothing else.

Taken by `flock`. A POSIX record lock is dropped when any code of the process closes any descriptor
of the file: a backup that reads the folder would let go of what it knows nothing about. What
`flock` takes a forked child shares, and would keep when its parent is dead: so the child lets
go of it first, before any of its own code runs.
"""

from __future__ import annotations

import fcntl
import os

_held: set[int] = set()


def hold(descriptor: int) -> None:
    """Lock the file for this process, until `let_go` or its end. Raises BlockingIOError where another holds it."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held.add(descriptor)


def let_go(descriptor: int) -> None:
    """Unlock and close. In a forked child it only closes: the lock is its parent's."""
    _held.discard(descriptor)
    os.close(descriptor)


def is_held(descriptor: int) -> bool:
    """Whether somebody holds the file that was opened as `descriptor`. Two who ask at once don't disturb each other."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _share_nothing() -> None:
    """In the child: each number stays taken, so that whoever closes it later closes no other file."""
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for descriptor in _held:
        os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
    _held.clear()


os.register_at_fork(after_in_child=_share_nothing)
