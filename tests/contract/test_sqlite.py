"""The SQLite store keeps the contract, opened several times as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.store.sqlite import SqliteStore
from tests.contract.boundary import SharedBoundary
from tests.contract.lasting import SharedContract
from tests.contract.suite import Make


class TestSqliteStore(SharedContract, SharedBoundary):
    """One file; each store has connections of its own."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return lambda clock: SqliteStore(tmp_path / "runs.db", clock=clock)
