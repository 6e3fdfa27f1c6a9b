"""Code that asks for something else than the journal has, at the boundary: refused before anything happens outside."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

import remit
from remit import Contract
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.moving import Moving
from tests.support.till import Order, Till, paying
from tests.support.vault import Vault

HOUR = timedelta(hours=1)
OPS = "user:ops"


def flow_of(body: Callable[..., Any], **contract: Any) -> remit.Flow[Any]:
    return remit.flow(contract=Contract(version="1", resume="anyone", **contract), name="flow")(body)


class Mending(Exception):
    pass


async def test_a_recorded_answer_is_given_to_no_other_payload(storage: Storage):  # proves: APR-1, APR-7, APR-10
    payload, fails, seen = {"pay": "acme"}, [True], list[str]()

    @remit.step
    async def later() -> None:
        if fails.pop():
            raise Mending

    async def body(run: remit.Run) -> str:
        yes = await run.approve("supplier", dict(payload), roles={"director"}, within=HOUR)
        seen.append(payload["pay"])
        await run.step(later)
        return yes.by

    flow = flow_of(body)
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by=OPS)
        await rt.run(flow, id="r")
        [ask] = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        with pytest.raises(remit.StepError):
            await rt.resume("r", flow)
        payload["pay"], fails[:] = "crook-inc", [False]
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.resume("r", flow)
        assert seen == ["acme"]
        payload["pay"] = "acme"
        assert (await rt.resume("r", flow)).value == "user:dana"


async def test_a_recorded_no_is_given_to_no_other_request(storage: Storage):  # proves: APR-7, LOG-2
    paid, amount = list[int](), [100]

    @remit.effect
    async def pay(request: int, *, key: str) -> None:
        paid.append(request)

    @remit.step
    async def later() -> None:
        raise Mending

    async def body(run: remit.Run) -> None:
        try:
            await run.effect(pay, amount[0])
        except remit.Denied:
            await run.step(later)

    rule = remit.Rule(approval=remit.Approval({"director"}, HOUR))
    flow = flow_of(body, effects={"pay": rule})
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by=OPS)
        await rt.run(flow, id="r")
        [ask] = await rt.inbox()
        await rt.decide(ask.id, "deny", by="user:dana", seen=ask.version)
        with pytest.raises(remit.StepError):
            await rt.resume("r", flow)
        amount[0] = 1
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.resume("r", flow)
        assert paid == []


async def test_an_effect_that_became_a_step_of_its_name_is_not_done_again(storage: Storage):  # proves: FX-2, RUN-4
    paid = list[int]()

    @remit.effect(name="pay")
    async def effect(request: int, *, key: str) -> None:
        paid.append(request)
        raise ConnectionError

    @remit.step(name="pay")
    async def step(request: int) -> None:
        paid.append(request)

    async def before(run: remit.Run) -> None:
        await run.effect(effect, 1)

    async def after(run: remit.Run) -> None:
        await run.step(step, 1)

    async with storage.open() as rt:
        assert (await rt.run(flow_of(before), id="r")).status == "in_doubt"
        with pytest.raises(remit.DefinitionIncompatible) as refused:
            await rt.resume("r", flow_of(after))
        assert refused.value.code == "definition_incompatible"
        assert paid == [1]
        assert [told.state for told in await rt.effects("r")] == ["in_doubt"]


Body = Callable[[remit.Run], Any]


def as_step() -> Body:
    @remit.step(name="pay")
    async def pay() -> None:
        raise AssertionError("it was another kind of call")

    return lambda run: run.step(pay)


def as_effect(did: list[int], **options: Any) -> Body:
    @remit.effect(name="pay", **options)
    async def pay(request: dict[str, str], *, key: str) -> None:
        did.append(1)

    return lambda run: run.effect(pay, {"invoice": "I-7"})


def as_question() -> Body:
    return lambda run: run.approve("pay", {"invoice": "I-7"}, roles={"director"}, within=HOUR)


def refused_flow(call: Body, **contract: Any) -> remit.Flow[Any]:
    """A flow that goes on where its one call is refused, and then fails."""

    async def body(run: remit.Run) -> None:
        try:
            await call(run)
        except remit.Denied:
            raise Mending from None

    return flow_of(body, **contract)


@pytest.mark.parametrize("after", [as_step, as_question], ids=["a step", "a question"])
async def test_a_conflict_is_no_other_kind_of_call(after: Callable[[], Body], storage: Storage):  # proves: RUN-4, LOG-2
    did = list[int]()
    pay = as_effect(did, business_key="invoice")
    async with storage.open() as rt:
        assert (await rt.run(refused_flow(pay), id="first")).status == "completed"
        with pytest.raises(remit.StepError):
            await rt.run(refused_flow(pay), id="r")
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.resume("r", refused_flow(after()))
        assert (await rt.check("r", refused_flow(after()))).fit == "incompatible"
        assert (did, (await rt.why("r")).code) == ([1], "definition_incompatible")
        with pytest.raises(remit.StepError):  # the code that fits is given the conflict again
            await rt.resume("r", refused_flow(pay))


CALLS = ("a step", "an effect", "a question")


@pytest.mark.parametrize("after", CALLS)
@pytest.mark.parametrize("before", CALLS[1:])
async def test_a_denial_is_of_what_was_asked_for(before: str, after: str, storage: Storage):  # proves: RUN-4, APR-7
    did = list[int]()
    calls = {"a step": as_step(), "an effect": as_effect(did), "a question": as_question()}
    rule = {"pay": remit.Rule(approval=remit.Approval({"director"}, HOUR))}
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by=OPS)
        await rt.run(refused_flow(calls[before], effects=rule), id="r")
        [ask] = await rt.inbox()
        await rt.decide(ask.id, "deny", by="user:dana", seen=ask.version)
        with pytest.raises(remit.StepError):
            await rt.resume("r", refused_flow(calls[before], effects=rule))
        expected = remit.StepError if before == after else remit.DefinitionIncompatible
        with pytest.raises(expected):
            await rt.resume("r", refused_flow(calls[after], effects=rule))
    assert did == []


async def test_a_renamed_effect_does_not_escape_the_question_about_it(storage: Storage):  # proves: APR-1, GATE-2
    paid = list[str]()

    def effect_of(name: str) -> remit.Effect[None]:
        @remit.effect(name=name)
        async def pay(request: int, *, key: str) -> None:
            paid.append(name)

        return pay

    def flow_with(effect: remit.Effect[None], **contract: Any) -> remit.Flow[Any]:
        async def body(run: remit.Run) -> None:
            await run.effect(effect, 1)

        return flow_of(body, **contract)

    rule = remit.Rule(approval=remit.Approval({"director"}, HOUR))
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by=OPS)
        await rt.run(flow_with(effect_of("pay"), effects={"pay": rule}), id="r")
        [ask] = await rt.inbox()
        await rt.decide(ask.id, "deny", by="user:dana", seen=ask.version)
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.resume("r", flow_with(effect_of("transfer")))
        assert paid == []


async def test_code_with_another_business_key_is_told_so_of_a_conflict(storage: Storage):  # proves: FX-8, RUN-4
    """The request is the same, byte for byte."""
    till = Till()

    def careful(business_key: str) -> remit.Flow[Any]:
        pay = till.effect(business_key=business_key)

        async def body(run: remit.Run) -> None:
            with contextlib.suppress(remit.Conflict):
                await run.effect(pay, Order())
            await run.approve("later", 1, roles={"director"}, within=HOUR)

        return flow_of(body)

    async with storage.open() as rt:
        await rt.run(paying(till.effect(business_key="invoice")), id="first")
        assert (await rt.run(careful("invoice"), id="r")).waits_for == "approval"
        with pytest.raises(remit.DefinitionIncompatible, match="asks for 'pay with another business key'"):
            await rt.run(careful("payee"), id="r")
        assert (await rt.run(careful("invoice"), id="r")).waits_for == "approval"
    assert till.times == [1]


async def test_a_doubt_is_not_ended_by_asking_somebody_else(storage: Storage):  # proves: FX-2
    called = list[str]()

    def flow_at(bank: str) -> remit.Flow[Any]:
        async def find(request: int, *, key: str) -> remit.NotLanded:
            return remit.NotLanded()

        @remit.effect(name="pay", connector=bank, recorded_as="pay", doubt="probe", probe=find, sink="dedupes")
        async def pay(request: int, *, key: str) -> None:
            called.append(bank)
            raise ConnectionError if bank == "A" and len(called) < 9 else Mending

        async def body(run: remit.Run) -> None:
            await run.effect(pay, 1)

        return flow_of(body)

    @remit.effect(name="pay", connector="A", recorded_as="pay")
    async def silent(request: int, *, key: str) -> None:
        called.append("A")
        raise ConnectionError

    async def before(run: remit.Run) -> None:
        await run.effect(silent, 1)

    async with storage.open() as rt:
        assert (await rt.run(flow_of(before), id="r")).status == "in_doubt"
        parked = await rt.resume("r", flow_at("B"))
        assert (parked.status, called) == ("in_doubt", ["A"])
        assert "another connector" in parked.reason


async def test_a_call_that_was_given_up_under_way_is_awaited_before_another_begins(storage: Storage):  # proves: FX-11
    paid = list[str]()
    begun, given_up = asyncio.Event(), asyncio.Event()

    @remit.effect
    async def pay(request: int, *, key: str) -> str:
        paid.append(key)
        begun.set()
        await given_up.wait()
        return "paid"

    async def body(run: remit.Run) -> str:
        for _ in range(3):
            call = asyncio.ensure_future(run.effect(pay, 1))
            await asyncio.wait([call, asyncio.ensure_future(begun.wait())], return_when=asyncio.FIRST_COMPLETED)
            if call.done() or given_up.is_set():
                return await call
            call.cancel()  # as a time-out does
            asyncio.get_running_loop().call_soon(given_up.set)
        return "gave up"

    flow = flow_of(body)
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == "paid"
        assert len(paid) == 1
        assert await rt.verify("r") is None


async def test_a_request_is_what_it_was_when_the_call_was_made(storage: Storage):  # proves: FX-4
    paid = list[str]()

    @remit.effect
    async def pay(request: dict[str, str], *, key: str) -> None:
        paid.append(request["to"])

    async def body(run: remit.Run) -> None:
        order, calls = {"to": ""}, []
        for to in ("acme", "bolt", "cy"):
            order["to"] = to
            calls.append(run.effect(pay, order))
        await run.gather(*calls)

    async with storage.open() as rt:
        await rt.run(flow_of(body), id="r")
        assert sorted(paid) == ["acme", "bolt", "cy"]


async def test_a_no_to_sending_again_is_no_word_about_what_happened(storage: Storage):  # proves: FX-2, LOG-2
    paid = list[str]()

    @remit.effect(doubt="resend", sink="dedupes")
    async def pay(request: int, *, key: str) -> str:
        paid.append(key)
        raise ConnectionError

    async def body(run: remit.Run) -> str:
        try:
            told: str = await run.effect(pay, 1)
            return told
        except remit.Denied:
            return "as if nothing was sent"

    flow = flow_of(body)
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by=OPS)
        await rt.grant(OPS, "operator", by="user:dana")
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        await rt.set_policy({"version": "1", "approvals": {"pay": {"roles": ["director"], "within": "1h"}}}, by=OPS)
        await rt.resume("r", flow)
        [ask] = await rt.inbox()
        await rt.decide(ask.id, "deny", by="user:dana", seen=ask.version)
        parked = await rt.resume("r", flow)
        assert (parked.status, parked.waits_for, len(paid)) == ("in_doubt", "doubt", 2)
        assert [told.state for told in await rt.effects("r")] == ["in_doubt"]


async def test_what_a_person_found_out_is_taken_up_without_the_code(storage: Storage):  # proves: FX-9, FX-12
    """Code that does not come there any more must not keep a run in doubt for ever."""

    @remit.effect
    async def pay(request: int, *, key: str) -> None:
        raise ConnectionError

    amounts = iter(range(100))

    async def body(run: remit.Run) -> None:
        await run.effect(pay, next(amounts))  # another request at each turn

    flow = flow_of(body)
    async with storage.open() as rt:
        await rt.grant(OPS, "operator", by="user:dana")
        for run in ("a", "b"):
            assert (await rt.run(flow, id=run)).status == "in_doubt"
            with pytest.raises(remit.DefinitionIncompatible):
                await rt.resume(run, flow)
            await rt.resolve(run, "pay", "ok", by=OPS, evidence="the statement of the bank", outcome=None)
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.resume("a", flow)
        assert [told.state for told in await rt.effects("a")] == ["ok"]
        cancelled = await rt.cancel("b", by=OPS, reason="done by hand")
        assert cancelled.status == "cancelled" and "Done before: pay" in cancelled.reason
        assert await rt.verify("b") is None


async def test_a_cancelled_run_does_not_wait_for_a_predicate_that_never_answers(storage: Storage):  # proves: RUN-14
    asked = asyncio.Event()

    async def hangs(request: int) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    @remit.effect
    async def pay(request: int, *, key: str) -> None:
        raise AssertionError("it was never allowed")

    async def body(run: remit.Run) -> None:
        await run.effect(pay, 1)

    flow = flow_of(body, effects={"pay": remit.Rule(still_wanted=hangs)})
    async with storage.open() as rt:
        running = asyncio.create_task(rt.run(flow, id="r"))
        await asyncio.wait_for(asked.wait(), 10)
        await rt.cancel("r", by=OPS)
        assert (await asyncio.wait_for(running, 10)).status == "cancelled"


async def test_who_stops_waiting_for_a_run_leaves_no_call_under_way_behind(storage: Storage):  # proves: FX-2, FX-5
    till = Till()
    till.next(till.hold)
    flow = paying(till.effect())
    async with storage.open() as rt:
        await rt.grant(OPS, "operator", by="user:dana")
        running = asyncio.create_task(rt.run(flow, id="r"))
        await till.is_held.wait()
        running.cancel()
        asyncio.get_running_loop().call_soon(till.let_go.set)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert till.times == [1]  # it was seen through before the run was given back
        with pytest.raises(remit.Refused) as refused:
            await rt.resolve("r", "pay", "did_not_happen", by=OPS, evidence="the bank has no such payment")
        assert refused.value.code == "doubt.absent"
        assert (await rt.run(flow, id="r")).value == [100]
    assert till.times == [1]


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ({"amount": 80}, "ceiling.exceeded"),
        ({"amount": -1_000}, "ceiling.uncounted"),  # it would give room
        ({"amount": 1_000_000.0}, "ceiling.uncounted"),
        ({"amount": "1000000"}, "ceiling.uncounted"),
        ({"amount": 2**60}, "ceiling.uncounted"),
        ({"amount": 90, "currency": "JPY"}, "ceiling.uncounted"),  # of something else
        ({"sum": 90}, "ceiling.uncounted"),
        ({"amount": 20}, ""),
        ({"amount": 20, "currency": "GBP"}, ""),
    ],
)
async def test_a_ceiling_of_a_run_counts_what_was_paid_before_it_was_set(first: Any, code: str):  # proves: FX-12
    """What can't be counted leaves nobody to say what is used: that is a no, which names it."""
    paid, is_open = list[Any](), asyncio.Event()

    @remit.effect
    async def pay(request: dict[str, Any], *, key: str) -> None:
        paid.append(request)

    @remit.step
    async def later() -> None:
        if not is_open.is_set():
            raise Mending

    async def body(run: remit.Run) -> None:
        await run.effect(pay, first)
        await run.step(later)
        await run.effect(pay, {"amount": 80})

    flow = flow_of(body)
    cap = {"max": 100, "currency": "GBP", "per": "run"}
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        await rt.set_policy({"version": "1", "ceilings": {"pay.amount": cap}}, by=OPS)
        is_open.set()
        ended = await rt.resume("r", flow)
        if not code:
            assert (ended.status, len(paid)) == ("completed", 2)
            return
        assert (ended.status, ended.code, paid) == ("failed", "ceiling_exceeded", [first])
        judged = (await rt.show("r")).view.boundary.judged
        assert judged is not None
        (finding,) = [each for each in judged.verdict.findings if not each.ok]
        assert finding.code == code
        assert finding.detail == "pay.amount/GBP/run" + (" by pay" if code == "ceiling.uncounted" else "")


