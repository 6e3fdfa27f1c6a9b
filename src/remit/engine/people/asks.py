"""Asks: the questions that wait for a person, each told as its verified journal has it.

A question is found by its id, which is unguessable and no capability. What is shown is what a yes
would be bound to, with what moved since, and how it stands: time passes, and a run ends, without
an entry that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import msgspec

from remit.authority.difference import Change, Difference, difference
from remit.authority.directory import Authority
from remit.authority.rules import evidence_until, immaterial_of, rules_for
from remit.authority.seniors import is_nobody_left
from remit.canonical import encode
from remit.engine.people.earlier import (
    Earlier,
    MadeBefore,
    answered_elsewhere,
    answered_last,
    earlier_of,
    made_before,
)
from remit.engine.people.left_out import LeftOut, Listed, left_out
from remit.engine.people.sent_before import SentBefore, sent_before
from remit.engine.process.admit import UNBELIEVED, Found, find
from remit.engine.process.host import Host
from remit.engine.process.outcome import detail_of
from remit.engine.process.standing import glance
from remit.errors import ApprovalRefused, AuthorityUnreadable
from remit.facts.calls import AskState, AskView
from remit.facts.judgement import Finding, Need
from remit.facts.kinds import ApprovalAsked, EvidenceTaken, GateJudged
from remit.facts.view import RunView
from remit.store.rows import AskFilter, AskRow

Choice = Literal["approve", "deny"]
Standing = Literal[AskState, "over", "run_ended"]
POLICY_MOVED, ROLES_MOVED = "policy", "roles"  # in `Ask.moved`; all else there is a principal


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a question rests on. value: as plain JSON. as_of, until: microseconds UTC.

    until: as the contract caps it by which it was asked, and the policy of today: the gate allows no less. Where that
    is the contract of newer code and it was taken again since, the gate may allow more.

    changes: where it parts from what stood in its place. since: what that was, "asked" (in the question that it is
    compared with, `Ask.earlier`), "relied" (what the flow made its request from), "" where it is the same.
    """

    name: str
    value: Any
    as_of: int
    until: int
    changes: tuple[Change, ...] = ()
    since: Literal["", "asked", "relied"] = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a person, as its verified journal tells it.

    effect: declared name of the effect, "" for a question of the flow's own. call: which call of the run waits.
    payload: the request as plain JSON: what an agent wrote in it is untrusted. earlier: the question before that it is
    compared with, the last one of this call that somebody answered; else `elsewhere`; else the one directly before.
    difference: from that one; both None at the first time. elsewhere: the newest one of another call of this effect (or
    with this name, of a question of the flow's own) about the same matter that somebody answered, None where there is
    none. void: why the question directly before does not hold. roles: one of each group is needed.
    immaterial: fields of the request to which a yes does not bind, in order: they may be others when it is used.
    made_before: the newest call of this effect about the same matter that was made or may have been, else the newest
    that was sent; None where there is none, or where `earlier` or `elsewhere` tells of one that was made.
    asked_at, until: microseconds UTC. findings: what the gate found. version: names what was shown, what it tells of
    other answers as well; for `decide`.
    state: open, approved, denied, void, used; `over` past its time or where somebody asked for the run's end,
    `run_ended` where the run ended first. voided: of a void one, why it holds no longer. later: id of the newest
    question of this call, "" where that is this one. decided_by: who answered, "" while nobody did. choice: what they
    said, whatever became of it. reason: why, "" for none.
    moved: of one that stands, what is another than when it was asked, so that a yes may be void: "policy"; "roles",
    where at high risk nobody who held one then is left to answer, so that the next turn asks anew; or the name of
    an executor whom the directory has otherwise now. number: by which the inbox is paged, 0 elsewhere.
    sent_before: how the call was sent before it was asked whether it may be sent again, while nobody knows whether it
    happened: a yes sends it again, and a no takes nothing back. None where it was not.
    """

    id: str
    run: str
    flow: str
    by: str
    behalf: str | None
    effect: str
    call: str
    payload: Any
    earlier: Earlier | None
    difference: Difference | None
    elsewhere: Earlier | None
    void: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    roles: tuple[tuple[str, ...], ...]
    alone: bool
    asked_at: int
    until: int
    findings: tuple[Finding, ...]
    version: str
    state: Standing
    voided: tuple[str, ...]
    later: str
    decided_by: str
    choice: Choice | Literal[""]
    reason: str
    raw: bytes
    moved: tuple[str, ...] = ()
    number: int = 0
    immaterial: tuple[str, ...] = ()
    made_before: MadeBefore | None = None
    sent_before: SentBefore | None = None


async def inbox(host: Host, *, role: str | None, limit: int, after: int) -> Listed[Ask]:
    """Questions that wait, oldest first. A run that can't be believed or read is left out, and set aside if forged."""
    asks, without = list[Ask](), list[LeftOut]()
    authority = await believed(host)
    while (wanted := limit - len(asks)) > 0:
        rows = await host.store.list_asks(AskFilter(host.tenant, role, wanted, after))
        for row in rows:
            try:
                ask = await _waiting(host, row, authority)
            except UNBELIEVED as exc:
                without.append(left_out(row.run, exc))
                continue
            asks += [ask] if ask is not None else []
        if len(rows) < wanted:
            break
        after = rows[-1].number
    return Listed(asks, without)


async def _waiting(host: Host, row: AskRow, authority: Authority | None) -> Ask | None:
    """The question that a row of the index leads to; None where its journal has none that waits there."""
    if host.clock.latest() > row.until:
        return None  # a row that says so falsely is written anew when the run goes on
    found = await find(host, row.run)
    ask = found.view.boundary.asks.get(row.ask)
    if ask is None or standing(found.view, ask, host.clock.latest()) != "open":
        return None
    return replace(shown(found.view, ask, host.clock.latest(), authority), number=row.number)


async def read_ask(host: Host, ask_id: str) -> Ask:
    """A question by its id, open or not. Raises ApprovalRefused `approval.absent`, Tampered, RunQuarantined."""
    row = await row_of(host, ask_id)
    found = await find(host, row.run)
    told = shown(found.view, ask_in(found, ask_id), host.clock.latest(), await believed(host))
    return replace(told, number=row.number)


def standing(view: RunView, ask: AskView, now: int) -> Standing:
    """How a question stands, also where nobody wrote that down: time passes, and a run ends, without an entry for it.

    now: microseconds UTC.
    """
    if ask.state not in ("open", "approved"):
        return ask.state
    if view.ended is not None:
        return "run_ended"
    is_over = max(now, view.last_at) > ask.asked.until or view.boundary.cancel is not None
    return "over" if is_over else ask.state


def version_of(view: RunView, ask: AskView) -> str:
    """Names what a person is shown: the question, and what its page tells of other answers, as they come."""
    immaterial = _immaterial(view, ask)
    answered = (answered_last(view, ask), answered_elsewhere(view, ask, immaterial))
    told = [earlier_of(view, each) for each in answered if each is not None]
    made = made_before(view, ask, immaterial, told)
    beside = [astuple(each) for each in (*told, made) if each is not None]
    return sha256(encode([ask.hash, *beside])).hexdigest() if beside else ask.hash


def is_policy_moved(ask: AskView, authority: Authority) -> bool:
    """Whether the policy was set since: of a question that stands, no yes counts then, whatever the policy says."""
    return ask.asked.bound.policy_set != authority.policy_set


def shown(view: RunView, ask: AskView, now: int, authority: Authority | None) -> Ask:
    """A question as a person is shown it. authority: as it is now; None where it can't be believed. now: µs UTC."""
    asked, boundary, opened = ask.asked, view.boundary, view.opened
    judged = judged_of(view, ask)
    needs = judged.question.needs if judged is not None else []
    immaterial, state = _immaterial(view, ask), standing(view, ask, now)
    before, later = boundary.asks.get(asked.instead_of), boundary.last_ask_of(asked.call)
    elsewhere = answered_elsewhere(view, ask, immaterial)
    earlier = answered_last(view, ask) or elsewhere or before
    told = [earlier_of(view, each) for each in (earlier, elsewhere) if each is not None]
    return Ask(
        id=asked.ask,
        run=view.identity.run,
        flow=opened.flow,
        by=opened.by,
        behalf=opened.behalf,
        effect=asked.bound.effect,
        call=asked.call,
        payload=msgspec.json.decode(ask.request),
        earlier=None if earlier is None else earlier_of(view, earlier),
        difference=None if earlier is None else difference(earlier.request, ask.request, immaterial),
        elsewhere=None if elsewhere is None else earlier_of(view, elsewhere),
        void=() if before is None else tuple(before.voided),
        evidence=tuple(_evidence(view, asked, name, judged, authority, earlier) for name in asked.bound.evidence),
        roles=tuple(tuple(group) for group in asked.bound.roles),
        alone=may_alone(needs),
        asked_at=ask.at,
        until=asked.until,
        findings=tuple(judged.verdict.findings) if judged is not None else (),
        version=version_of(view, ask),
        state=state,
        voided=tuple(ask.voided),
        later=later.asked.ask if later is not None and later is not ask else "",
        decided_by=ask.decided.by if ask.decided is not None else "",
        choice=ask.choice,
        reason=detail_of(ask.decided.reason) if ask.decided is not None else "",
        raw=ask.request,
        moved=_moved(view, ask, judged, authority) if state in ("open", "approved") else (),
        immaterial=tuple(asked.bound.immaterial),
        made_before=made_before(view, ask, immaterial, told),
        sent_before=sent_before(view, ask, authority),
    )


async def row_of(host: Host, ask_id: str) -> AskRow:
    row = await host.store.read_ask(host.tenant, ask_id)
    if row is None:
        raise _absent(ask_id)
    return row


def ask_in(found: Found, ask_id: str) -> AskView:
    ask = found.view.boundary.asks.get(ask_id)
    if ask is None:
        raise _absent(ask_id)
    return ask


def _absent(ask_id: str) -> ApprovalRefused:
    hint = "See `remit inbox` for what waits for an answer."
    return ApprovalRefused(f"There is no question {ask_id!a}; nothing was done.", code="approval.absent", hint=hint)


def judged_of(view: RunView, ask: AskView) -> GateJudged | None:
    return view.boundary.asked_for.get(ask.asked.ask)


def _immaterial(view: RunView, ask: AskView) -> list[str]:
    judged = judged_of(view, ask)
    return immaterial_of(judged.question.needs if judged is not None else [])


def may_alone(needs: Sequence[Need]) -> bool:
    return bool(needs) and all(need.alone for need in needs)


async def believed(host: Host) -> Authority | None:
    """Directory and policy as they are now; None where they can't be believed: a question is shown all the same."""
    try:
        return await glance(host)
    except AuthorityUnreadable:
        return None


def _moved(view: RunView, ask: AskView, judged: GateJudged | None, authority: Authority | None) -> tuple[str, ...]:
    """What the gate will find otherwise than when it asked, as far as that is known without the code of the run."""
    if judged is None or authority is None:
        return ()
    asked, question = ask.asked, judged.question
    moved = [POLICY_MOVED] if is_policy_moved(ask, authority) else []
    if ask.decided is None and is_nobody_left(authority, view.opened, asked, question.needs, question.risk):
        moved.append(ROLES_MOVED)
    whom = [who for who in (judged.question.executor, judged.question.behalf) if who is not None]
    return (*moved, *(who.principal for who in whom if authority.who(who.principal) != who))


def _evidence(
    view: RunView,
    asked: ApprovalAsked,
    name: str,
    judged: GateJudged | None,
    authority: Authority | None,
    earlier: AskView | None,
) -> Evidence:
    """As the question is bound to it, whatever was stated under this name elsewhere or since."""
    digest = asked.bound.evidence[name]
    known = view.boundary.evidence_with(digest)
    if known is None:
        return Evidence(name, None, 0, 0)
    value, fact = known
    until = _until(view, asked, name, fact, judged, authority)
    changes, since = _changes(view, asked, name, judged, earlier)
    return Evidence(name, msgspec.json.decode(value), fact.as_of, until, changes, since)


def _until(
    view: RunView,
    asked: ApprovalAsked,
    name: str,
    fact: EvidenceTaken,
    judged: GateJudged | None,
    authority: Authority | None,
) -> int:
    """Until when it may be relied on, and never longer than the gate will say: whose contract is not here is judged by.

    What it allowed then it allows of what was taken again since, counted from that.
    """
    policy, pinned = authority.policy if authority is not None else None, view.opened.contract
    rules = rules_for(asked.bound.effect, pinned=pinned, coded=pinned, policy=policy)
    until = evidence_until(rules, name, fact.as_of, fact.until)
    if judged is None or (authority is not None and not judged.question.pinned_contract):
        return until
    allowed = next((basis.until for basis in judged.question.evidence if basis.name == name), until)
    return min(until, max(allowed, fact.as_of + allowed - judged.question.now))


def _changes(
    view: RunView, asked: ApprovalAsked, name: str, judged: GateJudged | None, earlier: AskView | None
) -> tuple[tuple[Change, ...], Literal["", "asked", "relied"]]:
    """Where evidence parts from what a person was shown last, or else from what the flow made its request from."""
    boundary, digest = view.boundary, asked.bound.evidence[name]
    shown_last = earlier.asked.bound.evidence.get(name, "") if earlier is not None else ""
    relied = next((basis.relied for basis in judged.question.evidence if basis.name == name), "") if judged else ""
    found: tuple[tuple[str, Literal["asked", "relied"]], ...] = ((shown_last, "asked"), (relied, "relied"))
    for then, since in found:
        old, new = boundary.evidence_with(then), boundary.evidence_with(digest)
        if then != digest and old is not None and new is not None and old[0] != new[0]:
            return difference(old[0], new[0]).changes, since
    return (), ""
