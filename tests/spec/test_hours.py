"""Clocks: one that is behind or was set back revives nothing, and one far ahead writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.clock import SystemClock
from remit.engine.process import incidents
from remit.engine.process.hours import JUMP_US, Hours
from remit.store.rows import Peek
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.office import DANA, DORA, ROOT, RUN, Office, answer, asked, kinds_of, staffed
from tests.support.till import OPEN, Order, Till, paying

LOST = ConnectionError("no answer")
HOUR_US = 3_600_000_000
DAY, YEAR = timedelta(days=1), timedelta(days=365)
PER_DAY = remit.Rule(ceiling=remit.Ceiling("amount", max=100, per="day"))


class Off:
    """This machine's clock, wrong by so much."""

    def __init__(self, by: timedelta) -> None:
        self.by = by

    def now(self) -> int:
        return SystemClock().now() + self.by // timedelta(microseconds=1)


def wrong(rt: remit.Runtime, by: timedelta) -> None:
    """From here on the clock of the machine on which this runtime runs is wrong; the store's is not."""
    rt._ready().clock._clock = Off(by)


def daily(till: Till, *between: Callable[[], None]) -> remit.Flow[Any]:
    """Pays 90 of the 100 that a day has, once, and once more after each of these."""
    pay = till.effect()

    contract = remit.Contract(version="1", resume="anyone", window=30 * DAY, effects={"pay": PER_DAY})

    @remit.flow(contract=contract, name="daily")
    async def flow(run: remit.Run) -> int:
        paid = (await run.effect(pay, Order(amount=90))).amount
        for happens in between:
            happens()
            try:
                paid += (await run.effect(pay, Order(amount=90))).amount
            except Exception:
                paid += 1_000  # a flow that goes another way where a call raises
        return paid

    return flow


# -- behind -------------------------------------------------------------------------------------------------------


async def test_a_clock_set_back_revives_neither_an_approval_nor_a_ceiling(storage: Storage):  # proves: GATE-4, APR-6
    clock, office, till = MovedClock(), Office(), Till()
    async with storage.open(clock=clock) as rt:
        await office.go(await staffed(rt))
        await answer(rt)
        clock.move(timedelta(days=4))
        assert (await rt.run(daily(till), id="other")).value == 90
        clock.move(timedelta(days=-4))
        outcome = await office.go(rt)
        assert (outcome.status, office.sent) == ("waiting", []), outcome
        assert (await rt.run(daily(till), id="again")).code == "ceiling_exceeded"
    assert till.times == [1]


@pytest.mark.parametrize("wrote", ["an opening", "a word", "an incident", "nothing"])
async def test_whatever_this_process_wrote_expires_what_was_over_by_then(
    wrote: str, storage: Storage
):  # proves: GATE-4, APR-2
    """An entry states the time, whoever wrote it: a yes that was over by it does not count again."""
    clock, office, till = MovedClock(), Office(), Till()
    async with storage.open(clock=clock) as rt:
        await office.go(await staffed(rt))
        await answer(rt)
        till.next(LOST)
        await rt.run(paying(till.effect()), id="lost")
        clock.move(timedelta(days=4))
        if wrote == "an opening":
            await rt.start(daily(till), id="other")
        if wrote == "a word":
            await rt.resolve("lost", "pay", "did_not_happen", by=DORA, evidence="the till is empty")
        if wrote == "an incident":
            await incidents.quarantine(rt._ready(), (await rt.read("lost")).row, remit.Tampered("an edit"))
        clock.move(timedelta(days=-4))
        outcome = await office.go(rt)
        assert (outcome.status, len(office.sent)) == (("completed", 1) if wrote == "nothing" else ("waiting", 0))


