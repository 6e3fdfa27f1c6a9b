"""SQLite: the embedded default. One file, several processes of one machine.

    writer      one connection; batches on a thread of its own, a lone unit on the calling thread
    reader      one connection for single rows and short journals, read on the loop
    far reader  one connection and thread for long journals, so that the loop is not held up
    renewers    one connection each

Where it is weaker than Postgres: one machine only (never a network file system), one
writer at a time over all processes, `clock_timestamp()` is this machine's clock, and a
foreign program that holds a read transaction open makes the write-ahead log grow until
it lets go. Whoever can write the file can replace it as a whole.
Where it is stronger than `file:`: several processes, appends that cost the same however
long the journal is, leases between processes.

The file and its companions are opened by SQLite alone: POSIX drops all locks of a process
on a file when any descriptor of it is closed. Where somebody else did, `place.py` finds out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

import apsw

from remit.clock import Clock, SystemClock
from remit.store.batch import GroupCommit
from remit.store.damage import DAMAGE, damaged
from remit.store.opened import Opened
from remit.store.protocol import Counters, Renewer
from remit.store.rows import AskFilter, AskRow, Checkup, KeyRow, OutboxRow, Peek, RunFilter, RunRow, Stored, WorkerRow
from remit.store.sqlite import doctor as sqlite_doctor
from remit.store.sqlite import marks as sqlite_marks
from remit.store.sqlite import rows as sqlite_rows
from remit.store.sqlite.connection import unavailable
from remit.store.sqlite.file import connect_again, open_file
from remit.store.sqlite.guards import sqlite_path
from remit.store.sqlite.place import moved
from remit.store.sqlite.renewer import SqliteRenewer
from remit.store.sqlite.rows import Q
from remit.store.sqlite.writer import SqliteWriter
from remit.store.units import Claim, Opening, Unit

T = TypeVar("T")

_NEAR_ENTRIES_MAX = 200  # longer journals are read by the far reader


class SqliteStore(Opened):
    """A store in one SQLite file; see the protocol.

    url_or_path: `sqlite:///relative.db`, `sqlite:////absolute.db` or a path. Raises Refused `url.refused`.
    clock: replaces this machine's clock, and the ledger says so from then on.
    beside: make Remit's tables in a database that has tables of yours already, for `transact`; asked for once,
    since a wrong path would otherwise write into somebody else's database. Remit's all begin with `remit_`.
    """

    transacts: Literal["", "plain", "awaited"] = "plain"
    keeps_own: bool = True

    def __init__(
        self, url_or_path: str | os.PathLike[str], *, clock: Clock | None = None, beside: bool = False
    ) -> None:
        super().__init__()
        self.path = sqlite_path(os.fspath(url_or_path))
        self.url = f"sqlite:///{self.path}"
        self.counters = Counters()
        self._may_join = beside
        self._clock_given, self._clock = clock is not None, clock or SystemClock()
        self._writer: SqliteWriter
        self._group: GroupCommit
        self._reader: apsw.Connection
        self._far_connection: apsw.Connection | None = None
        self._far_thread: ThreadPoolExecutor | None = None

    async def exists(self) -> bool:
        return await asyncio.to_thread(os.path.exists, self.path)

    async def open(self) -> None:
        """Raises StoreRefused: store.forked, .missing, .network, .companions, .broken, .foreign, .newer, .unwritable,
        .busy, .pragma.
        """
        if self._is_open:
            return
        self._loop, self._pid = asyncio.get_running_loop(), os.getpid()
        writer, reader, self._ledger = await asyncio.to_thread(
            open_file, self.path, self._clock, is_clock_given=self._clock_given, may_join=self._may_join
        )
        self._reader = reader
        self._writer = SqliteWriter(writer, self.path, self._clock)
        self._group = GroupCommit(self._writer, self.counters)
        self._is_open = True

    async def close(self) -> None:
        if not self._is_open:
            return
        if os.getpid() != self._pid:
            self._is_open = False  # the parent's connections: even closing them here would be wrong
            return
        try:
            await self._group.close()
        finally:
            self._is_open = False
            await self._close_connections()

    async def _close_connections(self) -> None:
        self._reader.close()
        if self._far_thread is not None:
            self._far_thread.shutdown(wait=True)
        if self._far_connection is not None:
            self._far_connection.close()
        self._far_thread = self._far_connection = None
        await asyncio.to_thread(self._writer.close)

    def _check_process(self) -> None:
        """Also raises StoreUnavailable `store.moved` where a commit may be seen by nobody but us."""
        super()._check_process()
        if self._writer.place.is_lost:
            raise moved(self.path + "-wal")

    async def now(self) -> int:
        self._check()
        return self._clock.now()

    async def append(self, unit: Unit) -> None:
        self._check()
        await self._group.append(unit)

    async def transact(self, build: Callable[[Any], Any], *, limit_ms: int) -> None:
        """`build` runs on the writer's thread and must leave the connection as it is: no COMMIT, no `PRAGMA`."""
        self._check()
        await self._group.transact(lambda: self._writer.transact(build, limit_ms))

    async def open_run(self, opening: Opening) -> RunRow | None:
        self._check()
        return await self._group.open_run(opening)

    async def claim(self, claim: Claim) -> RunRow | None:
        self._check()

        def write(connection: apsw.Connection, now: int) -> RunRow | None:
            until = now + claim.lease_ms * 1_000
            values = (claim.worker, until, claim.run_key, claim.epoch_seen, now, claim.dead)
            return sqlite_rows.one_row(connection, Q["claim"], values)

        return await self._writer.write(write)

    async def release(self, run_key: int, epoch: int) -> bool:
        self._check()
        found = await self._writer.write(lambda c, _: c.execute(Q["release"], (run_key, epoch)).get)
        return found is not None

    async def renewer(self) -> Renewer:
        self._check_process()
        connection = await asyncio.to_thread(connect_again, self.path)
        return SqliteRenewer(connection, self._clock, self._check_process)

    async def read_row(self, tenant: str, run: str) -> RunRow | None:
        return self._read(lambda c: sqlite_rows.read_row(c, tenant, run))

    async def read_run(self, run_key: int) -> Stored | None:
        is_near = self._read(lambda c: sqlite_rows.is_short(c, run_key, _NEAR_ENTRIES_MAX))
        if is_near is None:
            return None
        if is_near:
            return self._read(lambda c: sqlite_rows.read_run(c, run_key))
        return await self._read_far(lambda c: sqlite_rows.read_run(c, run_key))

    async def list_rows(self, which: RunFilter) -> list[RunRow]:
        return await self._read_far(lambda c: sqlite_rows.list_rows(c, which))

    async def peek(self, run_key: int) -> Peek | None:
        row = self._read(lambda c: c.execute(Q["read_peek"], (run_key,)).get)
        return None if row is None else Peek(row[0], row[1], bool(row[2]), self._clock.now())

    async def read_key(self, tenant: str, key: str) -> KeyRow | None:
        return self._read(lambda c: sqlite_marks.read_key(c, tenant, key))

    async def read_used(self, tenant: str, scope: str) -> int:
        return self._read(lambda c: sqlite_marks.read_used(c, tenant, scope))

    async def read_ask(self, tenant: str, ask: str) -> AskRow | None:
        return self._read(lambda c: sqlite_marks.read_ask(c, tenant, ask))

    async def list_asks(self, which: AskFilter) -> list[AskRow]:
        return await self._read_far(lambda c: sqlite_marks.list_asks(c, which))

    async def read_outbox(self, tenant: str, after: int, limit: int) -> list[OutboxRow]:
        return await self._read_far(lambda c: sqlite_marks.read_outbox(c, tenant, after, limit))

    async def put_worker(self, row: WorkerRow) -> None:
        self._check()
        values = (row.worker, row.host, row.started_at)
        await self._writer.write(lambda c, _: c.execute(Q["put_worker"], values).get)

    async def read_worker(self, worker: str) -> WorkerRow | None:
        return self._read(lambda c: sqlite_rows.read_worker(c, worker))

    async def examine(self) -> list[Checkup]:
        return await self._read_far(lambda c: sqlite_doctor.examine(c, self.path, self.ledger, self._clock.now()))

    def _read(self, read: Callable[[apsw.Connection], T]) -> T:
        """A short read on the loop."""
        self._check()
        try:
            return read(self._reader)
        except apsw.Error as exc:
            raise unavailable(exc, self._reader) from exc
        except DAMAGE as exc:
            raise damaged(exc) from exc

    async def _read_far(self, read: Callable[[apsw.Connection], T]) -> T:
        """A long read, on a thread and a connection of its own."""
        self._check()
        if self._far_thread is None:
            self._far_thread = ThreadPoolExecutor(1, thread_name_prefix="remit-sqlite-reader")

        def far() -> T:
            if self._far_connection is None:
                self._far_connection = connect_again(self.path, read_only=True)
            try:
                return read(self._far_connection)
            except apsw.Error as exc:
                raise unavailable(exc, self._far_connection) from exc
            except DAMAGE as exc:
                raise damaged(exc) from exc

        return await asyncio.get_running_loop().run_in_executor(self._far_thread, far)
