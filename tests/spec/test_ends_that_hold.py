"""Ends that hold: a run is over for good only by what is still so when that is written.

A turn may be at its steps for hours, and predicates take their time. Meanwhile operators change the rules, and other
runs give back what they took. Nobody is ended, or told no, by what held before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, cast

import pytest

import remit
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from remit.store.rows import KeyRow
from remit.store.url import store_for
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.moving import Moving
from tests.support.office import ROOT
from tests.support.till import Order, Till, kinds_of, paying

LEASE_MS = 600_000
MILD = {"version": "2"}
STRICT: dict[str, dict[str, Any]] = {
    "ceiling": {"version": "1", "ceilings": {"pay.amount": 50}},
    "forbidden": {"version": "1", "forbid": ["pay"]},
    "window": {"version": "1", "windows": {"low": "2m"}},
}


def ruled(rule: remit.Rule | None = None) -> remit.Contract:
    return remit.Contract(version="1", resume="anyone", effects={"pay": rule or remit.Rule()})


class Thinking:
    """A flow that is at a step until it is let go, and then pays."""

    def __init__(self) -> None:
        self.till, self.clock = Till(), MovedClock()
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()
        pay = self.till.effect()

        async def think() -> None:
            self.reached.set()
            await self.let_go.wait()

        @remit.flow(contract=ruled())
        async def flow(run: remit.Run) -> int:
            await run.step(think)
            return (await run.effect(pay, Order())).amount

        self.flow = flow

    def open(self, database: Storage) -> remit.Runtime:
        return database.open(clock=self.clock, lease_ms=LEASE_MS)


@pytest.mark.parametrize("what", STRICT)
async def test_a_long_turn_is_not_ended_by_a_policy_that_holds_no_more(database: Storage, what: str):
    # proves: GATE-4, GATE-8
    at = Thinking()
    async with at.open(database) as worker, at.open(database) as office:
        await office.set_policy(STRICT[what], by=ROOT)
        turn = asyncio.create_task(worker.run(at.flow, id="r"))
        await at.reached.wait()
        await office.set_policy(MILD, by=ROOT)
        at.clock.move(timedelta(minutes=5))
        at.let_go.set()
        assert (await turn).value == 100
    assert at.till.times == [1]


async def test_a_long_turn_is_not_ended_by_rules_that_can_t_be_read_any_more(monkeypatch: pytest.MonkeyPatch):
    # proves: GATE-4, GATE-5
    at, store = Thinking(), MemoryStore()

    async def nothing(run_key: int) -> None:
        return None

    async with remit.open(store) as rt:
        await rt.set_policy(STRICT["forbidden"], by=ROOT)
        turn = asyncio.create_task(rt.run(at.flow, id="r"))
        await at.reached.wait()
        monkeypatch.setattr(store, "peek", nothing)  # the journal of the authority is gone
        at.let_go.set()
        outcome = await turn
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "gate", "authority.unreadable")


# -- what other runs give back ------------------------------------------------------------------------------------

SHARED = {
    "ceiling": (remit.Ceiling("amount", max=100, per="day"), "i-2"),
    "business key": (remit.Ceiling("amount", max=1_000, per="day"), "i-1"),
}


class Rivals:
    """Two runs: one was sent out, and is declined when it is let go; the other wants what it holds."""

    def __init__(self, what: str, *, wanted: Callable[[Order], Any] | None = None) -> None:
        ceiling, invoice = SHARED[what]
        self.till, self.invoice = Till(), invoice
        self.till.next(self._decline)
        pay = self.till.effect(business_key="invoice")
        self.first = paying(pay, contract=ruled(remit.Rule(ceiling=ceiling)))
        rule = remit.Rule(ceiling=ceiling, still_wanted=wanted)
        self.second = paying(pay, Order(invoice=invoice), contract=ruled(rule), name="second")

    async def _decline(self, key: str, order: Order) -> None:
        self.till.is_held.set()
        await self.till.let_go.wait()
        raise remit.Declined("no such account")

    async def begin(self, rt: remit.Runtime) -> asyncio.Task[Any]:
        running = asyncio.create_task(rt.run(self.first, id="first"))
        await self.till.is_held.wait()
        return running

    async def give_back(self, running: asyncio.Task[Any]) -> None:
        self.till.let_go.set()
        with pytest.raises(remit.EffectDeclined):
            await running


@pytest.mark.parametrize("what", SHARED)
async def test_what_is_given_back_while_a_predicate_is_asked_is_free(storage: Storage, what: str):
    # proves: GATE-2, FX-8, FX-12
    asked, says, times = asyncio.Event(), asyncio.Event(), list[Order]()

    async def wanted(order: Order) -> bool:
        times.append(order)
        asked.set()
        await says.wait()
        return True

    rivals = Rivals(what, wanted=wanted)
    async with storage.open() as rt:
        running = await rivals.begin(rt)
        second = asyncio.create_task(rt.run(rivals.second, id="second"))
        await asked.wait()
        await rivals.give_back(running)
        says.set()
        assert (await second).value == [100]
    assert len(times) == 1, "what others took was read after it, so that nothing was judged twice"


class Late(MemoryStore):
    """Something happens just after it was read what others took."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def read_used(self, tenant: str, scope: str) -> int:
        used = await super().read_used(tenant, scope)
        await self._and_then(used == 100)
        return used

    async def read_key(self, tenant: str, key: str) -> KeyRow | None:
        row = await super().read_key(tenant, key)
        await self._and_then(row is not None)
        return row

    async def _and_then(self, is_taken: bool) -> None:
        meanwhile = self.meanwhile
        if is_taken and meanwhile is not None:
            self.meanwhile = None
            await meanwhile()


