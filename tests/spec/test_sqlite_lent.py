"""What a transaction's function changed on its connection on SQLite: not met by the next one, nor by our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from remit.store.sqlite import SqliteStore
from tests.spec.test_sqlite_transact import insert, path, run_sql, seq, store, transact

__all__ = ["path", "store"]  # fixtures


def fail(*_: Any) -> Any:
    raise AssertionError("it was met")


def limit(number: int) -> Callable[[apsw.Connection], Any]:
    return lambda c: c.limit(number, 0)


LIMITS = {number: str(name) for number, name in apsw.mapping_limits.items() if isinstance(number, int)}
CHANGES: dict[str, Callable[[apsw.Connection], Any]] = {
    "row_trace": lambda c: setattr(c, "row_trace", lambda _, row: dict(enumerate(row))),
    "row_trace of old": lambda c: c.setrowtrace(lambda _, row: dict(enumerate(row))),
    "exec_trace": lambda c: setattr(c, "exec_trace", fail),
    "cursor_factory": lambda c: setattr(c, "cursor_factory", fail),
    "convert_binding": lambda c: setattr(c, "convert_binding", fail),
    "an attribute": lambda c: setattr(c, "mine", 1),
    "function": lambda c: c.create_scalar_function("upper", fail),
    "aggregate": lambda c: c.create_aggregate_function("mine", fail),
    "collation": lambda c: c.create_collation("mine", fail),
    "busy": lambda c: c.set_busy_timeout(0),
    "wal": lambda c: c.set_wal_hook(fail),
    "wal of old": lambda c: c.setwalhook(fail),
    "rollback": lambda c: c.set_rollback_hook(fail),
    "update": lambda c: c.set_update_hook(fail),
    "preupdate": lambda c: c.preupdate_hook(fail, id="mine"),
    "commit": lambda c: c.set_commit_hook(fail, id="mine"),
    "progress": lambda c: c.set_progress_handler(fail, 1_000_000, id="mine"),
    "profile": lambda c: c.set_profile(fail),
    "trace": lambda c: c.trace_v2(apsw.SQLITE_TRACE_STMT, fail, id="mine"),
    "limit by name": lambda c: c.limit(id=apsw.SQLITE_LIMIT_VARIABLE_NUMBER, newval=1),
    **{name: limit(number) for number, name in LIMITS.items()},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_it_changes_is_met_by_nobody_else(store: SqliteStore, path: Path, change: Callable[..., Any]):
    # proves: FX-6
    seen: list[Any] = []

    def look(connection: apsw.Connection) -> None:
        seen.append(list(connection.execute("SELECT upper('a'), last_insert_rowid()")))
        seen.append({number: apsw.Connection.limit(connection, number) for number in LIMITS})
        insert(connection, 2)

    def act(connection: apsw.Connection) -> None:
        insert(connection, 1)
        change(connection)

    await transact(store, look)
    await transact(store, act)
    assert run_sql(path, "SELECT number FROM invoice ORDER BY 1") == [(1,), (2,)]
    run_sql(path, "DELETE FROM invoice")
    await transact(store, look)
    assert seen[:2] == seen[2:] == [[("A", 0)], seen[1]]
    assert await seq(store) == 5


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_it_changes_is_not_met_where_it_raises(store: SqliteStore, path: Path, change: Callable[..., Any]):
    # proves: FX-6
    def act(connection: apsw.Connection) -> None:
        insert(connection, 1)
        change(connection)
        raise LookupError("its own")

    with pytest.raises(LookupError, match="its own"):
        await transact(store, act)
    assert run_sql(path, "SELECT number FROM invoice") == []
    await transact(store, lambda c: insert(c, 2))
    assert run_sql(path, "SELECT number FROM invoice") == [(2,)]


async def test_only_a_connection_that_was_changed_is_opened_anew(store: SqliteStore):  # proves: FX-6
    def only_rows(connection: apsw.Connection) -> None:
        with connection:
            insert(connection, 1)
        connection.executemany("INSERT INTO line VALUES (?)", [(None,)])
        cursor = connection.cursor()
        cursor.row_trace = lambda _, row: dict(enumerate(row))
        cursor.execute("SELECT * FROM invoice").fetchall()
        assert (connection.changes(), connection.pragma("table_info", "line")[0]) == (1, 0)

    await transact(store, lambda c: None)
    first = store._writer._spare
    await transact(store, only_rows)
    assert first is not None
    assert store._writer._spare is first
    seen: list[Any] = []
    await transact(store, lambda c: seen.append(c.last_insert_rowid()))
    assert seen == [0]
    await transact(store, lambda c: c.create_collation("mine", lambda a, b: 0))
    assert store._writer._spare is None
