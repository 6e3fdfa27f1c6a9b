"""The two-method store keeps the contract within one opening; its own tests say what it can't promise."""

from __future__ import annotations

import pytest

from remit.errors import StoreRefused
from remit.store.two_method import TwoMethodStore
from tests.contract.boundary import BoundaryContract
from tests.contract.suite import Make, StoreContract
from tests.contract.transacting import RefusedTransact
from tests.support.journal import open_run
from tests.support.keepers import Async, Plain


class TestTwoMethodStore(StoreContract, BoundaryContract, RefusedTransact):
    """One object with plain methods, one with async ones."""

    @pytest.fixture(params=[Plain, Async])
    def make(self, request: pytest.FixtureRequest) -> Make:
        keeper = request.param()
        return lambda clock: TwoMethodStore(keeper, clock=clock)

    async def test_tenants_see_their_own_runs(self, store):
        # `load` is given a run id and nothing else, so an id belongs to the tenant that had it first.
        await open_run(store, "po-1", tenant="a")
        for act in (lambda: open_run(store, "po-1", tenant="b"), lambda: store.read_row("b", "po-1")):
            with pytest.raises(StoreRefused) as refused:
                await act()
            assert refused.value.code == "store.broken"
