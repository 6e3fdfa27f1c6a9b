"""An application's tables in the file of Remit's, and its code on our connection: what it may do and may not."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from remit.clock import SystemClock
from remit.errors import Refused, StoreRefused
from remit.store.schema import migrations
from remit.store.sqlite import SqliteStore
from remit.store.sqlite.guest import OWN_TABLES, Guest
from remit.store.units import Unit
from tests.support.journal import Hand, open_held, read_view

TABLES = """
CREATE TABLE invoice (id INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER UNIQUE);
CREATE TABLE line (invoice INTEGER REFERENCES invoice (id) DEFERRABLE INITIALLY DEFERRED);
"""
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
MAY_NOT = [
    *(f"{verb} {table}" for table in sorted(OWN_TABLES) for verb in ("DELETE FROM", "DROP TABLE")),
    "UPDATE remit_run SET seq = 99",
    'UPDATE "REMIT_RUN" SET epoch = 0',
    "INSERT INTO remit_business_key VALUES ('default', 'k', 1, 'po-1', 'pay')",
    "REPLACE INTO remit_ceiling VALUES ('default', 'a', 0)",
    "ALTER TABLE remit_entry ADD COLUMN mine",
    "CREATE INDEX mine ON remit_run (head)",
    "DROP INDEX remit_ask_open_by_number",
    "CREATE TRIGGER mine AFTER INSERT ON remit_entry BEGIN SELECT 1; END",
    "CREATE TRIGGER t AFTER INSERT ON line BEGIN DELETE FROM remit_entry; END; INSERT INTO line VALUES (NULL)",
    "CREATE TEMP TABLE remit_run (head)",
    "CREATE TEMP TABLE mine (x)",
    "CREATE TEMP VIEW remit_run AS SELECT 1",
    "ATTACH ':memory:' AS other",
    "PRAGMA synchronous = 0",
    "PRAGMA journal_mode = delete",
    "PRAGMA wal_checkpoint(truncate)",
    "PRAGMA writable_schema = 1",
    "PRAGMA foreign_keys = 0",
]
ENDING = ["COMMIT", "ROLLBACK", "END", "COMMIT; BEGIN", "INSERT OR ROLLBACK INTO invoice (number) VALUES (1), (1)"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
async def store(path: Path):
    """In a file that an application made before."""
    run_sql(path, TABLES)
    store = SqliteStore(path, beside=True)
    await store.open()
    yield store
    await store.close()


def run_sql(path: Path, sql: str) -> list[Any]:
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


async def hold(store: SqliteStore) -> Hand:
    row = await store.read_row("default", "po-1")
    return await open_held(store, "po-1") if row is None else Hand(store, row)


async def transact(store: SqliteStore, act: Callable[[apsw.Connection], Any], *, limit_ms: int = 5_000) -> None:
    unit = (await hold(store)).step()

    def build(connection: apsw.Connection) -> Unit:
        act(connection)
        return unit

    await store.transact(build, limit_ms=limit_ms)


async def seq(store: SqliteStore) -> int:
    row = await store.read_row("default", "po-1")
    assert row is not None
    return row.seq


# What the application's code may do


@pytest.mark.parametrize("sql", MAY_NOT)
async def test_it_writes_no_table_of_remits_and_changes_no_setting(store: SqliteStore, path: Path, sql: str):
    # proves: FX-6
    schema = run_sql(path, "SELECT sql FROM sqlite_schema ORDER BY name")

    with pytest.raises(apsw.AuthError) as refused:
        await transact(store, lambda c: c.execute(sql))

    assert refused.value.__notes__ == ["Inside a transaction of Remit's, write rows of your own tables alone."]
    assert run_sql(path, "SELECT sql FROM sqlite_schema ORDER BY name") == schema
    assert await seq(store) == 2
    await transact(store, lambda c: None)


async def test_it_reads_everything_and_changes_its_own_schema(store: SqliteStore, path: Path):  # proves: FX-6
    def act(connection: apsw.Connection) -> None:
        assert connection.execute("SELECT run FROM remit_run").get == "po-1"
        assert connection.execute("SELECT name FROM pragma_table_info('remit_run') WHERE cid = 0").get == "run_key"
        connection.execute("CREATE TABLE t (i INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO t DEFAULT VALUES")
        connection.execute("CREATE INDEX t_by_i ON t (i); ALTER TABLE t ADD COLUMN k; DROP TABLE t")
        connection.execute("CREATE TABLE kept (x)")

    await transact(store, act)

    assert run_sql(path, "SELECT count(*) FROM kept") == [(0,)]


async def test_a_savepoint_is_its_own_affair(store: SqliteStore, path: Path):  # proves: FX-6
    def act(connection: apsw.Connection) -> None:
        with connection:
            connection.execute("INSERT INTO invoice (number) VALUES (1)")
        with pytest.raises(ZeroDivisionError), connection:
            connection.execute("INSERT INTO invoice (number) VALUES (2)")
            raise ZeroDivisionError
        connection.execute("SAVEPOINT unit; INSERT INTO invoice (number) VALUES (3)")  # and never released

    await transact(store, act)

    assert run_sql(path, "SELECT number FROM invoice") == [(1,), (3,)]


@pytest.mark.parametrize("sql", ENDING)
@pytest.mark.parametrize("is_caught", [False, True])
async def test_it_does_not_end_the_transaction(store: SqliteStore, path: Path, sql: str, is_caught: bool):
    # proves: FX-6
    def act(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO invoice (number) VALUES (7)")
        try:
            connection.execute(sql)
        except apsw.Error:
            if not is_caught:
                raise
        connection.execute("INSERT INTO invoice (number) VALUES (8)")

    if is_caught and sql not in ENDING[4:]:
        await transact(store, act)  # it was refused in time, and nothing had happened
        assert run_sql(path, "SELECT number FROM invoice") == [(7,), (8,)]
        return
    with pytest.raises((Refused, apsw.ConstraintError)) as refused:
        await transact(store, act)
    if isinstance(refused.value, Refused):
        assert refused.value.code == "transact.ended"
    assert (run_sql(path, "SELECT number FROM invoice"), await seq(store)) == ([], 2)


async def test_a_connection_that_it_closed_is_replaced(store: SqliteStore, path: Path):  # proves: FX-6
    def act(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO invoice (number) VALUES (1)")
        connection.close()

    with pytest.raises(Refused) as refused:
        await transact(store, act)

    assert refused.value.code == "transact.ended"
    await transact(store, lambda c: c.execute("INSERT INTO invoice (number) VALUES (2)"))
    assert run_sql(path, "SELECT number FROM invoice") == [(2,)]
    assert await seq(store) == 3


async def test_a_cursor_that_it_keeps_does_not_keep_the_snapshot(store: SqliteStore, path: Path):  # proves: FX-6
    kept = []

    def act(connection: apsw.Connection) -> None:
        kept.append(connection.execute("SELECT name FROM sqlite_schema"))
        next(kept[0])

    await transact(store, act)
    run_sql(path, "INSERT INTO invoice (number) VALUES (1)")  # somebody else writes: an old snapshot could not

    await transact(store, lambda c: c.execute("INSERT INTO invoice (number) VALUES (2)"))
    hand = await hold(store)
    await store.append(hand.step())
    assert await seq(store) == 5
    kept.clear()
    gc.collect()


async def test_a_foreign_key_is_looked_at_and_is_its_own_error(store: SqliteStore, path: Path):  # proves: FX-6
    with pytest.raises(apsw.ConstraintError, match="FOREIGN KEY"):  # when it commits
        await transact(store, lambda c: c.execute("INSERT INTO line VALUES (99)"))

    assert (run_sql(path, "SELECT * FROM line"), await seq(store)) == ([], 2)
    await transact(store, lambda c: None)


@pytest.mark.parametrize("sql", [ENDLESS.format("count(*)"), "INSERT INTO line " + ENDLESS.format("i")])
async def test_a_statement_without_an_end_is_stopped(store: SqliteStore, path: Path, sql: str):  # proves: FX-6
    with pytest.raises(Refused) as refused:
        await transact(store, lambda c: list(c.execute(sql)), limit_ms=30)

    assert refused.value.code == "transact.late"
    assert (run_sql(path, "SELECT count(*) FROM line"), await seq(store)) == ([(0,)], 2)
    await transact(store, lambda c: list(c.execute(ENDLESS.format("i") + " LIMIT 200000")))  # the limit was taken off


async def test_the_connection_that_it_is_given_is_never_ours(store: SqliteStore):  # proves: FX-6
    given: list[apsw.Connection] = []
    await transact(store, given.append)

    assert given[0] is not store._writer._connection
    hand = await hold(store)
    for _ in range(3):
        await store.append(hand.step())
    assert len((await read_view(store, hand.row.run_key)).calls) == 4


# What is left of it when it has returned

OVER = (apsw.ConnectionClosedError, apsw.CursorClosedError)


def in_a_thread(act: Callable[[], Any]) -> BaseException | None:
    """What it raised there."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).exception(timeout=10)


