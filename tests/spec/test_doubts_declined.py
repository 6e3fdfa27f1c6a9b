"""Doubts that a no does not end: what was sent again was declined, and what was sent before may still land.

The other side's no is to one request. Another one under the same key may be on its way to it, and be paid when there is
cover again. So the call holds its business key, its ceiling and its yes until nothing of it can land any more.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage, storage_of
from tests.support.clock import MovedClock
from tests.support.office import ROOT
from tests.support.process import process
from tests.support.till import OPEN, Order, Receipt, Till, find_out, paying

LOST = ConnectionError("no answer")
NO = remit.Declined("no funds")
MINUTE = timedelta(minutes=1)
MAY_LAND = "declined this time, but what was sent before may still land"
CAPPED = remit.Contract(
    version="1",
    resume="anyone",
    effects={"pay": remit.Rule(ceiling=remit.Ceiling("amount", max=150, per="day"))},
)


@pytest.fixture(params=["resend", "probe"])
def declared(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A rule by which a call is sent again."""
    return {"doubt": request.param, "sink": "dedupes", "business_key": "invoice"}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def known(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A store that knows who works there, so that a death can be proven."""
    return storage_of(request.param, tmp_path, lambda: request.getfixturevalue("postgres_database"))


def may_land(told: remit.Outcome) -> bool:
    """Whether it waits, and says why."""
    why = "the probe found nothing, but what was sent may still land" if "probe" in told.reason else MAY_LAND
    return told.status == "in_doubt" and "remit.Declined: no funds" in told.reason and why in told.reason


async def test_what_was_sent_again_and_declined_holds_what_it_held_until_the_first_sending_lands(
    storage: Storage, declared: dict[str, Any]
):  # proves: FX-2, FX-8, FX-12, FX-13
    till = Till()
    till.next(LOST, NO)
    pay = till.effect(**declared)
    flow = paying(pay, contract=CAPPED)
    async with storage.open() as rt:
        assert may_land(await rt.run(flow, id="r"))
        assert [(told.state, told.calls) for told in await rt.effects("r")] == [("in_doubt", 2)]
        for run, other, code in (
            ("s", Order(amount=50), "idempotency_conflict"),
            ("t", Order(invoice="i-2"), "ceiling_exceeded"),
        ):
            assert (await rt.run(paying(pay, other, contract=CAPPED), id=run)).code == code
        paid = till.pay(till.keys[0], Order())  # the first request arrives
        till.next(lambda key, order: paid)
        assert (await rt.run(flow, id="r")).value == [100]
    assert till.times == [1] and len(set(till.keys)) == 1


async def test_a_flow_goes_no_other_way_while_a_thread_that_is_over_its_time_may_still_send(
    storage: Storage,
):  # proves: FX-2, FX-13
    let_go, is_out, till = threading.Event(), threading.Event(), Till()

    @remit.effect(
        doubt="resend", sink="dedupes", business_key="invoice", timeout=timedelta(seconds=0.05), lands_within=MINUTE
    )
    def sepa(order: Order, *, key: str) -> Receipt:
        if is_out.is_set():
            raise NO
        is_out.set()
        assert let_go.wait(30)
        return till.pay(key, order)

    swift = till.effect("swift", business_key="invoice")

    @remit.flow(contract=OPEN)
    async def by_rail(run: remit.Run) -> int:
        try:
            return (await run.effect(sepa, Order())).amount
        except remit.EffectFailed:
            return (await run.effect(swift, Order())).amount

    async with storage.open() as rt:
        try:
            assert (await rt.run(by_rail, id="r")).status == "in_doubt"
        finally:
            let_go.set()
    assert till.arrived == []


async def test_a_no_is_final_once_the_time_is_over_in_which_what_was_sent_before_may_land(
    known: Storage, clock: MovedClock, declared: dict[str, Any]
):  # proves: FX-2, FX-8, FX-13
    till = Till()
    till.next(LOST, LOST)
    till.probe_says = LOST
    flow = paying(till.effect(lands_within=MINUTE, **declared))
    with process():
        async with known.open(clock=clock) as rt:
            assert (await rt.run(flow, id="r")).status == "in_doubt"
    till.told, till.probe_says = [NO, NO], None
    async with known.open(clock=clock) as rt:
        outcome = await rt.run(flow, id="r")
        assert may_land(outcome) and "land until 2026-01-05 09:01:00 UTC" in outcome.reason
        clock.move(MINUTE + timedelta(microseconds=1))
        for _ in range(2):
            with pytest.raises(remit.EffectDeclined, match="no funds"):
                await rt.run(flow, id="r")
        assert [told.state for told in await rt.effects("r")] == ["failed"]
        assert (await rt.run(flow, id="other")).value == [100], "its business key is free again"


async def test_a_final_no_gives_back_what_each_sending_took(
    known: Storage, clock: MovedClock
):  # proves: FX-8, FX-12, FX-13
    """They were sent by code with other business keys, and under ceilings of a day and of a month."""
    till = Till()
    till.next(LOST, LOST)

    def flow(business_key: str, order: Order = Order()) -> remit.Flow[Any]:  # noqa: B008
        return paying(
            till.effect(doubt="resend", sink="dedupes", lands_within=MINUTE, business_key=business_key), order
        )

    with process():
        async with known.open(clock=clock) as rt:
            await rt.set_policy({"version": "1", "ceilings": {"pay.amount": {"max": 100, "per": "day"}}}, by=ROOT)
            await rt.run(flow("invoice"), id="r")
    async with known.open(clock=clock) as rt:
        await rt.set_policy({"version": "2", "ceilings": {"pay.amount": {"max": 100, "per": "month"}}}, by=ROOT)
        till.next(NO, NO)
        assert may_land(await rt.run(flow("payee"), id="r"))
        clock.move(2 * MINUTE)
        with pytest.raises(remit.EffectDeclined):
            await rt.run(flow("payee"), id="r")
        checks = {check.name: check.seen for check in await rt.doctor()}
        assert checks["business keys"].startswith("0 held") and checks["ceilings"].startswith("0 counted")
        assert (await rt.run(flow("payee", Order(invoice="i-2")), id="s")).value == [100]
        await rt.set_policy({"version": "3"}, by=ROOT)
        assert (await rt.run(flow("invoice", Order(payee="other")), id="t")).value == [100]


async def test_a_no_that_comes_when_that_time_is_over_is_not_final_where_it_was_asked_for_before(
    known: Storage, clock: MovedClock
):  # proves: FX-2, FX-13
    """What was sent before may have landed between the two, and the other side answered before it did."""
    till = Till()
    till.next(LOST, LOST)
    flow = paying(till.effect(doubt="resend", sink="dedupes", lands_within=MINUTE))

    def take_long(key: str, order: Order) -> None:
        clock.move(2 * MINUTE)
        raise NO

    with process():
        async with known.open(clock=clock) as rt:
            await rt.run(flow, id="r")
    till.next(take_long)
    async with known.open(clock=clock, lease_ms=600_000) as rt:
        assert may_land(await rt.run(flow, id="r"))


async def test_each_sending_that_was_not_answered_is_waited_for_before_a_no_is_final(
    known: Storage, clock: MovedClock
):  # proves: FX-2, FX-13
    """One of them is of this process, which lives, and so may have left it to a thread that nobody hears of."""
    till = Till()
    till.next(LOST, LOST)
    flow = paying(till.effect(doubt="resend", sink="dedupes", lands_within=MINUTE))
    with process():
        async with known.open(clock=clock) as rt:
            await rt.run(flow, id="r")
    async with known.open(clock=clock) as rt:
        for answer in (NO, LOST, NO):
            till.next(answer)
            assert (await rt.run(flow, id="r")).status == "in_doubt"
            clock.move(2 * MINUTE)


async def test_a_no_to_the_second_of_one_turn_says_nothing_of_its_first(
    known: Storage, clock: MovedClock
):  # proves: FX-2, FX-13
    till = Till()
    flow = paying(till.effect(doubt="resend", sink="dedupes", lands_within=MINUTE))
    async with known.open(clock=clock) as rt:
        till.next(LOST, NO)
        for _ in range(3):
            outcome = await rt.run(flow, id="r")
            assert may_land(outcome) and "not before this process has ended" in outcome.reason
            clock.move(2 * MINUTE)
            till.next(NO)


async def test_what_is_called_anew_after_a_word_is_in_doubt_for_itself(
    known: Storage, clock: MovedClock
):  # proves: FX-2, FX-9, FX-13
    """That nothing came of an earlier sending of this turn says nothing of what is sent after the doubt ended."""
    till = Till()
    flow = paying(till.effect(doubt="resend", sink="dedupes", lands_within=MINUTE))
    with process():
        async with known.open(clock=clock) as rt:
            till.next(LOST, LOST)
            await rt.run(flow, id="r")
    async with known.open(clock=clock) as rt:
        till.next(NO)
        assert may_land(await rt.run(flow, id="r"))
        await find_out(rt, "r", "did_not_happen")
        till.next(LOST, NO)
        for _ in range(2):
            outcome = await rt.run(flow, id="r")
            assert may_land(outcome) and "not before this process has ended" in outcome.reason
            clock.move(2 * MINUTE)
            till.next(NO)


async def test_what_is_called_anew_in_the_turn_that_heard_a_no_is_in_doubt_for_itself(
    known: Storage, clock: MovedClock
):  # proves: FX-2, FX-13
    """The probe was final when it was asked once more, so it was called anew, and that call is lost."""
    till = Till()
    till.next(LOST)
    till.probe_says = LOST
    flow = paying(till.effect(doubt="probe", sink="dedupes", lands_within=MINUTE))

    def take_long(key: str, order: Order) -> None:
        clock.move(2 * MINUTE)
        raise NO

    with process():
        async with known.open(clock=clock) as rt:
            await rt.run(flow, id="r")
    till.probe_says = None
    till.next(take_long, LOST)
    async with known.open(clock=clock, lease_ms=600_000) as rt:
        outcome = await rt.run(flow, id="r")
    assert outcome.status == "in_doubt" and "not before this process has ended" in outcome.reason
    assert len(till.arrived) == 3
