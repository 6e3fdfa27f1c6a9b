"""Clocks that part: what is taken while they are on two days counts on both, and what begins ends early for all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import remit
from remit.engine.people.recount import recount
from remit.engine.process.hours import JUMP_US
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.till import Order, Till

LATE = datetime(2026, 1, 31, 23, 52, tzinfo=UTC)  # eight minutes before another day, and month
AHEAD, DAY, HOUR = timedelta(minutes=9), timedelta(days=1), timedelta(hours=1)
WINDOW = timedelta(days=5)


class Ahead:
    """The clock of a machine, so far ahead of the store's."""

    def __init__(self, store: MovedClock, by: timedelta) -> None:
        self.store, self.by = store, by

    def now(self) -> int:
        return self.store.now() + self.by // timedelta(microseconds=1)


class Machines:
    """Machines at one store, whose clock is moved by hand; each has a clock of its own."""

    def __init__(self, storage: Storage, start: datetime = LATE) -> None:
        self.storage, self.clock, self.till = storage, MovedClock(start), Till()

    @asynccontextmanager
    async def at(self, ahead: timedelta = timedelta()) -> AsyncIterator[remit.Runtime]:
        async with self.storage.open(clock=self.clock) as rt:
            hours = rt._ready().clock
            hours._clock, hours._is_given = Ahead(self.clock, ahead), False
            yield rt

    def flow(self, rule: remit.Rule, **contract: Any) -> remit.Flow[Any]:
        terms: dict[str, Any] = {
            "version": "1",
            "resume": "anyone",
            "window": WINDOW,
            "effects": {"pay": rule},
        } | contract
        pay = self.till.effect()

        @remit.flow(contract=remit.Contract(**terms), name="pays")
        async def pays(run: remit.Run) -> int:
            return (await run.effect(pay, Order(amount=90))).amount

        return pays

    @asynccontextmanager
    async def misled(self, ahead: timedelta) -> AsyncIterator[remit.Runtime]:
        """A machine that heard the store's clock while that ran ahead; it is right again, and so is the machine's."""
        self.clock.move(ahead)
        async with self.at() as rt:
            await rt.grant("user:dora", "director", by="user:root")
            self.clock.move(-ahead)
            yield rt

    async def pay(self, run: str, *, ahead: timedelta = timedelta(), per: Any = "day") -> remit.Outcome:
        """What becomes of a run that pays 90 of the 100 that a day has, or a month."""
        async with self.at(ahead) as rt:
            return await rt.run(self.flow(capped(per)), id=run)


def capped(per: Any = "day", **rule: Any) -> remit.Rule:
    return remit.Rule(ceiling=remit.Ceiling("amount", max=100, per=per), **rule)


# -- ceilings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per", ["day", "month"])
async def test_a_machine_ahead_spends_no_other_day_s_ceiling_on_this_one(per: str, lasting: Storage):  # proves: FX-12
    machines = Machines(lasting)
    assert (await machines.pay("right", per=per)).value == 90
    outcome = await machines.pay("ahead", ahead=AHEAD, per=per)
    assert outcome.code == "ceiling_exceeded"
    told = "2026-01-31" if per == "day" else "2026-01"
    assert f"90 with 90 used (per {per} {told}, contract); the other ceiling holds" in outcome.reason
    assert outcome.reason.count("at most") == 1
    assert len(machines.till.arrived) == 1


async def test_what_a_machine_ahead_pays_counts_on_both_days(lasting: Storage):  # proves: FX-12
    machines = Machines(lasting)
    assert (await machines.pay("ahead", ahead=AHEAD)).value == 90
    assert (await machines.pay("this day")).code == "ceiling_exceeded"
    told = (await machines.pay("again", ahead=AHEAD)).reason
    for day in ("2026-01-31", "2026-02-01"):
        assert f"90 with 90 used (per day {day}, contract)" in told
    assert told.count("at most") == 1
    machines.clock.move(HOUR)
    assert (await machines.pay("next day")).code == "ceiling_exceeded"
    async with machines.at() as rt:
        (effect,) = (await rt.show("ahead")).view.boundary.effects.values()
        assert [(taken.scope[-10:], taken.amount) for taken in effect.reserved] == [
            ("2026-01-31", 90),
            ("2026-02-01", 90),
        ]
        assert all(each.ok for each in await recount(rt._ready()))
    machines.clock.move(DAY)
    assert (await machines.pay("the one after")).value == 90


async def test_a_month_that_both_days_are_in_counts_once(lasting: Storage):  # proves: FX-12
    machines = Machines(lasting, LATE - DAY)
    assert (await machines.pay("ahead", ahead=AHEAD, per="month")).value == 90
    async with machines.at() as rt:
        (effect,) = (await rt.show("ahead")).view.boundary.effects.values()
        assert [taken.scope for taken in effect.reserved] == ["pay.amount/month/2026-01"]


