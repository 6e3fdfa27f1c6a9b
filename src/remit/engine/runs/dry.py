"""Judging dry: what the gate would say now, without changing anything.

The flow's own code is rehearsed up to the call that comes next; where that is one of the
boundary, the question is the very one that would be asked. Evidence is not taken again, and what
is not built into the journal yet is not written.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from remit.authority.describe import describe
from remit.authority.gate import judge
from remit.engine.boundary.question import question_of, resume_question
from remit.engine.declared.flow import Flow
from remit.engine.process.admit import Found, check_flow
from remit.engine.process.host import Host
from remit.engine.process.standing import check_not_behind, glance
from remit.engine.runs.rehearsal import rehearse_to
from remit.errors import Refused
from remit.facts.judgement import Finding, Question, Verdict
from remit.facts.machine import ENDED


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with its question. call: the boundary call that comes next; "" for a plain resume."""

    run: str
    call: str
    question: Question
    verdict: Verdict

    def told(self) -> list[tuple[Finding, str, str]]:
        """Each finding with what was seen and what is required, in order."""
        return [(finding, *describe(self.question, finding)) for finding in self.verdict.findings]


async def judge_dry(host: Host, flow: Flow[Any], found: Found) -> Judged:
    """What the gate would say of this run. Raises FlowMismatch, AuthorityUnreadable, Refused `run.ended`."""
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
    question = resume_question(turn) if wish is None else await question_of(turn, wish)
    return Judged(view.identity.run, "" if wish is None else wish.name, question, judge(question))