def insert(connection: apsw.Connection, number: int) -> Any:
    return connection.execute("INSERT INTO invoice (number) VALUES (?)", (number,))


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_is_written_over_it_when_it_is_over(store: SqliteStore, path: Path, fails: bool):
    # proves: FX-6
    kept: list[Callable[[], Any]] = []
    run_sql(path, "CREATE TABLE paper (scan); INSERT INTO paper VALUES (zeroblob(4))")

    def act(connection: apsw.Connection) -> None:
        cursor = insert(connection, 1)
        kept.extend((lambda: insert(connection, 2), lambda: cursor.execute("INSERT INTO invoice (number) VALUES (3)")))
        kept.append(lambda: connection.blob_open("main", "paper", "scan", 1, True).write(b"late"))
        kept.append(lambda: connection.__enter__())
        if fails:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        await transact(store, act)

    assert all(isinstance(in_a_thread(late), OVER) for late in kept)
    await transact(store, lambda c: [isinstance(in_a_thread(late), apsw.Error) for late in kept])
    assert run_sql(path, "SELECT number FROM invoice") == ([] if fails else [(1,)])
    assert run_sql(path, "SELECT scan FROM paper") == [(b"\0" * 4,)]


class Meanwhile:
    """A clock that is read when the code has returned and its unit is being written; something happens then."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    def now(self) -> int:
        self._act()
        return SystemClock().now()


async def test_a_connection_is_lent_again_only_where_nobody_holds_it_any_more(store: SqliteStore, path: Path):
    # proves: FX-6
    kept: list[Any] = []
    ways: list[Callable[[apsw.Connection], Any]] = [
        kept.append,
        lambda c: kept.append(c.execute),
        lambda c: kept.append(c.cursor()),
        lambda c: kept.append(lambda: c),
        lambda c: c.create_scalar_function("f", lambda *_: c.changes(), 0),
    ]
    await transact(store, lambda c: insert(c, 1))
    first = store._writer._spare
    await transact(store, lambda c: insert(c, 2).fetchall())
    assert isinstance(first, apsw.Connection)
    assert store._writer._spare is first
    for way in ways:
        await transact(store, way)
        assert store._writer._spare is None
    await transact(store, lambda c: None)
    second = store._writer._spare
    assert second is not first
    with pytest.raises(ZeroDivisionError):
        await transact(store, lambda c: 1 // 0)
    for closed in (first, second):
        with pytest.raises(apsw.ConnectionClosedError):
            insert(closed, 3)


async def test_nothing_is_written_over_it_between_its_return_and_the_commit(store: SqliteStore, path: Path):
    # proves: FX-6
    raised: list[BaseException | None] = []
    given: list[apsw.Connection] = []

    def late() -> None:  # the first was prepared before, and the second was not
        raised.append(in_a_thread(lambda: insert(given[0], 2)))
        raised.append(in_a_thread(lambda: given[0].execute("DELETE FROM invoice")))
        raised.append(in_a_thread(lambda: given[0].execute("ROLLBACK")))

    def act(connection: apsw.Connection) -> None:
        given.append(connection)
        insert(connection, 1)

    await hold(store)
    store._writer._clock = Meanwhile(late)
    await transact(store, act)
    store._writer._clock = SystemClock()

    assert [type(exc) for exc in raised] == [apsw.AuthError] * 3
    assert (run_sql(path, "SELECT number FROM invoice"), await seq(store)) == ([(1,)], 3)


async def test_nothing_is_written_over_it_between_the_commit_and_its_end(store: SqliteStore, path: Path, monkeypatch):
    # proves: FX-6
    run_sql(path, "CREATE TABLE paper (scan); INSERT INTO paper VALUES (zeroblob(4))")
    close = Guest.close
    raised: list[BaseException | None] = []

    def write_late(connection: apsw.Connection) -> None:
        with connection.blob_open("main", "paper", "scan", 1, True) as blob:  # which no authorizer is asked about
            blob.write(b"late")

    def close_late(guest: Guest) -> None:
        raised.append(in_a_thread(lambda: insert(guest.connection, 2)))
        raised.append(in_a_thread(lambda: write_late(guest.connection)))
        close(guest)

    monkeypatch.setattr(Guest, "close", close_late)
    given: list[apsw.Connection] = []

    def act(connection: apsw.Connection) -> None:
        given.append(connection)
        insert(connection, 1)

    await transact(store, act)

    assert [isinstance(exc, apsw.Error) for exc in raised] == [True, True]
    assert run_sql(path, "SELECT number FROM invoice") == [(1,)]
    assert run_sql(path, "SELECT scan FROM paper") == [(b"\0" * 4,)]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_statement_that_another_thread_is_still_in_writes_nothing(store: SqliteStore, path: Path, fails: bool):
    # proves: FX-6
    begun, may_end = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def slow(*_: Any) -> int:
        begun.set()
        may_end.wait(0.3)
        return 7

    def write(connection: apsw.Connection) -> None:
        try:
            insert(connection, 2)
            connection.execute("INSERT INTO invoice (number) VALUES (slow())")
            insert(connection, 3)
        except apsw.Error:
            pass

    def act(connection: apsw.Connection) -> None:
        connection.create_scalar_function("slow", slow, 0)
        connection.limit(apsw.SQLITE_LIMIT_VARIABLE_NUMBER, 100)  # put back, it would wait for that thread
        insert(connection, 1)
        threads.append(threading.Thread(target=write, args=(connection,)))
        threads[0].start()
        begun.wait(5)
        if fails:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError if fails else Refused) as refused:
        await transact(store, act)
    may_end.set()
    threads[0].join(5)

    if isinstance(refused.value, Refused):
        assert refused.value.code == "transact.ended"
        assert "under way" in refused.value.message
    assert (run_sql(path, "SELECT number FROM invoice"), await seq(store)) == ([], 2)
    await transact(store, lambda c: insert(c, 4))
    assert run_sql(path, "SELECT number FROM invoice") == [(4,)]


async def test_a_blob_that_it_left_open_is_told(store: SqliteStore, path: Path):  # proves: FX-6
    run_sql(path, "CREATE TABLE paper (scan); INSERT INTO paper VALUES (zeroblob(4))")
    kept: list[Any] = []

    def act(connection: apsw.Connection) -> None:
        kept.append(connection.blob_open("main", "paper", "scan", 1, True))
        kept[0].write(b"mine")

    with pytest.raises(Refused) as refused:  # SQLite does not begin to commit
        await transact(store, act)

    assert refused.value.code == "transact.ended"
    assert (run_sql(path, "SELECT scan FROM paper"), await seq(store)) == ([(b"\0" * 4,)], 2)


async def test_a_savepoint_that_it_left_open_takes_nothing_back(store: SqliteStore, path: Path):  # proves: FX-6
    left: list[Generator[None]] = []

    def within(connection: apsw.Connection) -> Generator[None]:
        with connection:
            insert(connection, 1)
            yield

    def leave() -> None:
        with suppress(apsw.Error):
            left[0].close()  # as the garbage collector does, on whatever thread it runs

    def act(connection: apsw.Connection) -> None:
        left.append(within(connection))
        next(left[0])

    await hold(store)
    store._writer._clock = Meanwhile(leave)
    await transact(store, act)
    store._writer._clock = SystemClock()

    assert (run_sql(path, "SELECT number FROM invoice"), await seq(store)) == ([(1,)], 3)


# Whose file it is


async def test_remits_tables_are_made_beside_an_application_s_when_asked_for(path: Path):  # proves: FX-6
    run_sql(path, TABLES + "INSERT INTO invoice (number) VALUES (1)")
    before = path.read_bytes()
    with pytest.raises(StoreRefused) as refused:
        await SqliteStore(path).open()
    assert (refused.value.code, path.read_bytes()) == ("store.foreign", before)

    for store in (SqliteStore(path, beside=True), SqliteStore(path)):  # asked for once
        await store.open()
        await store.close()

    assert run_sql(path, "SELECT number FROM invoice") == [(1,)]


@pytest.mark.parametrize("table", ["remit_outbox", "Remit_Run", "remit_worker"])
async def test_a_table_under_a_name_that_remit_needs_is_told(path: Path, table: str):
    run_sql(path, f'CREATE TABLE "{table}" (x); CREATE TABLE invoice (y)')
    before = path.read_bytes()

    with pytest.raises(StoreRefused, match=table.lower()) as refused:
        await SqliteStore(path, beside=True).open()

    assert (refused.value.code, path.read_bytes()) == ("store.foreign", before)


async def test_a_table_that_stands_in_the_way_of_a_migration_is_told(path: Path):
    first = migrations("sqlite")[0]
    run_sql(path, first.sql + "INSERT INTO migration VALUES (1, 'ledger', 0);")
    run_sql(path, "INSERT INTO ledger VALUES (1, 'origin', 0, 'database'); CREATE TABLE outbox (x)")

    with pytest.raises(StoreRefused, match="outbox") as refused:
        await SqliteStore(path).open()

    assert refused.value.code == "store.foreign"
    assert run_sql(path, "SELECT number FROM migration") == [(1,)]