async def test_a_ceiling_of_a_run_counts_what_was_sent_again_under_it_once():  # proves: FX-12
    """First as of before it was set, then as it reserves."""
    sent, is_down = list[int](), True

    @remit.effect(doubt="resend", sink="dedupes")
    async def pay(request: dict[str, int], *, key: str) -> str:
        sent.append(request["amount"])
        if is_down:
            raise OSError("no answer")
        return "paid"

    def wanted(request: dict[str, int]) -> bool:
        if is_down and request["amount"] == 40:
            raise OSError("whoever knows is down")
        return True

    contract = Contract(version="1", resume="anyone", effects={"pay": remit.Rule(still_wanted=wanted)})

    @remit.flow(contract=contract)
    async def both(run: remit.Run) -> None:
        await run.gather(run.effect(pay, {"amount": 40}), run.effect(pay, {"amount": 60}))

    async with remit.open("memory:") as rt:
        assert (await rt.run(both, id="r")).status == "in_doubt"
        await rt.set_policy({"version": "1", "ceilings": {"pay.amount": {"max": 100, "per": "run"}}}, by=OPS)
        is_down = False
        sent.clear()
        assert (await rt.run(both, id="r")).status == "completed"
    assert sorted(sent) == [40, 60]


HUNDRED_A_DAY = remit.Ceiling("amount", max=100, per="day")
LATE = datetime(2026, 1, 5, 23, 59, 55, tzinfo=UTC)


