"""A yes that was given back, because what it was to did not happen: it waits for its call, and nothing waits for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.office import BUYER, DORA, ROOT, answer, staffed
from tests.support.till import Order, Till, find_out

BY_DIRECTOR = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=8)))


class Rails:
    """Two ways to pay. The second needs a yes; what is down does nothing."""

    def __init__(self) -> None:
        self.down = {"first", "second"}
        self.did: Counter[str] = Counter()

        @remit.step(name="first")
        async def step() -> None:
            self.do("first")

        @remit.effect(name="first", business_key="invoice")
        async def first(order: Order, *, key: str) -> None:
            self.do("first")

        @remit.effect(name="second", business_key="invoice")
        async def second(order: Order, *, key: str) -> None:
            self.do("second")

        @remit.transaction(name="second")
        def book(connection: apsw.Connection, order: Order) -> None:
            self.do("second")

        self.ways: dict[str, Callable[[remit.Run], Any]] = {
            "a step": lambda run: run.step(step),
            "an effect": lambda run: run.effect(first, Order()),
            "another effect": lambda run: run.effect(second, Order()),
            "a transaction": lambda run: run.transact(book, Order()),
        }

    def do(self, what: str) -> None:
        if what in self.down:
            raise remit.DidNotHappen(f"{what} is down")
        self.did[what] += 1

    def flow(self, first: str, second: str) -> remit.Flow[Any]:
        contract = remit.Contract(version="1", resume="anyone", effects={"first": remit.Rule(), "second": BY_DIRECTOR})

        @remit.flow(contract=contract, name="f")
        async def paying(run: remit.Run) -> None:
            try:
                await self.ways[first](run)
            except remit.StepError:
                await self.ways[second](run)

        return paying


@pytest.mark.parametrize("up", ["first", "second"])
@pytest.mark.parametrize("second", ["another effect", "a transaction"])
@pytest.mark.parametrize("first", ["a step", "an effect"])
async def test_both_ways_are_gone_again_where_the_second_had_its_yes_and_did_not_happen_either(
    first: str, second: str, up: str, tmp_path: Path
):  # proves: RUN-6, APR-1, FX-12
    rails = Rails()
    flow = rails.flow(first, second)
    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await staffed(rt)
        assert (await rt.run(flow, id="r", by=BUYER)).waits_for == "approval"
        await answer(rt)
        for _ in range(2):
            with pytest.raises(remit.EffectDidNotHappen, match="second is down"):
                await rt.run(flow, id="r", by=BUYER)
        rails.down.discard(up)
        assert (await rt.check("r", flow)).fit == "compatible"
        assert (await rt.run(flow, id="r", by=BUYER)).status == "completed"
    assert rails.did == {up: 1}, "its yes stood for the second one, and nobody was asked anew"


async def test_a_no_to_what_was_asked_anew_holds_against_code_that_does_not_ask(
    storage: Storage,
):  # proves: RUN-4, APR-1, GATE-1
    rails = Rails()
    flow = rails.flow("an effect", "another effect")
    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(flow, id="r", by=BUYER)
        await answer(rt)
        with pytest.raises(remit.EffectDidNotHappen):
            await rt.run(flow, id="r", by=BUYER)
        await rt.set_policy({"version": "2"}, by=ROOT)  # which voids that yes
        assert (await rt.run(flow, id="r", by=BUYER)).waits_for == "approval"
        await answer(rt, "deny")
        rails.down = set()
        for _ in range(2):
            with pytest.raises(remit.DefinitionIncompatible) as refused:
                await rt.run(rails.flow("an effect", "an effect"), id="r", by=BUYER)
            assert refused.value.recorded == ("second",)
    assert not rails.did


async def test_a_doubt_that_ended_so_is_still_to_be_come_to(storage: Storage):  # proves: RUN-4, FX-9
    """Its flow was not told, so code that does not come to it would pay elsewhere for no reason that anybody knows."""
    till = Till()
    till.next(ConnectionError("no answer"))
    pay, elsewhere = till.effect("second"), till.effect("first")
    contract = remit.Contract(version="1", resume="anyone", effects={"second": BY_DIRECTOR, "first": remit.Rule()})

    def releasing(effect: remit.Effect[Any]) -> remit.Flow[Any]:
        @remit.flow(contract=contract, name="f")
        async def paying(run: remit.Run) -> None:
            await run.effect(effect, Order())

        return paying

    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(releasing(pay), id="r", by=BUYER)
        await answer(rt)
        assert (await rt.run(releasing(pay), id="r", by=BUYER)).status == "in_doubt"
        await find_out(rt, "r", "did_not_happen", call="second", by=DORA)
        for _ in range(3):
            with pytest.raises(remit.DefinitionIncompatible) as refused:
                await rt.run(releasing(elsewhere), id="r", by=BUYER)
            assert refused.value.recorded == ("second",)
        assert (await rt.run(releasing(pay), id="r", by=BUYER)).status == "completed"
    assert [len(receipts) for receipts in till.paid.values()] == [1]
