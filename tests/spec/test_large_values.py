"""A large value is one entry's: beside it, under its place, and nobody else's. In a database from before as well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from remit.store.postgres import PostgresStore
from remit.store.protocol import Store
from remit.store.rows import Stored
from remit.store.schema import migrations
from remit.store.sqlite import SqliteStore
from remit.store.tables import INLINE_BYTES_MAX
from tests.support.aged import BY_ENTRY, PREFIXED, age, age_postgres
from tests.support.journal import Hand, open_held, read_stored, read_view

LARGE = b'"' + b"x" * INLINE_BYTES_MAX + b'"'

Ask = Callable[[str], Any]


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_database") if kind == "postgres" else tmp_path / "r.db")


async def test_the_same_bytes_in_two_runs_are_two_values(kind: str, url: str):  # proves: RUN-3
    """So one of them can be taken out, and nothing that stays tells what it was."""
    store = await opened(kind, url)
    keys = [row.row.run_key for row in [await told(store, "po-1"), await told(store, "po-2")]]
    await store.close()

    table = "remit_large_value" if kind == "sqlite" else "remit.large_value"
    assert await run_sql(kind, url, f"SELECT run_key, lane, seq FROM {table} ORDER BY run_key, lane, seq") == [
        (key, lane, seq) for key in keys for lane, seq in ((0, 3), (0, 4), (1, 1))
    ]
    await run_sql(kind, url, f"DELETE FROM {table} WHERE run_key = {keys[0]}")
    store = await opened(kind, url)
    assert [call.value for call in (await read_view(store, keys[1])).calls.values()] == [LARGE, LARGE]
    await store.close()


@pytest.mark.parametrize(
    ("kind", "schema"), [(kind, schema) for kind, newer in BY_ENTRY.items() for schema in range(1, newer)]
)
async def test_a_database_from_before_gives_each_entry_its_own(kind: str, schema: int, url: str, tmp_path: Path):
    # proves: RUN-19
    store = await opened(kind, url)
    before = [await told(store, "po-1"), await told(store, "po-2")]
    await store.close()
    if kind == "sqlite":
        age(Path(url), tmp_path / "old.db", schema=schema)
        url = str(tmp_path / "old.db")
    else:
        await age_postgres(url, schema=schema)
    blob = ("remit_blob" if schema >= PREFIXED else "blob") if kind == "sqlite" else "remit.blob"
    assert await run_sql(kind, url, f"SELECT count(*) FROM {blob}") == [(1,)]

    store = await opened(kind, url)

    assert store.ledger.schema == len(migrations(kind))
    assert [await read_stored(store, was.row.run_key) for was in before] == before
    for was in before:
        assert [call.value for call in (await read_view(store, was.row.run_key)).calls.values()] == [LARGE, LARGE]
    await told(store, "po-3")
    assert [finding for finding in await store.examine() if not finding.ok] == []
    await store.close()


async def test_what_an_older_worker_commits_while_the_tables_change_is_kept(postgres_database: str):  # proves: RUN-19
    store = await opened("postgres", postgres_database)
    hand = await open_held(store, "po-1")
    await store.close()
    await age_postgres(postgres_database, schema=2)
    worker = await asyncpg.connect(postgres_database)
    transaction = worker.transaction()
    await transaction.start()
    entry, (head, seq) = hand.step(LARGE).entries[0], (hand.pen.head, hand.pen.seq)
    await worker.execute("INSERT INTO remit.blob VALUES (sha256($1), $1)", LARGE)
    await worker.execute(
        "INSERT INTO remit.entry VALUES ($1, 0, $2, $3, $4, $5, NULL, sha256($6))",
        *(hand.row.run_key, seq, entry.header, entry.body, entry.salt, LARGE),
    )
    await worker.execute("UPDATE remit.run SET head = $1, seq = $2", head, seq)

    waiting = """SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND datname = current_database()"""
    opening = asyncio.create_task(opened("postgres", postgres_database))
    async with asyncio.timeout(10):
        while not await worker.fetchval(waiting):
            await asyncio.sleep(0)
    await transaction.commit()
    await worker.close()
    store = await opening

    assert [call.value for call in (await read_view(store, hand.row.run_key)).calls.values()] == [LARGE]
    await store.close()


async def opened(kind: str, url: str) -> Store:
    store: Store = SqliteStore(url) if kind == "sqlite" else PostgresStore(url)
    await store.open()
    return store


async def told(store: Store, run: str) -> Stored:
    """A run with two large values in lane main and one in lane post."""
    hand = await open_held(store, run)
    await store.append(hand.step(LARGE))
    await store.append(hand.step(LARGE))
    await store.append(Hand(store, hand.row, lane="post").signal(LARGE))
    return await read_stored(store, hand.row.run_key)


async def run_sql(kind: str, url: str, sql: str) -> list[tuple[Any, ...]]:
    if kind == "sqlite":
        file = apsw.Connection(url)
        try:
            return list(file.execute(sql))
        finally:
            file.close()
    server = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await server.fetch(sql)]
    finally:
        await server.close()
