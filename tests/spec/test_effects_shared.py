"""What runs share at the boundary: a business key is one effect's, a ceiling is never exceeded, nothing stays taken."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.till import Order, Till, find_out, kinds_of, paying

LOST = ConnectionError("no answer")
BY_INVOICE = {"business_key": "invoice"}
Per = Literal["effect", "run", "day", "month"]


def capped(per: Per, maximum: int = 250) -> remit.Contract:
    ceiling = remit.Ceiling("amount", max=maximum, currency="GBP", per=per)
    window = timedelta(days=90)
    return remit.Contract(version="1", resume="anyone", window=window, effects={"pay": remit.Rule(ceiling=ceiling)})


async def used(rt: remit.Runtime, *runs: str) -> int:
    """Minor units held under the ceilings that these runs met, that others share."""
    views = [(await rt.show(run)).view for run in runs]
    scopes = {taken.scope for v in views for e in v.boundary.effects.values() for taken in e.reserved}
    return sum([await rt._store.read_used("default", scope) for scope in scopes])


# -- business keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [100, 200], ids=["same-payload", "other-payload"])
async def test_the_business_of_one_run_is_not_done_by_another(storage: Storage, amount: int):  # proves: FX-8
    till = Till()
    pay = till.effect(**BY_INVOICE)
    async with storage.open() as rt:
        assert (await rt.run(paying(pay), id="r")).value == [100]
        for _ in range(2):
            outcome = await rt.run(paying(pay, Order(amount=amount)), id="s")
            assert (outcome.status, outcome.code) == ("failed", "idempotency_conflict")
            assert "r pay" in outcome.reason
        assert "EffectIntended" not in await kinds_of(rt, "s")
        assert (await rt.run(paying(pay, Order(invoice="i-2")), id="t")).value == [100]
    assert till.calls == {"i-1": 1, "i-2": 1}


async def test_one_run_does_not_do_the_same_business_twice_either(storage: Storage):  # proves: FX-8
    till = Till()
    pay = till.effect(**BY_INVOICE)
    async with storage.open() as rt:
        outcome = await rt.run(paying(pay, Order(), Order()), id="r")
        assert (outcome.code, "Done before: pay." in outcome.reason) == ("idempotency_conflict", True)
    assert till.calls == {"i-1": 1}


@dataclass
class Releases:
    """A run that pays and enters it, under two releases: the second declares the business key, and a retry."""

    till: Till
    storage: Storage
    first: dict[str, Any]
    broken: list[bool] = field(default_factory=lambda: [True, True])

    def flow(self, orders: list[Order], **declared: Any) -> remit.Flow[Any]:
        pay = self.till.effect(**declared)

        @remit.step
        async def enter(number: int) -> None:
            if self.broken:
                self.broken.pop()
                raise OSError("the books are busy")

        @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="settle")
        async def settle(run: remit.Run) -> None:
            for order in orders:
                with suppress(remit.EffectFailed):
                    await run.effect(pay, order)
                with suppress(remit.StepError) if declared == BY_INVOICE else nullcontext():
                    await run.step(enter, len(orders))

        return settle

    async def run(self, *orders: Order, id: str = "r") -> remit.Outcome:
        """The first release pays the first order, and waits; what became of it under the second."""
        async with self.storage.open() as rt:
            with pytest.raises(remit.StepError):
                await rt.run(self.flow([Order()], **self.first), id=id)
            return await rt.run(self.flow([Order(), *orders], **BY_INVOICE), id=id)


FIRST = pytest.mark.parametrize("first", [{}, {"business_key": "payee"}], ids=["no key", "another key"])


@FIRST
async def test_what_was_done_before_its_business_key_was_declared_is_not_done_again(
    storage: Storage, first: dict[str, Any]
):  # proves: FX-8
    till = Till()
    outcome = await Releases(till, storage, first).run(Order(amount=7))
    assert (outcome.status, outcome.code) == ("failed", "idempotency_conflict")
    assert "its business key is that of r pay" in outcome.reason
    assert till.calls == {"i-1": 1}


@FIRST
async def test_other_business_than_what_was_done_before_its_key_was_declared_is_done(
    storage: Storage, first: dict[str, Any]
):  # proves: FX-8
    till = Till()
    assert (await Releases(till, storage, first).run(Order(invoice="i-2"))).status == "completed"
    assert till.calls == {"i-1": 1, "i-2": 1}


@pytest.mark.parametrize("error", [remit.Declined("no funds"), remit.DidNotHappen("the line was down")])
async def test_what_did_not_happen_before_its_business_key_was_declared_is_free(
    storage: Storage, error: Exception
):  # proves: FX-8
    till = Till()
    till.next(error)
    assert (await Releases(till, storage, {}).run(Order())).status == "completed"
    assert till.times == [1]


async def test_an_effect_of_one_name_with_and_without_the_key_does_a_business_once(
    storage: Storage,
):  # proves: FX-8
    """Each in a branch of its own; what one did without the key is looked at also where it came in this very turn."""
    till = Till()
    bare, keyed = till.effect(), till.effect(**BY_INVOICE)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="settle")
    async def settle(run: remit.Run) -> str:
        for invoice in ("i-2", "i-3"):
            await run.branch("a").effect(keyed, Order(invoice=invoice))
        await run.branch("b").effect(bare, Order())
        try:
            await run.branch("c").effect(keyed, Order())
        except remit.Conflict as refused:
            return refused.message
        return "paid"

    async with storage.open() as rt:
        assert "r b/pay" in (await rt.run(settle, id="r")).value
    assert till.calls == {"i-1": 1, "i-2": 1, "i-3": 1}


async def test_a_flow_may_catch_a_conflict_and_is_told_the_same_on_replay(storage: Storage):  # proves: FX-8, FX-11
    till, is_broken = Till(), True
    pay = till.effect(**BY_INVOICE)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="careful")
    async def careful(run: remit.Run) -> str:
        try:
            await run.effect(pay, Order())
        except remit.Conflict as exc:
            caught = exc.code
        if is_broken:
            raise ValueError("later")
        return caught

    async with storage.open() as rt:
        await rt.run(paying(pay), id="r")
        with pytest.raises(remit.StepError, match="later"):
            await rt.run(careful, id="s")
        is_broken = False
        assert (await rt.run(careful, id="s")).value == "idempotency.conflict"
        assert (await kinds_of(rt, "s")).count("EffectRefused") == 1
    assert till.calls == {"i-1": 1}


async def test_a_recorded_conflict_is_one_about_its_business_and_no_other(storage: Storage):  # proves: FX-8, FX-11
    """Code that was mended to do business that nobody holds is other code, and is not told another's conflict."""
    till, invoice, broken = Till(), ["i-1"], [True]
    pay = till.effect(**BY_INVOICE)

    @remit.step
    async def later() -> None:
        if broken:
            raise OSError("closed")

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="careful")
    async def careful(run: remit.Run, amount: int) -> str:
        try:
            await run.effect(pay, Order(invoice=invoice[0], amount=amount + len(till.arrived)))
        except remit.Conflict as exc:
            await run.step(later)
            return exc.code
        return "paid"

    async with storage.open() as rt:
        await rt.run(paying(pay), id="r")
        with pytest.raises(remit.StepError):
            await rt.run(careful, 5, id="s")
        invoice[:] = ["i-2"]
        with pytest.raises(remit.DefinitionIncompatible, match="pay with another business key"):
            await rt.run(careful, 5, id="s")
        invoice[:] = ["i-1"]
        till.arrived.append(till.arrived[0])  # another amount of the same business is refused by the same run
        broken.clear()
        assert (await rt.run(careful, 5, id="s")).value == "idempotency.conflict"