def daily_of(paid: list[int], rule: remit.Rule, before: Callable[[], object] = lambda: None) -> remit.Flow[None]:
    """Pays what it is given, after `before`; `paid` is what went out."""

    @remit.effect
    async def pay(request: dict[str, int], *, key: str) -> None:
        paid.append(request["amount"])

    contract = Contract(version="1", resume="anyone", window=timedelta(days=5), effects={"pay": rule})

    @remit.flow(contract=contract, name="daily")
    async def daily(run: remit.Run, amount: int) -> None:
        before()
        await run.effect(pay, {"amount": amount})

    return daily


def moving_once(clock: MovedClock, by: timedelta, is_slow: list[bool]) -> Callable[[dict[str, int]], Awaitable[bool]]:
    """It is still wanted; whoever says so takes so long, once for each time that `is_slow` is set."""

    async def wanted(request: dict[str, int]) -> bool:
        if is_slow:
            is_slow.clear()
            clock.move(by)
        return True

    return wanted


async def test_what_is_judged_over_midnight_counts_on_the_day_on_which_it_is_paid():  # proves: FX-12
    clock, is_slow, paid = MovedClock(LATE), [True], list[int]()
    daily = daily_of(paid, remit.Rule(still_wanted=moving_once(clock, timedelta(seconds=10), is_slow)))
    async with remit.open("memory:", clock=clock) as rt:
        await rt.set_policy({"version": "1", "ceilings": {"pay.amount": {"max": 100, "per": "day"}}}, by=OPS)
        assert (await rt.run(daily, 100, id="a")).status == "completed"
        assert [(used.max, used.used) for used in await rt.used()] == [(100, 100)]
        assert (await rt.run(daily, 100, id="b")).code == "ceiling_exceeded"
        clock.move(timedelta(days=1) - timedelta(seconds=10))
        is_slow.append(True)
        assert (await rt.run(daily, 50, id="c")).status == "completed", "nothing is used of the new day"
    assert paid == [100, 50]


