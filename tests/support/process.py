"""A process that dies while the test lives on: its lock is let go as the kernel does it, and proves its death."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from remit.engine.process.liveness import ProcessLock
from remit.locks import let_go


@contextmanager
def process() -> Iterator[None]:
    """Runtimes that are opened in here are another process's than those outside, and it dies at the end.

    What its functions left in threads goes on, so a test lets those come to an end before.
    """
    before = ProcessLock._own
    ProcessLock._own = ours = ProcessLock()
    try:
        yield
    finally:
        let_go(ours._file)
        ProcessLock._own = before
