"""Doubts and people: "it did not happen" is as good as a yes to a second payment, so not everybody may say it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.store.memory import MemoryStore
from remit.store.rows import RunRow
from remit.store.sqlite import SqliteStore
from remit.store.units import Unit
from tests.spec.conftest import Storage
from tests.support.office import BUYER, DANA, DEREK, DORA, HOURS_72, ROOT, RUN, Office, answer, staffed
from tests.support.till import OPEN, Order, Receipt, Till, find_out, paying

LOST = ConnectionError("no answer")


async def in_doubt(rt: remit.Runtime, rule: remit.Rule | None = None, **contract: Any) -> Office:
    """A payment that a director approved, if the rule asks one, and whose answer was lost the first time."""
    office = Office(rule, **contract)

    def lose_the_first(order: dict[str, Any], key: str) -> str:
        if len(office.sent) == 1:
            raise LOST
        return f"paid {order['amount']}"

    office.body = lose_the_first
    outcome = await office.go(await staffed(rt))
    if outcome.waits_for == "approval":
        await answer(rt)
        outcome = await office.go(rt)
    assert outcome.status == "in_doubt"
    return office


async def code_of(rt: remit.Runtime, by: str, run: str = RUN) -> str:
    """Why this one may not say so."""
    with pytest.raises(remit.Refused) as refused:
        await rt.resolve(run, "pay", "did_not_happen", by=by, evidence="trust me")
    return refused.value.code


async def test_a_doubt_is_not_ended_by_who_could_not_have_approved(storage: Storage):  # proves: FX-9, APR-3, APR-4
    async with storage.open() as rt:
        office = await in_doubt(rt)
        await rt.grant("user:ops", "clerk", by=ROOT)
        await rt.grant("user:dana-at-home", "director", by=ROOT)
        await rt.link("user:dana-at-home", person=DANA, by=ROOT)
        assert await code_of(rt, "user:made-up") == "doubt.decider"
        assert await code_of(rt, BUYER) == "doubt.decider"
        assert await code_of(rt, DANA) == "doubt.self"
        assert await code_of(rt, "user:dana-at-home") == "doubt.self"
        assert await code_of(rt, "user:ops") == "doubt.role"
        await rt.revoke(DORA, "director", by=ROOT)
        assert await code_of(rt, DORA) == "doubt.role"
        assert len((await rt.read(RUN)).post) == 1, "but for the yes nothing was posted"
        await rt.grant(DORA, "director", by=ROOT)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="no such transfer in their books")
        assert (await office.go(rt)).waits_for == "approval", "her yes ended with the role"
        await answer(rt)
        assert (await office.go(rt)).value == "paid 82000"


async def test_where_nobody_is_left_from_before_who_came_after_may_say_so():  # proves: FX-9, APR-3
    """At high risk a witness held the role before; but a run that nobody may end would wait for ever."""
    async with remit.open("memory:") as rt:
        office = await in_doubt(rt, risk="high")
        await rt.grant("user:new", "director", by=ROOT)
        for senior in (DORA, DEREK):
            with pytest.raises(remit.Refused) as refused:
                await rt.resolve(RUN, "pay", "ok", by="user:new", evidence="receipt 5", outcome="paid 82000")
            assert refused.value.code == "doubt.role" and senior in refused.value.hint
            await rt.disable(senior, by=ROOT)
        await rt.resolve(RUN, "pay", "ok", by="user:new", evidence="receipt 5", outcome="paid 82000")
        assert (await office.go(rt)).value == "paid 82000"


async def test_a_witness_from_before_is_one_who_serves_each_rule():  # proves: FX-9, APR-3
    """Two that hold one role each are no witness, and keep nobody from being one."""
    policy = {"version": "1", "approvals": {"pay": {"roles": ["auditor"], "within": "72h"}}}
    async with remit.open("memory:") as rt:
        await rt.set_policy(policy, by=ROOT)
        await rt.grant(DORA, "auditor", by=ROOT)
        await rt.grant("user:zoe", "auditor", by=ROOT)
        office = await in_doubt(rt, risk="high")
        await rt.disable(DORA, by=ROOT)
        for role in ("director", "auditor"):
            await rt.grant("user:new", role, by=ROOT)
        assert await code_of(rt, DEREK) == await code_of(rt, "user:zoe") == "doubt.role"
        await rt.resolve(RUN, "pay", "ok", by="user:new", evidence="receipt 5", outcome="paid 82000")
        assert (await office.go(rt)).value == "paid 82000"


async def _disabled(rt: remit.Runtime) -> None:
    await rt.disable(DORA, by=ROOT)


async def _revoked(rt: remit.Runtime) -> None:
    await rt.revoke(DORA, "director", by=ROOT)


async def _linked(rt: remit.Runtime) -> None:
    await rt.link(DORA, person=DANA, by=ROOT)


@pytest.mark.parametrize("lapse", [_disabled, _revoked, _linked])
async def test_a_word_is_taken_up_only_of_who_may_still_say_so(
    storage: Storage, lapse: Callable[[remit.Runtime], Awaitable[None]]
):  # proves: FX-9, APR-3, APR-4
    async with storage.open() as rt:
        office = await in_doubt(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="the bank says so")
        await lapse(rt)
        outcome = await office.go(rt)
        assert (outcome.status, len(office.sent)) == ("in_doubt", 1)
        assert DORA in outcome.reason and "lost the right to say so since" in outcome.reason
        await rt.resolve(RUN, "pay", "ok", by=DEREK, evidence="on the statement", outcome="paid")  # another one may
        assert (await office.go(rt)).status == "completed"
        assert len(office.sent) == 1
        (effect,) = await rt.effects(RUN)
        assert effect.told_by == DEREK


async def test_a_word_that_counts_leaves_no_room_for_another(storage: Storage):  # proves: FX-9
    async with storage.open() as rt:
        await in_doubt(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="the bank says so")
        assert await code_of(rt, DEREK) == "doubt.resolved"


async def test_a_cancelled_run_takes_up_no_word_of_who_may_not_say_so_any_more(storage: Storage):  # proves: FX-9, FX-10
    async with storage.open() as rt:
        await in_doubt(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="the bank says so")
        await rt.disable(DORA, by=ROOT)
        assert (await rt.cancel(RUN, by=ROOT)).status == "in_doubt"
        await rt.enable(DORA, by=ROOT)
        assert (await rt.cancel(RUN, by=ROOT)).status == "in_doubt", "what she said is lost, and she may say it anew"
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="I asked the bank again")
        assert (await rt.cancel(RUN, by=ROOT)).status == "cancelled"


async def test_a_revocation_between_hearing_a_word_and_writing_it_down_stops_it():  # proves: FX-9, GATE-4
    """The word is judged under one version of the directory, and written only while that is the newest."""
    store = MemoryStore()
    async with remit.open(store) as rt, remit.open(store) as beside:
        office = await in_doubt(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="the bank says so")
        append, revoked = store.append, False

        async def append_behind_a_revocation(unit: Unit) -> None:
            nonlocal revoked
            if not revoked and any(b'"EffectSettled"' in entry.header for entry in unit.entries):
                revoked = True
                await beside.revoke(DORA, "director", by=ROOT)
            await append(unit)

        store.append = append_behind_a_revocation  # type: ignore[method-assign]
        assert (await office.go(rt)).status == "in_doubt"
        assert revoked and len(office.sent) == 1


async def test_every_rule_that_asked_for_a_yes_is_asked_of_who_ends_the_doubt(storage: Storage):  # proves: FX-9, APR-3
    async with storage.open() as rt:
        await rt.set_policy({"version": "1", "approvals": {"pay": {"roles": ["cfo"], "within": "72h"}}}, by=ROOT)
        await rt.grant(DORA, "cfo", by=ROOT)
        await in_doubt(rt)
        await rt.revoke(DORA, "cfo", by=ROOT)
        assert await code_of(rt, DORA) == "doubt.role"
        await rt.grant(DORA, "cfo", by=ROOT)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="the bank says so")


async def test_at_high_risk_nobody_is_made_a_witness_after_the_intention(storage: Storage):  # proves: FX-9, APR-3
    async with storage.open() as rt:
        await in_doubt(rt, risk="high")
        await rt.grant("user:new", "director", by=ROOT)
        assert await code_of(rt, "user:new") == "doubt.role"
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="the bank says so")


async def test_a_doubt_that_nobody_approved_is_ended_by_anybody_known_but_oneself(storage: Storage):  # proves: FX-9
    async with storage.open() as rt:
        office = await in_doubt(rt, remit.Rule())
        assert await code_of(rt, DANA) == "doubt.self"
        assert await code_of(rt, "user:made-up") == "doubt.decider"
        await rt.grant("user:ops", "clerk", by=ROOT)
        await rt.resolve(RUN, "pay", "ok", by="user:ops", evidence="statement", outcome="receipt 88")
        assert (await office.go(rt)).value == "receipt 88"


async def test_who_may_approve_for_themselves_may_end_their_doubt(storage: Storage):  # proves: FX-9, APR-4
    rule = remit.Rule(approval=remit.Approval({"requester", "director"}, HOURS_72, alone=True))
    async with storage.open() as rt:
        office = await in_doubt(rt, rule)
        await rt.resolve(RUN, "pay", "ok", by=DANA, evidence="statement", outcome="receipt 88")
        assert (await office.go(rt)).value == "receipt 88"


async def test_a_directory_that_knows_nobody_says_how_to_begin(storage: Storage):  # proves: FX-9
    till = Till()
    till.next(LOST)
    flow = paying(till.effect())
    async with storage.open() as rt:
        await rt.run(flow, id="r")
        with pytest.raises(remit.Refused) as refused:
            await rt.resolve("r", "pay", "did_not_happen", by="user:ann", evidence="statement")
        assert refused.value.code == "doubt.decider" and "remit grant" in refused.value.hint


class Slow:
    """A plain function that is over its time, and goes on in its thread until it is let go."""

    def __init__(self) -> None:
        self.let_go, self.is_over = threading.Event(), threading.Event()
        self.paid: list[str] = []

        @remit.effect(timeout=timedelta(milliseconds=50))
        def pay(order: Order, *, key: str) -> Receipt:
            self.let_go.wait(30)
            self.paid.append(key)
            self.is_over.set()
            return Receipt(number=1, amount=order.amount)

        self.flow = paying(pay)

    async def finish(self) -> None:
        """Let it pay, and wait for that."""
        self.let_go.set()
        assert await asyncio.to_thread(self.is_over.wait, 30)


async def test_while_the_call_itself_still_runs_nobody_says_that_it_did_not_happen(storage: Storage):  # proves: FX-9
    slow = Slow()
    async with storage.open() as rt:
        try:
            await rt.grant("user:ann", "clerk", by=ROOT)
            assert (await rt.run(slow.flow, id="r")).status == "in_doubt"
            for _ in range(2):
                assert await code_of(rt, "user:ann", "r") == "doubt.under_way"
                assert "has not returned in process" in (await rt.run(slow.flow, id="r")).reason
        finally:
            await slow.finish()
        while rt._ready().outstanding:
            await asyncio.sleep(0)
        await rt.resolve("r", "pay", "ok", by="user:ann", evidence="statement", outcome={"number": 1, "amount": 100})
        assert (await rt.run(slow.flow, id="r")).value == [100]
    assert len(slow.paid) == 1


async def test_a_word_from_elsewhere_is_not_taken_while_the_call_still_runs_here(database: Storage):  # proves: FX-9
    slow = Slow()
    said = ("resolve", "r", "pay", "did_not_happen", "--by", "user:ann", "--evidence", "not at the bank", "--returned")
    async with database.open() as rt:
        try:
            await rt.grant("user:ann", "clerk", by=ROOT)
            await rt.run(slow.flow, id="r")
            command = (sys.executable, "-m", "remit.faces.cli.main", *said)
            elsewhere = await asyncio.create_subprocess_exec(
                *command, env=os.environ | {"REMIT_STORE": database.make(0)}
            )
            assert await elsewhere.wait() == 0
            assert (await rt.run(slow.flow, id="r")).status == "in_doubt"
        finally:
            await slow.finish()
    assert len(slow.paid) == 1


class Busy(SqliteStore):
    """Something happens just after a run was looked at, and before its journal is read."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def read_row(self, tenant: str, run: str) -> RunRow | None:
        row, meanwhile = await super().read_row(tenant, run), self.meanwhile
        if run == "r" and meanwhile is not None:
            self.meanwhile = None
            await meanwhile()
        return row


