"""The renewer: leases are prolonged over a connection of their own.

The engine runs it in a thread of its own, so that a flow that keeps the interpreter busy
does not lose its lease, and the writer's queue does not stand before it. Waiting for a
busy file gives the loop back between tries.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence

import apsw

from remit.clock import Clock
from remit.errors import StoreClosed, StoreUnavailable
from remit.store.sqlite.connection import Busy, transact, unavailable
from remit.store.sqlite.rows import Q
from remit.store.units import Renewal

_PATIENCE_S = 10.0


class SqliteRenewer:
    """Prolongs leases; see the protocol."""

    def __init__(self, connection: apsw.Connection, clock: Clock, check: Callable[[], None]) -> None:
        self._connection, self._clock, self._check = connection, clock, check
        self._pid, self._is_closed = os.getpid(), False

    async def renew(self, worker: str, leases: Sequence[Renewal], *, lease_ms: int) -> dict[int, bytes]:
        if self._is_closed:
            raise StoreClosed("Nothing was written: the renewer is closed.")
        self._check()
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return transact(self._connection, lambda: self._write(worker, leases, lease_ms), patience_s=0)
            except Busy:
                if time.monotonic() > deadline:
                    raise StoreUnavailable("No lease was prolonged: the file is busy.", code="store.busy") from None
            await asyncio.sleep(random.uniform(0.0005, 0.003))

    def _write(self, worker: str, leases: Sequence[Renewal], lease_ms: int) -> dict[int, bytes]:
        until = self._clock.now() + lease_ms * 1_000
        rows = [(until, lease.run_key, lease.epoch, worker) for lease in leases]
        try:
            return {key: post_head for key, post_head in self._connection.executemany(Q["renew"], rows)}
        except apsw.Error as exc:
            raise unavailable(exc, self._connection) from exc

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if os.getpid() == self._pid:
                self._connection.close()
