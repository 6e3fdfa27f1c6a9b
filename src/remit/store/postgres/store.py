"""Postgres: for many machines, and for a database that is kept, copied and watched already.

    writer      one connection; all appends of this process, one batch at a time
    pool        a few connections, made when they are first needed: reads, claims, releases
    peeks       one connection, made when it is first needed: where a journal ends, asked before every turn
    renewers    one connection each
    transact    one connection, made when it is first needed, for rows of an application

Where it is weaker than a cluster of its own: one primary takes all writes, and a commit is
as durable as `synchronous_commit` and the standbys make it: after a failover to a standby
that was behind, the newest entries may be missing. Whoever owns the database can replace
it as a whole. Where it is stronger than `sqlite:`: many machines, and one clock for all.

Connections keep prepared statements and settings. Behind a pooler use session pooling, or
connect directly: transaction pooling breaks both.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from remit.clock import Clock
from remit.errors import CommitUnknown
from remit.store.batch import GroupCommit
from remit.store.damage import DAMAGE, damaged
from remit.store.opened import Opened
from remit.store.postgres import doctor as postgres_doctor
from remit.store.postgres import rows as postgres_rows
from remit.store.postgres.connection import (
    CONNECT_S,
    FAILURES,
    PLANS_OF_READS,
    Connection,
    Pool,
    check_url,
    is_lost,
    is_worth_another_try,
    make_pool,
    now_or_null,
    unavailable,
)
from remit.store.postgres.link import TRIES, Link
from remit.store.postgres.peeks import Peeks
from remit.store.postgres.renewer import PostgresRenewer
from remit.store.postgres.rows import Q
from remit.store.postgres.schema import has_schema, open_database
from remit.store.postgres.transact import Transactions
from remit.store.postgres.writer import PostgresWriter
from remit.store.protocol import Counters, Renewer
from remit.store.rows import AskFilter, AskRow, Checkup, KeyRow, OutboxRow, Peek, RunFilter, RunRow, Stored, WorkerRow
from remit.store.units import Claim, Opening, Unit

T = TypeVar("T")

_POOL_MAX = 4


class PostgresStore(Opened):
    """A store in schema `remit` of one Postgres database; see the protocol.

    url: `postgresql://user:password@host:port/database`; what it leaves out comes from `PGHOST`, `~/.pgpass` and
    so on. Raises Refused `url.refused`. clock: replaces the database's clock, and the ledger says so from then on.
    """

    transacts: Literal["", "plain", "awaited"] = "awaited"
    keeps_own: bool = True

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__()
        self.url = check_url(url)  # without its password
        self.counters = Counters()
        self._url, self._clock = url, clock
        self._link: Link
        self._group: GroupCommit
        self._pool: Pool
        self._transactions: Transactions
        self._peeks: Peeks
        self._peeks_link: Link

    async def exists(self) -> bool:
        """Raises as `open` does where the database itself can't be reached."""
        return await has_schema(self._url, self.url)

    async def open(self) -> None:
        """Raises StoreUnavailable where no server answers, StoreRefused `store.missing`, `.unauthorized`,
        `.unwritable`, `.postgres_version`, `.setting`, `.foreign`, `.newer`, `.broken`, and Refused `url.refused`.
        """
        if self._is_open:
            return
        self._loop, self._pid = asyncio.get_running_loop(), os.getpid()
        connection, self._ledger = await open_database(self._url, self.url, self._clock)
        self._link = Link(self._url, self._ledger.origin, connection)
        try:
            await self._link.start()
            self._pool = await make_pool(self._url, size_max=_POOL_MAX)
        except BaseException:
            await self._link.close()
            raise
        self._group = GroupCommit(PostgresWriter(self._link, self._clock), self.counters)
        self._transactions = Transactions(self._url, self._ledger.origin, self._clock)
        self._peeks_link = Link(self._url, self._ledger.origin, settings=PLANS_OF_READS)
        self._peeks = Peeks(self._read_peeks)
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
            try:
                await asyncio.wait_for(self._pool.close(), 5)
            except FAILURES:
                self._pool.terminate()
            await self._transactions.close()
            await self._peeks_link.close()
            await self._link.close()

    async def now(self) -> int:
        self._check()
        given = now_or_null(self._clock)
        return given if given is not None else int(await self._read(lambda c: c.fetchval(Q["read_now"])))

    async def append(self, unit: Unit) -> None:
        self._check()
        await self._group.append(unit)

    async def transact(self, build: Callable[[Any], Any], *, limit_ms: int) -> None:
        """`build` is given a connection of asyncpg inside a transaction, with the database's own search_path."""
        self._check()
        await self._group.transact(lambda: self._transactions.write(build, limit_ms=limit_ms))

    async def open_run(self, opening: Opening) -> RunRow | None:
        self._check()
        return await self._group.open_run(opening)

    async def claim(self, claim: Claim) -> RunRow | None:
        values = (claim.run_key, claim.worker, claim.lease_ms * 1_000, claim.epoch_seen, claim.dead)
        return await self._write(
            lambda c: postgres_rows.one_row(c, Q["claim"], *values, now_or_null(self._clock)), "a claim"
        )

    async def release(self, run_key: int, epoch: int) -> bool:
        found = await self._write(lambda c: c.fetchrow(Q["release"], run_key, epoch), "a release")
        return found is not None

    async def renewer(self) -> Renewer:
        self._check_process()
        link = Link(self._url, self.ledger.origin)
        await link.start()
        return PostgresRenewer(link, self._clock, self._check_process)

    async def read_row(self, tenant: str, run: str) -> RunRow | None:
        return await self._read(lambda c: postgres_rows.read_row(c, tenant, run))

    async def read_run(self, run_key: int) -> Stored | None:
        return await self._read(lambda c: postgres_rows.read_run(c, run_key))

    async def list_rows(self, which: RunFilter) -> list[RunRow]:
        return await self._read(lambda c: postgres_rows.list_rows(c, which))

    async def peek(self, run_key: int) -> Peek | None:
        self._check()
        return await self._peeks.peek(run_key)

    async def _read_peeks(self, run_keys: list[int]) -> dict[int, Peek]:
        """Over a connection of its own: a pool takes longer to lend one than this takes, and every turn asks."""
        now = now_or_null(self._clock)
        return await self._peeks_link.ask(lambda c: postgres_rows.read_peeks(c, run_keys, now))

    async def read_key(self, tenant: str, key: str) -> KeyRow | None:
        return await self._read(lambda c: postgres_rows.read_key(c, tenant, key))

    async def read_used(self, tenant: str, scope: str) -> int:
        return await self._read(lambda c: postgres_rows.read_used(c, tenant, scope))

    async def read_ask(self, tenant: str, ask: str) -> AskRow | None:
        return await self._read(lambda c: postgres_rows.read_ask(c, tenant, ask))

    async def list_asks(self, which: AskFilter) -> list[AskRow]:
        return await self._read(lambda c: postgres_rows.list_asks(c, which))

    async def read_outbox(self, tenant: str, after: int, limit: int) -> list[OutboxRow]:
        return await self._read(lambda c: postgres_rows.read_outbox(c, tenant, after, limit))

    async def put_worker(self, row: WorkerRow) -> None:
        values = (row.worker, row.host, row.started_at)
        await self._read(lambda c: c.execute(Q["put_worker"], *values))  # twice is as good as once

    async def read_worker(self, worker: str) -> WorkerRow | None:
        return await self._read(lambda c: postgres_rows.read_worker(c, worker))

    async def examine(self) -> list[Checkup]:
        now = now_or_null(self._clock)
        return await self._read(lambda c: postgres_doctor.examine(c, self.url, self.ledger, now))

    async def _read(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """What may be asked twice: where the answer is lost, it is."""
        self._check()
        for turn in range(TRIES):
            try:
                async with self._pool.acquire(timeout=CONNECT_S) as connection:
                    return await act(connection)
            except FAILURES as exc:
                if turn == TRIES - 1 or not (is_lost(exc) or is_worth_another_try(exc)):
                    raise unavailable(exc) from exc
            except DAMAGE as exc:
                raise damaged(exc) from exc
            await asyncio.sleep(0.02 * 2**turn)
        raise AssertionError("unreachable")

    async def _write(self, act: Callable[[Connection], Awaitable[T]], what: str) -> T:
        """One statement outside of the batches. Raises CommitUnknown where its answer is lost."""
        self._check()
        for turn in range(TRIES):
            is_sent = False
            try:
                async with self._pool.acquire(timeout=CONNECT_S) as connection:
                    is_sent = True
                    return await act(connection)
            except FAILURES as exc:
                if is_sent and is_lost(exc):
                    raise CommitUnknown(f"The database took {what} and did not answer: {exc}.") from exc
                if turn == TRIES - 1 or not (is_lost(exc) or is_worth_another_try(exc)):
                    raise unavailable(exc) from exc
            except DAMAGE as exc:
                raise damaged(exc) from exc
            await asyncio.sleep(0.02 * 2**turn)
        raise AssertionError("unreachable")
