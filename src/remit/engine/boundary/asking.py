"""Asking: what happens at a crossing that may not go on yet, and how a person is asked.

    an effect in doubt     the call waits until it is settled
    evidence               the call waits; an answer that rested on it is void. What only changed is put to the
                           person whom a rule asks anyway
    approval               a person is asked, once; what changed since makes the question a new one

A question binds what it is about, byte for byte. It is asked in the commit that says why, and
announced by a row of the outbox. While it waits nothing is held.
"""

from __future__ import annotations

import secrets

import msgspec

from remit.authority.answers import bound_faults, faults
from remit.authority.seniors import NOBODY_LEFT, is_nobody_left
from remit.engine.boundary.question import conditions_of
from remit.engine.turn.halt import Parked
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Wish
from remit.engine.turn.writer import Draft
from remit.facts.announced import AskOpened
from remit.facts.calls import AskView
from remit.facts.judgement import Check, Question, Verdict
from remit.facts.kinds import ApprovalAsked, ApprovalVoided, GateJudged, WaitsFor
from remit.store.marks import Announce, CloseAsk, Mark, OpenAsk

# What a call is said to wait for, by the check that holds it; the first that does not pass decides.
_WAITS_FOR: tuple[tuple[Check, WaitsFor], ...] = (
    ("effects", "doubt"),
    ("duplicates", "doubt"),
    ("objective", "gate"),
    ("evidence", "evidence"),
    ("policy", "repair"),
    ("approval", "approval"),
)


async def revalidate(turn: Turn, wish: Wish, judged: GateJudged, words: str) -> Parked:
    """Write down what holds the call, and ask whom it takes; what it waits for. Raises Moved, AttemptClosed."""
    verdict, question = judged.verdict, judged.question
    waits_for = waits_for_of(question, verdict)
    ask = turn.attempt.boundary.ask_of(wish.name)
    stale = _stale(turn, ask, question)
    drafts: list[Draft] = []
    marks: list[Mark] = []
    writer = turn.attempt.writer
    if ask is not None and stale:
        drafts.append(writer.draft(ApprovalVoided(ask=ask.asked.ask, codes=stale), name=wish.name))
        marks.append(CloseAsk(ask.asked.ask))
    if waits_for == "approval" and (ask is None or stale):
        asked = _question(turn, wish, question)
        drafts.append(writer.draft(asked, name=wish.name, value=wish.data, salt=wish.salt))
        marks += [_listing(asked, drafts[-1].at), Announce(AskOpened(ask=asked.ask))]
        if apart := writer.apart(asked.until):
            words = f"{words} The question is {apart}."  # whoever has a clock that is right can answer it
    elif waits_for == "approval" and ask is not None and not await _is_listed(turn, ask):
        marks.append(_listing(ask.asked, ask.at))  # the index is no more than that: the journal says that it is asked
    before = turn.attempt.boundary.held.get(wish.name)
    if drafts or marks or before is None or _said(before, ask) != _said(judged, ask):
        conditions = conditions_of(turn, question, tuple(marks))
        drafts.insert(0, writer.draft(judged, name=wish.name))
        await turn.attempt.append_if(drafts, conditions, of="" if wish.is_sent_again else "beginning")
    return Parked(waits_for, verdict.code, words)


def waits_for_of(question: Question, verdict: Verdict) -> WaitsFor:
    """What a call is said to wait for that may not go on yet."""
    held = {finding.check: finding.code for finding in verdict.findings if not finding.ok}
    if "approval" in held and _is_readable(question):
        held.pop(
            "evidence", None
        )  # it changed, and whoever is asked anyway says whether the request holds all the same
    check, cause = next(each for each in _WAITS_FOR if each[0] in held)
    return "repair" if held[check] == "duplicates.missing" else cause  # nothing here is in doubt: that was lost


def _is_readable(question: Question) -> bool:
    """Whether all that the call rests on is there and fresh, changed or not."""
    return all(basis.digest and not basis.failed and question.now <= basis.until for basis in question.evidence)


def _said(judged: GateJudged, ask: AskView | None) -> object:
    """What a judgement says of a call: the same said again is not written again, or each turn would add to the run.

    Without a question the request has another salt in each turn, so its digests say nothing.
    """
    crossing = judged.question.effect
    bound = None if crossing is None else crossing.bound
    if bound is not None and ask is None:
        bound = msgspec.structs.replace(bound, material="", request="", shown="")
    return judged.verdict, bound


def _stale(turn: Turn, ask: AskView | None, question: Question) -> list[str]:
    """Why a question, or the answer to it, holds no longer; it names what changed."""
    crossing = question.effect
    if ask is None or crossing is None:
        return []
    if question.answer is not None:
        return faults(question)
    codes = bound_faults(ask.asked.bound, crossing.bound)
    if question.now > ask.asked.until:
        codes.insert(0, "approval.expired")
    authority, asked_for = turn.host.standing.authority, turn.attempt.boundary.asked_for[ask.asked.ask].question
    if is_nobody_left(authority, turn.attempt.view.opened, ask.asked, asked_for.needs, asked_for.risk):
        codes.append(NOBODY_LEFT)
    return codes


def _question(turn: Turn, wish: Wish, question: Question) -> ApprovalAsked:
    crossing = question.effect
    assert crossing is not None
    last, within = turn.attempt.boundary.last_ask_of(wish.name), crossing.bound.within
    return ApprovalAsked(
        ask=secrets.token_hex(16),
        authority=question.authority,
        bound=crossing.bound,
        call=wish.name,
        instead_of="" if last is None else last.asked.ask,
        until=min(turn.attempt.writer.begin(within) + within, question.window_end),
    )


async def _is_listed(turn: Turn, ask: AskView) -> bool:
    """Whether all who may answer find the question where they look for it, as the journal has it."""
    row = await turn.host.store.read_ask(turn.host.tenant, ask.asked.ask)
    if row is None or not row.is_open:
        return False
    found = (row.run_key, row.run, OpenAsk(row.ask, row.call, row.roles, row.asked_at, row.until))
    return found == (turn.attempt.lease.run_key, turn.attempt.run_id, _listing(ask.asked, ask.at))


def _listing(asked: ApprovalAsked, at: int) -> OpenAsk:
    """The row of the inbox. It does not say what is asked: that stands in the journal."""
    roles = tuple(sorted({role for group in asked.bound.roles for role in group}))
    return OpenAsk(asked.ask, asked.call, roles, at, asked.until)
