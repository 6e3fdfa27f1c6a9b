"""The SQLite store keeps the contract, opened several times as well."""

from __future__ import annotations

import time
from pathlib import Path

import apsw
import pytest

from remit.store.sqlite import SqliteStore
from remit.store.sqlite.guest import Build
from remit.store.units import Unit
from tests.contract.boundary import SharedBoundary
from tests.contract.lasting import SharedContract
from tests.contract.suite import Make
from tests.contract.transacting import App, TransactContract


class TestSqliteStore(SharedContract, SharedBoundary, TransactContract):
    """One file; each store has connections of its own."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return lambda clock: SqliteStore(tmp_path / "runs.db", clock=clock)

    @pytest.fixture
    def app(self, tmp_path: Path, store: SqliteStore) -> App:
        return SqliteApp(tmp_path / "runs.db")


class SqliteApp:
    """Its table is in the file of the store."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._ask("CREATE TABLE invoice (number INTEGER PRIMARY KEY)")

    def build(self, unit: Unit, *numbers: int, fails: BaseException | None = None, takes_ms: int = 0) -> Build:
        def build(connection: apsw.Connection) -> Unit:
            for number in numbers:
                connection.execute("INSERT INTO invoice VALUES (?)", (number,))
            time.sleep(takes_ms / 1_000)
            if fails is not None:
                raise fails
            return unit

        return build

    async def invoices(self) -> list[int]:
        return [number for (number,) in self._ask("SELECT number FROM invoice ORDER BY number")]

    def _ask(self, sql: str) -> list[tuple[int]]:
        connection = apsw.Connection(self._path)
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()
