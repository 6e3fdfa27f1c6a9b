"""Memory: a store for tests and for trying things out.

Where it is weaker than `file:`: nothing survives the process (RUN-5 does not hold), and no
other process sees it. Like there, an application has no tables beside it (FX-6 does not
hold). What it was given stays in the object: closed and opened again, the same object has
the same ledger. Heads, epochs and leases are compared as everywhere.

One lock guards the state, because leases are renewed from a thread of their own.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from remit.clock import Clock, SystemClock
from remit.errors import Refused, StoreClosed
from remit.facts.names import RESERVED_PREFIX
from remit.store.batch import Answers, Committer, GroupCommit
from remit.store.checkups import of_runs
from remit.store.opened import Opened
from remit.store.protocol import LEASE_US_OVERLONG, Counters, Renewer
from remit.store.rows import (
    AskFilter,
    AskRow,
    Checkup,
    KeyRow,
    Ledger,
    OutboxRow,
    Peek,
    RunFilter,
    RunRow,
    Stored,
    WorkerRow,
)
from remit.store.state import Draft, State
from remit.store.units import Claim, Opening, Renewal, Unit

T = TypeVar("T")

SCHEMA = 2


class MemoryStore(Opened):
    """A store in this object; see the protocol. clock: replaces this machine's clock, and the ledger says so."""

    transacts: Literal["", "plain", "awaited"] = ""
    keeps_own: bool = True

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__()
        self.url = "memory:"
        self.counters = Counters()
        self._clock: Clock = clock or SystemClock()
        self._clock_word: Literal["database", "given"] = "database" if clock is None else "given"
        self._state, self._lock = State(), threading.Lock()
        self._group: GroupCommit

    async def exists(self) -> bool:
        return True

    async def open(self) -> None:
        if not self._is_open:
            self._ledger = self._ledger or self._new_ledger()
            self._start(_MemoryCommitter(self))

    async def close(self) -> None:
        if not self._is_open:
            return
        try:
            if os.getpid() == self._pid:
                await self._group.close()
        finally:
            self._is_open = False

    async def now(self) -> int:
        self._check()
        return self._clock.now()

    async def append(self, unit: Unit) -> None:
        self._check()
        await self._group.append(unit)

    async def transact(self, build: Callable[[Any], Any], *, limit_ms: int) -> None:
        """Raises Refused `transact.store`: there are no rows of the caller's here."""
        self._check()
        raise Refused(
            f"{self.url} has no tables of yours, so nothing can be written together with them; nothing was done.",
            code="transact.store",
            hint="Use `sqlite:` or `postgresql:` with your own tables in the same database.",
        )

    async def open_run(self, opening: Opening) -> RunRow | None:
        self._check()
        return await self._group.open_run(opening)

    async def claim(self, claim: Claim) -> RunRow | None:
        self._check()
        return await self._write(lambda draft: draft.claim(claim))

    async def release(self, run_key: int, epoch: int) -> bool:
        self._check()
        return await self._write(lambda draft: draft.release(run_key, epoch))

    async def renewer(self) -> Renewer:
        self._check_process()
        return _MemoryRenewer(self)

    async def read_row(self, tenant: str, run: str) -> RunRow | None:
        return self._read(lambda state: state.read_row(tenant, run))

    async def read_run(self, run_key: int) -> Stored | None:
        return self._read(lambda state: state.read_run(run_key))

    async def list_rows(self, which: RunFilter) -> list[RunRow]:
        return self._read(lambda state: state.list_rows(which))

    async def peek(self, run_key: int) -> Peek | None:
        row = self._read(lambda state: state.runs[run_key].row if run_key in state.runs else None)
        return None if row is None else Peek(row.seq, row.head, row.quarantined, self._clock.now())

    async def read_key(self, tenant: str, key: str) -> KeyRow | None:
        return self._read(lambda state: state.beside.read_key(tenant, key))

    async def read_used(self, tenant: str, scope: str) -> int:
        return self._read(lambda state: state.beside.read_used(tenant, scope))

    async def read_ask(self, tenant: str, ask: str) -> AskRow | None:
        return self._read(lambda state: state.beside.read_ask(tenant, ask))

    async def list_asks(self, which: AskFilter) -> list[AskRow]:
        return self._read(lambda state: state.beside.list_asks(which))

    async def read_outbox(self, tenant: str, after: int, limit: int) -> list[OutboxRow]:
        return self._read(lambda state: state.beside.read_outbox(tenant, after, limit))

    async def put_worker(self, row: WorkerRow) -> None:
        self._check()
        await self._write(lambda draft: draft.put_worker(row))

    async def read_worker(self, worker: str) -> WorkerRow | None:
        return self._read(lambda state: state.workers.get(worker))

    async def examine(self) -> list[Checkup]:
        self._check()
        with self._lock:
            return [*self._findings(), *findings_of(self._state, self._clock.now())]

    def _new_ledger(self) -> Ledger:
        return Ledger(secrets.token_hex(16), SCHEMA, self._clock_word)

    def _findings(self) -> list[Checkup]:
        hint = "Use `file:` or `sqlite:` for work that has to survive its process."
        return [Checkup("durability", True, "in memory only", hint)]

    def _start(self, committer: Committer) -> None:
        """From here on the store belongs to this process and event loop."""
        self._loop, self._pid = asyncio.get_running_loop(), os.getpid()
        self._group = GroupCommit(committer, self.counters)
        self._is_open = True

    async def _write(self, act: Callable[[Draft], T]) -> T:
        """Run `act` alone, and believe what it drafted."""
        return self.write_now(act)

    async def _renew(self, worker: str, leases: Sequence[Renewal], lease_ms: int) -> dict[int, bytes]:
        """From any thread and event loop."""
        self._check_process()
        return await self._write(lambda draft: draft.renew(worker, leases, lease_ms))

    def write_now(self, act: Callable[[Draft], T]) -> T:
        """The same on the calling thread."""
        with self._lock:
            draft = Draft(self._state, self._clock.now())
            answer = act(draft)
            draft.merge()
            return answer

    def _read(self, read: Callable[[State], T]) -> T:
        self._check()
        with self._lock:
            return read(self._state)


class _MemoryCommitter:
    """Batches of any size are written on the calling thread: there is nothing to wait for."""

    inline_max = 2**31

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        return self.commit_now(units, openings)

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        return self._store.write_now(lambda draft: draft_batch(draft, units, openings))


class _MemoryRenewer:
    """Prolongs leases; see the protocol."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, self._is_closed = store, False

    async def renew(self, worker: str, leases: Sequence[Renewal], *, lease_ms: int) -> dict[int, bytes]:
        if self._is_closed:
            raise StoreClosed("Nothing was written: the renewer is closed.")
        return await self._store._renew(worker, leases, lease_ms)

    async def close(self) -> None:
        self._is_closed = True


def draft_batch(draft: Draft, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
    """A batch of group commit, in the order in which it was given."""
    return Answers([draft.append(unit) for unit in units], [draft.open_run(opening) for opening in openings])


def findings_of(state: State, now: int) -> list[Checkup]:
    """What `doctor` says of the runs themselves."""
    rows = [kept.row for kept in state.runs.values() if not kept.row.run.startswith(RESERVED_PREFIX)]
    stale = sum(row.worker is not None and not row.quarantined and row.lease_until <= now for row in rows)
    overlong = [row.run for row in rows if row.worker is not None and row.lease_until > now + LEASE_US_OVERLONG]
    return of_runs(runs=len(rows), quarantined=sum(row.quarantined for row in rows), stale=stale, overlong=overlong)
