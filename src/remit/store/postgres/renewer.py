"""The renewer: leases are prolonged over a connection of their own, one statement for all of them.

The engine runs it in a thread and loop of its own, so that a flow that keeps the
interpreter busy does not lose its lease. Prolonging twice does no harm, so a lost answer
is asked for by asking again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from remit.clock import Clock
from remit.errors import StoreClosed
from remit.store.postgres.connection import now_or_null
from remit.store.postgres.link import Link
from remit.store.postgres.rows import Q
from remit.store.units import Renewal


class PostgresRenewer:
    """Prolongs leases; see the protocol."""

    def __init__(self, link: Link, clock: Clock | None, check: Callable[[], None]) -> None:
        self._link, self._clock, self._check = link, clock, check
        self._pid, self._is_closed = os.getpid(), False

    async def renew(self, worker: str, leases: Sequence[Renewal], *, lease_ms: int) -> dict[int, bytes]:
        if self._is_closed:
            raise StoreClosed("Nothing was written: the renewer is closed.")
        self._check()
        lease, now = lease_ms * 1_000, now_or_null(self._clock)
        wanted = sorted(leases, key=lambda one: one.run_key)
        keys, epochs = [one.run_key for one in wanted], [one.epoch for one in wanted]
        rows = await self._link.ask(lambda c: c.fetch(Q["renew"], keys, epochs, worker, lease, now))
        return {row["run_key"]: row["post_head"] for row in rows}

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if os.getpid() == self._pid:
                await self._link.close()
