"""The question: all that bears on one crossing, gathered as facts for the judge.

What is not pure is asked here first: predicates of the contract, what is used of a ceiling,
who holds a business key. Its failure is a no, and enters the question as one.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec

from remit.authority import rules as ruling
from remit.authority.denials import denied, fields_apart
from remit.authority.difference import shown_digest
from remit.authority.directory import Authority
from remit.authority.rule import Use
from remit.authority.rules import Demand, Rules
from remit.canonical import encode
from remit.engine.boundary.evidence import names_of, view_of
from remit.engine.boundary.heard import heard
from remit.engine.boundary.shared import shared
from remit.engine.turn.step import type_name
from remit.engine.turn.turn import Turn
from remit.engine.turn.wish import Wish
from remit.engine.turn.writer import Conditions
from remit.errors import Moved
from remit.errors.called import called
from remit.facts.boundary import Boundary
from remit.facts.calls import AskView, Decided, EffectView
from remit.facts.entry import value_digest
from remit.facts.judgement import Answer, Basis, Bound, Crossing, Need, Question
from remit.store.marks import Mark

REGRESSED_US = 1_000_000  # wall times of different processes may part by less without a word

_KEY_TAG = b"remit/key/1\n"


def resume_question(turn: Turn) -> Question:
    """What is asked before a run goes on, whatever it will do."""
    return Question(**_frame(turn, turn.host.standing.authority))


async def question_of(turn: Turn, wish: Wish) -> Question:
    """What is asked before this crossing."""
    authority, boundary = turn.host.standing.authority, turn.attempt.boundary
    rules = turn.rules(wish.declared)
    has_key = wish.effect is not None and bool(wish.effect.business_key)
    if (rules.ceilings or rules.needs or has_key) and wish.request is None:
        wish.request = msgspec.json.decode(wish.data)
    needs, unanswered = await _needs(turn, wish, rules.needs) if rules.needs else ([], "")
    needs = [*needs, *wish.asks]
    wanted, unwanted_by = await _wanted(turn, wish, rules) if rules.wanted or rules.wanted_lost else ("", "")
    # After the predicates, which may take their time: others give back meanwhile what is counted here.
    began = turn.attempt.writer.between()
    business, ceilings = await shared(turn, wish, rules, began)
    # From here on nothing is awaited: time, doubts, evidence and answer are of one moment, the one of the verdict.
    own, ask = boundary.effects.get(wish.name), boundary.last_ask_of(wish.name)
    evidence = [_basis(turn, wish, name) for name in names_of(rules, wish)]
    bound = _bound(turn, wish, needs, evidence, is_asked=bool(needs or unanswered))
    crossing = Crossing(
        bound=bound,
        business=business.digest,
        key=_key(turn, wish),
        lost=business.lost,
        name=wish.name,
        own=_own(wish, own),
        rival=business.rival,
    )
    question = Question(
        **_frame(turn, authority),
        answer=None if ask is None else _answer(authority, boundary, wish, bound, own, _immaterial(needs, rules)),
        ceilings=ceilings,
        doubts=[name for name in _doubts_before(boundary, wish) if name not in turn.attempt.under_way],
        effect=crossing,
        evidence=evidence,
        forbidden=rules.forbidden,
        near=rules.near,
        needs=needs,
        unanswered=unanswered,
        unnamed=rules.unnamed,
        unwanted_by=unwanted_by,
        wanted=wanted,
        wanted_lost=rules.wanted_lost,
    )
    if any(cap.pin.per in ruling.DATED for cap in rules.ceilings):
        for then, now in zip(began, (turn.attempt.writer.earliest(), question.now), strict=True):
            if then // ruling.DAY_US != now // ruling.DAY_US:
                raise Moved("time")  # it was counted on another day than the one of this question
    return question


async def read_again(turn: Turn, wish: Wish, question: Question) -> Question:
    """The same question, with what runs share as it is now: who holds the business key, what is used of ceilings."""
    crossing, rules = question.effect, turn.rules(wish.declared)
    assert crossing is not None
    between = min(turn.attempt.writer.earliest(), question.now), question.now
    business, ceilings = await shared(turn, wish, rules, between)
    held = {"business": business.digest, "lost": business.lost, "rival": business.rival}
    crossing = msgspec.structs.replace(crossing, **held)
    return msgspec.structs.replace(question, ceilings=ceilings, effect=crossing)


def conditions_of(
    turn: Turn, question: Question, marks: tuple[Mark, ...] = (), *, until: int | None = None
) -> Conditions:
    """What must still be so at the commit: the authority that was judged by, and nothing posted since.

    Raises Moved where this process has read on already, in this turn or another one.
    """
    standing, attempt = turn.host.standing, turn.attempt
    if standing.authority.version != question.authority:
        raise Moved("authority")
    if attempt.post_seq != question.post:
        raise Moved("post")
    return Conditions(fence=standing.fence, post_head=attempt.post_head, marks=marks, until=until)


def _frame(turn: Turn, authority: Authority) -> dict[str, Any]:
    """What every question says, whatever it is about."""
    attempt = turn.attempt
    opened, writer = attempt.view.opened, attempt.writer
    pinned = turn.pinned_digest
    head, seq = writer.place
    return {
        "authority": authority.version,
        "behalf": None if opened.behalf is None else authority.who(opened.behalf),
        "cancelled": attempt.boundary.cancel is not None,
        "executor": authority.who(opened.by),
        "head": head,
        "now": writer.now(),
        "post": attempt.post_seq,
        "pinned_contract": pinned if pinned != turn.terms.digest else "",
        "pinned_policy": opened.policy if opened.policy != authority.policy_digest else "",
        "regressed": writer.wall() + REGRESSED_US < writer.last_at,
        "resume": turn.resume,
        "risk": turn.risk,
        "seq": seq,
        "window_end": turn.window_end,
    }


async def _needs(turn: Turn, wish: Wish, demands: Sequence[Demand]) -> tuple[list[Need], str]:
    """The approvals that hold, and why one of them could not be asked whether it does."""
    needs, unanswered = [], ""
    for demand in demands:
        if demand.predicate:
            said = await _ask(turn, wish, demand.predicate, "when")
            if said is False:
                continue
            if said is not True:
                unanswered = _no_answer(said)
        needs.append(ruling.need_of(demand.source, demand.pin))
    return needs, unanswered


async def _wanted(turn: Turn, wish: Wish, rules: Rules) -> tuple[Literal["", "yes", "no", "unknown"], str]:
    """What `still_wanted` says, and why it could not say."""
    if rules.wanted_lost:
        return "unknown", type_name(_lost(rules.wanted_lost))
    said = await _ask(turn, wish, rules.wanted, "still_wanted")
    if isinstance(said, bool):
        return ("yes" if said else "no"), ""
    return "unknown", _no_answer(said)


async def _ask(turn: Turn, wish: Wish, name: str, use: Use) -> Any:
    """What a predicate of the contract says of the request, or what it raised."""
    effect = wish.effect
    assert effect is not None
    predicate = turn.terms.contract.predicate(effect.name, name, use)
    if predicate is None:
        return _lost(name)

    async def ask() -> Any:
        said: Any = predicate(effect.request_codec.read_exactly(wish.data, where=called(wish.name)))
        return await said if inspect.isawaitable(said) else said

    return await heard(ask)


def _no_answer(said: Any) -> str:
    """Why a predicate's answer is none: the name of what it raised, or of the type of what it said."""
    return type_name(said) if isinstance(said, BaseException) else type(said).__name__


