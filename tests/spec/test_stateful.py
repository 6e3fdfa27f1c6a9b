"""Random lives of runs, held against a small model: what was committed was allowed, and what is allowed goes through.

People grant and revoke, decide and cancel, clocks go forward and back, code is edited, processes die at any call
of the store or of the outside, and answers get lost. After every move each journal verifies, ceilings and keys are
what the entries say, and outside nothing happened twice. At the end everything is set right, and every run ends.
REMIT_EXAMPLES=10 plays ten times as many lives; give that `-o faulthandler_timeout=0`, or pytest tells after five
minutes where it is, as if it hung.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import remit
from remit.engine.process.host import WholeClock
from remit.errors import RemitError
from remit.store.memory import MemoryStore
from remit.store.url import store_for
from tests.spec.stateful.model import DONE, ENDS, Answer, Model, Tale, read_tale
from tests.spec.stateful.world import (
    BUYER,
    CALLS,
    DANA,
    DEREK,
    DORA,
    EVE,
    FAULTS,
    MOODS,
    ROOT,
    Crash,
    Fault,
    Input,
    Mortal,
    World,
    flow_of,
)
from tests.support.clock import MovedClock
from tests.support.postgres import drop_database, fresh_database

TIMES = int(os.environ.get("REMIT_EXAMPLES", "1"))
RUNS = ("po-1", "po-2", "po-3")
GRANTS = ((BUYER, "buyer"), (DORA, "director"), (DEREK, "director"), (DANA, "director"))
POLICIES: tuple[dict[str, Any], ...] = (
    {"version": "0"},
    {"version": "1", "ceilings": {"pay.amount": 120}},
    {"version": "2", "forbid": ["pay"]},
    {"version": "3", "approvals": {"send": {"roles": ["director"], "within": "3h"}}},
    {"version": "4", "windows": {"medium": "1h"}},
)
INPUTS = some.builds(
    Input,
    amount=some.sampled_from([60, 90, 110, 150, 150, 250]),
    invoice=some.sampled_from(["INV-1", "INV-2", "INV-3"]),
    can_fetch=some.booleans(),
)
MISHAPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("turn_role", {"of": (DORA, "director")}),
    ("turn_role", {"of": (BUYER, "buyer")}),
    ("turn_principal", {"principal": DORA}),
    ("move_clock", {"minutes": 190}),
    ("move_clock", {"minutes": 100}),
    ("set_policy", {"at": 1}),
    ("set_policy", {"at": 2}),
    ("turn_quotes", {}),
    ("edit_code", {"run": ...}),  # this run's
    ("move_price", {"run": ..., "price": 2}),
)
RARELY = some.integers(0, 3).map(lambda n: n == 3)


class Lives(RuleBasedStateMachine):
    """One ledger, three runs, and everybody who can do something to them."""

    place: Callable[[MovedClock], tuple[Any, Callable[[], None]]]  # makes a place for the ledger, and what clears it

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.world = MovedClock(), World()
        self.model = Model(self.world)
        self.loop = asyncio.Runner()
        self.store, self.clear = type(self).place(self.clock)
        self.authority_at = 0  # the latest time of an act

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(work)

    def act(self, work: Coroutine[Any, Any, Any]) -> None:
        """An act on the directory or the policy."""
        self.do(work)
        self.authority_at = max(self.authority_at, self.clock.now())

    async def open(self) -> None:
        """A new process at the ledger."""
        store = self.store() if callable(self.store) else self.store
        self.mortal = self.world.store = Mortal(store)
        self.rt = remit.open(self.mortal, clock=self.clock)
        await self.rt.open()

    async def reopen(self) -> None:
        self.mortal.is_dead = False
        self.mortal.arm(None)
        await self.rt.close()
        await self.open()

    @initialize(given=some.lists(INPUTS, min_size=len(RUNS), max_size=len(RUNS)))
    def begin(self, given: list[Input]) -> None:
        self.do(self.open())
        self.model.roles = {DANA: {"requester"}}
        self.act(self.rt.grant(DANA, "requester", by=ROOT))
        for principal, role in GRANTS[:3]:
            self.grant(principal, role)
        self.act(self.rt.set_policy(POLICIES[0], by=ROOT))
        self.model.policy = POLICIES[0]
        for run, one in zip(RUNS, given, strict=True):
            self.start(run, one)

    def teardown(self) -> None:
        try:
            if hasattr(self, "rt"):
                if sys.exc_info()[0] is None:  # a life that went wrong already is told as it was
                    self.set_right()
                self.do(self.rt.close())
        finally:
            self.loop.close()
            self.clear()

    # -- who may what --------------------------------------------------------------------------------------------------

    def grant(self, principal: str, role: str) -> None:
        self.act(self.rt.grant(principal, role, by=ROOT))
        self.model.roles.setdefault(principal, set()).add(role)

    @rule(of=some.sampled_from(GRANTS))
    def turn_role(self, of: tuple[str, str]) -> None:
        principal, role = of
        if role in self.model.roles.get(principal, ()):
            self.act(self.rt.revoke(principal, role, by=ROOT))
            self.model.roles[principal].discard(role)
        else:
            self.grant(principal, role)

    @rule(principal=some.sampled_from([BUYER, DANA, DORA]), is_meant=RARELY)
    def disturb_principal(self, principal: str, is_meant: bool) -> None:
        if is_meant:
            self.turn_principal(principal)

    def turn_principal(self, principal: str) -> None:
        if principal in self.model.disabled:
            self.act(self.rt.enable(principal, by=ROOT))
            self.model.disabled.discard(principal)
        else:
            self.act(self.rt.disable(principal, by=ROOT))
            self.model.disabled.add(principal)

    @rule(at=some.sampled_from(range(len(POLICIES))))
    def set_policy(self, at: int) -> None:
        if at != self.model.policy_at:
            self.act(self.rt.set_policy(POLICIES[at], by=ROOT))
            self.model.policy, self.model.policy_at = POLICIES[at], at

    @rule()
    def allow_all(self) -> None:
        """Whoever had a role at the beginning has it again, nobody is disabled, and the policy demands nothing."""
        for principal in sorted(self.model.disabled):
            self.turn_principal(principal)
        for principal, role in GRANTS[:3]:
            if role not in self.model.roles.get(principal, ()):
                self.grant(principal, role)
        self.set_policy(0)
        self.world.is_mute = False

    # -- the world -----------------------------------------------------------------------------------------------------

    @rule(minutes=some.sampled_from([-90, -1, 1, 1, 10, 10, 50, 130, 190, 500]))
    def move_clock(self, minutes: int) -> None:
        self.clock.move(timedelta(minutes=minutes))

    @rule(run=some.sampled_from(RUNS))
    def edit_code(self, run: str) -> None:
        self.world.slipped ^= {run}

    @rule(run=some.sampled_from(RUNS), price=some.sampled_from([1, 2]))
    def move_price(self, run: str, price: int) -> None:
        self.world.price[run] = price

    @rule()
    def turn_quotes(self) -> None:
        self.world.is_mute = not self.world.is_mute

    # -- runs ----------------------------------------------------------------------------------------------------------

    def start(self, run: str, given: Input) -> None:
        self.model.inputs[run], self.model.opened_at[run] = given, self.clock.now()
        self.world.price[run] = 1
        self.do(self.rt.start(flow_of(self.world, run), given, id=run, by=BUYER, behalf=DANA))

    @rule(run=some.sampled_from(RUNS))
    def go_well(self, run: str) -> None:
        self.go(run)

    @rule()
    def go_all_well(self) -> None:
        for run in RUNS:
            self.go(run)

    @rule(
        run=some.sampled_from(RUNS),
        mood=some.tuples(some.sampled_from(MOODS), some.sampled_from(CALLS)),
        fault=some.none() | some.builds(Fault, some.sampled_from(FAULTS), some.integers(0, 24)),
    )
    def go_badly(self, run: str, mood: tuple[str, str], fault: Fault | None) -> None:
        self.go(run, mood, fault)

    def go(self, run: str, mood: tuple[str, str] = ("fine", ""), fault: Fault | None = None) -> None:
        before = self.read()
        is_over = before[run].status in ENDS
        self.world.mood, self.world.moody = mood
        self.mortal.arm(fault)
        ended = self.do(self._go(run))
        self.mortal.arm(None)
        is_fine = mood[0] == "fine" and fault is None and not isinstance(ended, Crash)
        self.world.mood = "fine"
        if isinstance(ended, Crash):
            self.do(self.reopen())
        after = self.read()
        self.check_intentions(before, after[run])
        if is_over:
            assert after[run] == before[run]
        elif is_fine:
            self.check_end(run, ended, after)

    async def _go(self, run: str) -> remit.Outcome | BaseException:
        try:
            return await self.rt.resume(run, flow_of(self.world, run))
        except (RemitError, Crash) as exc:
            return exc

    @rule(run=some.sampled_from(RUNS), is_meant=RARELY)
    def cancel(self, run: str, is_meant: bool) -> None:
        if is_meant and self.read()[run].status not in ENDS:
            self.do(self.rt.cancel(run, by=ROOT))
            self.model.cancelled.add(run)

    @rule()
    def die_between(self) -> None:
        self.do(self.reopen())

    # -- people --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.asks)
    @rule(
        data=some.data(),
        choice=some.sampled_from(["approve", "approve", "deny"]),
        by=some.sampled_from([DORA, DEREK, DANA, EVE, BUYER]),
        is_stale=some.sampled_from([False, False, True]),
    )
    def decide(self, data: some.DataObject, choice: Any, by: str, is_stale: bool) -> None:
        ask_id = data.draw(some.sampled_from(sorted(self.model.asks, key=list(self.model.asks).index)))
        self.answer(ask_id, choice, by, is_stale=is_stale)

    @rule(by=some.sampled_from([DORA, DORA, DEREK]))
    def approve_all(self, by: str) -> None:
        for ask in self.do(self.rt.inbox(limit=100)):
            self.answer(ask.id, "approve", by)

    @rule(run=some.sampled_from(RUNS), mishap=some.sampled_from(MISHAPS))
    def approve_and_let_something_happen(self, run: str, mishap: tuple[str, Any]) -> None:
        """What an approval rests on moves between the yes and its use."""
        self.allow_all()
        self.go(run)
        self.approve_all(DORA)
        name, given = mishap
        getattr(self, name)(**{key: run if value is ... else value for key, value in given.items()})
        self.go(run)

    def answer(self, ask_id: str, choice: Any, by: str, *, is_stale: bool = False) -> None:
        asked = self.model.asks[ask_id]
        tales = self.read()
        tale = tales[asked.run]
        is_open = tale.status not in ENDS and self.model.asked_for(asked.call, tale) is asked
        is_open = is_open and ask_id not in self.model.used
        now = self.now(tales)
        may = is_open and not is_stale and self.model.may_decide(by, asked, now)
        seen = "0" * 64 if is_stale else self.do(self.rt.ask(ask_id)).version
        try:
            self.do(self.rt.decide(ask_id, choice, by=by, seen=seen))
        except remit.Refused:
            assert not may, f"{by} may decide {ask_id} and was refused"
        else:
            assert may, f"{by} may not decide {ask_id} and was heard"
            asked.by, asked.choice = by, choice

    @rule(run=some.sampled_from(RUNS))
    def find_out(self, run: str) -> None:
        """A person looks at the outside and says what became of each doubt, as it is."""
        tale = self.read()[run]
        for call in tale.doubts:
            intended = tale.intended(call)
            assert intended is not None
            state: Any = "ok" if self.world.count(intended.body["key"]) else "did_not_happen"
            try:
                found: Any = "found" if state == "ok" else ...
                seen = sum(row.kind == "EffectIntended" and row.name == call for row in tale.main)
                self.do(self.rt.resolve(run, call, state, by=DORA, evidence="their books", outcome=found, calls=seen))
            except remit.Refused as refused:
                may = self.model.is_allowed(DORA, "director")
                assert refused.code == "doubt.resolved" or (not may and refused.code in ("doubt.decider", "doubt.role"))

    # -- what must be so -----------------------------------------------------------------------------------------------

    def read(self) -> dict[str, Tale]:
        """What is stored of each run, and the questions that are shown to people."""

        async def read() -> dict[str, Tale]:
            self.learn(await self.rt.inbox(limit=100))
            return {run: read_tale(await self.rt.read(run)) for run in self.model.inputs}

        told: dict[str, Tale] = self.do(read())
        return told

    def now(self, tales: dict[str, Tale]) -> int:
        """The latest that a clock ever said when something was written: setting it back revives nothing."""
        return max(self.clock.now(), self.authority_at, *(tale.last_at for tale in tales.values()))

    def learn(self, shown: list[remit.Ask]) -> None:
        for ask in shown:
            quoted = ask.evidence[0].value if ask.evidence else None
            answer = Answer(ask.run, ask.call, ask.payload, quoted, self.model.policy_at, ask.until)
            self.model.asks.setdefault(ask.id, answer)

    def check_intentions(self, before: dict[str, Tale], after: Tale) -> None:
        """Every intention of this turn was allowed when it was committed."""
        then = before[after.run]
        for at in range(len(then.main), len(after.main)):
            row = after.main[at]
            if row.kind != "EffectIntended":
                continue
            tale = Tale(after.run, "running", after.main[: at - 1], after.post)  # before its judgement
            call = row.name
            assert call is not None
            assert list(self.model.why_not(call, tale, before, self.now(before))) == []
            assert row.value == self.model.request(call, after.run)
            assert bool(row.body.get("ask", "")) == self.model.needs_yes(call, row.value)
            if row.body.get("ask", ""):
                self.model.used.setdefault(row.body.get("ask", ""), (after.run, call))
                assert self.model.used[row.body.get("ask", "")] == (after.run, call)

    def check_end(self, run: str, ended: remit.Outcome | BaseException, tales: dict[str, Tale]) -> None:
        """A turn in which nothing went wrong got as far as it may, and says why it went no further."""
        tale, model = tales[run], self.model
        intended, now = tale.intended("pay"), self.now(tales)
        if isinstance(ended, remit.DefinitionIncompatible):
            assert intended is not None and intended.value != model.request("pay", run)
            return
        if isinstance(ended, remit.EffectDidNotHappen):
            assert tale.state(ended.name) == "did_not_happen"  # a death came before it was written that it was heard
            return
        assert isinstance(ended, remit.Outcome), ended
        call = next((call for call in CALLS if tale.state(call) not in ("ok", "failed")), None)
        if ended.status == "in_doubt":
            (doubt,) = tale.doubts
            is_found = doubt == "pay" and self.world.count(tale.intended("pay").body["key"])  # type: ignore[union-attr]
            assert not is_found and (doubt != "send" or list(model.why_not("send", tale, tales, now)))
            return
        why = model.why_not(call, tale, tales, now) if call is not None else model.why_not_on(run, now)
        reasons = [next(why, DONE)]
        told = (str(ended.status), ended.waits_for if ended.status == "waiting" else ended.code)
        assert told == reasons[0]

    @invariant()
    def hold_it_against_the_rows(self) -> None:
        if not hasattr(self, "rt"):
            return
        self.do(self.rt.authority())
        tales = self.read()
        for run, tale in tales.items():
            assert self.do(self.rt.verify(run)) is None
            found = self.do(self.rt.show(run))
            assert found.view.status == found.row.status == tale.status
        self.check_outside(tales)
        self.check_beside(tales)

    def check_outside(self, tales: dict[str, Tale]) -> None:
        """Nothing landed twice, nothing that was not intended, and what is settled is true."""
        keys = {row.body["key"]: row for tale in tales.values() for row in tale.all("EffectIntended")}
        for one in self.world.landed:
            assert self.world.count(one.key) == 1
            assert keys[one.key].value == one.request
        for tale in tales.values():
            for call in CALLS:
                row = tale.intended(call)
                if row is not None and tale.state(call) != "in_doubt":
                    assert self.world.count(row.body["key"]) == (tale.state(call) == "ok")

    def check_beside(self, tales: dict[str, Tale]) -> None:
        """Ceilings, keys and the inbox are what the entries say."""
        held = [t for t in tales.values() if t.state("pay") in ("ok", "in_doubt")]
        scopes = {taken["scope"] for t in tales.values() for taken in t.reserved("pay", is_any=True)}
        for scope in scopes:
            used = sum(taken["amount"] for t in held for taken in t.reserved("pay") if taken["scope"] == scope)
            assert self.do(self.mortal.inner.read_used("default", scope)) == used
        for tale in tales.values():
            row = tale.intended("book")
            if row is not None:
                holder = self.do(self.mortal.inner.read_key("default", row.body["business"]))
                is_held = tale.state("book") in ("ok", "in_doubt")
                assert (holder is not None and holder.run == tale.run) == is_held
        open_asks = {
            ask_id
            for ask_id, asked in self.model.asks.items()
            if self._is_open(ask_id, asked, tales[asked.run]) and self.now(tales) <= asked.until
        }
        assert {ask.id for ask in self.do(self.rt.inbox(limit=100))} == open_asks

    def _is_open(self, ask_id: str, asked: Answer, tale: Tale) -> bool:
        gone = {row.body["ask"] for row in tale.all("ApprovalVoided")} | set(self.model.used)
        return tale.status not in ENDS and not asked.choice and ask_id not in gone

    # -- the end -------------------------------------------------------------------------------------------------------

    def set_right(self) -> None:
        """Everything is allowed and known again: every run ends, without anybody's help but answers."""
        model, world = self.model, self.world
        self.allow_all()
        world.price = dict.fromkeys(RUNS, 1)
        behind = (
            self.now(self.read()) - self.clock.now()
        )  # what begins under a clock that is behind may be over at once
        self.clock.move(timedelta(microseconds=max(behind, 0)))
        for _ in range(8):
            for run in self.left():
                intended = self.read()[run].intended("pay")
                if intended is not None and intended.value != model.request("pay", run):
                    self.edit_code(run)
                self.find_out(run)
                self.go(run)
                for ask_id in [ask.id for ask in self.do(self.rt.inbox(limit=100)) if ask.run == run]:
                    self.answer(ask_id, "approve", DORA)
        stale = [run for run in self.left() if not model.inputs[run].can_fetch]
        assert stale == self.left(), "a run is stuck"
        self.clock.move(timedelta(days=2))
        for run in stale:  # what it rests on can't be had any more: it waits until its time is over
            self.go(run)
        assert self.left() == []
        self.hold_it_against_the_rows()

    def left(self) -> list[str]:
        """Runs that are not over."""
        return [run for run, tale in self.read().items() if tale.status not in ENDS]


