"""The memory store keeps the contract, as long as its object lives."""

from __future__ import annotations

import pytest

from remit.clock import Clock
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from tests.contract.boundary import LastingBoundary
from tests.contract.lasting import LastingContract
from tests.contract.suite import Make
from tests.contract.transacting import RefusedTransact


class TestMemoryStore(LastingContract, LastingBoundary, RefusedTransact):
    """Opened again, the same object has the same ledger."""

    @pytest.fixture
    def make(self) -> Make:
        kept: list[MemoryStore] = []

        def make(clock: Clock | None) -> Store:
            if not kept:
                kept.append(MemoryStore(clock=clock))
            return kept[0]

        return make