@pytest.mark.parametrize("said", ["approve", "deny", ""], ids=["approved", "denied", "open"])
async def test_a_conflict_voids_the_question_whatever_was_said_to_it(
    said: Any, storage: Storage
):  # proves: FX-8, APR-1
    """Its call is over: no answer to the question can be heard any more, and no list has it."""
    till, payee = Till(), ["acme"]
    pay = till.effect(**BY_INVOICE)
    asks = remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=8)))

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": asks}), name="careful")
    async def careful(run: remit.Run) -> None:
        try:
            await run.effect(pay, Order(payee=payee[0]))
        except remit.Conflict:
            await run.approve("what now", 1, roles={"lead"}, within=timedelta(hours=8))

    async with storage.open() as rt:
        await rt.grant("user:lee", "lead", by="user:root")
        await rt.run(careful, id="s")
        (ask,) = await rt.inbox()
        if said:
            await rt.decide(ask.id, said, by="user:lee", seen=ask.version)
        await rt.run(paying(pay), id="r")
        payee[0] = "another" if said == "deny" else payee[0]  # to which nobody said no
        assert (await rt.run(careful, id="s")).waits_for == "approval"
        assert (await rt.ask(ask.id)).state == "void"
        assert [each.call for each in await rt.inbox()] == ["what now"]
        assert [each.call for each in await rt.voided_by({"version": "9"})] == ["what now"]
        assert await rt.verify("s") is None
    assert till.calls == {"i-1": 1}


