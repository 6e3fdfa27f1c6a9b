"""Opened: who may use a store that is open, which is the process and the event loop that opened it.

What it learned of its ledger it knows for good.
"""

from __future__ import annotations

import asyncio
import os

from remit.errors import FORKED_HINT, StoreClosed
from remit.store.rows import Ledger


class Opened:
    """The part of a store that knows whether it may be used. Every call passes `_check` first."""

    def __init__(self) -> None:
        self._is_open, self._pid = False, os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ledger: Ledger | None = None

    @property
    def ledger(self) -> Ledger:
        """Raises StoreClosed before it was ever opened."""
        if self._ledger is None:
            raise StoreClosed("Nothing is known of the ledger: the store was not opened.")
        return self._ledger

    def _check_process(self) -> None:
        """For what may come from another thread's loop. Raises StoreClosed: closed, or opened before a fork."""
        if not self._is_open:
            raise StoreClosed("Nothing was done: the store is closed.")
        if os.getpid() != self._pid:
            raise StoreClosed(
                f"Nothing was done: the store was opened by process {self._pid}, before a fork.",
                code="store.forked",
                hint=FORKED_HINT,
            )

    def _check(self) -> None:
        """Raises StoreClosed, also in another event loop."""
        self._check_process()
        if asyncio.get_running_loop() is not self._loop:
            raise StoreClosed("Nothing was done: the store was opened in another event loop.", code="store.loop")