async def test_a_clock_that_is_put_right_while_it_is_asked_counts_on_its_own_day():  # proves: FX-12
    """Nothing was written under the wrong time, so nothing else knows of it."""
    clock, is_ahead, paid = MovedClock(LATE), [True], list[int]()
    wanted = moving_once(clock, timedelta(seconds=-10), is_ahead)
    rule = remit.Rule(ceiling=HUNDRED_A_DAY, still_wanted=wanted)
    daily = daily_of(paid, rule, lambda: clock.move(timedelta(seconds=10)) if is_ahead else None)
    async with remit.open("memory:", clock=clock) as rt:
        for id, code in (("a", ""), ("b", "ceiling_exceeded")):
            assert (await rt.run(daily, 100, id=id)).code == code
    assert paid == [100]


async def test_what_is_judged_dry_over_midnight_has_a_verdict():  # proves: GATE-9
    clock = MovedClock(LATE)

    async def unknown(request: dict[str, int]) -> bool:
        clock.move(timedelta(seconds=10))
        raise OSError("whoever knows is down")

    daily = daily_of([], remit.Rule(ceiling=HUNDRED_A_DAY, still_wanted=unknown))
    async with remit.open("memory:", clock=clock) as rt:
        assert (await rt.run(daily, 100, id="a")).code == "objective_unknown"
        clock.move(timedelta(days=1, seconds=-20))
        assert (await rt.judge("a", daily)).verdict.code == "objective_unknown"


