"""Openings: the first entry of a journal, whatever the journal is for, and who may be named in that of a run.

A run is opened under names, for good: no other executor goes on with it. So the gate is asked before
there is anything, and a grant that was forgotten costs no run id.
"""

from __future__ import annotations

import shlex

from remit.authority.directory import LOCAL, Authority
from remit.authority.gate import judge
from remit.authority.rules import resume_groups
from remit.engine.process.host import Host
from remit.engine.process.salt import draw_salt
from remit.errors import Refused
from remit.facts import kinds
from remit.facts.entry import Identity, Pen, genesis, value_digest
from remit.facts.judgement import Question, Who
from remit.facts.kinds import RunOpened
from remit.store.marks import Ground
from remit.store.units import Opening


def draw_up(
    host: Host, run: str, opened: RunOpened, data: bytes, *, at: int, is_held: bool, ground: Ground | None = None
) -> tuple[Opening, Identity]:
    """What the store is asked to make. data: input bytes. is_held: this worker takes the run at once, under epoch 1.

    ground: where the authority ends that allowed it.
    """
    identity = Identity(host.store.ledger.origin, host.tenant, run, 1, opened.flow)
    salt = draw_salt()
    start = genesis(identity, value_digest(salt, data))
    pen = Pen(identity, lane="main", by=opened.by, epoch=0, head=start, seq=0)
    entry = pen.seal("RunOpened", kinds.write(opened), at=at, value=(salt, data))
    made = Opening(
        tenant=host.tenant,
        run=run,
        gen=1,
        flow=opened.flow,
        by=opened.by,
        opened_at=at,
        window_end=opened.window_end,
        entry=entry,
        head=pen.head,
        worker=host.worker if is_held else None,
        lease_ms=host.lease_ms,
        ground=ground,
    )
    return made, identity


def check_may_open(authority: Authority, opened: RunOpened, *, now: int) -> None:
    """Ask the gate, as it will be asked when the run begins. Raises Refused; nothing was written.

    `executor.disabled`, `executor.unknown`, `executor.role`: of the executor, and the first two of the one for whom
    it acts.
    """
    question = Question(
        authority=authority.version,
        behalf=None if opened.behalf is None else authority.who(opened.behalf),
        executor=authority.who(opened.by),
        head="",
        now=now,
        resume=resume_groups(opened.contract, opened.contract),
        risk=opened.contract.risk,
        seq=0,
        window_end=opened.window_end,
    )
    verdict = judge(question)
    if verdict.decision == "resume":
        return
    finding = next(finding for finding in verdict.findings if not finding.ok)
    raise _refused(question, finding.code)


def _refused(question: Question, code: str) -> Refused:
    """Why the gate would let nothing of such a run go on, and the command that mends it."""
    whom = [who for who in (question.executor, question.behalf) if who is not None]
    if code == "identity.disabled":
        who = next(who for who in whom if who.disabled)
        mend = f"`remit who {shlex.quote(who.principal)}` tells by whom and why, and who is behind it."
        return _unopened(question, who, "is disabled", code="executor.disabled", hint=mend)
    asked = f"; the contract asks for {' or '.join(question.resume[0])}"
    if code == "identity.unknown":
        who = next(who for who in whom if not who.known)
        role = question.resume[0][0] if who is question.executor else "ROLE"
        mend = f"`remit grant {shlex.quote(who.principal)} {role} --by user:YOU` makes it known."
        return _unopened(question, who, f"is not known to the directory{asked}", code="executor.unknown", hint=mend)
    who, role = question.executor, question.resume[0][0]
    mend = (
        f"`remit grant {shlex.quote(who.principal)} {role} --by user:YOU` gives it the role, or name another executor."
    )
    held = ", ".join(who.roles) if who.roles else "no role"
    return _unopened(question, who, f"holds {held}{asked}", code="executor.role", hint=mend)


def _unopened(question: Question, who: Who, fault: str, *, code: str, hint: str) -> Refused:
    named = who.principal
    if who is not question.executor:
        named += ", for whom it would act,"
    elif named == LOCAL:
        named = f"Where no executor is named (`by`) it is {LOCAL}, which"
    return Refused(f"{named} {fault}. No run was opened.", code=code, hint=hint)
