"""Processes that die while they rename the tables of an older file, and several that would rename them at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from remit.store.rows import RunFilter
from remit.store.schema import migrations
from remit.store.sqlite import SqliteStore
from tests.support.aged import age
from tests.support.journal import open_held, read_view

ROOT = Path(__file__).parents[2]
PROCESSES = 5
OLD = {"ledger", "migration", "run", "entry", "blob", "worker"}
BOTH = pytest.mark.parametrize("schema", [1, 2])


@pytest.fixture
async def old(tmp_path: Path, schema: int) -> Path:
    store = SqliteStore(tmp_path / "new.db")
    await store.open()
    hand = await open_held(store, "po-1")
    for _ in range(20):
        await store.append(hand.step())
    await store.close()
    age(tmp_path / "new.db", tmp_path / "old.db", schema=schema)
    return tmp_path / "old.db"


@BOTH
async def test_a_death_before_any_statement_leaves_the_names_of_before_or_of_after(
    old: Path, tmp_path: Path, schema: int
):  # proves: OWN-8
    places = start("each", str(old), str(tmp_path)).communicate(timeout=120)[0].splitlines()

    renaming = [place for place in places if "RENAME TO" in place]
    assert (len(renaming), places.count("COMMIT"), places[-1]) == (11, 1, "opened")
    committed = places.index("COMMIT")
    for number, place in enumerate(places):
        path = tmp_path / f"{number}.db"
        tables = tables_in(path)
        assert (tables >= OLD, is_today(tables)) == (number <= committed, number > committed), place
        store = SqliteStore(path)
        await store.open()
        assert len((await read_view(store, 1)).calls) == 20
        assert [finding for finding in await store.examine() if not finding.ok] == []
        await store.close()
        assert is_today(tables_in(path))


@BOTH
async def test_several_processes_open_an_old_file_at_once(old: Path, schema: int):  # proves: OWN-8
    processes = [start("open", str(old), f"p-{number}") for number in range(PROCESSES)]
    for process in processes:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate(timeout=60) for process in processes]

    store = SqliteStore(old)
    await store.open()
    line = f"{store.ledger.origin} {len(migrations('sqlite'))}\n"
    assert told == [(line, "")] * PROCESSES
    rows = await store.list_rows(RunFilter("default"))
    assert {row.run for row in rows} == {"po-1", *(f"p-{number}" for number in range(PROCESSES))}
    for row in rows:
        assert (await read_view(store, row.run_key)).calls
    await store.close()
    assert is_today(tables_in(old))


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.rename_victim", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)


def tables_in(path: Path) -> set[str]:
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        return {name for (name,) in rows}
    finally:
        connection.close()


def is_today(tables: set[str]) -> bool:
    return len(tables) == 11 and all(name.startswith("remit_") for name in tables)
