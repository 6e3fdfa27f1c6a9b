"""Rows: how runs, entries and workers are read from Postgres. Each function is one short read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from remit.store.postgres.connection import Connection, Row
from remit.store.queries import load_queries
from remit.store.rows import AskFilter, AskRow, KeyRow, OutboxRow, Peek, RunFilter, RunRow, Stored, WorkerRow
from remit.store.tables import CHARACTER_LAST, EVERYBODY, NUMBER_MAX, fitted, fitted_key, is_listed, lanes_of

Q = load_queries("postgres")


def run_row(row: Row) -> RunRow:
    """A row in the order in which the statements name their columns."""
    return RunRow(*row)


async def one_row(connection: Connection, sql: str, *values: Any) -> RunRow | None:
    row = await connection.fetchrow(sql, *values)
    return None if row is None else run_row(row)


async def read_row(connection: Connection, tenant: str, run: str) -> RunRow | None:
    return await one_row(connection, Q["read_row"], tenant, run)


async def read_run(connection: Connection, run_key: int) -> Stored | None:
    """Row and both lanes in one snapshot."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        row = await one_row(connection, Q["read_row_by_key"], run_key)
        if row is None:
            return None
        found = await connection.fetch(Q["read_entries"], run_key)
    return Stored(row, *lanes_of(found))


async def list_rows(connection: Connection, which: RunFilter) -> list[RunRow]:
    before = NUMBER_MAX if which.before_key is None else fitted_key(which.before_key)
    values: tuple[Any, ...] = (which.tenant, which.flow, which.quarantined, before, fitted(which.limit))
    if which.run_prefix:
        values = (*values, which.status, which.run_prefix, which.run_prefix + CHARACTER_LAST)
        sql = Q["list_by_prefix"]
    elif which.status is not None:
        values, sql = (*values, which.status), Q["list_by_status"]
    else:
        sql = Q["list_newest"]
    return [run_row(row) for row in await connection.fetch(sql, *values)]


async def read_peeks(connection: Connection, run_keys: list[int], now: int | None) -> dict[int, Peek]:
    """By run key. now: of a given clock; None where the database's counts."""
    return {run_key: Peek(*rest) for run_key, *rest in await connection.fetch(Q["read_peeks"], run_keys, now)}


async def read_key(connection: Connection, tenant: str, key: str) -> KeyRow | None:
    row = await connection.fetchrow(Q["read_key"], tenant, key)
    return None if row is None else KeyRow(*row)


async def read_used(connection: Connection, tenant: str, scope: str) -> int:
    used: int | None = await connection.fetchval(Q["read_used"], tenant, scope)
    return used or 0


async def read_ask(connection: Connection, tenant: str, ask: str) -> AskRow | None:
    row = await connection.fetchrow(Q["read_ask"], tenant, ask)
    if row is None:
        return None
    *columns, listed = row
    return _ask_row(columns, listed)


async def list_asks(connection: Connection, which: AskFilter) -> list[AskRow]:
    role = EVERYBODY if which.role is None else which.role
    rows = await connection.fetch(Q["list_asks"], which.tenant, role, fitted(which.after), fitted(which.limit))
    return [_ask_row(row) for row in rows]


async def read_outbox(connection: Connection, tenant: str, after: int, limit: int) -> list[OutboxRow]:
    rows = await connection.fetch(Q["read_outbox"], tenant, fitted(after), fitted(limit))
    return [OutboxRow(*row) for row in rows]


def _ask_row(row: Sequence[Any] | Row, listed: Sequence[str] | None = None) -> AskRow:
    """listed: the roles that it is listed under; None where it was found by one of them."""
    number, ask, run_key, run, call, named, asked_at, until = row
    # Else the column was edited, to a list of lists maybe: it is an index, and nobody asked is among them.
    roles = tuple(named) if all(isinstance(role, str) for role in named) else ()
    return AskRow(number, ask, run_key, run, call, roles, asked_at, until, is_listed(roles, listed))


async def read_worker(connection: Connection, worker: str) -> WorkerRow | None:
    row = await connection.fetchrow(Q["read_worker"], worker)
    return None if row is None else WorkerRow(*row)
