"""Remit's tables on SQLite begin with `remit_`: beside an application that has tables of the plain names, and in a file
from before, where Remit's had them too."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import remit
from remit.errors import StoreRefused
from remit.facts.announced import AskOpened
from remit.store.marks import Announce, OpenAsk, Reserve, TakeKey
from remit.store.rows import AskFilter, RunFilter
from remit.store.schema import migrations
from remit.store.sqlite import SqliteStore
from remit.store.sqlite.guest import OWN_TABLES
from remit.store.sqlite.rows import Q
from remit.store.units import Unit
from tests.contract.boundary import holder, resting
from tests.support.aged import age
from tests.support.journal import TENANT, Hand, open_held, read_view

NEWEST = len(migrations("sqlite"))
PLAIN = sorted(name.removeprefix("remit_") for name in OWN_TABLES)
APPLICATION = "".join(f"CREATE TABLE {name} (mine); INSERT INTO {name} VALUES ('before');" for name in PLAIN)
APPLICATION += "CREATE INDEX run_by_status ON run (mine); CREATE VIEW inbox AS SELECT mine FROM ask_open;"
BOTH = pytest.mark.parametrize("schema", [1, 2])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
async def full(tmp_path: Path) -> Path:
    """A closed file of today: a run that ended, one that is under way, and one that somebody deleted."""
    store = await opened(tmp_path / "full.db")
    ended, held = await open_held(store, "po-1"), await open_held(store, "po-2")
    await store.append(ended.step(b'"' + b"x" * 300_000 + b'"'))
    await store.append(Hand(store, ended.row, lane="post").signal())
    await store.append(ended.end())
    await store.append(resting(held, Reserve("a", 5, 10), TakeKey("k", "pay")))
    await store.append(resting(held, OpenAsk("a-1", "pay", ("director",), 1, 2), Announce(AskOpened(ask="a-1"))))
    await open_held(store, "po-3")
    await store.close()
    run_sql(tmp_path / "full.db", "DELETE FROM remit_entry WHERE run_key = 3; DELETE FROM remit_run WHERE run_key = 3")
    return tmp_path / "full.db"


# An application that has such tables of its own


async def test_an_application_s_tables_have_any_name_without_the_prefix(path: Path):  # proves: FX-6
    run_sql(path, APPLICATION)
    before = names_in(path)
    await refused(path, "store.foreign", "another program")

    def build(connection: apsw.Connection) -> Unit:
        for name in PLAIN:
            connection.execute(f"INSERT INTO {name} VALUES ('within')")
        connection.execute("DELETE FROM worker; ALTER TABLE ledger ADD COLUMN more; DROP TABLE ceiling")
        connection.execute("CREATE TABLE ceiling (mine); CREATE INDEX run_by_tenant ON run (mine)")
        return unit

    store = await opened(path, beside=True)
    hand = await open_held(store, "po-1")
    unit = hand.step()
    await store.transact(build, limit_ms=5_000)
    await store.close()

    store = await opened(path)  # asked for once
    await store.append(hand.step())
    assert len((await read_view(store, hand.row.run_key)).calls) == 2
    assert [finding for finding in await store.examine() if not finding.ok] == []
    await store.close()
    counts = {name: run_sql(path, f"SELECT count(*) FROM {name}")[0][0] for name in PLAIN}
    assert counts == dict.fromkeys(PLAIN, 2) | {"worker": 0, "ceiling": 0}
    assert {name for name in names_in(path) - before if not name.startswith("remit_")} == {"run_by_tenant"}


def test_a_flow_books_into_an_application_s_table_called_run(path: Path):  # proves: FX-6
    run_sql(path, APPLICATION)

    @remit.transaction
    def book(connection: apsw.Connection, order: str) -> int:
        connection.execute("INSERT INTO run VALUES (?)", (order,))
        connection.execute("INSERT INTO outbox VALUES (?)", (order,))
        count: int = connection.execute("SELECT count(*) FROM run").get
        return count

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", window=timedelta(days=1)))
    def purchase(run: remit.SyncRun, order: str) -> int:
        booked: int = run.transact(book, order)
        return booked

    for turn, store in enumerate((SqliteStore(path, beside=True), SqliteStore(path)), 2):
        with remit.open(store) as rt:
            assert rt.run_sync(purchase, "o", id=f"po-{turn}").value == turn
            assert rt.run_sync(purchase, "o", id=f"po-{turn}").value == turn  # recorded
    assert run_sql(path, "SELECT * FROM run UNION ALL SELECT * FROM outbox") == [("before",), ("o",), ("o",)] * 2


# A file from before


@BOTH
async def test_a_file_from_before_has_all_that_it_had(full: Path, path: Path, schema: int):  # proves: RUN-19
    age(full, path, schema=schema)
    assert not [name for name in names_in(path) if name.startswith("remit")]

    store = await opened(path)
    source = await opened(full)
    assert store.ledger == source.ledger
    assert store.ledger.schema == NEWEST
    assert run_sql(path, "SELECT number FROM remit_migration") == [(number + 1,) for number in range(NEWEST)]
    rows = await store.list_rows(RunFilter(TENANT))
    assert (
        [row.run for row in rows] == ["po-2", "po-1"] == [row.run for row in await source.list_rows(RunFilter(TENANT))]
    )
    for row in rows:
        assert await store.read_run(row.run_key) == await source.read_run(row.run_key)
        assert (await read_view(store, row.run_key)).calls  # verified
    if schema > 1:
        assert await holder(store, "k") == ("po-2", "pay")
        assert await store.read_used(TENANT, "a") == 5
        assert await store.list_asks(AskFilter(TENANT)) == await source.list_asks(AskFilter(TENANT)) != []
        assert await store.read_outbox(TENANT, 0, 9) == []  # what was announced then held what people wrote
    held = Hand(store, rows[0])
    await store.append(resting(held, Reserve("a", 5, 10)))
    assert (await open_held(store, "po-4")).row.run_key == 4  # the third one's key is never given again
    assert [finding for finding in await store.examine() if not finding.ok] == []
    await source.close()
    await store.close()


@BOTH
async def test_it_then_has_the_schema_of_a_new_one(full: Path, path: Path, schema: int):  # proves: RUN-19
    age(full, path, schema=schema)
    await (await opened(path)).close()

    assert schema_of(path) == schema_of(full)
    before = path.read_bytes()
    await (await opened(path)).close()
    assert path.read_bytes() == before  # nothing is left to do


@BOTH
async def test_what_an_application_made_on_remit_s_tables_goes_along(full: Path, path: Path, schema: int):
    age(full, path, schema=schema)
    run_sql(path, "CREATE VIEW mine AS SELECT run FROM run; CREATE TABLE seen (e)")
    run_sql(path, "CREATE TRIGGER see AFTER INSERT ON entry BEGIN INSERT INTO seen SELECT run FROM run LIMIT 1; END")
    store = await opened(path)

    await open_held(store, "po-4")

    await store.close()
    assert run_sql(path, "SELECT count(*) FROM mine") == [(3,)]
    assert run_sql(path, "SELECT e FROM seen") == [("po-1",)] * 2


@BOTH
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CREATE TABLE remit_run (mine)", "a table 'remit_run'"),
        ("CREATE TABLE Remit_Outbox (mine)", "a table 'remit_outbox'"),
        ("CREATE VIEW remit_ask AS SELECT 1", "a table 'remit_ask'"),
        ("CREATE TABLE a (mine); CREATE INDEX remit_run_by_tenant ON a (mine)", "an index 'remit_run_by_tenant'"),
        ("CREATE VIEW mine AS SELECT * FROM absent", "can't be given schema 3: error in view mine"),
    ],
)
async def test_what_stands_in_the_way_is_told_and_the_file_left_as_it_is(
    full: Path, path: Path, schema: int, sql: str, said: str
):
    age(full, path, schema=schema)
    run_sql(path, sql)
    kept = schema_of(path)

    await refused(path, "store.broken" if "mine:" in said or "view mine" in said else "store.foreign", said)
    assert schema_of(path) == kept
    run_sql(path, re.sub(r"CREATE (\w+) (\w+) .*", r"DROP \1 \2", sql))
    await (await opened(path)).close()


async def test_a_name_that_a_new_ledger_needs_is_told(path: Path):
    run_sql(path, "CREATE TABLE a (x); CREATE INDEX remit_ask_open_by_number ON a (x)")

    await refused(path, "store.foreign", "an index 'remit_ask_open_by_number'", beside=True)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO migration VALUES (3, 'prefix', 0)",
        "DELETE FROM migration",
        "INSERT INTO migration VALUES (9999, 'later', 0)",
    ],
)
@pytest.mark.parametrize("beside", [False, True])
async def test_names_of_before_under_numbers_of_after_are_refused(full: Path, path: Path, sql: str, beside: bool):
    age(full, path, schema=2)
    run_sql(path, sql)

    await refused(path, "store.newer" if "9999" in sql else "store.broken", "Nothing was changed", beside=beside)


async def test_names_of_after_under_numbers_of_before_are_refused(full: Path):
    run_sql(full, "DELETE FROM remit_migration WHERE number >= 3")

    await refused(full, "store.broken", "names of another time")


# Deaths and companions


@BOTH
async def test_a_power_cut_leaves_the_names_of_before_or_of_after(full: Path, path: Path, tmp_path: Path, schema: int):
    # proves: OWN-8
    """The write-ahead log is cut at every page and inside every page, and what is left is opened."""
    age(full, path, schema=schema)
    before = schema_of(path)
    file = path.read_bytes()
    store = await opened(path)
    assert path.read_bytes() == file  # all that was done is in the log
    log = Path(f"{path}-wal").read_bytes()
    after = schema_of(path)
    await store.close()

    seen = []
    for at in sorted({0, 32, len(log), *range(32, len(log), 4096 + 24), *range(2_000, len(log), 4096 + 24)}):
        cut = tmp_path / f"cut-{at}.db"
        cut.write_bytes(file)
        Path(f"{cut}-wal").write_bytes(log[:at])
        seen.append(schema_of(cut))
        store = await opened(cut)
        assert {row.run for row in await store.list_rows(RunFilter(TENANT))} == {"po-1", "po-2"}
        for key in (1, 2):
            await read_view(store, key)
        await store.close()
        assert schema_of(cut) == after
    assert (seen[0], seen[-1]) == (before, after)
    assert len(seen) > 10 and [one for one in seen if one not in (before, after)] == []


@pytest.fixture
def meanwhile() -> Iterator[dict[str, Path]]:
    """Statement -> file: just before it first runs, somebody else opens that file and closes it again."""
    acts: dict[str, Path] = {}

    def watch(connection: apsw.Connection) -> None:
        def trace(_: object, sql: str, __: object) -> bool:
            if sql in acts:
                asyncio.run(open_and_close(acts.pop(sql)))
            return True

        connection.exec_trace = trace

    apsw.connection_hooks.append(watch)
    yield acts
    apsw.connection_hooks.remove(watch)


@BOTH
@pytest.mark.parametrize("before", [Q["read_names"], Q["read_migrations_unprefixed"], "BEGIN IMMEDIATE"])
async def test_another_process_may_rename_the_tables_at_any_time(
    full: Path, path: Path, meanwhile: dict[str, Path], schema: int, before: str
):  # proves: OWN-8
    age(full, path, schema=schema)
    meanwhile[before] = path

    store = await opened(path)

    assert (meanwhile, store.ledger.schema) == ({}, NEWEST)
    assert (await read_view(store, 2)).calls
    await store.close()
    assert schema_of(path) == schema_of(full)


async def open_and_close(path: Path) -> None:
    await (await opened(path)).close()


async def opened(path: Path, **options: Any) -> SqliteStore:
    store = SqliteStore(path, **options)
    await store.open()
    return store


async def refused(path: Path, code: str, said: str, **options: Any) -> None:
    """And the file has the bytes that it had."""
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match=re.escape(said)) as raised:
        await SqliteStore(path, **options).open()
    assert (raised.value.code, path.read_bytes()) == (code, before)


def run_sql(path: Path, sql: str) -> list[Any]:
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


def names_in(path: Path) -> set[str]:
    return {name for (name,) in run_sql(path, "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'")}


def schema_of(path: Path) -> set[tuple[str, str, str]]:
    """Kind, name and text of everything in it. SQLite puts the name of a table that was renamed in quotes."""
    rows = run_sql(path, "SELECT type, name, coalesce(sql, '') FROM sqlite_schema")
    return {(kind, name, re.sub(r'CREATE TABLE "(\w+)"', r"CREATE TABLE \1", sql)) for kind, name, sql in rows}
