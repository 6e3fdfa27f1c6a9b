"""The Postgres store keeps the contract, opened several times as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from remit.store.postgres import PostgresStore
from remit.store.units import Unit
from tests.contract.boundary import SharedBoundary
from tests.contract.lasting import SharedContract
from tests.contract.suite import Make
from tests.contract.transacting import App, TransactContract


class TestPostgresStore(SharedContract, SharedBoundary, TransactContract):
    """One database; each store has connections of its own."""

    @pytest.fixture
    def make(self, postgres_database: str) -> Make:
        return lambda clock: PostgresStore(postgres_database, clock=clock)

    @pytest.fixture
    async def app(self, postgres_database: str) -> AsyncIterator[App]:
        outside = await asyncpg.connect(postgres_database)
        await outside.execute("CREATE TABLE invoice (number int8 PRIMARY KEY)")
        yield PostgresApp(outside)
        await outside.close()


class PostgresApp:
    """Its table is in the database of the store."""

    def __init__(self, outside: asyncpg.Connection) -> None:
        self._outside = outside

    def build(self, unit: Unit, *numbers: int, fails: BaseException | None = None, takes_ms: int = 0) -> Any:
        async def build(connection: asyncpg.Connection) -> Unit:
            for number in numbers:
                await connection.execute("INSERT INTO invoice VALUES ($1)", number)
            await asyncio.sleep(takes_ms / 1_000)
            if fails is not None:
                raise fails
            return unit

        return build

    async def invoices(self) -> list[int]:
        return [row["number"] for row in await self._outside.fetch("SELECT number FROM invoice ORDER BY number")]