async def test_of_two_runs_that_do_one_business_at_once_one_does_it(storage: Storage):  # proves: FX-8
    till = Till()
    flow = paying(till.effect(**BY_INVOICE))
    async with storage.open() as rt:
        outcomes = await asyncio.gather(*(rt.run(flow, id=f"r-{i}") for i in range(4)))
    assert sorted(outcome.code for outcome in outcomes) == ["", *["idempotency_conflict"] * 3]
    assert till.calls == {"i-1": 1}


async def test_a_business_in_doubt_is_held_until_that_is_known(storage: Storage):  # proves: FX-8, FX-12
    till = Till()
    till.next(LOST)
    flow = paying(till.effect(**BY_INVOICE))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert (await rt.run(flow, id="s")).code == "idempotency_conflict"
        await find_out(rt, "r", "did_not_happen")
        assert (await rt.run(flow, id="t")).code == "idempotency_conflict"  # the word is not taken up yet
        assert (await rt.run(flow, id="r")).value == [100]
        assert (await rt.run(flow, id="u")).code == "idempotency_conflict"
    assert till.times == [1]


@pytest.mark.parametrize("error", [remit.DidNotHappen("no"), remit.Declined("no")], ids=["not-happened", "declined"])
async def test_a_business_that_was_not_done_is_free_again(storage: Storage, error: Exception):  # proves: FX-8, FX-12
    till = Till()
    till.next(error)
    flow = paying(till.effect(**BY_INVOICE))
    async with storage.open() as rt:
        with pytest.raises(remit.EffectFailed):
            await rt.run(flow, id="r")
        assert (await rt.run(flow, id="s")).value == [100]
        if isinstance(error, remit.DidNotHappen):
            assert (await rt.run(flow, id="r")).code == "idempotency_conflict"
    assert till.calls == {"i-1": 2} and till.times == [1]


@pytest.mark.parametrize("path", ["nothing", "payee.name", "invoice"], ids=str)
async def test_a_request_that_states_no_business_is_not_called(storage: Storage, path: str):  # proves: FX-8
    till, codes = Till(), []
    pay = till.effect(business_key=path)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> None:
        with pytest.raises(remit.CallRefused) as refused:
            await run.effect(pay, Order(invoice=""))
        codes.append(refused.value.code)

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "completed"
    assert (codes, till.arrived) == (["effect.business_key"], [])


# -- ceilings -----------------------------------------------------------------------------------------------------


async def test_an_effect_over_its_own_ceiling_is_not_called(storage: Storage):  # proves: GATE-2, FX-12
    till = Till()
    flow = paying(till.effect(), Order(amount=250), Order(amount=251), contract=capped("effect"))
    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.code) == ("failed", "ceiling_exceeded")
        assert "Done before: pay." in outcome.reason
    assert [order.amount for _, order in till.arrived] == [250]


@pytest.mark.parametrize("amount", [-1, "100", 1.5, None, True], ids=repr)
async def test_an_amount_that_is_none_is_under_no_ceiling(storage: Storage, amount: Any):  # proves: GATE-2
    calls: list[Any] = []

    async def pay(order: dict[str, Any], *, key: str) -> None:
        calls.append(order)

    effect = remit.effect(pay)

    @remit.flow(contract=capped("effect"))
    async def flow(run: remit.Run) -> None:
        await run.effect(effect, {"amount": amount})

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).code == "ceiling_exceeded"
    assert calls == []


async def test_the_effects_of_a_run_share_its_ceiling_and_other_runs_have_their_own(storage: Storage):  # proves: FX-12
    till = Till()
    flow = paying(till.effect(), *[Order()] * 3, contract=capped("run"))
    async with storage.open() as rt:
        for run in ("r", "s"):
            assert (await rt.run(flow, id=run)).code == "ceiling_exceeded"
    assert len(till.arrived) == 4


