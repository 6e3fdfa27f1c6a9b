"""Evidence under an approval: a yes rests on facts as they were shown, and only while they may be relied on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.office import (
    BUYER,
    BY_DIRECTOR,
    DANA,
    ORDER,
    ROOT,
    RUN,
    Office,
    answer,
    asked,
    judged,
    kinds_of,
    staffed,
    voided,
)

HOUR = timedelta(hours=1)
FRESH = timedelta(hours=48)


class Market:
    """What a quote costs outside, and how often it was asked."""

    def __init__(self) -> None:
        self.price: Any = 82_000
        self.times = 0
        self.raises: Exception | None = None

    def quote(self) -> Any:
        self.times += 1
        if self.raises is not None:
            raise self.raises
        return {"price": self.price}


def office_with(
    market: Market,
    clock: MovedClock,
    *,
    again: Callable[[], Any] | None = None,
    rule: remit.Rule | None = None,
    fresh_for: timedelta = FRESH,
) -> Office:
    """Pays what rests on a quote of now. again: how the quote is taken again; None for never."""
    office = Office(rule or remit.Rule(approval=BY_DIRECTOR, evidence={"quote"}))
    issued = datetime.fromtimestamp(clock.now() / 1e6, tz=UTC)

    def state(run: remit.Run) -> None:
        run.evidence("quote", {"price": 82_000}, as_of=issued, fresh_for=fresh_for, again=again)

    office.before = state
    return office


async def finding(rt: remit.Runtime) -> tuple[bool, str, str]:
    """What the check of the evidence found last."""
    found = (await judged(rt)).verdict.findings[3]
    return found.ok, found.code, found.detail


async def test_the_approver_is_shown_what_it_rests_on_and_until_when(storage, clock: MovedClock):  # proves: APR-1
    office = office_with(Market(), clock)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        (shown,) = (await asked(rt)).evidence
        assert (shown.name, shown.value) == ("quote", {"price": 82_000})
        assert (shown.as_of, shown.until) == (clock.now(), clock.now() + FRESH // timedelta(microseconds=1))
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [ORDER]


async def test_taken_again_with_the_same_result_the_yes_stands(
    storage: Storage, clock: MovedClock
):  # proves: APR-1, GATE-2
    market = Market()
    office = office_with(market, clock, again=market.quote)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        assert market.times == 0  # within the attempt that stated it, and in its time
        await answer(rt)
        clock.move(timedelta(hours=60))
        assert (await office.go(rt)).status == "completed"
        assert market.times == 1
        assert "EvidenceTaken" in (await kinds_of(rt))[5:]
    assert office.sent == [ORDER]


async def test_taken_again_with_another_result_the_yes_is_void_and_the_difference_shown(storage, clock: MovedClock):
    # proves: APR-1, APR-5, GATE-2
    market = Market()
    office = office_with(market, clock, again=market.quote)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        market.price = 91_000
        outcome = await office.go(rt)
        assert (outcome.status, office.sent) == ("waiting", [])
        assert (await voided(rt))[0] == ["approval.evidence", "approval.shown"]
        assert await finding(rt) == (False, "evidence.changed", "quote")
        ask = await asked(rt)
        assert ask.void == ("approval.evidence", "approval.shown")
        assert [(e.name, e.value) for e in ask.evidence] == [("quote", {"price": 91_000})]
        # Somebody who says yes to what it is now lets it happen, while it is still so.
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
        told = (await rt.show(RUN)).view.boundary.effects["pay"].judged.verdict.findings[3]
        assert (told.ok, told.code, told.detail) == (True, "evidence.approved", "quote")
    assert office.sent == [ORDER]


async def test_it_moves_again_while_they_think_and_is_asked_again(storage: Storage, clock: MovedClock):  # proves: APR-1
    market = Market()
    office = office_with(market, clock, again=market.quote)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        for price in (91_000, 92_000, 93_000):
            await answer(rt)
            market.price = price
            await office.go(rt)
            assert (await asked(rt)).evidence[0].value == {"price": price}
        assert [codes[0] for codes in await voided(rt) if codes] == ["approval.evidence"] * 3
    assert office.sent == []


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "never answered"])
async def test_what_moved_is_told_from_what_somebody_answered_and_so_had_looked_at(
    storage: Storage, clock: MovedClock, is_answered: bool
):  # proves: APR-5
    """Nobody need have looked at the question in between, which nobody answered."""
    market = Market()
    office = office_with(market, clock, again=market.quote)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        first = await asked(rt)
        if is_answered:
            await answer(rt)
        market.price = 91_000
        await office.go(rt)
        between = await asked(rt)
        market.price = 92_000
        await office.go(rt)
        last = await asked(rt)
    (evidence,) = last.evidence
    was, earlier = ("82000", first) if is_answered else ("91000", between)
    assert [(change.old, change.new) for change in evidence.changes] == [(was, "92000")]
    assert evidence.since == "asked"
    answered = remit.Earlier(earlier.id, "user:dora", "approve", "pay", "void", "as discussed")
    assert last.earlier == (answered if is_answered else remit.Earlier(earlier.id, "", "", "pay", "", ""))


async def test_past_its_time_a_yes_does_not_help(storage: Storage, clock: MovedClock):  # proves: APR-1, GATE-2
    office = office_with(Market(), clock)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        clock.move(FRESH)
        assert (await rt.judge(RUN, office.flow)).verdict.decision == "resume"  # to the last moment
        clock.move(timedelta(microseconds=1))
        outcome = await office.go(rt)
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "evidence", "evidence_expired")
        assert await finding(rt) == (False, "evidence.expired", "quote")
    assert office.sent == []


async def test_what_cannot_be_read_again_is_a_no(storage: Storage, clock: MovedClock):  # proves: GATE-2, GATE-5
    market = Market()
    office = office_with(market, clock, again=market.quote)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        market.raises = OSError("no route to host")
        outcome = await office.go(rt)
        assert (outcome.waits_for, outcome.code) == ("evidence", "evidence_unreadable")
        assert await finding(rt) == (False, "evidence.unreadable", "quote")
        (basis,) = (await judged(rt)).question.evidence
        assert basis.failed == "OSError"
        assert office.sent == []
        # An outage of theirs is no fault of the yes: it counts when they are back.
        market.raises = None
        assert (await office.go(rt)).status == "completed"
    assert office.sent == [ORDER]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
@pytest.mark.parametrize("raised", [asyncio.CancelledError(), SystemExit(1)], ids=["cancelled", "exits"])
async def test_a_fetcher_whose_own_wait_was_cancelled_or_that_exits_raised_like_any_other(
    clock: MovedClock, raised: BaseException, is_async: bool
):  # proves: GATE-2
    """A cancellation that nobody asked of the turn ended it, with nothing said; an exit ended the loop."""

    def plain() -> Any:
        raise raised

    async def waiting() -> Any:
        plain()

    office = office_with(Market(), clock, again=waiting if is_async else plain)
    async with remit.open("memory:", clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        assert (await office.go(rt)).code == "evidence_unreadable"
        (basis,) = (await judged(rt)).question.evidence
        assert basis.failed
    assert office.sent == []


async def test_what_was_never_stated_is_missing(storage: Storage, clock: MovedClock):  # proves: GATE-2
    office = Office(remit.Rule(evidence={"quote"}))
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        outcome = await office.go(rt)
        assert (outcome.waits_for, outcome.code) == ("evidence", "evidence_missing")
        assert await rt.inbox() == []  # nobody is asked about what nobody has
        office.rests_on = ["opinion"]
        assert (await office.go(rt)).code == "evidence_missing"
        assert (await finding(rt))[2] == "evidence.missing opinion, evidence.missing quote"
    assert office.sent == []


async def test_the_policy_caps_how_long_a_fact_may_be_relied_on(
    storage: Storage, clock: MovedClock
):  # proves: GATE-2, C15
    office = office_with(Market(), clock)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await rt.set_policy({"version": "q1", "evidence": {"quote": "24h"}}, by=ROOT)
        await office.go(rt)
        await answer(rt)
        clock.move(timedelta(hours=24, microseconds=1))
        assert (await office.go(rt)).code == "evidence_expired"
        # A longer cap is none: the flow's own word holds.
        await rt.set_policy({"version": "q2", "evidence": {"quote": "900h"}}, by=ROOT)
        clock.move(timedelta(hours=24))
        assert (await office.go(rt)).code == "evidence_expired"
    assert office.sent == []


@pytest.mark.parametrize("value", [float("nan"), object(), "\ud800"], ids=["nan", "an object", "a lone surrogate"])
async def test_what_cannot_be_stored_is_unreadable(value: Any, clock: MovedClock):  # proves: GATE-2
    market = Market()
    office = office_with(market, clock, again=market.quote)
    async with remit.open("memory:", clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        market.price = value
        assert (await office.go(rt)).code == "evidence_unreadable"
    assert office.sent == []


async def test_a_fetcher_may_look_and_not_act(clock: MovedClock):  # proves: GATE-1, GATE-2
    market, tried = Market(), []
    office = office_with(market, clock)
    issued = datetime.fromtimestamp(clock.now() / 1e6, tz=UTC)

    async with remit.open("memory:", clock=clock) as rt:

        def state(run: remit.Run) -> None:
            async def acts() -> Any:
                tried.append("again")
                await run.effect(office.pay, ORDER)

            run.evidence("quote", {"price": 82_000}, as_of=issued, fresh_for=FRESH, again=acts)

        office.before = state
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        assert (await office.go(rt)).code == "evidence_unreadable"
    assert (tried, office.sent) == (["again"], [])


async def test_the_page_says_no_longer_than_the_gate_where_newer_code_asked(storage: Storage, clock: MovedClock):
    # proves: APR-1, APR-5, GATE-2
    """The run was opened under a contract that would have let the fact be relied on for longer."""
    office = office_with(Market(), clock)
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await rt.start(office.flow, id=RUN, by=BUYER, behalf=DANA)
        office.rule = remit.Rule(approval=BY_DIRECTOR, evidence={"quote": HOUR})
        office.contract["version"] = "4"
        clock.move(HOUR / 4)
        await office.go(rt)
        ask = await asked(rt)
        assert ask.evidence[0].until == ask.evidence[0].as_of + HOUR // timedelta(microseconds=1)
        clock.move(HOUR)
        assert (await asked(rt)).evidence[0].until < clock.now()
        await answer(rt)
        await office.go(rt)
        assert (await finding(rt))[1] == "evidence.expired"
    assert office.sent == []


@pytest.mark.parametrize("is_pinned", [True, False], ids=["as it was opened", "newer code"])
async def test_taken_again_it_is_said_to_be_fresh_from_then_on_and_no_longer_than_the_gate(
    clock: MovedClock, is_pinned: bool
):  # proves: APR-1, APR-5, GATE-2
    market = Market()
    rule = remit.Rule(approval=BY_DIRECTOR, evidence={"quote": HOUR})
    office = office_with(market, clock, again=market.quote, rule=rule if is_pinned else None)
    async with remit.open("memory:", clock=clock) as rt:
        await staffed(rt)
        await rt.start(office.flow, id=RUN, by=BUYER, behalf=DANA)
        office.rule = rule
        office.contract["version"] = "3" if is_pinned else "4"
        clock.move(HOUR / 4)
        await office.go(rt)
        clock.move(2 * HOUR)
        await office.go(rt)
        (shown,) = (await asked(rt)).evidence
        most = clock.now() + HOUR // timedelta(microseconds=1)
        assert shown.as_of == clock.now() and clock.now() < shown.until <= most
        assert not is_pinned or shown.until == most
