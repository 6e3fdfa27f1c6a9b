"""The office: what people do to the rules, between turns and during them, and what is seen of each write.

Whatever they do is done through a runtime of their own, and told to the model when it is done. Each intention is held
against the model in the moment of its commit, and each call outside in the moment in which it begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import remit
from tests.spec.stateful.model import ENDS, Row
from tests.spec.stateful.rules_model import US, Question, Rules
from tests.spec.stateful.rules_world import BUYER, DANA, POLICIES, ROLES, ROOT, Errand, Town, Watched, flow_of
from tests.spec.stateful.world import Crash, Mortal
from tests.support.clock import MovedClock

EVENING = datetime(2026, 1, 31, 19, tzinfo=UTC)  # five hours before the end of a day and a month
PLACES = range(3)  # runs that are under way at once


@dataclass
class Commit:
    """An intention that was written, and what the model says of that moment. until: when its call may begin at last."""

    run: str
    call: str
    request: Any
    until: int


class Office:
    """One ledger, a few runs, an office in which people act, and a worker.

    runs: those under way, by place. waiting: errands that are opened when one of these is over, with their contracts.
    wrong: what must not have been, found where nothing can be raised.
    """

    def __init__(self, clock: MovedClock, store: Callable[[], Any]) -> None:
        self.clock, self.store, self.town = clock, store, Town()
        self.law = Rules(self.town)
        self.loop = asyncio.Runner()
        self.runs = [""] * len(PLACES)
        self.waiting: list[tuple[Errand, int]] = []
        self.wrong: list[str] = []
        self.commits: dict[str, Commit] = {}  # by key
        self.before: dict[int, tuple[Any, ...]] = {}
        self.status: dict[str, str] = {}
        self.town.on_call, self.town.on_raise, self.town.die = self.is_called, self.is_lost, self.die

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(work)

    async def open(self) -> None:
        """A new process at the ledger."""
        self.watched = Watched(self.store(), self.is_about_to_write, self.is_written)
        self.mortal = Mortal(self.watched)
        self.rt = remit.open(self.mortal, clock=self.clock, lease_ms=600_000)
        await self.rt.open()

    def die(self) -> Crash:
        self.mortal.is_dead = True
        return Crash()

    async def reopen(self) -> None:
        self.mortal.is_dead = False
        await self.rt.close()
        await self.open()

    def begin_with(self, errands: list[tuple[Errand, int]]) -> None:
        async def begin() -> None:
            self.office = remit.open(self.store(), clock=self.clock)
            await self.office.open()
            await self.open()
            await self.grant(DANA, "requester")
            for principal, role in ROLES:
                await self.grant(principal, role)
            await self.set_policy(0)

        self.do(begin())
        self.waiting = list(errands)
        for place in PLACES:
            self.open_next(place)

    def open_next(self, place: int) -> None:
        """The next errand is opened, where it may be, if there is one and the one before is over."""
        if not self.waiting or (self.runs[place] and self.status.get(self.runs[place]) not in ENDS):
            return
        law, run = self.law, f"e-{len(self.law.errands) + 1}"
        law.errands[run], at = self.waiting.pop(0)
        law.opened_at[run], law.opened_as[run], law.rows[run] = self.clock.now(), at, []
        self.town.terms[run] = at
        starts = self.rt.start(flow_of(self.town, run), law.errands[run], id=run, by=BUYER, behalf=DANA)
        if list(law.why_not_who(run)):
            with pytest.raises(remit.Refused):
                self.do(starts)
            del law.errands[run]
        else:
            self.do(starts)
            self.runs[place] = run

    def close(self) -> None:
        self.do(self.rt.close())
        self.do(self.office.close())

    # -- what others do ------------------------------------------------------------------------------------------------

    async def grant(self, principal: str, role: str) -> None:
        await self.office.grant(principal, role, by=ROOT)
        self.law.seq += 1
        self.law.roles.setdefault(principal, {})[role] = self.law.seq

    async def turn_role(self, principal: str, role: str) -> None:
        if role not in self.law.roles.get(principal, ()):
            return await self.grant(principal, role)
        await self.office.revoke(principal, role, by=ROOT)
        self.law.seq += 1
        del self.law.roles[principal][role]

    async def turn_principal(self, principal: str) -> None:
        if principal in self.law.disabled:
            await self.office.enable(principal, by=ROOT)
            self.law.seq += 1
            self.law.disabled.discard(principal)
            self.law.enabled_at[principal] = self.law.seq
        else:
            await self.office.disable(principal, by=ROOT)
            self.law.seq += 1
            self.law.disabled.add(principal)

    async def link(self, principal: str, person: str) -> None:
        if principal not in self.law.person:
            await self.office.link(principal, person=person, by=ROOT)
            self.law.seq += 1
            self.law.person[principal] = person

    async def set_policy(self, at: int) -> None:
        policy, law = POLICIES[at], self.law
        if law.policy_set and policy == law.policy:
            with pytest.raises(remit.Refused, match="holds already"):
                await self.office.set_policy(policy, by=ROOT)
            return
        await self.office.set_policy(policy, by=ROOT)
        law.seq += 1
        law.policy, law.policy_set = policy, law.seq

    async def decide(self, ask_id: str, by: str, choice: Any) -> None:
        """Somebody answers; whether they were heard is what the rules say."""
        asked, law = self.law.questions[ask_id], self.law
        may = self.is_open(ask_id) and law.may_decide(by, asked, choice)
        may = may and not any(
            (q.run, q.call, q.choice) == (asked.run, asked.call, "deny")
            and law.is_no_to(q, asked.payload, asked.immaterial)
            for q in law.questions.values()
        )
        shown, seq = await self.office.ask(ask_id), law.seq
        self.check_shown(ask_id, shown)
        try:
            await self.office.decide(ask_id, choice, by=by, seen=shown.version)
        except remit.Refused as refused:
            if refused.code != "approval.late":
                assert not may, f"{by} may {choice} {ask_id} and was refused: {refused.code}"
                return
        assert may, f"{by} may not {choice} {ask_id} and was heard"
        asked.by, asked.choice, asked.decided_at = by, choice, seq
        asked.roles = frozenset(law.roles.get(by, {}))

    def check_shown(self, ask_id: str, shown: remit.Ask) -> None:
        """A person sees what is asked, where it parts from what was answered last, and whether the policy is another.

        Where nobody answered anything yet, it is told where it parts from what was asked last.
        """
        asked = self.law.questions[ask_id]
        earlier = [each for each in self.law.questions.values() if (each.run, each.call) == (asked.run, asked.call)]
        at = next(at for at, each in enumerate(earlier) if each is asked)
        assert shown.payload == asked.payload
        assert {each.name: each.value for each in shown.evidence} == asked.evidence
        if at == 0:
            assert shown.difference is None
        else:
            before = next((each for each in reversed(earlier[:at]) if each.by), earlier[at - 1]).payload
            assert shown.difference is not None
            changed = {key for key in {*before, *asked.payload} if before.get(key) != asked.payload.get(key)}
            assert {change.place[0] for change in shown.difference.changes} == changed
            assert {c.place[0] for c in shown.difference.changes if not c.is_material} == changed & asked.immaterial
        if shown.state in ("open", "approved"):
            assert ("policy" in shown.moved) == (asked.under[1] != self.law.policy_set)

    def is_open(self, ask_id: str) -> bool:
        asked, law = self.law.questions[ask_id], self.law
        is_live = not asked.is_void and not asked.choice and not law.is_used(ask_id)
        is_over = self.status.get(asked.run) in ENDS or asked.run in law.cancelled or self.clock.now() > asked.until
        return is_live and not is_over

    async def cancel(self, run: str) -> None:
        if self.status.get(run) not in ENDS:
            await self.office.cancel(run, by=ROOT)
            self.law.cancelled.add(run)
            self.status[run] = (await self.office.show(run)).view.status

    async def deed(self, run: str, what: str, given: Any) -> None:
        """What somebody does while a write of this run's turn is on its way."""
        if what == "role":
            await self.turn_role(*given)
        elif what == "policy":
            await self.set_policy(given)
        elif what == "principal":
            await self.turn_principal(given)
        elif what == "role and back":
            for _ in range(2):
                await self.turn_role(*given)
        elif what == "principal and back":
            for _ in range(2):
                await self.turn_principal(given)
        elif what == "link":
            await self.link(*given)
        elif what == "minutes":
            self.clock.move(timedelta(minutes=given))
        elif what == "cancel" and given:
            await self.cancel(run)
        elif what == "decide":
            for ask_id in [ask_id for ask_id, asked in self.law.questions.items() if asked.run == run][-1:]:
                await self.decide(ask_id, *given)

    # -- what is written, and what is called ---------------------------------------------------------------------------

    def is_about_to_write(self, run: str, rows: list[Row]) -> None:
        """What the rules say of each intention, at the moment of its commit."""
        if run not in self.law.errands:
            return
        law, old, told = self.law, self.law.rows[run], list[Any]()
        for at, row in enumerate(rows):
            call = row.name or ""
            if row.kind in ("EffectIntended", "ApprovalUsed"):
                now = rows[at - 1].body["question"]["now"]
                law.rows[run] = [*old, *rows[: at - 1]]
                why = list(law.why_not(call, run, now))
                needs = law.needs(call, run)
                told.append((row, why, needs, law.until(call, run, now), law.scopes(call, run, now)))
            elif row.kind == "ApprovalAsked":
                law.rows[run] = [*old, *rows[:at]]
                call, needs = row.body["call"], law.needs(row.body["call"], run)
                asked = Question(
                    run, call, row.value, needs, {} if call == "terms" else law.worth(call, run),
                    law.under(call, run), law.risk(run), law.seq, row.body["until"],
                )  # fmt: skip
                judged = next(row for row in reversed(rows[:at]) if row.kind == "GateJudged")
                ends = judged.body["question"]["now"] + min((need.within for need in needs), default=0)
                is_right = asked.until == min(ends, law.window_end(run))
                told.append((row, [] if is_right else [f"it stands until {asked.until}"], needs, 0, asked))
        law.rows[run] = old
        self.before[id(rows)] = tuple(told)

    def is_written(self, run: str, rows: list[Row]) -> None:
        if run not in self.law.errands:
            return
        law = self.law
        before = law.tale(run)
        law.rows[run] = [*law.rows[run], *rows]
        for row, why, needs, until, more in self.before.pop(id(rows)):
            call = row.name or ""
            if why:
                self.wrong.append(f"{call} of {run} was written: {why}")
            if row.kind == "ApprovalAsked":
                law.questions[row.body["ask"]] = more
                continue
            ask_id = row.body["ask"] if row.kind == "ApprovalUsed" else row.body.get("ask", "")
            if bool(ask_id) != bool(needs):
                self.wrong.append(f"{call} of {run} used {ask_id!r}, and needs {needs}")
            if ask_id and law.used.setdefault(ask_id, (run, call)) != (run, call):
                self.wrong.append(f"{call} of {run} used an answer twice")
            if row.kind == "EffectIntended":
                self.commits[row.body["key"]] = Commit(run, call, row.value, until)
                law.under_way.add((run, call))
                held = law.taken[run, call] if before.state(call) == "in_doubt" else set()
                law.taken[run, call] = held | more
                if {taken["scope"] for taken in row.body.get("reserved", [])} != more:
                    self.wrong.append(f"{call} of {run} took of {row.body.get('reserved')}, not of {more}")
        for row in rows:
            if row.kind == "RunEnded":
                self.status[run] = row.body["status"]
            if row.kind == "ApprovalVoided":
                law.questions[row.body["ask"]].is_void = True

    def is_called(self, run: str, key: str, request: Any) -> None:
        commit = self.commits.get(key)
        if commit is None or (commit.run, commit.request) != (run, request):
            self.wrong.append(f"{run} called {request} as nobody intended: {commit}")
        elif self.clock.now() > commit.until:
            self.wrong.append(f"{commit} began {(self.clock.now() - commit.until) * US} late")

    def is_lost(self, run: str, key: str) -> None:
        self.law.under_way.discard((run, self.commits[key].call))