@pytest.mark.parametrize("first", ["show", "resume", "effects", "resolve", "check", "why"])
async def test_a_date_that_a_wrong_clock_wrote_is_its_own_run_s_matter_whatever_is_read_first(
    first: str, database: Storage
):  # proves: GATE-4, APR-2, FX-10
    """The next process would count today's ceiling on that later day, and open runs dated on it."""
    till, later = Till(), 3 * DAY
    async with database.open() as rt:
        await staffed(rt)
        assert (await rt.run(daily(till), id="today")).value == 90
    async with database.open() as rt:
        rt._ready().clock._is_given = True  # the store's clock is as wrong, as it is on the file's own machine
        wrong(rt, later)
        till.next(LOST)
        await rt.run(paying(till.effect()), id="wrong")
    async with database.open() as rt:
        if first == "resolve":
            await rt.resolve("wrong", "pay", "did_not_happen", by=DORA, evidence="the till is empty")
        elif first == "effects":
            await rt.effects(in_doubt=True)
        elif first in ("resume", "check"):
            await getattr(rt, first)("wrong", paying(till.effect()))
        else:
            await getattr(rt, first)("wrong")
        assert (await rt.run(daily(till), id="again")).code == "ceiling_exceeded"
        opened = (await rt.show("again")).view.opened_at
        assert opened < SystemClock().now() + JUMP_US


async def test_a_worker_behind_the_store_takes_no_expired_yes(database: Storage):  # proves: GATE-4, APR-6
    office = Office(remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=2))))
    async with database.open() as rt:
        wrong(rt, timedelta(hours=-3))
        rt._ready().clock._is_given = True  # the question and the yes were three hours ago
        await office.go(await staffed(rt))
        await answer(rt)
    async with database.open() as rt:
        wrong(rt, timedelta(hours=-3))
        outcome = await office.go(rt)
        assert (outcome.status, outcome.waits_for, office.sent) == ("waiting", "approval", [])


async def test_a_store_s_clock_that_is_put_right_revives_no_yes_in_a_process_that_goes_on(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: GATE-4, APR-2
    """An answer was refused because it was over: the same question is not open again an hour later."""
    off, office = [0], Office(remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=2))))
    async with storage.open() as rt:
        await office.go(await staffed(rt))
        ask = await asked(rt)
        store = rt._ready().store
        peek = store.peek

        async def ahead(run_key: int) -> Peek | None:
            found = await peek(run_key)
            return found and found._replace(now=found.now + off[0])

        monkeypatch.setattr(store, "peek", ahead)
        off[0] = 3 * HOUR_US
        with pytest.raises(remit.ApprovalRefused) as refused:
            await answer(rt, ask=ask)
        assert refused.value.code == "approval.expired"
        off[0] = 0
        assert (await rt.ask(ask.id)).state == "over"
        with pytest.raises(remit.ApprovalRefused) as refused:
            await answer(rt, ask=ask)
        assert refused.value.code == "approval.expired"
        outcome = await office.go(rt)
        assert (outcome.waits_for, office.sent) == ("approval", [])
        asks = (await rt.show(RUN)).view.boundary.asks
        assert [each.voided for each in asks.values()] == [["approval.expired"], []], "it is asked anew"
        assert "The question is over by the store's clock as it was before" in outcome.reason


def test_a_store_s_clock_that_ran_ahead_expires_and_makes_nothing_sure():  # proves: FX-2
    moved = MovedClock()
    start = moved.now()
    hours = Hours(moved, is_given=False)
    for said in (start, start + 3 * HOUR_US, start):
        hours.saw(said)
    assert start + 3 * HOUR_US <= hours.latest() < start + 3 * HOUR_US + JUMP_US
    moved.move(timedelta(hours=2))
    assert start <= hours.earliest() < start + JUMP_US, "what landed surely is told by what it says now"
    with pytest.raises(remit.ClockJumped):
        hours.check()  # this machine's clock is held against what it says now, too


async def test_what_surely_landed_is_not_told_by_a_clock_ahead():  # proves: FX-4
    moved = MovedClock()
    hours = Hours(moved, is_given=False)
    hours.saw(moved.now())
    store = moved.now()
    moved.move(timedelta(minutes=9))
    assert store <= hours.earliest() < store + 60_000_000 <= hours.latest()
    moved.move(timedelta(minutes=-30))
    assert hours.earliest() == moved.now() and hours.latest() >= store