def _in_memory(clock: MovedClock) -> tuple[Any, Callable[[], None]]:
    return MemoryStore(clock=WholeClock(clock)), lambda: None


EXAMPLES = {"memory": 60, "sqlite": 25, "postgres": 8}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXAMPLES)
def test_what_is_committed_was_allowed_and_what_is_allowed_goes_through(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):  # proves: GATE-2, GATE-3, APR-1, APR-2, APR-3, APR-6, FX-1, FX-2, FX-4, FX-8, FX-11, FX-12
    names = iter(range(1_000_000))

    def on_sqlite(clock: MovedClock) -> tuple[Any, Callable[[], None]]:
        path = tmp_path / f"{next(names)}.db"
        url = f"sqlite:///{path}"
        return (lambda: store_for(url, clock=WholeClock(clock))), lambda: path.unlink(missing_ok=True)

    def on_postgres(clock: MovedClock) -> tuple[Any, Callable[[], None]]:
        url = fresh_database(request.getfixturevalue("postgres_url"))
        return (lambda: store_for(url, clock=WholeClock(clock))), lambda: drop_database(url)

    places = {"memory": _in_memory, "sqlite": on_sqlite, "postgres": on_postgres}
    lives = type("Lives", (Lives,), {"place": staticmethod(places[kind])})
    run_state_machine_as_test(
        lives,
        settings=settings(
            max_examples=EXAMPLES[kind] * TIMES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