@pytest.mark.parametrize("what", SHARED)
async def test_what_is_given_back_while_it_is_read_ends_nobody(what: str):  # proves: GATE-2, FX-8, FX-12
    rivals, store = Rivals(what), Late()
    async with remit.open(store) as rt:
        running = await rivals.begin(rt)
        store.meanwhile = lambda: rivals.give_back(running)
        assert (await rt.run(rivals.second, id="second")).value == [100]
        assert running.done()
        assert await kinds_of(rt, "second") == [
            "RunOpened", "AttemptStarted", "GateJudged", "EffectIntended", "EffectSettled", "RunEnded",
        ]  # fmt: skip


@pytest.mark.parametrize("what", SHARED)
async def test_what_is_not_given_back_is_a_no(what: str):  # proves: GATE-2, FX-8, FX-12
    rivals, store = Rivals(what), Late()

    async def nothing() -> None:
        return None

    async with remit.open(store) as rt:
        running = await rivals.begin(rt)
        store.meanwhile = nothing
        code = "ceiling_exceeded" if what == "ceiling" else "idempotency_conflict"
        assert (await rt.run(rivals.second, id="second")).code == code
        await rivals.give_back(running)


# -- an end on its way --------------------------------------------------------------------------------------------


class Overtaken:
    """A worker whose store lets the office set a milder policy before the next unit that rests on the authority."""

    def __init__(self, database: Storage) -> None:
        self.clock, self.till, self.times = MovedClock(), Till(), 0
        self.store = Moving(store_for(database.make(None), clock=self.clock))
        self.worker = remit.open(cast(Store, self.store), clock=self.clock, lease_ms=LEASE_MS)
        self.office = database.open(clock=self.clock, lease_ms=LEASE_MS)

    async def overtake(self) -> None:
        self.times += 1
        await self.office.set_policy(MILD, by=ROOT)


async def test_an_end_is_written_only_while_the_rules_hold_that_it_came_to(database: Storage):  # proves: GATE-4
    at = Overtaken(database)
    flow = paying(at.till.effect(), contract=ruled())
    async with at.worker as worker, at.office as office:
        await office.set_policy(STRICT["forbidden"], by=ROOT)
        await worker.start(flow, id="r")
        at.store.meanwhile = at.overtake
        assert (await worker.run(flow, id="r")).value == [100]
        assert at.times == 1
        assert await worker.verify("r") is None


