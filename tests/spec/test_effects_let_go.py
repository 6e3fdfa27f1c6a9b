"""Effects that their flow lets go of: a race, a time-out or a cancelled run ends the waiting, never the effect."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest

import remit
from remit.engine.boundary import effect
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.moving import Moving
from tests.support.till import OPEN, Order, Receipt, Till, find_out, kinds_of, paying


async def test_a_flow_hears_of_what_a_timeout_let_go_of_before_its_run_ends(storage: Storage):  # proves: FX-10
    till = Till()
    till.next(till.hold)
    pay = till.effect()
    believed = []

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> list[str]:
        unpaid = []
        try:
            async with asyncio.timeout(0.05):
                await run.effect(pay, Order())
        except TimeoutError:
            unpaid.append("order")
            till.let_go.set()
        believed.append(list(unpaid))
        return unpaid

    async with storage.open() as rt:
        assert (await rt.run(impatient, id="r")).value == []
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.outcome) == ("ok", {"amount": 100, "number": 1})
        assert (await kinds_of(rt, "r"))[-3:] == ["EffectSettled", "AttemptStarted", "RunEnded"]
    assert (till.times, believed) == ([1], [["order"], []])


async def test_a_flow_that_recorded_a_step_behind_a_timeout_ends_by_what_it_returned(storage: Storage):  # proves: FX-10
    till = Till()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        try:
            async with asyncio.timeout(0.05):
                await run.effect(pay, Order())
        except TimeoutError:
            till.let_go.set()
            await run.step(note)
            return "noted"
        return "paid"

    async with storage.open() as rt:
        assert (await rt.run(impatient, id="r")).value == "noted"
        assert [effect.state for effect in await rt.effects("r")] == ["ok"]
        assert (await kinds_of(rt, "r")).count("AttemptStarted") == 1
    assert till.times == [1]


@remit.step
async def note() -> str:
    return "nobody knows yet"


async def test_a_flow_that_gave_up_what_did_not_happen_ends_by_what_it_returned(storage: Storage):  # proves: FX-10
    till = Till()

    @remit.effect
    async def pay(order: Order, *, key: str) -> Receipt:
        till.is_held.set()
        await till.let_go.wait()
        raise remit.DidNotHappen("no connection")

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        try:
            async with asyncio.timeout(0.05):
                await run.effect(pay, Order())
        except TimeoutError:
            till.let_go.set()
            return "unpaid"
        return "paid"

    async with storage.open() as rt:
        assert (await rt.run(impatient, id="r")).value == "unpaid"
        assert [effect.state for effect in await rt.effects("r")] == ["did_not_happen"]


async def test_a_flow_that_never_waits_for_its_effect_is_told_so_and_does_not_end(storage: Storage):  # proves: FX-10
    till = Till()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        waiting = asyncio.ensure_future(run.effect(pay, Order()))
        await till.is_held.wait()
        waiting.cancel()
        till.let_go.set()
        return "unpaid"

    async with storage.open() as rt:
        for _ in range(2):
            outcome = await rt.run(impatient, id="r")
            assert (outcome.status, outcome.code) == ("waiting", "effect.unheard")
            assert "gave up pay" in outcome.reason
            assert "went on to its end" in outcome.reason
        assert [effect.state for effect in await rt.effects("r")] == ["ok"]
    assert till.times == [1]


@pytest.mark.parametrize(
    ("fault", "logged"),
    [(AssertionError("can't be"), ["pay of run 'r', which its flow let go of, raised AssertionError: can't be"]),
     (remit.StoreUnavailable("gone"), [])],
    ids=["a fault", "what the turn says itself"],
)  # fmt: skip
async def test_a_fault_in_an_effect_that_nobody_waits_for_any_more_ends_the_turn(
    fault: Exception, logged: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):  # proves: FX-10
    till = Till()
    till.next(till.hold)
    pay = till.effect()

    async def settle(*_: Any) -> None:
        raise fault

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> None:
        waiting = asyncio.ensure_future(run.effect(pay, Order()))
        await till.is_held.wait()
        waiting.cancel()
        till.let_go.set()

    monkeypatch.setattr(effect, "settle", settle)
    async with remit.open("memory:") as rt, asyncio.timeout(30):
        with pytest.raises(type(fault)):
            await rt.run(impatient, id="r")
        assert [each.state for each in await rt.effects("r")] == ["in_doubt"]
    assert [each.getMessage() for each in caplog.records if each.name == "remit"] == logged


async def test_a_doubt_that_its_flow_let_go_of_holds_the_run(storage: Storage):  # proves: FX-2, FX-10, FX-13
    till = Till()
    till.next(till.hold_and_raise)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        waiting = asyncio.ensure_future(run.effect(pay, Order()))
        await till.is_held.wait()
        waiting.cancel()
        till.let_go.set()
        return "gone on"

    async with storage.open() as rt, asyncio.timeout(30):
        outcome = await rt.run(impatient, id="r")
        assert (outcome.status, outcome.waits_for) == ("in_doubt", "doubt")
        assert "RunEnded" not in await kinds_of(rt, "r")


async def test_a_doubt_that_lost_a_race_holds_the_run_and_not_the_winner(storage: Storage):  # proves: FX-2, FX-10
    till, done = Till(), []
    till.next(till.hold_and_raise)
    pay = till.effect()

    async def quick() -> str:
        await till.is_held.wait()
        return "quick"

    async def after() -> str:
        till.let_go.set()
        await asyncio.sleep(0)
        done.append("after")
        return "after"

    @remit.flow(contract=OPEN)
    async def racing(run: remit.Run) -> list[str]:
        return [await run.first(run.effect(pay, Order()), run.step(quick)), await run.step(after)]

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(racing, id="r")).status == "in_doubt"
        assert done == ["after"]
        await find_out(rt, "r", "ok", {"number": 1, "amount": 100})
        assert (await rt.run(racing, id="r")).value == ["quick", "after"]
    assert (till.times, done) == ([1], ["after"])


async def test_an_effect_that_lost_a_race_before_its_intention_is_never_called(storage: Storage):  # proves: FX-1, C6
    till = Till()
    pay = till.effect()

    async def quick() -> str:
        return "quick"

    @remit.flow(contract=OPEN)
    async def racing(run: remit.Run) -> str:
        async def late() -> None:
            await asyncio.Event().wait()
            await run.effect(pay, Order())

        return str(await run.first(run.step(quick), late()))

    async with storage.open() as rt:
        assert (await rt.run(racing, id="r")).value == "quick"
    assert till.arrived == []


async def test_a_run_that_is_cancelled_under_an_effect_says_what_it_did(storage: Storage):  # proves: FX-10, C7
    till = Till()
    till.next(till.hold)
    flow = paying(till.effect(), Order(), Order(invoice="i-2"))

    async with storage.open() as rt:
        running = asyncio.create_task(rt.run(flow, id="r"))
        await till.is_held.wait()
        assert (await rt.cancel("r", by="user:a", reason="too dear")).status == "running"
        till.let_go.set()
        outcome = await running
        assert (outcome.status, outcome.code) == ("cancelled", "cancelled")
        assert "user:a" in outcome.reason and "too dear" in outcome.reason and "Done before: pay." in outcome.reason
        (effect,) = await rt.effects("r")
        assert effect.state == "ok"
        kinds = await kinds_of(rt, "r")
        assert kinds.index("EffectSettled") < kinds.index("RunEnded")
    assert till.calls == {"i-1": 1}


async def test_a_run_that_is_cancelled_under_an_effect_in_doubt_waits_for_it(storage: Storage):  # proves: FX-10, C7
    till = Till()
    till.next(till.hold_and_raise)
    flow = paying(till.effect())

    async with storage.open() as rt, asyncio.timeout(30):
        running = asyncio.create_task(rt.run(flow, id="r"))
        await till.is_held.wait()
        await rt.cancel("r", by="user:a")
        till.let_go.set()
        outcome = await running
        assert (outcome.status, outcome.waits_for) == ("in_doubt", "doubt")
        assert "cancelled" in outcome.reason

        await find_out(rt, "r", "ok", {"number": 1, "amount": 100})
        outcome = await rt.run(flow, id="r")
        assert outcome.status == "cancelled" and "Done before: pay." in outcome.reason
    assert till.times == [1]


async def test_what_its_flow_gave_up_before_the_intention_was_written_never_begins():  # proves: FX-1, FX-10
    till, store, calls = Till(), Moving(MemoryStore()), list[asyncio.Future[Any]]()
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        calls.append(asyncio.ensure_future(run.effect(pay, Order())))
        await asyncio.wait(calls)
        assert calls[0].cancelled()
        return "gone on"

    async with remit.open(cast(Store, store)) as rt:

        async def give_up() -> None:
            calls[0].cancel()
            await asyncio.wait(calls)
            await rt.grant("user:a", "clerk", by="user:root")

        await rt.grant("user:b", "clerk", by="user:root")
        store.meanwhile = give_up
        assert (await rt.run(impatient, id="r")).value == "gone on"
        assert "EffectIntended" not in await kinds_of(rt, "r")
    assert till.arrived == []


class Quoted:
    """A payment that rests on a quote and lost a race while it was under way; twice its answer was lost."""

    def __init__(self) -> None:
        self.till = Till()
        self.till.next(self.till.hold_and_raise, ConnectionError("no answer"))
        self.order = Order()
        pay = self.till.effect(doubt="resend", sink="dedupes")

        async def quick() -> str:
            await self.till.is_held.wait()
            return "quick"

        async def after() -> str:
            self.till.let_go.set()
            return "after"

        @remit.flow(contract=OPEN)
        async def racing(run: remit.Run) -> Any:
            run.evidence("quote", 120, as_of=run.now(), fresh_for=timedelta(hours=1))
            won = await run.first(run.effect(pay, self.order, rests_on=["quote"]), run.step(quick))
            return [won, await run.step(after)]

        self.flow = racing


async def test_what_lost_a_race_is_sent_again_only_while_what_it_rests_on_holds(
    storage: Storage,
):  # proves: GATE-2, FX-2
    quoted, clock = Quoted(), MovedClock()
    async with storage.open(clock=clock) as rt, asyncio.timeout(30):
        assert (await rt.run(quoted.flow, id="r")).status == "in_doubt"
        assert len(quoted.till.arrived) == 2
        clock.move(timedelta(hours=2))
        outcome = await rt.run(quoted.flow, id="r")
        assert (outcome.status, "quote" in outcome.reason) == ("in_doubt", True)
        assert len(quoted.till.arrived) == 2, "the quote had expired"
        await find_out(rt, "r", "ok", {"number": 1, "amount": 100})
        assert (await rt.run(quoted.flow, id="r")).value == ["quick", "after"]


async def test_what_lost_a_race_is_not_sent_again_by_code_that_would_send_something_else(
    storage: Storage,
):  # proves: FX-4
    quoted = Quoted()
    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(quoted.flow, id="r")).status == "in_doubt"
        quoted.order = Order(amount=999)
        with pytest.raises(remit.DefinitionIncompatible, match="another request"):
            await rt.run(quoted.flow, id="r")
    assert [order.amount for _, order in quoted.till.arrived] == [100, 100]


class Asked:
    """A payment in doubt whose probe is slower than the flow has patience for."""

    def __init__(self, storage: Storage) -> None:
        self.till, self.storage = Till(), storage
        self.is_asked, self.answers = asyncio.Event(), asyncio.Event()
        self.till.next(self.till.pay_and_raise(ConnectionError("no answer")))
        self.till.probe_says = ConnectionError("the bank's query is down")
        self.pay = self.till.effect(doubt="probe", sink="dedupes", probe=self.probe)
        self.tell = self.till.effect("tell")
        self.tells = False

        @remit.flow(contract=OPEN)
        async def impatient(run: remit.Run) -> str:
            if self.answers.is_set():
                self.is_asked.clear()  # nobody asks any more
            waiting = asyncio.ensure_future(run.effect(self.pay, Order()))
            asked = asyncio.ensure_future(self.is_asked.wait())
            await asyncio.wait([waiting, asked], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if self.is_asked.is_set():
                asyncio.get_running_loop().call_later(0.01, self.answers.set)
            if self.tells:
                await run.effect(self.tell, Order(invoice="late"))
            return "late"

        self.flow = impatient

    async def probe(self, order: Order, *, key: str) -> Any:
        if self.till.probed:
            self.is_asked.set()
            await self.answers.wait()
        return await self.till.probe(order, key=key)

    async def in_doubt(self, rt: remit.Runtime) -> None:
        assert (await rt.run(self.flow, id="r")).status == "in_doubt"
        assert self.till.probed, "and it gave no answer"
        self.till.probe_says = None


@pytest.mark.parametrize("tells", [False, True], ids=["returns", "goes on to another effect"])
async def test_a_doubt_that_its_flow_has_no_patience_for_is_ended_all_the_same(
    tells: bool, storage: Storage
):  # proves: FX-2, FX-10
    asked = Asked(storage)
    async with storage.open() as rt, asyncio.timeout(30):
        await asked.in_doubt(rt)
        asked.tells = tells
        assert (await rt.run(asked.flow, id="r")).value == "late"
        assert next((effect.call, effect.state) for effect in await rt.effects("r")) == ("pay", "ok")
    assert (len(asked.till.probed), asked.till.calls["i-1"], asked.till.calls["late"]) == (2, 1, int(tells))


async def test_a_doubt_that_is_being_asked_about_is_ended_before_a_cancelled_run_is(storage: Storage):  # proves: FX-10
    asked = Asked(storage)
    async with storage.open() as rt, asyncio.timeout(30):
        await asked.in_doubt(rt)
        flow = paying(asked.pay, name="impatient")
        running = asyncio.create_task(rt.run(flow, id="r"))
        await asked.is_asked.wait()
        await rt.cancel("r", by="user:a")
        asked.answers.set()
        outcome = await running
        assert outcome.status == "cancelled" and "Done before: pay." in outcome.reason


@pytest.mark.parametrize("has_more", [False, True], ids=["at once", "when what is recorded was handed out"])
async def test_a_cancelled_run_asks_about_a_doubt_whatever_else_the_flow_names_before_it(
    has_more: bool, storage: Storage
):  # proves: FX-10, FX-2
    till, is_new = Till(), list[bool]()
    till.next(till.pay_and_raise(ConnectionError("no answer")))
    till.probe_says = ConnectionError("the bank's query is down")
    pay = till.effect(doubt="probe", sink="dedupes")

    async def report() -> None:
        raise AssertionError("a turn that only settles begins no step")

    async def quote() -> int:
        return 120

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> None:
        calls = [run.effect(pay, Order())]
        if is_new:
            calls.insert(0, run.step(report))
        if has_more:
            calls.append(run.step(quote))
        await run.gather(*calls)

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(paying, id="r")).status == "in_doubt"
        await rt.cancel("r", by="user:a")
        till.probe_says = None
        is_new.append(True)
        outcome = await rt.run(paying, id="r")
        assert outcome.status == "cancelled" and "Done before: pay." in outcome.reason
    assert till.times == [1]


async def test_a_doubt_that_is_given_up_while_another_one_is_waited_for_is_ended_too(storage: Storage):  # proves: FX-2
    till, is_patient = Till(), [True]

    async def pay_with_the_other(key: str, order: Order) -> None:
        if len(till.arrived) == 2:
            till.let_go.set()
        await till.let_go.wait()
        till.pay(key, order)
        raise ConnectionError("no answer")

    till.next(pay_with_the_other, pay_with_the_other)
    till.probe_says = ConnectionError("the bank's query is down")
    pay = till.effect(doubt="probe", sink="dedupes")

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        one, other = (run.branch(name).effect(pay, Order(invoice=name)) for name in ("one", "other"))
        if is_patient:
            await run.gather(one, other)
        waiting = asyncio.ensure_future(one)
        for _ in range(3):
            await asyncio.sleep(0)  # it waits there for the flow to come to the other one
        waiting.cancel()
        await other
        return "late"

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(impatient, id="r")).status == "in_doubt"
        assert len(await rt.effects(in_doubt=True)) == 2
        is_patient.clear()
        till.probe_says = None
        assert (await rt.run(impatient, id="r")).value == "late"
        assert [effect.state for effect in await rt.effects("r")] == ["ok", "ok"]
    assert till.times == [1, 1]


async def test_what_was_given_up_and_did_not_happen_is_sent_once_a_call(storage: Storage):  # proves: FX-10, FX-2
    till = Till()
    till.next(ConnectionError("no answer"))

    async def find(order: Order, *, key: str, epoch: int) -> remit.NotLanded:
        if epoch == 1:
            raise ConnectionError("the bank's query is down")
        till.is_held.set()
        await till.let_go.wait()
        return remit.NotLanded()

    @remit.effect(doubt="probe", probe=find, sink="fences")
    async def pay(order: Order, *, key: str, epoch: int) -> Receipt:
        return await till._answer(order, key)

    tell = till.effect("tell")

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> int:
        waiting = asyncio.ensure_future(run.effect(pay, Order()))
        held = asyncio.ensure_future(till.is_held.wait())
        await asyncio.wait([waiting, held], return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            held.cancel()
            return waiting.result().number
        waiting.cancel()
        till.let_go.set()
        while (await rt.effects("r"))[0].state != "did_not_happen":
            await asyncio.sleep(0)
        return (await run.effect(tell, Order(invoice="late"))).number

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(impatient, id="r")).status == "in_doubt"
        outcome = await rt.run(impatient, id="r")
        assert (outcome.status, outcome.code) == ("waiting", "effect.did_not_happen")
        assert till.calls == {"i-1": 1}
        till.is_held.clear()
        assert (await rt.run(impatient, id="r")).value == 1
    assert till.calls == {"i-1": 2}
