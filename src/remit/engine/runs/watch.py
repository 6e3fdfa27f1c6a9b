"""Watching: wait for what others do with a run, by looking at its row.

The row is an index and only says when to look again; what is told is read from the
verified journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from remit.engine.declared.place import check_not_inside
from remit.engine.process.admit import Found, find, is_holder_dead
from remit.engine.process.host import Host
from remit.facts.machine import ENDED, Status
from remit.store.rows import RunRow

_POLL_SECONDS_MIN, _POLL_SECONDS_MAX = 0.01, 0.25


def is_parked(found: Found) -> bool:
    """Whether nobody works at the run and it waits for something."""
    return found.row.worker is None and found.view.status not in (Status.QUEUED, Status.RUNNING)


def has_written_last(found: Found) -> bool:
    """Whether the attempt that held the run last is in its journal. One that wrote nothing says nothing of it."""
    return found.row.epoch == found.view.epoch


async def wait_for(host: Host, run: str) -> Found:
    """The run when it ends or parks, whoever works at it. Raises RunAbsent, RunQuarantined, Tampered, CallRefused.

    One whose last worker is gone and had written nothing stands as it was parked. A step of the run itself is refused
    (`call.own_run`): it would wait for its own end.
    """
    check_not_inside((host.store.ledger.origin, host.tenant, run))
    while True:
        found = await find(host, run)
        row = found.row
        if found.view.status in ENDED or is_parked(found) or (_waits(row) and await _is_over(host, row)):
            return found
        await _until_moved(host, row)


async def until_free(host: Host, row: RunRow) -> None:
    """Wait until the row says that the attempt is over, or its lease ran out, or its holder is proven dead."""

    async def is_free(now: RunRow) -> bool:
        return now.worker == host.worker or now.epoch != row.epoch or await _is_over(host, now)

    await _until(host, row, is_free)


def _waits(row: RunRow) -> bool:
    """Whether a verified run's last turn parked: one that is held since wrote nothing yet."""
    return row.status not in (Status.QUEUED, Status.RUNNING)


async def _is_over(host: Host, row: RunRow) -> bool:
    """Whether nobody can be at work any more: nobody holds it, the lease ran out, or its holder is proven dead."""
    if row.worker is None:
        return True
    return row.lease_until <= await host.store.now() or await is_holder_dead(host, row.worker)


async def _until_moved(host: Host, row: RunRow) -> None:
    """Wait until the row shows another status, or nobody holding what somebody held; or what waits, held in vain."""

    async def has_moved(now: RunRow) -> bool:
        if now.status != row.status or (now.worker is None) != (row.worker is None):
            return True
        return _waits(now) and await _is_over(host, now)

    await _until(host, row, has_moved)


async def _until(host: Host, row: RunRow, has_come: Callable[[RunRow], Awaitable[bool]]) -> None:
    """Look at the row, less often as time goes by; a run that is gone or quarantined is not waited for."""
    pause = _POLL_SECONDS_MIN
    while True:
        await asyncio.sleep(pause)
        pause = min(pause * 2, _POLL_SECONDS_MAX)
        now = await host.store.read_row(row.tenant, row.run)
        if now is None or now.quarantined or await has_come(now):
            return