async def test_so_is_one_that_is_found_before_the_flow_runs(database: Storage):  # proves: GATE-4, GATE-8
    at = Overtaken(database)
    flow = paying(at.till.effect(), contract=ruled())
    async with at.worker as worker, at.office as office:
        await worker.start(flow, id="r")
        await office.set_policy(STRICT["window"], by=ROOT)
        at.clock.move(timedelta(minutes=5))
        at.store.meanwhile = at.overtake
        assert (await worker.run(flow, id="r")).value == [100]
        assert at.times == 1


async def test_so_is_one_that_waited_for_a_doubt_to_be_ended(database: Storage):  # proves: GATE-4, GATE-8, FX-10
    """A run that is over by its window asks about its doubts first, and an outside may take its time to answer."""
    at = Overtaken(database)
    at.till.next(at.till.pay_and_raise(ConnectionError("no answer")))
    asked = at.till.probe

    async def slowly(order: Order, *, key: str) -> Any:
        await at.overtake()
        return await asked(order, key=key)

    pay = at.till.effect(doubt="probe", probe=asked)
    again = at.till.effect(doubt="probe", probe=slowly)
    at.till.probe_says = ConnectionError("no answer either")
    async with at.worker as worker, at.office as office:
        assert (await worker.run(paying(pay, Order(), Order(invoice="i-2"), contract=ruled()), id="r")).code
        at.till.probe_says = None
        await office.set_policy(STRICT["window"], by=ROOT)
        at.clock.move(timedelta(minutes=5))
        flow = paying(again, Order(), Order(invoice="i-2"), contract=ruled())
        assert (await worker.run(flow, id="r")).value == [100, 100]
        assert await worker.verify("r") is None
    assert at.till.times == [1, 1]


@pytest.mark.parametrize("after", ["a no", "a mistake", "a return"])
async def test_no_turn_ends_while_a_call_that_it_left_behind_begins_outside(storage: Storage, after: str):
    # proves: FX-10, FX-12, RUN-1
    """Its yes is being written in the very moment in which another branch ends the flow."""
    till, is_mended, made = Till(), False, list[asyncio.Task[None]]()
    pay = till.effect()
    till.next(till.hold, till.hold)

    @remit.flow(contract=ruled())
    async def settle(run: remit.Run) -> None:
        async def branch(name: str) -> None:
            at = run.branch(name)
            await at.approve("ok", name, roles={"director"}, within=timedelta(hours=8))
            if name == "last" and after != "a no" and not is_mended:
                assert after == "a return", "the mistake"
                return
            await at.effect(pay, Order(payee=name))

        branches = [asyncio.create_task(branch(name)) for name in ("first", "last")]
        made.extend(branches)
        if after == "a return" and not is_mended:
            await asyncio.wait(branches, return_when=asyncio.FIRST_COMPLETED)
            return
        await asyncio.gather(*branches)

    async with storage.open() as rt:
        await rt.grant("user:dora", "director", by=ROOT)
        await rt.run(settle, id="r")
        for ask in await rt.inbox():
            choice: Any = "deny" if after == "a no" and ask.call.startswith("last") else "approve"
            await rt.decide(ask.id, choice, by="user:dora", seen=ask.version)
        turn = asyncio.create_task(rt.run(settle, id="r"))
        await asyncio.wait([turn, asyncio.create_task(till.is_held.wait())], return_when=asyncio.FIRST_COMPLETED)
        begun = len(till.arrived)
        assert not (turn.done() and begun), "its turn is over, and it is under way"
        till.let_go.set()
        await asyncio.gather(turn, *made, return_exceptions=True)

        assert len(till.arrived) == begun
        assert await rt.verify("r") is None
        view = (await rt.show("r")).view
        assert {effect.state for effect in view.boundary.effects.values()} <= {"ok"}
        if after == "a mistake":
            is_mended = True
            assert (await rt.run(settle, id="r")).status == "completed"
            assert sorted(len(receipts) for receipts in till.paid.values()) == [1, 1]
