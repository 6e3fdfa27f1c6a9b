"""What a transaction's function leaves on its connection on Postgres: not met by the next one, nor by our own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from remit.errors import Refused
from remit.store.postgres import PostgresStore
from remit.store.units import Unit
from tests.spec.test_postgres_store import outside
from tests.spec.test_postgres_transact import LIMIT_MS, insert, invoices, proxy, store
from tests.support.journal import Hand, open_held

__all__ = ["outside", "proxy", "store"]  # fixtures


async def held(store: PostgresStore) -> Hand:
    row = await store.read_row("default", "po-1")
    return await open_held(store, "po-1") if row is None else Hand(store, row)


async def transact(store: PostgresStore, act: Callable[[asyncpg.Connection], Awaitable[Any]]) -> Any:
    """What it gave."""
    unit = (await held(store)).step()
    given: list[Any] = []

    async def build(connection: asyncpg.Connection) -> Unit:
        given.append(await act(connection))
        return unit

    await store.transact(build, limit_ms=LIMIT_MS)
    return given[0]


def refuse(*_: Any) -> Any:
    raise ValueError("it was met")


async def look(connection: asyncpg.Connection) -> Any:
    """What a session says of itself, and how values come."""
    return (
        await connection.fetchval("SELECT pg_backend_pid()"),
        await connection.fetchrow(
            "SELECT 1.10::numeric, '\\x00ff'::bytea, 'a'::text, '[1]'::jsonb, 7::int8, 'n'::name"
        ),
        await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE from_sql"),
        await connection.fetchval("SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()"),
        await connection.fetchval("SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()"),
        await connection.fetchval("SELECT current_setting('work_mem')"),
    )


@pytest.mark.parametrize("name", ["numeric", "bytea", "text", "jsonb", "int8", "name", "oid", "bool", "xid8"])
async def test_a_codec_that_it_sets_is_met_by_nobody_else(store, outside, name):  # proves: FX-6
    async def set_codec(connection: asyncpg.Connection) -> None:
        await insert(connection)
        for _ in range(2):
            await connection.reset_type_codec("money", schema="pg_catalog")
            await connection.set_type_codec(name, encoder=refuse, decoder=refuse, schema="pg_catalog", format="text")

    before = await transact(store, look)
    await transact(store, set_codec)
    assert await transact(store, look) == before  # in the same session
    assert await invoices(outside) == [1]


async def test_what_it_leaves_in_the_session_is_met_by_nobody_else(store, outside):  # proves: FX-6
    told: list[Any] = []

    async def leave(connection: asyncpg.Connection) -> None:
        await connection.execute("CREATE TEMP TABLE invoice (number int8); INSERT INTO invoice VALUES (7)")
        await connection.execute("CREATE FUNCTION pg_temp.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        await connection.execute("CREATE SEQUENCE public.numbered")
        await connection.execute("SELECT nextval('public.numbered'); PREPARE mine AS SELECT 1; SET work_mem = '7MB'")
        await connection.add_listener("news", lambda *given: told.append(given))
        connection.add_query_logger(told.append)
        connection.add_log_listener(lambda *given: told.append(given))
        connection.add_termination_listener(lambda *given: told.append(given))
        told.clear()

    async def count(connection: asyncpg.Connection) -> Any:
        await connection.execute("NOTIFY news")
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
            async with connection.transaction():
                await connection.fetchval("SELECT currval('public.numbered')")
        await insert(connection)

    before = await transact(store, look)
    await transact(store, leave)
    assert await transact(store, look) == before
    await transact(store, count)
    await store.close()
    await asyncio.sleep(0)
    assert await invoices(outside) == [1]
    assert told == []


@pytest.mark.parametrize("way", ["close", "terminate"])
@pytest.mark.parametrize("goes_on", [False, True])
async def test_one_that_closes_its_connection_is_told_so(store, outside, way, goes_on):  # proves: FX-6
    async def act(connection: asyncpg.Connection) -> None:
        await insert(connection)
        if way == "close":
            await connection.close()
        else:
            connection.terminate()
        if goes_on:
            await insert(connection, 2)

    with pytest.raises(Refused) as refused:
        await transact(store, act)
    assert refused.value.code == "transact.ended"
    assert await invoices(outside) == []
    await transact(store, insert)
    assert await invoices(outside) == [1]


async def test_its_own_error_comes_out_where_it_closes_its_connection_after_it(store, outside):  # proves: FX-6
    async def act(connection: asyncpg.Connection) -> None:
        try:
            await insert(connection)
            await insert(connection)
        finally:
            await connection.close()

    with pytest.raises(asyncpg.UniqueViolationError):
        await transact(store, act)
    assert await invoices(outside) == []


@pytest.mark.parametrize("sql", ["ROLLBACK; BEGIN", "SET TRANSACTION READ ONLY"])
async def test_what_it_writes_where_it_may_only_read_is_told_as_its_end(store, outside, sql):  # proves: FX-6
    async def act(connection: asyncpg.Connection) -> None:
        await connection.execute(sql)
        await insert(connection)

    with pytest.raises(Refused) as refused:
        await transact(store, act)
    assert refused.value.code == "transact.ended"
    assert await invoices(outside) == []
