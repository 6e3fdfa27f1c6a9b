"""Judging dry: what the gate would say now, without changing anything.

The flow's own code is rehearsed up to the call that comes next; where that is one of the
boundary, the question is the very one that would be asked. What people said about doubts holds in here as
a turn would settle it, and what its rule sends again is judged as that. Evidence is not taken again, nobody
outside is asked, and nothing is written.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from remit.authority.describe import describe
from remit.authority.gate import judge
from remit.engine.boundary.doubt import is_due_again, is_probed
from remit.engine.boundary.question import question_of, resume_question
from remit.engine.declared.flow import Flow
from remit.engine.process.admit import Found, check_flow
from remit.engine.process.host import Host
from remit.engine.process.standing import check_not_behind, glance
from remit.engine.runs.rehearsal import rehearse_to
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Wish
from remit.errors import Moved, Refused
from remit.facts.judgement import Finding, Question, Verdict
from remit.facts.machine import ENDED


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with its question. call: the boundary call that comes next; "" for a plain resume.

    first: what a turn does before it asks this, in words: settles what somebody said, sends again, asks outside.
    waits: why a turn stops before anything new, or does not end the run yet, in words; "" where it does not: what the
    flow gave up has to be heard, or a doubt has to be known first.
    """

    run: str
    call: str
    question: Question
    verdict: Verdict
    first: tuple[str, ...] = ()
    waits: str = ""

    def told(self) -> list[tuple[Finding, str, str]]:
        """Each finding with what was seen and what is required, in order."""
        return [(finding, *describe(self.question, finding)) for finding in self.verdict.findings]


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
    wish, turn = rehearsed.wish, rehearsed.turn
    first = [f"{name} is settled as {told.fact.state}, as {told.by} said" for name, told in rehearsed.settled.items()]
    plain = resume_question(turn)
    may_go_on = judge(plain).decision == "resume"
    if wish is None or not (may_go_on or turn.attempt.boundary.in_doubt):
        if rehearsed.stopped is not None and may_go_on:
            raise rehearsed.stopped
        waits = rehearsed.waits if may_go_on else ""
        return Judged(view.identity.run, "", plain, judge(plain), tuple(first), waits)
    first += _asked_outside(turn, wish)
    wish.is_sent_again = may_go_on and _is_due_again(turn, wish)
    question = await _asked(turn, wish)
    verdict = judge(question)
    waits = ""
    if verdict.decision == "resume":
        first += [f"{wish.name} is sent again under its key"] if wish.is_sent_again else []
    elif doubts := turn.attempt.boundary.in_doubt:
        waits = f"It has to be known first whether {', '.join(doubts)} happened."
    return Judged(view.identity.run, wish.name, question, verdict, tuple(first), waits)


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
    return [f"the other side is asked whether {wish.name} happened"] if is_asked else []


def _is_due_again(turn: Turn, wish: Wish) -> bool:
    """Whether a doubt about this very call is one that its rule sends again; the wish is then what is judged."""
    effect = turn.attempt.boundary.effects.get(wish.name)
    return effect is not None and effect.settled is None and is_due_again(turn, wish, effect)
