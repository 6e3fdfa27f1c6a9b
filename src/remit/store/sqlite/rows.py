"""Rows: how runs, entries and workers are read from SQLite. Each function is one short read.

Reads fetch everything before they return, so no snapshot is held while anybody thinks:
a reader that lingers keeps the write-ahead log from starting over, and it would grow.

SQLite keeps whatever bytes it was given as text. Those that are no UTF-8 come escaped: the row
then shows something else than its journal, and is found out as any other edited row is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from remit.store.damage import escaped
from remit.store.queries import load_queries
from remit.store.rows import RunFilter, RunRow, Stored, WorkerRow
from remit.store.tables import CHARACTER_LAST, NUMBER_MAX, fitted, fitted_key, lanes_of

Q = load_queries("sqlite")


def rows_of(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows that a SELECT finds."""
    try:
        return list(connection.execute(sql, values))
    except UnicodeDecodeError:
        return _rows_escaped(connection, sql, values)


def row_of(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> Any:
    """The first row that a SELECT finds, of one column its value; None where it finds none."""
    try:
        return connection.execute(sql, values).get
    except UnicodeDecodeError:
        row = _rows_escaped(connection, sql, values)[0]
        return row[0] if len(row) == 1 else row


def _rows_escaped(connection: apsw.Connection, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The same again, with each text as its bytes."""
    names = [f"c{i}" for i, _ in enumerate(connection.execute(sql, values).get_description())]
    told = ", ".join(
        f"typeof({c}) = 'text', CASE typeof({c}) WHEN 'text' THEN CAST({c} AS BLOB) ELSE {c} END" for c in names
    )
    found = connection.execute(
        f"WITH found({', '.join(names)}) AS ({sql.strip().rstrip(';')}) SELECT {told} FROM found", values
    )
    return [
        tuple(escaped(column) if is_text else column for is_text, column in zip(row[::2], row[1::2], strict=True))
        for row in found
    ]


def run_row(row: tuple[Any, ...]) -> RunRow:
    """A row in the order in which the statements name their columns."""
    columns = list(row)
    columns[8] = bool(columns[8])
    return RunRow(*columns)


def one_row(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> RunRow | None:
    row = row_of(connection, sql, values)
    return None if row is None else run_row(row)


def read_row(connection: apsw.Connection, tenant: str, run: str) -> RunRow | None:
    return one_row(connection, Q["read_row"], (tenant, run))


def is_short(connection: apsw.Connection, run_key: int, entries_max: int) -> bool | None:
    """Whether a run has up to so many entries; None where there is no such run."""
    row = one_row(connection, Q["read_row_by_key"], (run_key,))
    return None if row is None else row.seq + row.post_seq <= entries_max


def read_run(connection: apsw.Connection, run_key: int) -> Stored | None:
    """Row and both lanes in one snapshot."""
    connection.execute("BEGIN")
    try:
        row = one_row(connection, Q["read_row_by_key"], (run_key,))
        if row is None:
            return None
        found = rows_of(connection, Q["read_entries"], (run_key,))
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return Stored(row, *lanes_of(found))


def list_rows(connection: apsw.Connection, which: RunFilter) -> list[RunRow]:
    before = NUMBER_MAX if which.before_key is None else fitted_key(which.before_key)
    quarantined = None if which.quarantined is None else int(which.quarantined)
    values: tuple[Any, ...] = (which.tenant, which.flow, quarantined, before, fitted(which.limit))
    if which.run_prefix:
        values = (*values, which.status, which.run_prefix, which.run_prefix + CHARACTER_LAST)
        sql = Q["list_by_prefix"]
    elif which.status is not None:
        values, sql = (*values, which.status), Q["list_by_status"]
    else:
        sql = Q["list_newest"]
    return [run_row(row) for row in rows_of(connection, sql, values)]


def read_worker(connection: apsw.Connection, worker: str) -> WorkerRow | None:
    row = row_of(connection, Q["read_worker"], (worker,))
    return None if row is None else WorkerRow(*row)