async def test_what_did_not_happen_is_given_back_on_both_days(lasting: Storage):  # proves: FX-12
    machines = Machines(lasting)
    async with machines.at() as rt:
        await rt.grant("user:dora", "director", by="user:root")  # the directory is dated by a clock that is right
    machines.till.next(remit.DidNotHappen("nothing was sent"))
    async with machines.at(AHEAD) as rt:
        with pytest.raises(remit.EffectFailed):
            await rt.run(machines.flow(capped()), id="ahead")
    assert (await machines.pay("this day")).value == 90
    machines.clock.move(HOUR)
    assert (await machines.pay("next day")).value == 90


async def test_a_yes_from_a_machine_ahead_takes_the_payment_to_no_other_day(lasting: Storage):  # proves: FX-12
    machines, asks = Machines(lasting), capped(approval=remit.Approval({"director"}, 8 * HOUR))
    async with machines.at() as rt:
        await rt.grant("user:dora", "director", by="user:root")
        for run in ("a", "b"):
            await rt.run(machines.flow(asks), id=run)
    for run, ahead in (("a", timedelta()), ("b", AHEAD)):
        async with machines.at(ahead) as desk:
            (ask,) = [ask for ask in await desk.inbox() if ask.run == run]
            await desk.decide(ask.id, "approve", by="user:dora", seen=ask.version)
    async with machines.at() as rt:
        assert (await rt.run(machines.flow(asks), id="a")).value == 90
        assert (await rt.run(machines.flow(asks), id="b")).code == "ceiling_exceeded"


async def test_a_store_s_clock_that_ran_a_day_ahead_leaves_nobody_a_day_of_its_own(database: Storage):  # proves: FX-12
    machines = Machines(database)
    async with machines.misled(DAY) as misled:
        assert (await machines.pay("right")).value == 90
        assert (await misled.run(machines.flow(capped()), id="misled")).code == "ceiling_exceeded"