async def test_nobody_says_so_of_a_call_that_began_while_they_looked(tmp_path: Path):  # proves: FX-9
    till, url, running = Till(), f"sqlite:///{tmp_path / 'runs.db'}", list[asyncio.Task[remit.Outcome]]()
    till.next(till.hold)
    flow, desk = paying(till.effect()), Busy(url)
    async with remit.open(url) as worker, remit.open(desk) as rt:
        await rt.grant("user:ann", "clerk", by=ROOT)
        await rt.start(flow, id="r")

        async def begin() -> None:
            running.append(asyncio.create_task(worker.run(flow, id="r")))
            await till.is_held.wait()

        desk.meanwhile = begin
        with pytest.raises(remit.Refused, match="A worker is at 'pay'"):  # in whichever process it is
            await rt.resolve("r", "pay", "did_not_happen", by="user:ann", evidence="not at the bank")
        till.let_go.set()
        assert (await running[0]).value == [100]
    assert till.times == [1]


async def test_what_happened_gave_something_and_what_did_not_gave_nothing():  # proves: FX-9
    till = Till()
    till.next(LOST)
    async with remit.open("memory:") as rt:
        await rt.grant("user:ann", "clerk", by=ROOT)
        await rt.run(paying(till.effect()), id="r")
        for state, given in (("ok", {}), ("did_not_happen", {"outcome": None})):
            with pytest.raises(remit.Refused) as refused:
                await rt.resolve("r", "pay", state, by="user:ann", evidence="x", **given)  # type: ignore[arg-type]
            assert refused.value.code == "doubt.outcome"
        assert not (await rt.read("r")).post