@pytest.mark.parametrize("per", ["run", "day"])
async def test_what_was_declined_counts_under_no_ceiling(storage: Storage, per: Per):  # proves: FX-12
    till = Till()
    till.next(remit.Declined("no"))
    pay = till.effect()

    @remit.flow(contract=capped(per))
    async def flow(run: remit.Run) -> int:
        with pytest.raises(remit.EffectFailed):
            await run.effect(pay, Order(amount=200))
        return (await run.effect(pay, Order(amount=250))).amount

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == 250
        assert await used(rt, "r") == (250 if per == "day" else 0)


async def test_runs_share_the_ceiling_of_a_day_and_the_next_day_has_its_own(
    storage: Storage, clock: MovedClock
):  # proves: FX-12, GATE-2
    till = Till()
    flow = paying(till.effect(), contract=capped("day"))
    async with storage.open(clock=clock) as rt:
        codes = [(await rt.run(flow, id=f"r-{i}")).code for i in range(3)]
        clock.move(timedelta(days=1))
        codes.append((await rt.run(flow, id="tomorrow")).code)
    assert codes == ["", "", "ceiling_exceeded", ""]
    assert till.calls == {"i-1": 3}


async def test_the_ceiling_of_a_month_lasts_to_its_end(storage: Storage, clock: MovedClock):  # proves: FX-12
    flow = paying(Till().effect(), contract=capped("month", 100))
    async with storage.open(clock=clock) as rt:
        codes = [(await rt.run(flow, id="january")).code]
        clock.move(timedelta(days=26))
        codes.append((await rt.run(flow, id="31 january")).code)
        clock.move(timedelta(days=1))
        codes.append((await rt.run(flow, id="1 february")).code)
    assert codes == ["", "ceiling_exceeded", ""]


async def test_runs_that_reach_for_the_rest_of_a_ceiling_at_once_never_take_more(storage: Storage):  # proves: FX-12
    till = Till()
    flow = paying(till.effect(), contract=capped("day"))
    async with storage.open() as rt:
        outcomes = await asyncio.gather(*(rt.run(flow, id=f"r-{i}") for i in range(8)))
        assert await used(rt, *(f"r-{i}" for i in range(8))) == 200
    assert sorted(outcome.code for outcome in outcomes) == ["", "", *["ceiling_exceeded"] * 6]
    assert len(till.arrived) == 2


async def test_a_doubt_holds_its_part_of_a_ceiling_and_gives_it_back_with_a_word(storage: Storage):  # proves: FX-12
    till = Till()
    till.next(LOST)
    flow = paying(till.effect(), Order(amount=200), contract=capped("day"))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert (await rt.run(flow, id="s")).code == "ceiling_exceeded"
        await find_out(rt, "r", "did_not_happen")
        till.next(remit.DidNotHappen("no connection"))
        with pytest.raises(remit.EffectFailed):
            await rt.run(flow, id="r")
        assert await used(rt, "r") == 0
        assert (await rt.run(flow, id="t")).value == [200]
    assert till.times == [1]


async def test_a_call_that_is_sent_again_is_counted_once(storage: Storage):  # proves: FX-12
    till = Till()
    till.next(LOST, LOST)
    flow = paying(till.effect(doubt="resend", sink="dedupes"), Order(amount=200), contract=capped("day"))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert (await rt.run(flow, id="r")).value == [200]
        assert await used(rt, "r") == 200
    assert len(till.arrived) == 3


@pytest.mark.parametrize("error", [None, remit.Declined("no")], ids=["paid", "declined"])
async def test_a_call_that_is_sent_again_another_day_is_held_on_each_day_on_which_it_may_have_landed(
    storage: Storage, clock: MovedClock, error: Exception | None
):  # proves: FX-12
    """Nobody knows which of its sendings paid: no day is told to have room that it may not have."""
    till = Till()
    till.next(LOST, LOST)
    flow = paying(till.effect(doubt="resend", sink="dedupes"), contract=capped("day"))
    async with storage.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        clock.move(timedelta(days=1))
        if error is None:
            assert (await rt.run(flow, id="r")).value == [100]
        else:
            till.next(error)
            assert (await rt.run(flow, id="r")).status == "in_doubt"  # what was sent before may still land
        scopes = [f"pay.amount/GBP/day/2026-01-0{day}" for day in (5, 6)]
        held = [await rt._store.read_used("default", scope) for scope in scopes]
        assert all(check.ok for check in await rt.doctor() if check.name == "ceilings")
    assert held == [100, 100]