async def test_a_day_that_turns_out_to_be_possible_while_it_is_counted_is_counted_as_well(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-12
    """Another turn hears meanwhile that the store's clock was put right."""
    machines = Machines(storage)
    assert (await machines.pay("first")).value == 90
    machines.clock.move(AHEAD)
    async with machines.at() as rt:
        await rt.authority()
        here = Ahead(machines.clock, AHEAD)
        hours, store = rt._ready().clock, rt._ready().store
        read_used = store.read_used

        async def heard(tenant: str, scope: str) -> int:
            if hours._clock is not here:
                machines.clock.move(-AHEAD)
                hours._clock = here
                hours.saw(machines.clock.now())
            return await read_used(tenant, scope)

        monkeypatch.setattr(store, "read_used", heard)
        assert (await rt.run(machines.flow(capped()), id="second")).code == "ceiling_exceeded"
    assert len(machines.till.arrived) == 1


async def test_what_is_used_is_told_of_the_day_that_has_more(lasting: Storage):
    machines = Machines(lasting)
    async with machines.at() as rt:
        policy = {"version": "1", "ceilings": {"pay.amount": {"max": 100, "per": "day"}}}
        await rt.set_policy(policy, by="user:root")
        await rt.run(machines.flow(remit.Rule()), id="right")
    async with machines.at(AHEAD) as rt:
        assert [each.used for each in await rt.used()] == [90]
    machines.clock.move(HOUR)
    async with machines.at() as rt:
        assert [each.used for each in await rt.used()] == [0]


# -- what begins --------------------------------------------------------------------------------------------------


def us(by: timedelta) -> int:
    return by // timedelta(microseconds=1)


ASKING = remit.Rule(approval=remit.Approval({"director"}, 8 * HOUR))


@pytest.mark.parametrize("ahead", [AHEAD, -AHEAD, -3 * HOUR])
async def test_what_begins_ends_for_nobody_too_late(ahead: timedelta, storage: Storage):  # proves: APR-2, GATE-8
    machines = Machines(storage)
    start = machines.clock.now()
    begun = start + min(us(ahead), 0)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", window=WINDOW, effects={"pay": ASKING}))
    async def quoted(run: remit.Run) -> int:
        run.evidence("quote", 120, as_of=run.now(), fresh_for=4 * HOUR, again=lambda: 120)
        run.evidence("old", 1, as_of=run.now() - 9 * HOUR, fresh_for=8 * HOUR, again=lambda: 1)
        return (await run.effect(machines.till.effect(), Order(), rests_on=["quote", "old"])).amount

    async with machines.at(ahead) as rt:
        await rt.set_policy({"version": "1", "windows": {"low": 24 * HOUR}}, by="user:root")
        await rt.run(quoted, id="r")
        view = (await rt.show("r")).view
        assert begun <= view.opened_at < begun + JUMP_US // 60
        assert view.opened.window_end == view.opened_at + us(WINDOW)
        assert (await rt.explain("r")).window_end == view.opened_at + us(24 * HOUR)
        for stated in view.boundary.evidence.values():
            assert begun <= stated.fact.as_of < begun + JUMP_US // 60
            assert stated.fact.until == stated.fact.as_of + us((4 if stated.name == "quote" else 8) * HOUR)
        (ask,) = await rt.inbox()
        assert begun + us(8 * HOUR) <= ask.until < begun + us(8 * HOUR) + JUMP_US // 60


@pytest.mark.parametrize("capped_by", ["contract", "policy"])
@pytest.mark.parametrize("ahead", [AHEAD, -AHEAD])
async def test_what_is_short_is_not_over_before_it_began(
    ahead: timedelta, capped_by: str, storage: Storage
):  # proves: GATE-2, APR-2
    """Clocks that agree within the ten minutes for which they are believed leave half of it."""
    machines, short = Machines(storage), timedelta(minutes=4)
    rule = remit.Rule(approval=remit.Approval({"director"}, short), evidence={"quote": timedelta(minutes=2)})

    window = short if capped_by == "contract" else WINDOW

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", window=window, effects={"pay": rule}))
    async def quick(run: remit.Run) -> int:
        run.evidence("quote", 120, as_of=run.now() - HOUR, fresh_for=short, again=lambda: 120)
        return (await run.effect(machines.till.effect(), Order())).amount

    async with machines.at(ahead) as rt:
        await rt.grant("user:dora", "director", by="user:root")
        await rt.set_policy({"version": "1", "windows": {"low": short}}, by="user:root")
        assert (await rt.run(quick, id="r")).waits_for == "approval"
        machines.clock.move(timedelta(seconds=50))
        (ask,) = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dora", seen=ask.version)
        assert (await rt.run(quick, id="r")).status == "completed"


async def test_a_yes_does_not_stand_longer_because_the_asker_s_store_ran_ahead(database: Storage):  # proves: APR-2
    machines, flow = Machines(database), Machines.flow
    async with machines.misled(3 * HOUR) as misled:
        await misled.run(flow(machines, ASKING), id="r")
        (ask,) = await misled.inbox()
    machines.clock.move(9 * HOUR)
    async with machines.at() as rt:
        with pytest.raises(remit.ApprovalRefused) as refused:
            await rt.decide(ask.id, "approve", by="user:dora", seen=ask.version)
        assert refused.value.code == "approval.expired"


async def test_no_run_is_opened_whose_window_is_over_by_a_clock_of_this_process(database: Storage):  # proves: GATE-2
    machines = Machines(database)
    brief = machines.flow(remit.Rule(), window=HOUR)
    async with machines.at() as rt:
        await rt.start(brief, id="there")
    async with machines.misled(DAY) as misled:
        with pytest.raises(remit.ClockJumped) as refused:
            await misled.run(brief, id="new")
        assert refused.value.code == "clock.apart"
        for clock in ("this machine's clock says 2026-01-31 23:5", "put right says 2026-02-01 23:5"):
            assert clock in refused.value.message
        with pytest.raises(remit.RunAbsent):
            await misled.show("new")
        outcome = await misled.run(brief, id="there")
        assert (outcome.status, outcome.code) == ("expired", "window_over")
        assert "It is over by the store's clock as it was before it was put right" in outcome.reason
        assert "and not by this machine's clock and the store's clock." in outcome.reason


async def test_a_question_that_is_over_for_whoever_asks_it_is_one_for_all_others(database: Storage):  # proves: APR-2
    machines = Machines(database)
    flow = machines.flow(ASKING)
    async with machines.misled(DAY) as misled:
        outcome = await misled.run(flow, id="r")
        assert outcome.waits_for == "approval"
        assert "The question is over by the store's clock as it was before it was put right" in outcome.reason
        assert await misled.inbox() == []
    async with machines.at() as rt:
        (ask,) = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dora", seen=ask.version)
        assert (await rt.run(flow, id="r")).value == 90


async def test_stale_by_one_clock_alone_says_by_which(database: Storage):  # proves: GATE-2
    machines = Machines(database)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", window=WINDOW))
    async def quoted(run: remit.Run) -> int:
        run.evidence("quote", 120, as_of=run.now(), fresh_for=4 * HOUR, again=lambda: 120)
        return (await run.effect(machines.till.effect(), Order(), rests_on=["quote"])).amount

    async with machines.misled(DAY) as misled:
        for _ in range(2):
            outcome = await misled.run(quoted, id="r")
            assert (outcome.status, outcome.waits_for) == ("waiting", "evidence")
            assert "It is over by the store's clock as it was before it was put right" in outcome.reason
    async with machines.at() as rt:
        assert (await rt.run(quoted, id="r")).status == "completed"