async def test_an_outcome_that_does_not_fit_its_type_leaves_no_doubt(storage: Storage):  # proves: FX-8, FX-9
    till = Till()
    till.next(LOST)
    flow = paying(till.effect())
    async with storage.open() as rt:
        await rt.grant("user:ann", "clerk", by=ROOT)
        await rt.run(flow, id="r")
        await rt.resolve("r", "pay", "ok", by="user:ann", evidence="statement", outcome={"wrong": 1})
        for _ in range(2):
            with pytest.raises(remit.ValueUnreadable, match=r"pay, as a person gave it.*cancel the run"):
                await rt.run(flow, id="r")
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.found) == ("ok", "person")
        assert await rt.effects(in_doubt=True) == [] and await rt.verify("r") is None
        outcome = await rt.cancel("r", by="user:ann")
        assert outcome.status == "cancelled" and "Done before: pay." in outcome.reason
    assert len(till.arrived) == 1


async def test_a_run_in_doubt_is_found_among_those_in_doubt_whatever_else_it_waits_for(
    storage: Storage,
):  # proves: FX-11
    till = Till()
    till.next(LOST, LOST, LOST)
    flow = paying(till.effect(doubt="resend", sink="dedupes"))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        policy = {"version": "1", "approvals": {"pay": {"roles": ["director"], "within": "2h"}}}
        await rt.set_policy(policy, by=ROOT)
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.waits_for, outcome.code) == ("in_doubt", "doubt", "approval_needed")
        assert [each.call for each in await rt.effects(in_doubt=True)] == ["pay"]
        assert len(await rt.inbox()) == 1, "and the question is asked all the same"


