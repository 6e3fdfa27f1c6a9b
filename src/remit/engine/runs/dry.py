"""Judging dry: what the gate would say now, without changing anything.

The flow's own code is rehearsed up to the calls that come next; of each of the boundary among
them the question is the very one that would be asked. What people said about doubts holds in here as
a turn would settle it, and what its rule sends again is judged as that. Evidence is not taken again, nobody
outside is asked, and nothing is written.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Any

from remit.authority.describe import describe
from remit.authority.gate import end_of, judge
from remit.engine.boundary.asking import waits_for_of
from remit.engine.boundary.doubt import is_due_again, is_probed
from remit.engine.boundary.question import question_of, resume_question
from remit.engine.declared.flow import Flow
from remit.engine.process.admit import Found, check_flow
from remit.engine.process.host import Host
from remit.engine.process.standing import check_not_behind, glance
from remit.engine.runs.rehearsal import rehearse_to
from remit.engine.turn.halt import URGENCY
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Wish
from remit.errors import Moved, Refused
from remit.errors.called import all_called, called
from remit.facts.judgement import Finding, Question, Verdict
from remit.facts.machine import ENDED


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with its question. call: the boundary call that comes next; "" for a plain resume.

    first: what a turn does before it asks this, in words: settles what somebody said, sends again, asks outside.
    waits: why a turn stops before anything new, or does not end the run yet, in words; "" where it does not: what the
    flow gave up has to be heard, or a doubt has to be known first.
    beside: of calls side by side the others; the one that decides what a turn comes to stands first.
    is_sent_again: whether it is in doubt, and judged as what its rule sends again.
    """

    run: str
    call: str
    question: Question
    verdict: Verdict
    first: tuple[str, ...] = ()
    waits: str = ""
    beside: tuple[Judged, ...] = ()
    is_sent_again: bool = False

    @property
    def may_go_on(self) -> bool:
        """Whether the gate lets it."""
        return self.verdict.decision == "resume"

    def told(self) -> list[tuple[Finding, str, str]]:
        """Each finding with what was seen and what is required, in order."""
        findings, again = self.verdict.findings, self.is_sent_again
        return [(finding, *describe(self.question, finding, is_sent_again=again)) for finding in findings]


async def judge_dry(host: Host, flow: Flow[Any], found: Found) -> Judged:
    """What the gate would say of this run.

    Raises FlowMismatch, AuthorityUnreadable, Refused `run.ended`; and where a turn that the gate lets go on would raise
    because the code does not go on with the journal, the same.
    """
    view = found.view
    check_flow(view, flow)
    if view.status in ENDED:
        run = view.identity.run
        raise Refused(
            f"Run {run!r} is {view.status}; the gate is not asked about it any more.",
            code="run.ended",
            hint=f"See `remit explain {shlex.quote(run)}` for what the gate found when it was asked.",
        )
    await glance(host)
    check_not_behind(host, found.view)
    rehearsed = await rehearse_to(host, flow, found)
    turn, first = rehearsed.turn, []
    for name, told in rehearsed.settled.items():
        first.append(f"{called(name)} is settled as {told.fact.state}, as {told.by} said")
    plain = resume_question(turn)
    may_go_on = judge(plain).decision == "resume"
    if rehearsed.stopped is not None and may_go_on:
        raise rehearsed.stopped
    doubts = turn.attempt.boundary.in_doubt
    wishes = [wish for wish in rehearsed.wishes if may_go_on or wish.name in doubts]
    waits = f"It has to be known first whether {all_called(doubts)} happened." if doubts else ""
    judged = [await _judged(turn, wish, waits, may_go_on=may_go_on) for wish in wishes]
    if not judged or (may_go_on and rehearsed.has_more):
        waits = rehearsed.waits if may_go_on else waits
        judged.append(Judged(view.identity.run, "", plain, judge(plain), waits=waits))
    told_of = _first_of(judged)
    for wish in wishes:
        first += _asked_outside(turn, wish)
    first += [
        f"{called(each.call)} is sent again under its key" for each in judged if each.is_sent_again and each.may_go_on
    ]
    beside = tuple(each for each in judged if each is not told_of and each.call)
    return replace(told_of, first=tuple(first), beside=beside)


async def _judged(turn: Turn, wish: Wish, waits: str, *, may_go_on: bool) -> Judged:
    """The verdict on one call. waits: for what where it does not go on. may_go_on: whether the run does."""
    wish.is_sent_again = may_go_on and _is_due_again(turn, wish)
    question = await _asked(turn, wish)
    verdict = judge(question)
    waits = "" if verdict.decision == "resume" else waits
    return Judged(turn.attempt.run_id, wish.name, question, verdict, waits=waits, is_sent_again=wish.is_sent_again)


def _first_of(judged: list[Judged]) -> Judged:
    """Of calls side by side the one that decides what a turn comes to. They are judged in this order."""
    for each in judged:
        if each.may_go_on or (each.verdict.decision == "abandon" and not end_of(each.verdict.code).is_told):
            return each
    # What the flow is told of one call it hears when it has waited for the others.
    waiting = [each for each in judged if each.verdict.decision == "revalidate"]
    return min(waiting, key=lambda each: URGENCY[waits_for_of(each.question, each.verdict)], default=judged[0])


async def _asked(turn: Turn, wish: Wish) -> Question:
    """The question as it would be asked; once more where another day began while it was gathered."""
    try:
        return await question_of(turn, wish)
    except Moved:
        return await question_of(turn, wish)


def _asked_outside(turn: Turn, wish: Wish) -> list[str]:
    """Whom a turn asks about a doubt about this very call, if there is one and it asks."""
    effect = turn.attempt.boundary.effects.get(wish.name)
    is_asked = effect is not None and effect.settled is None and is_probed(wish, effect)
    return [f"the other side is asked whether {called(wish.name)} happened"] if is_asked else []


def _is_due_again(turn: Turn, wish: Wish) -> bool:
    """Whether a doubt about this very call is one that its rule sends again; the wish is then what is judged."""
    effect = turn.attempt.boundary.effects.get(wish.name)
    return effect is not None and effect.settled is None and is_due_again(turn, wish, effect)
