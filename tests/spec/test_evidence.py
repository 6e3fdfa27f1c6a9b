"""Evidence: which fact a call rests on, for how long, and what becomes of a call whose fact has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import remit
from remit.canonical import INTEGER_MAX
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.clock import START, MovedClock
from tests.support.office import BY_DIRECTOR, WINDOW, Office, answer, asked, judged, staffed, voided

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
RUN = "r"
RESTS_ON_QUOTE = remit.Rule(evidence={"quote"})


class Desk:
    """Pays what it is asked to, and knows what it paid."""

    def __init__(self, rule: remit.Rule = RESTS_ON_QUOTE) -> None:
        self.paid: list[Any] = []
        self.rule = rule

        @remit.effect(doubt="ask")
        async def pay(order: Any, *, key: str) -> str:
            self.paid.append(order)
            return f"paid {order}"

        self.pay = pay

    def flow(self, fn: Callable[..., Any]) -> remit.Flow[Any]:
        contract = remit.Contract(version="1", resume="anyone", window=WINDOW, effects={"pay": self.rule})
        declared: remit.Flow[Any] = remit.flow(contract=contract, name="purchase")(fn)
        return declared


# -- which one ------------------------------------------------------------------------------------------------------


async def test_a_fresh_quote_of_one_branch_is_none_of_another(storage: Storage):  # proves: GATE-2
    desk, clock = Desk(), MovedClock()

    async def purchase(run: remit.Run) -> Any:
        async def one(supplier: str, age: timedelta) -> Any:
            branch = run.branch(supplier)
            branch.evidence("quote", {"of": supplier}, as_of=START - age, fresh_for=2 * HOUR)
            return await branch.effect(desk.pay, supplier)

        return await run.gather(one("old", 72 * HOUR), one("new", HOUR))

    async with storage.open(clock=clock) as rt:
        for _ in range(2):
            outcome = await rt.run(desk.flow(purchase), id=RUN)
            assert (outcome.status, outcome.code, outcome.waits_for) == ("waiting", "evidence_expired", "evidence")
            assert "stays expired: cancel this run and open a new one" in outcome.reason
            step = next_step(await rt.why(RUN)).sentence  # and does not send to `judge` in a circle
            assert "`again=`" in step and f"`remit cancel {RUN}" in step and "remit judge" not in step
    assert desk.paid == ["new"]


async def test_a_call_looks_in_its_own_branch_and_then_outwards():  # proves: GATE-2
    desk = Desk()

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", "the run's", as_of=run.now(), fresh_for=HOUR)
        outer = run.branch("a")
        outer.evidence("quote", "a's", as_of=run.now(), fresh_for=HOUR)
        for branch in (run.branch("b"), outer.branch("x"), outer.branch("y").branch("z"), run):
            await branch.effect(desk.pay, 1)
        run.branch("c").evidence("quote", "c's", as_of=run.now(), fresh_for=HOUR)
        await run.effect(desk.pay, 2)

    async with remit.open("memory:") as rt:
        assert (await rt.run(desk.flow(purchase), id=RUN)).status == "completed"
        boundary = (await rt.show(RUN)).view.boundary
    rested = {name: one.judged.question.evidence[0].digest for name, one in boundary.effects.items()}
    values = {name: (boundary.evidence_with(digest) or (b"",))[0] for name, digest in rested.items()}
    assert values == {
        "b/pay": b'"the run\'s"',
        "a/x/pay": b'"a\'s"',
        "a/y/z/pay": b'"a\'s"',
        "pay": b'"the run\'s"',
        "pay#2": b'"the run\'s"',
    }


async def test_what_a_branch_stated_alone_is_missing_outside_of_it():  # proves: GATE-2
    desk = Desk()

    async def purchase(run: remit.Run) -> Any:
        run.branch("a").evidence("quote", 1, as_of=run.now(), fresh_for=HOUR)
        return await run.effect(desk.pay, 1)

    async with remit.open("memory:") as rt:
        assert (await rt.run(desk.flow(purchase), id=RUN)).code == "evidence_missing"
    assert desk.paid == []


async def test_the_approver_is_shown_the_quote_of_the_branch_that_asks(storage: Storage):  # proves: APR-1
    desk = Desk(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"}))

    async def purchase(run: remit.Run) -> Any:
        async def one(supplier: str) -> Any:
            branch = run.branch(supplier)
            branch.evidence("quote", {"of": supplier}, as_of=run_now, fresh_for=HOUR)
            return await branch.effect(desk.pay, supplier)

        run_now = run.now()
        return await run.gather(one("a"), one("b"), one("c"))

    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(desk.flow(purchase), id=RUN)
        shown = {ask.call: [(one.name, one.value) for one in ask.evidence] for ask in await rt.inbox()}
    assert shown == {f"{name}/pay": [("quote", {"of": name})] for name in ("a", "b", "c")}


async def test_each_branch_takes_its_own_quote_again(storage: Storage):  # proves: GATE-2, LOG-2
    desk = Desk(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"}))
    taken: list[str] = []

    async def purchase(run: remit.Run) -> Any:
        async def one(supplier: str) -> Any:
            branch = run.branch(supplier)

            async def again() -> str:
                taken.append(supplier)
                return supplier

            branch.evidence("quote", supplier, as_of=at, fresh_for=HOUR, again=again)
            return await branch.effect(desk.pay, supplier)

        at = run.now()
        return await run.gather(one("a"), one("b"))

    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(desk.flow(purchase), id=RUN)
        for ask in await rt.inbox():
            await answer(rt, ask=ask)
        assert (await rt.run(desk.flow(purchase), id=RUN)).value == ["paid a", "paid b"]
        await rt.verify(RUN)
        lines = (await rt.explain(RUN)).timeline.lines
    assert sorted(taken) == ["a", "b"]
    again = [line.name for line in lines if line.kind == "EvidenceTaken" and line.body.get("again")]
    assert sorted(again) == ["a/run.evidence.quote", "b/run.evidence.quote"]


# -- stated twice ---------------------------------------------------------------------------------------------------


async def test_a_quote_that_is_stated_anew_counts_and_the_run_still_replays(storage: Storage):  # proves: RUN-4, GATE-2
    desk = Desk(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"}))

    async def purchase(run: remit.Run) -> Any:
        for price in (1, 2):
            run.evidence("quote", {"price": price}, as_of=run.now(), fresh_for=HOUR)
        return await run.effect(desk.pay, 2)

    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(desk.flow(purchase), id=RUN)
        (shown,) = (await asked(rt)).evidence
        assert shown.value == {"price": 2}
        await answer(rt)
        assert (await rt.run(desk.flow(purchase), id=RUN)).value == "paid 2"
    assert desk.paid == [2]


@pytest.mark.parametrize("changed", [0, 1], ids=["the first", "the second"])
async def test_either_of_two_that_is_stated_otherwise_is_other_code(changed: int):  # proves: RUN-4
    desk, prices = Desk(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"})), [1, 2]

    async def purchase(run: remit.Run) -> Any:
        for price in prices:
            run.evidence("quote", price, as_of=run.now(), fresh_for=HOUR)
        return await run.effect(desk.pay, 2)

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(desk.flow(purchase), id=RUN)
        prices[changed] = 3
        with pytest.raises(remit.DefinitionIncompatible) as refused:
            await rt.run(desk.flow(purchase), id=RUN)
        assert refused.value.recorded == (("run.evidence.quote", "run.evidence.quote#2")[changed],)


async def test_one_that_is_stated_anew_without_a_fetcher_is_not_taken_again_by_the_other_s():  # proves: GATE-2
    desk = Desk(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"}))

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", "theirs", as_of=run.now(), fresh_for=HOUR, again=lambda: "theirs")
        run.evidence("quote", "ours", as_of=run.now(), fresh_for=HOUR)
        return await run.effect(desk.pay, 1)

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(desk.flow(purchase), id=RUN)
        await answer(rt)
        assert (await rt.run(desk.flow(purchase), id=RUN)).status == "completed"


async def test_what_is_stated_when_a_call_has_its_name_is_of_others(storage: Storage):  # proves: GATE-2, LOG-2
    """Its request was made of what was stated before; a later one of the same name says nothing about it."""
    desk, asks, stated = Desk(), asyncio.Event(), asyncio.Event()

    async def again() -> str:
        asks.set()
        await stated.wait()
        return "taken again"

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", "old", as_of=run.now() - 2 * HOUR, fresh_for=HOUR, again=again)
        paying = asyncio.create_task(run.effect(desk.pay, 1))
        await asks.wait()
        run.evidence("quote", "new", as_of=run.now(), fresh_for=HOUR)
        stated.set()
        return await paying

    async with storage.open() as rt:
        held = await rt.run(desk.flow(purchase), id=RUN)
        assert (held.status, held.code) == ("waiting", "evidence_changed")
        await rt.verify(RUN)


async def test_calls_that_are_named_first_and_begun_together_rest_each_on_its_own(storage: Storage):  # proves: GATE-2
    desk = Desk()

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", "over", as_of=run.now() - 2 * HOUR, fresh_for=HOUR)
        first = run.effect(desk.pay, 1)
        run.evidence("quote", "fresh", as_of=run.now(), fresh_for=HOUR)
        return await run.gather(first, run.effect(desk.pay, 2))

    async with storage.open() as rt:
        for _ in range(2):  # a replay states both before it comes to either
            held = await rt.run(desk.flow(purchase), id=RUN)
            assert (held.status, held.code) == ("waiting", "evidence_expired")
        assert [(effect.call, effect.request) for effect in await rt.effects(RUN)] == [("pay#2", 2)]
        assert await _rested_on(rt, "pay#2") == b'"fresh"'


@pytest.mark.parametrize("said_by", ["the code", "the contract that it was opened under", "the flow alone"])
async def test_a_contract_says_for_how_long_its_evidence_may_be_relied_on(
    said_by: str, storage: Storage
):  # proves: GATE-2
    """Counted from `as_of`, whatever the flow says; of two contracts the one that trusts it less long counts."""
    clock = MovedClock()
    short, long = (remit.Rule(evidence={"quote": age}) for age in (HOUR, None))
    desk, ready = Desk(short if said_by == "the contract that it was opened under" else long), False

    @remit.step
    async def gate() -> None:
        if not ready:
            raise OSError("not yet")

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", 1, as_of=START, fresh_for=5 * HOUR)
        await run.step(gate)
        return await run.effect(desk.pay, 1)

    async with storage.open(clock=clock) as rt:
        with pytest.raises(remit.StepError):
            await rt.run(desk.flow(purchase), id=RUN)
        ready, desk.rule = True, short if said_by == "the code" else long
        clock.move(2 * HOUR)
        outcome = await rt.run(desk.flow(purchase), id=RUN)
        if said_by == "the flow alone":
            assert (outcome.value, desk.paid) == ("paid 1", [1])
        else:
            assert (outcome.status, outcome.code, desk.paid) == ("waiting", "evidence_expired", [])


async def test_who_is_asked_sees_until_when_the_contract_lets_evidence_count(storage: Storage):  # proves: APR-1
    desk = Desk(remit.Rule(approval=BY_DIRECTOR, evidence={"quote": HOUR}))

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", 1, as_of=START, fresh_for=5 * HOUR)
        return await run.effect(desk.pay, 1)

    async with storage.open(clock=MovedClock()) as rt:
        await staffed(rt)
        await rt.run(desk.flow(purchase), id=RUN)
        (shown,) = (await asked(rt)).evidence
        assert shown.until - shown.as_of == HOUR // timedelta(microseconds=1)


async def test_what_is_taken_again_is_as_old_as_the_asking_for_it(storage: Storage):  # proves: GATE-2
    clock, desk = MovedClock(), Desk()
    asked_at: list[int] = []

    async def fetch() -> int:
        asked_at.append(clock.now())
        clock.move(6 * SECOND)  # the answer takes its time, and was true when it was asked for
        return 1

    @remit.step
    async def work() -> None:
        clock.move(6 * SECOND)

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", 1, as_of=START - HOUR, fresh_for=10 * SECOND, again=fetch)
        first = await run.effect(desk.pay, 1)
        await run.step(work)
        return [first, await run.effect(desk.pay, 2)]

    async with storage.open(clock=clock) as rt:
        assert (await rt.run(desk.flow(purchase), id=RUN)).value == ["paid 1", "paid 2"]
        assert len(asked_at) == 2
        (quoted,) = (await rt.show(RUN)).view.boundary.evidence.values()
        assert quoted.fact.as_of == asked_at[-1]


async def test_a_statement_that_is_refused_leaves_the_one_before_it(storage: Storage):  # proves: GATE-2
    desk = Desk()

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", "stated", as_of=run.now(), fresh_for=HOUR)
        with pytest.raises(remit.CallRefused):
            run.evidence("quote", "refused", as_of=run.now() + HOUR, fresh_for=HOUR)
        return await run.effect(desk.pay, 1)

    async with storage.open() as rt:
        assert (await rt.run(desk.flow(purchase), id=RUN)).value == "paid 1"
        assert await _rested_on(rt, "pay") == b'"stated"'


async def test_one_that_is_written_late_does_not_come_back_before_a_later_one(storage: Storage):  # proves: GATE-2
    desk, looked = Desk(), asyncio.Event()

    async def look() -> None:
        looked.set()

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", "old", as_of=run.now(), fresh_for=HOUR)
        looking = asyncio.create_task(run.step(look))
        await looked.wait()  # what the step returned is on its way to the disk, and the old quote with it
        run.evidence("quote", "new", as_of=run.now(), fresh_for=HOUR)
        await looking
        return await run.effect(desk.pay, 1)

    async with storage.open() as rt:
        assert (await rt.run(desk.flow(purchase), id=RUN)).value == "paid 1"
        assert await _rested_on(rt, "pay") == b'"new"'


async def _rested_on(rt: remit.Runtime, call: str) -> bytes:
    """The value of the one piece of evidence that a call was judged by."""
    boundary = (await rt.show(RUN)).view.boundary
    (basis,) = boundary.effects[call].judged.question.evidence
    known = boundary.evidence_with(basis.digest)
    assert known is not None
    return known[0]


# -- for how long ---------------------------------------------------------------------------------------------------


async def test_a_fact_from_the_future_is_refused(storage: Storage):  # proves: GATE-2
    desk, clock = Desk(), MovedClock()

    async def purchase(run: remit.Run, issued: datetime) -> Any:
        run.evidence("quote", 1, as_of=issued, fresh_for=HOUR)
        return await run.effect(desk.pay, 1)

    async with storage.open(clock=clock) as rt:
        last = datetime.max.replace(tzinfo=timezone(-HOUR))
        for moment in (START + timedelta(seconds=6), START + timedelta(days=3650), last):
            with pytest.raises(remit.CallRefused) as refused:
                await rt.run(desk.flow(purchase), moment, id=f"{moment}")
            assert refused.value.code == "evidence.as_of"
    assert desk.paid == []


@pytest.mark.parametrize(
    "again", [lambda sku: sku, 7, remit.Step("ask", lambda sku: sku)], ids=["told", "none", "step"]
)
async def test_what_can_t_take_it_again_is_refused_when_it_is_stated(again: Any):  # proves: GATE-2
    """And not at the gate, days later, when nobody could say what has changed."""

    async def purchase(run: remit.Run) -> None:
        run.evidence("quote", 1, as_of=run.now(), fresh_for=HOUR, again=again)

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.CallRefused) as refused:
            await rt.run(Desk().flow(purchase), id=RUN)
        assert refused.value.code == "evidence.again"
        assert (await rt.show(RUN)).view.boundary.evidence == {}


async def test_a_supplier_s_clock_that_runs_a_little_ahead_makes_nothing_fresh_for_longer():  # proves: GATE-2
    desk, clock = Desk(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"})), MovedClock()

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", 1, as_of=START + timedelta(seconds=3), fresh_for=HOUR)
        return await run.effect(desk.pay, 1)

    async with remit.open("memory:", clock=clock) as rt:
        await staffed(rt)
        await rt.run(desk.flow(purchase), id=RUN)
        (shown,) = (await asked(rt)).evidence
        at = START - datetime(1970, 1, 1, tzinfo=UTC)
        assert (shown.as_of, shown.until) == tuple(t // timedelta(microseconds=1) for t in (at, at + HOUR))


async def test_a_fact_is_not_called_future_where_the_clock_was_set_back_since():  # proves: RUN-4
    desk, clock = Desk(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"})), MovedClock()

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", 1, as_of=START, fresh_for=HOUR)
        return await run.effect(desk.pay, 1)

    async with remit.open("memory:", clock=clock) as rt:
        await staffed(rt)
        await rt.run(desk.flow(purchase), id=RUN)
        await answer(rt)
        clock.move(-timedelta(minutes=5))
        assert (await rt.run(desk.flow(purchase), id=RUN)).value == "paid 1"


@pytest.mark.parametrize("as_of", [START, datetime.min.replace(tzinfo=UTC)], ids=["now", "the year 1"])
async def test_no_time_that_is_written_is_out_of_range(as_of: datetime):  # proves: LOG-1
    desk = Desk()

    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", 1, as_of=as_of, fresh_for=timedelta.max, again=lambda: 1)
        await run.step(_up, len(is_up))
        return await run.effect(desk.pay, 1)

    async with remit.open("memory:", clock=MovedClock()) as rt:
        is_up = [0]
        with pytest.raises(remit.StepError):
            await rt.run(desk.flow(purchase), id=RUN)
        is_up += [0]
        assert (await rt.run(desk.flow(purchase), id=RUN)).status == "completed"
        lines = (await rt.explain(RUN)).timeline.lines
    taken = [line.body for line in lines if line.kind == "EvidenceTaken"]
    assert len(taken) == 2
    assert all(abs(body[key]) <= INTEGER_MAX for body in taken for key in ("as_of", "until"))


# -- what changed ---------------------------------------------------------------------------------------------------


def _moving(desk: Desk, price: list[int]) -> Callable[..., Any]:
    async def purchase(run: remit.Run) -> Any:
        run.evidence("quote", 1, as_of=run.now(), fresh_for=HOUR, again=lambda: price[0])
        await run.step(_up, len(price))
        return await run.effect(desk.pay, 1)

    return purchase


@remit.step
def _up(is_up: int) -> int:
    if is_up == 1:
        raise ConnectionError("not yet")
    return 1


async def test_a_changed_fact_that_nobody_is_asked_about_says_so_and_the_way_out(storage):  # proves: GATE-2, FX-12
    desk, price = Desk(), [1]
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(desk.flow(_moving(desk, price)), id=RUN)
        price[:] = [2, 2]
        for _ in range(2):
            outcome = await rt.run(desk.flow(_moving(desk, price)), id=RUN)
            assert (outcome.code, outcome.waits_for) == ("evidence_changed", "evidence")
            assert "quote: changed" in outcome.reason
            assert "no rule asks a person here: cancel this run and open a new one" in outcome.reason
        why = await rt.why(RUN)
        assert next_step(why).sentence.startswith(f"`remit cancel {RUN} --by user:YOU`, and open a new run")
        (objection,) = why.objections
        assert "cancel this run and open a new one" in objection.required
        await rt.cancel(RUN, by="user:root", reason="the quote moved")
        assert (await rt.wait(RUN)).status == "cancelled"
        assert desk.paid == []
        assert (await rt.run(desk.flow(_moving(desk, price)), id="anew")).status in ("waiting", "completed")


async def test_a_fact_that_is_again_as_it_was_lets_the_call_go_on():  # proves: GATE-2
    desk, price = Desk(), [1]
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.StepError):
            await rt.run(desk.flow(_moving(desk, price)), id=RUN)
        price[:] = [2, 2]
        assert (await rt.run(desk.flow(_moving(desk, price)), id=RUN)).code == "evidence_changed"
        price[:] = [1, 1]
        assert (await rt.run(desk.flow(_moving(desk, price)), id=RUN)).value == "paid 1"


async def test_a_changed_fact_is_put_to_the_person_whom_a_rule_asks_anyway(storage: Storage):  # proves: APR-1, GATE-2
    price = ["380"]
    office = Office(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"}))
    office.before = lambda run: run.evidence(
        "quote", "380", as_of=run.now(), fresh_for=72 * HOUR, again=lambda: price[0]
    )
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        price[0] = "420"
        outcome = await office.go(rt)
        assert (outcome.code, outcome.waits_for) == ("evidence_changed", "approval")
        assert "open a new one" not in outcome.reason
        assert (await voided(rt)) == [["approval.evidence", "approval.shown"], []]
        (shown,) = (await asked(rt)).evidence
        assert shown.value == "420"
        assert office.sent == []
        await answer(rt)
        assert (await office.go(rt)).status == "completed"
    assert len(office.sent) == 1


async def test_what_expired_besides_is_not_put_to_anybody():  # proves: GATE-2
    clock = MovedClock()
    office = Office(remit.Rule(approval=BY_DIRECTOR, evidence={"quote"}))
    office.before = lambda run: run.evidence("quote", "380", as_of=START, fresh_for=HOUR)
    async with remit.open("memory:", clock=clock) as rt:
        await staffed(rt)
        clock.move(2 * HOUR)
        outcome = await office.go(rt)
        assert (outcome.code, outcome.waits_for, await rt.inbox()) == ("evidence_expired", "evidence", [])
        assert {finding.code for finding in (await judged(rt)).verdict.findings if not finding.ok} == {
            "evidence.expired",
            "approval.needed",
        }
