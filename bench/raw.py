"""Raw: the bare database, under the same settings and with rows as large as an entry of ours.

It has one table with a number for a key: no chain, no lease, no index of its own. What
stands beside a figure is therefore more than any journal could reach.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import apsw
import asyncpg

from remit.facts.entry import SALT_BYTES, Identity, Pen
from remit.facts.kinds import StepDone, write
from remit.store.sqlite.connection import connect, settle

_connect: Any = asyncpg.connect  # its functions carry no annotations

Row = tuple[bytes, bytes, bytes | None, bytes | None]


class Raw(Protocol):
    """A bare table, empty when it is made."""

    async def insert(self, row: Row, count: int) -> None:
        """So many rows, a COMMIT each."""
        ...

    async def insert_group(self, rows: Sequence[Row]) -> None:
        """All of them in one COMMIT."""
        ...

    async def read(self) -> int:
        """Fetch every row; how many."""
        ...

    async def size(self) -> int:
        """Bytes on disk, the write-ahead log not counted."""
        ...

    async def store_size(self) -> int:
        """The same of the store beside which this table stands, once it is closed."""
        ...


def raw_for(url: str) -> AbstractAsyncContextManager[Raw]:
    """The bare table beside the store of `url`."""
    return _sqlite(url.removeprefix("sqlite:///")) if url.startswith("sqlite:") else _postgres(url)


def row_of(value: bytes) -> Row:
    """The bytes of one step's entry."""
    identity = Identity("0" * 32, "default", "run-0001", 1, "ten_steps")
    pen = Pen(identity, lane="main", by="service:local", epoch=1, head=bytes(32), seq=1)
    body = write(StepDone(took=15))
    entry = pen.seal("StepDone", body, at=time.time_ns() // 1_000, name="step#7", value=(bytes(SALT_BYTES), value))
    return entry.header, entry.body, entry.salt, entry.value


async def insert_rate(raw: Raw, row: Row, seconds: float) -> float:
    """Rows per second, a COMMIT each."""
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        await raw.insert(row, 50)
        count += 50
    return count / took


async def group_rate(raw: Raw, rows: Sequence[Row], seconds: float) -> float:
    """Rows per second, all of `rows` to a COMMIT."""
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        await raw.insert_group(rows)
        count += len(rows)
    return count / took


async def pair_rate(raw: Raw, first: Sequence[Row], then: Sequence[Row], seconds: float) -> float:
    """Rows per second, two COMMITs in turns."""
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        await raw.insert_group(first)
        await raw.insert_group(then)
        count += len(first) + len(then)
    return count / took


async def postgres_version(url: str) -> str:
    """What the server says of itself: "18.1"."""
    connection = await _connect(url)
    try:
        return str(await connection.fetchval("SHOW server_version"))
    finally:
        await connection.close()


class _Sqlite:
    """In a file of its own, because a store refuses a file with foreign tables."""

    _INSERT = "INSERT INTO raw (header, body, salt, value) VALUES (?, ?, ?, ?)"

    def __init__(self, connection: apsw.Connection, path: str, store_path: str) -> None:
        self._connection, self._path, self._store_path = connection, path, store_path
        connection.execute("DROP TABLE IF EXISTS raw")  # of the repetition before, where a store serves several
        connection.execute("CREATE TABLE raw (id INTEGER PRIMARY KEY, header BLOB, body BLOB, salt BLOB, value BLOB)")

    async def insert(self, row: Row, count: int) -> None:
        for _ in range(count):
            self._connection.execute(self._INSERT, row)

    async def insert_group(self, rows: Sequence[Row]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._INSERT, rows)
        self._connection.execute("COMMIT")

    async def read(self) -> int:
        return len(self._connection.execute("SELECT header, body, salt, value FROM raw ORDER BY id").fetchall())

    async def size(self) -> int:
        return _checkpointed(self._connection, self._path)

    async def store_size(self) -> int:
        connection = connect(self._store_path)
        try:
            return _checkpointed(connection, self._store_path)
        finally:
            connection.close()


class _Postgres:
    """In a schema of its own in the same database."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def insert(self, row: Row, count: int) -> None:
        insert = await self._connection.prepare(
            "INSERT INTO bench.raw (header, body, salt, value) VALUES ($1, $2, $3, $4)"
        )
        for _ in range(count):
            await insert.fetch(*row)

    async def insert_group(self, rows: Sequence[Row]) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)]
        await self._connection.execute(
            "INSERT INTO bench.raw (header, body, salt, value) "
            "SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[])",
            *columns,
        )

    async def read(self) -> int:
        return len(await self._connection.fetch("SELECT header, body, salt, value FROM bench.raw ORDER BY id"))

    async def size(self) -> int:
        return int(await self._connection.fetchval("SELECT pg_total_relation_size('bench.raw')"))

    async def store_size(self) -> int:
        found = await self._connection.fetchval(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind = 'r' AND n.nspname NOT IN ('bench', 'pg_catalog', 'information_schema')"
        )
        return int(found)


def _checkpointed(connection: apsw.Connection, path: str) -> int:
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return os.stat(path).st_size


@asynccontextmanager
async def _sqlite(store_path: str) -> AsyncIterator[Raw]:
    path = f"{store_path}.raw"
    connection = connect(path, create=True)
    try:
        settle(connection)
        yield _Sqlite(connection, path, store_path)
    finally:
        connection.close()


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[Raw]:
    connection = await _connect(url)
    try:
        await connection.execute("DROP SCHEMA IF EXISTS bench CASCADE")
        await connection.execute("CREATE SCHEMA bench")
        await connection.execute(
            "CREATE TABLE bench.raw (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "header bytea NOT NULL, body bytea NOT NULL, salt bytea, value bytea)"
        )
        yield _Postgres(connection)
    finally:
        await connection.close()
