"""Fallbacks in a loop: each order goes by a branch of its own, so that a name is that of one order in every turn."""

from __future__ import annotations

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.till import OPEN

ORDERS = ({"invoice": "I-1", "zone": "in"}, {"invoice": "I-2", "zone": "out"})


class Rails:
    """Two ways to pay, both without a connection at first. `sepa` declines what is out of its zone."""

    def __init__(self) -> None:
        self.has_connection, self.paid = False, list[tuple[str, str]]()

        @remit.effect(business_key="invoice")
        async def sepa(order: dict[str, str], *, key: str) -> str:
            if self.has_connection and order["zone"] == "out":
                raise remit.Declined("not in the zone")
            return self.pay("sepa", order)

        @remit.effect(business_key="invoice")
        async def swift(order: dict[str, str], *, key: str) -> str:
            return self.pay("swift", order)

        self.sepa, self.swift = sepa, swift

    def pay(self, rail: str, order: dict[str, str]) -> str:
        if not self.has_connection:
            raise remit.DidNotHappen("no connection")
        self.paid.append((rail, order["invoice"]))
        return rail

    async def by_rail(self, run: remit.Run, order: dict[str, str]) -> str:
        try:
            return await run.effect(self.sepa, order)
        except remit.EffectFailed:
            return await run.effect(self.swift, order)


async def test_in_a_branch_for_each_order_unchanged_code_goes_on_when_the_connection_is_back(
    storage: Storage,
):  # proves: FX-1, RUN-4
    rails = Rails()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[str]:
        return [await rails.by_rail(run.branch(order["invoice"]), order) for order in ORDERS]

    async with storage.open() as rt:
        with pytest.raises(remit.EffectDidNotHappen):
            await rt.run(flow, id="r")
        rails.has_connection = True
        assert (await rt.run(flow, id="r")).value == ["sepa", "swift"]
    assert rails.paid == [("sepa", "I-1"), ("swift", "I-2")]


async def test_without_one_what_did_not_happen_keeps_its_request_and_the_next_order_is_refused(
    storage: Storage,
):  # proves: RUN-4
    rails = Rails()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[str]:
        return [await rails.by_rail(run, order) for order in ORDERS]

    async with storage.open() as rt:
        with pytest.raises(remit.EffectDidNotHappen):
            await rt.run(flow, id="r")
        rails.has_connection = True
        with pytest.raises(remit.DefinitionIncompatible, match="swift with another request") as refused:
            await rt.run(flow, id="r")
        assert rails.paid == [("sepa", "I-1")]
        assert "is known not to have happened" in refused.value.message
        assert "`run.branch`" in refused.value.hint and "Bring the recorded calls back" not in refused.value.hint

        @remit.flow(contract=OPEN, name="flow")
        async def mended(run: remit.Run) -> list[str]:
            """As the refusal says: what is asked for now has a name of its own."""
            done = []
            for order in ORDERS:
                try:
                    done.append(await run.effect(rails.sepa, order))
                except remit.EffectFailed:
                    done.append(await run.branch(order["invoice"]).effect(rails.swift, order))
            return done

        assert (await rt.run(mended, id="r")).value == ["sepa", "swift"]
    assert rails.paid == [("sepa", "I-1"), ("swift", "I-2")]