async def test_a_commit_that_waits_over_midnight_counts_on_no_day_and_is_judged_anew():  # proves: FX-12, FX-11
    clock, store, paid = MovedClock(LATE), Moving(MemoryStore()), list[int]()
    daily = daily_of(paid, remit.Rule(ceiling=HUNDRED_A_DAY))

    async def waits() -> None:
        clock.move(timedelta(seconds=10))

    async with remit.open(cast(Store, store), clock=clock) as rt:
        await rt.grant("user:a", "clerk", by=OPS)
        store.meanwhile = waits
        assert (await rt.run(daily, 100, id="a")).status == "completed"
        assert (await rt.run(daily, 100, id="b")).code == "ceiling_exceeded"
        assert [effect.calls for effect in await rt.effects("a")] == [2]
    assert paid == [100]


async def test_a_ceiling_of_a_run_gives_back_what_was_declined_after_it_was_looked_at():  # proves: FX-12
    is_set, is_paid, sent = asyncio.Event(), asyncio.Event(), list[int]()

    @remit.effect
    async def pay(request: dict[str, int], *, key: str) -> None:
        if request["to"] == 1:
            is_set.set()
            await is_paid.wait()
            raise remit.Declined("no such account")
        sent.append(request["amount"])

    async def first(run: remit.Run) -> None:
        with contextlib.suppress(remit.EffectDeclined):
            await run.branch("a").effect(pay, {"amount": 100, "to": 1})

    async def second(run: remit.Run) -> None:
        await is_set.wait()
        await rt.set_policy({"version": "1", "ceilings": {"pay.amount": {"max": 150, "per": "run"}}}, by=OPS)
        await run.branch("b").effect(pay, {"amount": 10, "to": 2})
        is_paid.set()

    async def body(run: remit.Run) -> None:
        await run.gather(first(run), second(run))
        await run.effect(pay, {"amount": 100, "to": 3})

    async with remit.open("memory:") as rt:
        assert (await rt.run(flow_of(body), id="r")).status == "completed"
    assert sent == [10, 100]