def test_what_verified_entries_state_is_not_forgotten_unless_the_store_s_clock_contradicts_it():
    moved = MovedClock()
    start = moved.now()
    hours = Hours(moved, is_given=False)
    hours.saw(start)
    hours.note(start + JUMP_US // 2)
    moved.move(-DAY)
    assert hours.latest() == start + JUMP_US // 2
    hours.note(start + 3 * JUMP_US)
    assert hours.latest() < start + JUMP_US


async def test_a_new_run_hears_what_time_it_is_at_the_store(database: Storage):  # proves: GATE-8
    """Where it asks the directory nothing it hears no clock there either."""
    till = Till()
    async with database.open() as rt:
        await rt.run(paying(till.effect()), id="first")
        hours = rt._ready().clock
        right = hours._store_now()
        for heard, run in ((right - JUMP_US // 2, "behind"), (right + JUMP_US // 2, "ahead"), (0, "put right since")):
            hours.saw(heard)
            assert (await rt.run(paying(till.effect()), id=run)).status == "completed"
            assert right <= hours._store_now() < right + 60_000_000


# -- ahead --------------------------------------------------------------------------------------------------------


async def test_who_posts_under_a_clock_a_year_ahead_is_refused(storage: Storage):  # proves: GATE-8
    office, till = Office(), Till()
    till.next(LOST)
    pays = paying(till.effect())
    async with storage.open() as rt:
        await office.go(await staffed(rt))
        await rt.run(pays, id="doubt")
        before = await rt.read(RUN), await rt.read("doubt")
        right = rt._ready().clock._clock
        (ask,) = await rt.inbox()
        wrong(rt, YEAR)
        acts = (
            lambda: answer(rt, ask=ask),
            lambda: rt.resolve("doubt", "pay", "did_not_happen", by=DORA, evidence="asked the bank"),
            lambda: rt.cancel(RUN, by=DANA),
            lambda: rt.grant("user:new", "director", by=ROOT),
            lambda: rt.run(pays, id="new"),
            lambda: office.go(rt),
        )
        for act in acts:
            with pytest.raises(remit.ClockJumped):
                await act()
        rt._ready().clock._clock = right
        assert (await rt.read(RUN), await rt.read("doubt")) == before
        with pytest.raises(remit.RunAbsent):
            await rt.show("new")
        await rt.resolve("doubt", "pay", "did_not_happen", by=DORA, evidence="asked the bank")
        assert (await rt.run(pays, id="doubt")).value == [100]


async def test_a_clock_that_jumps_within_a_turn_opens_no_other_day_and_writes_nothing(
    storage: Storage,
):  # proves: GATE-4
    till = Till()
    async with storage.open() as rt:
        flow = daily(till, lambda: wrong(rt, DAY))
        with pytest.raises(remit.ClockJumped):
            await rt.run(flow, id="r")
        assert (await kinds_of(rt, "r"))[-1] == "EffectSettled"
        wrong(rt, timedelta())
        assert (await rt.run(flow, id="s")).code == "ceiling_exceeded"
        assert await rt.verify("r") is None and await rt.verify("s") is None
    assert till.times == [1]


async def test_what_happened_is_settled_whatever_the_clock_says(storage: Storage):  # proves: FX-1
    till = Till()
    async with storage.open() as rt:

        def jump(key: str, order: Order) -> Any:
            wrong(rt, YEAR)
            return till.pay(key, order)

        till.next(jump)
        flow = paying(till.effect())
        outcome = await rt.run(flow, id="r")
        assert outcome.value == [100]
        view = (await rt.show("r")).view
        assert abs(view.last_at - SystemClock().now()) < JUMP_US
    assert (till.times, OPEN.version) == ([1], "1")
