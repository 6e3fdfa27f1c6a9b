"""Turns of the worker, and what is so after each, by the model alone.

A turn in which nothing went wrong got as far as it may, says why it went no further, and did what was said
of it before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

import remit
from remit.errors import RemitError
from tests.spec.stateful.model import DONE, ENDS, Row, Tale
from tests.spec.stateful.rules_office import Office
from tests.spec.stateful.rules_world import Happening, flow_of
from tests.spec.stateful.world import Crash, Fault


class Turns(Office):
    """Turns of the worker, and all that is looked at after each."""

    def go(
        self,
        run: str,
        *,
        mood: tuple[str, str] = ("fine", ""),
        fault: Fault | None = None,
        happenings: list[Happening] | None = None,
        is_told: bool = False,
    ) -> None:
        if self.status.get(run) in ENDS:
            return
        flow = flow_of(self.town, run)
        told = self.do(self.judged(run, flow)) if is_told else None
        before = len(self.law.rows[run])
        self.town.mood = mood
        self.mortal.arm(fault)
        self.watched.arm(happenings or [])
        ended = self.do(self.turn(run, flow))
        self.mortal.arm(None)
        self.watched.arm([])
        self.town.mood = ("fine", "")
        self.law.under_way.clear()
        if isinstance(ended, Crash) or self.mortal.is_dead:
            self.do(self.reopen())
        self.nothing_was_wrong()
        self.check_stored()
        if mood[0] == "fine" and fault is None and not happenings:
            self.check_end(run, ended)
            if told is not None:
                self.check_told(run, told, ended, self.law.rows[run][before:])

    async def turn(self, run: str, flow: remit.Flow[Any]) -> remit.Outcome | BaseException:
        try:
            return await self.rt.resume(run, flow)
        except (RemitError, Crash) as exc:
            return exc

    async def judged(self, run: str, flow: remit.Flow[Any]) -> Any:
        before = await self.rt.read(run)
        try:
            told: Any = await self.rt.judge(run, flow)
        except RemitError as exc:
            told = exc
        assert await self.rt.read(run) == before
        return told

    def find_out(self, run: str, by: str) -> None:
        """A person looks at the outside and says what became of each doubt, as it is."""
        for call in self.law.doubts(run):
            intended = self.law.tale(run).intended(call)
            assert intended is not None
            state: Any = "ok" if self.town.count(intended.body["key"]) else "did_not_happen"
            found: Any = "found" if state == "ok" else ...
            seen = sum(row.kind == "EffectIntended" and row.name == call for row in self.law.tale(run).main)
            with suppress(remit.Refused):
                self.do(
                    self.office.resolve(run, call, state, by=by, evidence="asked outside", outcome=found, calls=seen)
                )

    # -- what must be so -----------------------------------------------------------------------------------------------

    def nothing_was_wrong(self) -> None:
        assert not self.wrong, self.wrong

    def check_stored(self) -> None:
        """The journals verify and are what was written; ceilings, inbox and outside are what they say."""
        law = self.law
        for run in self.runs:
            assert self.do(self.rt.verify(run)) is None
            self.status[run] = self.do(self.rt.show(run)).view.status
        held: dict[str, int] = {scope: 0 for scopes in law.taken.values() for scope in scopes if "/run" not in scope}
        for (run, call), scopes in law.taken.items():
            tale = law.tale(run)
            row, state = tale.intended(call), tale.state(call)
            assert row is not None
            for scope in scopes & held.keys():
                held[scope] += row.value["amount"] if state in ("ok", "in_doubt") else 0
            landed = self.town.count(row.body["key"])
            assert landed <= 1 and (state == "in_doubt" or landed == (state == "ok"))
        for scope, used in held.items():
            assert self.do(self.watched.inner.read_used("default", scope)) == used
        listed = {ask.id for ask in self.do(self.office.inbox(limit=100))}
        assert listed == {ask_id for ask_id in law.questions if self.is_open(ask_id)}

    def check_end(self, run: str, ended: remit.Outcome | BaseException) -> None:
        """A turn in which nothing went wrong got as far as it may, and says why it went no further."""
        law, now, tale = self.law, self.clock.now(), self.law.tale(run)
        if isinstance(ended, remit.DefinitionIncompatible):
            assert self.is_misfit(run)
            return
        if isinstance(ended, remit.EffectDidNotHappen):
            assert tale.state(ended.name) == "did_not_happen"
            return
        assert isinstance(ended, remit.Outcome), ended
        told = (str(ended.status), ended.waits_for if ended.status == "waiting" else ended.code)
        end = next(self.why_over(run), None)
        if doubts := law.doubts(run):
            assert ended.status == "in_doubt", told
            assert all(call != "send" or end or list(law.why_not(call, run, now)) for call in doubts)
            return
        if end is not None:
            assert told == end
            return
        group = next((group for group in law.errands[run].groups if not all(self.is_done(c, run) for c in group)), [])
        refused = [c for c in chain.from_iterable(law.errands[run].groups) if tale.state(c) == "refused"]
        left = [call for call in group if not self.is_done(call, run)]
        if refused and (not left or refused[0] not in group):
            assert told == ("failed", "denied")
        elif not left:
            assert told == DONE
        else:
            left = [call for call in left if not law.is_to_be_heard(call, run)]
            why = {call: next(law.why_not(call, run, now), None) for call in left}
            assert ended.status in ENDS or None not in why.values(), f"{why} may go on, and {told}"
            assert told in why.values(), f"{told} of {why}"
            ends = [reason for reason in why.values() if reason and reason[0] != "waiting"]
            assert not ends or told in ends, f"{told} of {why}"

    def check_told(self, run: str, told: Any, ended: Any, new: list[Row]) -> None:
        """What `judge` said of this turn is what it did."""
        if isinstance(told, RemitError):
            assert type(ended) is type(told), (told, ended)
            return
        decision, code, errand = told.verdict.decision, told.verdict.code, self.law.errands[run]
        judged = [each.call for each in (told, *told.beside)]
        can_change = errand.can_fetch and any(call and self.law.evidence(call, run) for call in judged)
        if can_change and (decision != "abandon" or told.beside):
            return  # what the turn takes again may be another
        if decision == "abandon" and self.law.doubts(run):
            return  # it only settles, whatever comes of that
        if decision == "resume" and told.call:
            kinds = ("EffectIntended", "ApprovalUsed")
            assert any(row.kind in kinds and row.name == told.call for row in new), (told.call, ended)
        elif decision == "resume":
            assert isinstance(ended, remit.Outcome)
            assert ended.status in (("waiting", "in_doubt") if told.waits else ("completed", "in_doubt")), ended
        else:
            assert isinstance(ended, remit.Outcome)
            assert ended.status == "in_doubt" or ended.code == code, (code, ended)

    # -- what that rests on --------------------------------------------------------------------------------------------

    def is_misfit(self, run: str) -> bool:
        """Whether the code asks for something else than what was intended, refused or answered."""
        law = self.law
        for call in chain.from_iterable(law.errands[run].groups):
            tale, request = law.tale(run), law.request(call, run)
            row = tale.intended(call)
            if row is not None and row.value != request:
                return True
            if tale.all("ApprovalUsed", call) or tale.state(call) == "refused":
                asks = [row.body["ask"] for row in tale.main if row.name == call and row.body.get("ask")]
                asked = law.questions[asks[-1]]
                is_heard = (
                    law.is_no_to(asked, request, self.found_apart(tale, call))
                    if tale.state(call) == "refused"
                    else law.is_same_matter(asked, request, asked.needs)
                )
                if not is_heard:
                    return True
        return False

    def found_apart(self, tale: Tale, call: str) -> frozenset[str]:
        """Fields that did not matter when the call was found to be refused."""
        answer = tale.all("GateJudged", call)[-1].body["question"]["answer"]
        return frozenset(answer.get("immaterial", ()))

    def why_over(self, run: str) -> Iterator[tuple[str, str]]:
        """How a run ends that wants anything at all."""
        return chain(self.law.why_not_on(run, self.clock.now()), self.law.why_not_who(run))

    def is_done(self, call: str, run: str) -> bool:
        tale = self.law.tale(run)
        return bool(tale.all("ApprovalUsed", call)) or tale.state(call) in ("ok", "failed", "refused")

    def undo_edits(self, run: str) -> None:
        """The code asks for what was intended again, or was said no to, or yes."""
        tale, town, amount = self.law.tale(run), self.town, self.law.errands[run].amounts[0]
        for row in tale.main:
            fixed = row.value if row.kind == "EffectIntended" else None
            if row.kind in ("EffectRefused", "ApprovalUsed"):
                fixed = self.law.questions[row.body["ask"]].payload
            if fixed is None or row.name == "send":
                continue
            if row.name == "terms":
                town.more[run] = fixed["more"]
            else:
                town.note[run] = fixed["note"]
                if row.name == "pay":
                    town.more[run] = fixed["amount"] - amount