async def test_of_a_call_that_still_runs_nobody_says_what_became_of_it(storage: Storage):  # proves: FX-9
    """Not even where it was given up twice, so that the run is held by nobody."""
    till = Till()
    till.next(till.hold)
    async with storage.open() as rt:
        await rt.grant(OPS, "operator", by="user:dana")
        running = asyncio.create_task(rt.run(paying(till.effect()), id="r"))
        await till.is_held.wait()
        for _ in range(2):
            running.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await running
        with pytest.raises(remit.Refused) as refused:
            await rt.resolve("r", "pay", "did_not_happen", by=OPS, evidence="the bank has no such payment")
        assert refused.value.code == "doubt.under_way"
        till.let_go.set()


async def test_nobody_is_refused_by_a_policy_that_was_taken_back_while_he_was_asked(storage: Storage):  # proves: GATE-4
    asked, go, paid = asyncio.Event(), asyncio.Event(), list[int]()

    async def is_wanted(request: int) -> bool:
        asked.set()
        await go.wait()
        return True

    @remit.effect
    async def pay(request: int, *, key: str) -> None:
        paid.append(request)

    async def body(run: remit.Run) -> None:
        await run.effect(pay, 1)

    flow = flow_of(body, effects={"pay": remit.Rule(still_wanted=is_wanted)})
    async with storage.open() as rt:
        await rt.set_policy({"version": "1", "forbid": ["pay"]}, by=OPS)
        running = asyncio.create_task(rt.run(flow, id="r"))
        await asked.wait()
        await rt.set_policy({"version": "2"}, by=OPS)
        go.set()
        assert (await running).status == "completed"
        assert paid == [1]


