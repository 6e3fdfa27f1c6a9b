"""The Postgres store keeps the contract, opened several times as well."""

from __future__ import annotations

import pytest

from remit.store.postgres import PostgresStore
from tests.contract.boundary import SharedBoundary
from tests.contract.lasting import SharedContract
from tests.contract.suite import Make


class TestPostgresStore(SharedContract, SharedBoundary):
    """One database; each store has connections of its own."""

    @pytest.fixture
    def make(self, postgres_database: str) -> Make:
        return lambda clock: PostgresStore(postgres_database, clock=clock)