def _lost(name: str) -> LookupError:
    """The pinned contract would ask this predicate, which the code no longer has."""
    return LookupError(name)


def _basis(turn: Turn, wish: Wish, name: str) -> Basis:
    view = view_of(turn, wish, name)
    if view is None:
        return Basis(name=name)
    until = ruling.evidence_until(turn.rules(wish.declared), name, view.fact.as_of, view.fact.until)
    relied = view.relied if view.relied != view.digest else ""
    return Basis(digest=view.digest, failed=turn.unreadable.get(view.call, ""), name=name, relied=relied, until=until)


def _bound(turn: Turn, wish: Wish, needs: list[Need], evidence: list[Basis], *, is_asked: bool) -> Bound:
    effect = wish.effect
    request = value_digest(wish.salt, wish.data)
    bound = Bound(
        connector="" if effect is None else effect.connector,
        contract=turn.terms.digest,
        effect=wish.declared,
        policy=turn.host.standing.authority.policy_digest,
        request=request,
        version="" if effect is None else effect.version,
    )
    if not is_asked:
        return bound
    immaterial = ruling.immaterial_of(needs)
    bound = msgspec.structs.replace(
        bound,
        evidence={basis.name: basis.digest for basis in evidence},
        immaterial=immaterial,
        policy_set=turn.host.standing.authority.policy_set,
        material=value_digest(wish.salt, ruling.material_of(wish.data, immaterial)) if immaterial else "",
        roles=[need.roles for need in needs],
        within=min((need.within for need in needs), default=0),
    )
    return msgspec.structs.replace(bound, shown=shown_digest(bound, wish.data, call=wish.name, salt=wish.salt))