EDITS = [
    "DELETE FROM {0}ask_open",
    "DELETE FROM {0}ask_open; DELETE FROM {0}ask",
    "DELETE FROM {0}ask_open WHERE role = 'director'",
    "DELETE FROM {0}ask_open WHERE role = ''",
    "UPDATE {0}ask_open SET role = 'buyer' WHERE role = ''",
    "UPDATE {0}ask_open SET tenant = 'x'",
    "UPDATE {0}ask_open SET number = number + 7",
    "UPDATE {0}ask SET tenant = 'x'",
    "UPDATE {0}ask SET ask = 'x'",
    "UPDATE {0}ask SET run = 'other'",
    "UPDATE {0}ask SET run = 'gone'",
    "UPDATE {0}ask SET run_key = 0",
    "UPDATE {0}ask SET call = 'pay#2'",
    "UPDATE {0}ask SET asked_at = 0",
    "UPDATE {0}ask SET until = 0",
    "UPDATE {0}ask SET roles = '{1}'",
]


@pytest.mark.parametrize("edit", EDITS)
async def test_a_question_is_listed_again_as_it_was_asked_whatever_became_of_its_rows(
    database: Storage, edit: str
):  # proves: APR-6
    @remit.effect
    async def pay(request: int, *, key: str) -> str:
        return "paid"

    async def body(run: remit.Run) -> str:
        return await run.effect(pay, 1)

    flow = flow_of(body, effects={"pay": remit.Rule(approval=remit.Approval({"director"}, HOUR))})
    async with database.open() as rt:
        await rt.grant("user:dana", "director", by=OPS)
        await rt.run(flow, id="r")
        await rt.start(flow_of(body), id="other")
        [before] = await rt.inbox()
    is_postgres = database.kind == "postgres"
    for statement in edit.format("remit." if is_postgres else "remit_", "{}" if is_postgres else "not JSON").split(
        "; "
    ):
        await Vault(database.make(None)).sql(statement)
    async with database.open() as rt:
        await rt.run(flow, id="r-2")
        assert {ask.run for ask in await rt.inbox()} - {"r"} == {"r-2"}  # a row that leads nowhere hides no other
        assert (await rt.resume("r", flow)).code == "approval_needed"
        for role in ("director", None):
            [ask] = [ask for ask in await rt.inbox(role=role) if ask.run == "r"]
            assert (ask.id, ask.version) == (before.id, before.version)  # the same question, listed once more
        assert {ask.run for ask in await rt.inbox(role="buyer")} == set()
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        assert (await rt.resume("r", flow)).value == "paid"


async def test_rows_that_lead_nowhere_take_no_place_in_a_page_of_the_inbox(database: Storage):  # proves: APR-2
    @remit.effect
    async def pay(request: int, *, key: str) -> str:
        return "paid"

    async def body(run: remit.Run) -> str:
        return await run.effect(pay, 1)

    flow = flow_of(body, effects={"pay": remit.Rule(approval=remit.Approval({"director"}, HOUR))})
    async with database.open() as rt:
        for number in range(6):
            await rt.run(flow, id=f"r-{number}")
        table = "remit.ask" if database.kind == "postgres" else "remit_ask"
        await Vault(database.make(None)).sql(f"UPDATE {table} SET run = 'gone' WHERE run IN ('r-0', 'r-1', 'r-3')")
        first = await rt.inbox(limit=2)
        assert [ask.run for ask in first] == ["r-2", "r-4"]
        assert [ask.run for ask in await rt.inbox(limit=2, after=first[-1].number)] == ["r-5"]