async def test_a_run_in_doubt_whose_code_asks_for_something_else_is_found_too(storage: Storage):  # proves: FX-11
    till = Till()
    till.next(LOST)
    pay = till.effect()
    async with storage.open() as rt:
        await rt.run(paying(pay), id="r")
        for _ in range(2):
            with pytest.raises(remit.DefinitionIncompatible):
                await rt.run(paying(pay, Order(amount=999)), id="r")
            assert (await rt.show("r")).row.status == "in_doubt"
            assert [each.call for each in await rt.effects(in_doubt=True)] == ["pay"]
        assert await rt.verify("r") is None
    assert len(till.arrived) == 1


async def test_a_word_that_code_that_does_not_fit_takes_up_leaves_the_run_in_doubt_and_not_running(
    storage: Storage,
):  # proves: FX-9, RUN-4
    till = Till()

    async def together(key: str, order: Order) -> None:
        if len(till.arrived) == 2:
            till.let_go.set()
        await till.let_go.wait()
        raise LOST

    till.next(together, together)
    pay = till.effect()

    async def old() -> None: ...

    async def new() -> None: ...

    def buying(first: Any) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="buying")
        async def flow(run: remit.Run) -> None:
            await run.step(first)
            await run.gather(*[run.branch(name).effect(pay, Order()) for name in "xy"])

        return flow

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(buying(old), id="r")).status == "in_doubt"
        for _ in range(2):
            with pytest.raises(remit.DefinitionIncompatible):
                await rt.run(buying(new), id="r")
            if (await rt.effects("r"))[0].state == "in_doubt":
                await find_out(rt, "r", "ok", {"number": 1, "amount": 100}, call="x/pay")
        assert [effect.state for effect in await rt.effects("r")] == ["ok", "in_doubt"]
        assert (await rt.wait("r")).status == "in_doubt"
        assert [row.run for row in await rt.list(status="in_doubt")] == ["r"]
