"""Rows: how runs, entries and workers are read from SQLite. Each function is one short read.

Reads fetch everything before they return, so no snapshot is held while anybody thinks:
a reader that lingers keeps the write-ahead log from starting over, and it would grow.
"""

from __future__ import annotations

from typing import Any

import apsw

from remit.facts.entry import Entry, Lane
from remit.store.protocol import RunFilter, RunRow, Stored, WorkerRow
from remit.store.queries import load_queries
from remit.store.tables import CHARACTER_LAST, LANES, NUMBER_MAX, fitted

Q = load_queries("sqlite")


def run_row(row: tuple[Any, ...]) -> RunRow:
    """A row in the order in which the statements name their columns."""
    columns = list(row)
    columns[8] = bool(columns[8])
    return RunRow(*columns)


def one_row(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> RunRow | None:
    row = connection.execute(sql, values).get
    return None if row is None else run_row(row)


def read_row(connection: apsw.Connection, tenant: str, run: str) -> RunRow | None:
    return one_row(connection, Q["read_row"], (tenant, run))


def read_run(connection: apsw.Connection, run_key: int) -> Stored | None:
    """Row and both lanes in one snapshot."""
    connection.execute("BEGIN")
    try:
        row = one_row(connection, Q["read_row_by_key"], (run_key,))
        if row is None:
            return None
        return Stored(row, _lane(connection, run_key, "main"), _lane(connection, run_key, "post"))
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _lane(connection: apsw.Connection, run_key: int, lane: Lane) -> list[Entry]:
    return [Entry(lane, *row) for row in connection.execute(Q["read_entries"], (run_key, LANES[lane]))]


def list_rows(connection: apsw.Connection, which: RunFilter) -> list[RunRow]:
    before = NUMBER_MAX if which.before_key is None else fitted(which.before_key)
    quarantined = None if which.quarantined is None else int(which.quarantined)
    values: tuple[Any, ...] = (which.tenant, which.flow, quarantined, before, fitted(which.limit))
    if which.run_prefix:
        values = (*values, which.status, which.run_prefix, which.run_prefix + CHARACTER_LAST)
        sql = Q["list_by_prefix"]
    elif which.status is not None:
        values, sql = (*values, which.status), Q["list_by_status"]
    else:
        sql = Q["list_newest"]
    return [run_row(row) for row in connection.execute(sql, values)]


def read_worker(connection: apsw.Connection, worker: str) -> WorkerRow | None:
    row = connection.execute(Q["read_worker"], (worker,)).get
    return None if row is None else WorkerRow(*row)