def _key(turn: Turn, wish: Wish) -> str:
    """The idempotency key: hex, the same each time that this one call of this run is sent.

    Also where entries of it were lost: the request's digest is not in it, because its salt would have gone with them.
    """
    if wish.effect is None:
        return ""
    identity = turn.attempt.view.identity
    told = [identity.ledger, identity.tenant, identity.run, identity.gen, wish.name]
    return sha256(_KEY_TAG + encode(told)).hexdigest()


def _doubts_before(boundary: Boundary, wish: Wish) -> list[str]:
    """Other doubts, before which nothing new begins. Two that are sent again would wait for each other for ever."""
    doubts = boundary.in_doubt
    if wish.is_sent_again and wish.name in doubts:
        return doubts[: doubts.index(wish.name)]
    return [name for name in doubts if name != wish.name]


def _own(wish: Wish, own: EffectView | None) -> Literal["", "ok", "failed", "in_doubt"]:
    if own is None or own.state == "did_not_happen" or (own.state == "in_doubt" and wish.is_sent_again):
        return ""
    return own.state


def _immaterial(needs: Sequence[Need], rules: Rules) -> list[str]:
    """Fields in which a request may differ from what was said no to: also where no predicate asks anybody today."""
    return ruling.immaterial_of(needs or [ruling.need_of(demand.source, demand.pin) for demand in rules.needs])


def _answer(
    authority: Authority,
    boundary: Boundary,
    wish: Wish,
    bound: Bound,
    own: EffectView | None,
    immaterial: list[str],
) -> Answer | None:
    """The decision that stands for this crossing, with what holds of its decider now."""
    no = denied(boundary, wish.name, wish.data, immaterial)
    ask = no or boundary.ask_of(wish.name)
    if ask is None and own is not None and own.settled is None and own.intended.ask:
        ask = boundary.asks[own.intended.ask]  # used by the very call that is sent again
    decided = None if ask is None else ask.decided or ask.misbound
    if ask is None or decided is None:
        return None
    answer = answer_to(authority, ask, decided, call=wish.name, bound=bound)
    if answer.choice == "approve":
        return answer
    return msgspec.structs.replace(answer, immaterial=fields_apart(ask, immaterial), same=no is not None)


def answer_to(authority: Authority, ask: AskView, decided: Decided, *, call: str, bound: Bound) -> Answer:
    """A decision as the judge is given it, for this call, which is bound to this now."""
    fact = decided.fact
    return Answer(
        ask=fact.ask,
        asked_at=ask.at,
        at=decided.at,
        binding=decided is ask.decided and ask.asked.call == call,
        bound=ask.asked.bound,
        by=authority.who(decided.by),
        choice=fact.choice,
        disabled_since=authority.enabled_at(decided.by) > fact.authority,
        granted_after=_is_granted_after(authority, ask, decided, bound),
        lost=[role for role in fact.roles if (authority.granted_at(decided.by, role) or 0) > fact.authority],
        roles=fact.roles,
        until=ask.asked.until,
        used=bool(ask.used_by) and ask.used_by != call,
    )


def _is_granted_after(authority: Authority, ask: AskView, decided: Decided, bound: Bound) -> bool:
    """Whether the decider held no serving role yet when the question was asked."""
    for group in bound.roles:
        serving = set(group) & set(decided.fact.roles)
        seqs = [at for role in serving if (at := authority.granted_at(decided.by, role)) is not None]
        if seqs and min(seqs) > ask.asked.authority:
            return True
    return False
