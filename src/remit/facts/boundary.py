"""The boundary, as a journal tells it: effects, questions and their answers, evidence, and what others posted.

The rule of the gate holds in stored data as well. An intention is legal only directly after
a judgement that said `resume` about the same call, request and authority, and a judgement
that said so is followed by what it permitted. So code that goes around the gate cannot
leave a journal that folds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from remit.facts.calls import AskView, Decided, EffectView, EvidenceView, Resolved
from remit.facts.chain import Read
from remit.facts.judgement import Crossing, Question
from remit.facts.kinds import (
    ApprovalAsked,
    ApprovalDecided,
    ApprovalUsed,
    ApprovalVoided,
    CancelAsked,
    DoubtResolved,
    EffectIntended,
    EffectRefused,
    EffectSettled,
    EvidenceTaken,
    GateJudged,
    Reservation,
)
from remit.facts.machine import BOUNDARY_KINDS


class Illegal(ValueError):
    """A move that Remit can't have written; the text says which."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody asked for the run to end."""

    item: str
    by: str
    at: int
    reason: bytes | None


class _Passed(NamedTuple):
    """The gate let a call pass. judgement: body of the entry that says so."""

    question: Question
    crossing: Crossing
    judgement: bytes


@dataclass(slots=True)
class Boundary:
    """What a run did at the boundary, and what waits for it there."""

    effects: dict[str, EffectView] = field(default_factory=dict)  # by name of the call
    asks: dict[str, AskView] = field(default_factory=dict)  # by id, in the order of asking
    evidence: dict[str, EvidenceView] = field(default_factory=dict)  # by the call that stated it
    resolved: dict[str, list[Resolved]] = field(default_factory=dict)  # by hash of the intention, in order
    taken: set[str] = field(default_factory=set)  # words by which an effect was settled, by hash of the entry
    cancel: Cancelled | None = None
    judged: GateJudged | None = None  # the newest judgement that did not let the run go on
    held: dict[str, GateJudged] = field(default_factory=dict)  # the newest of each call that it holds
    asked_for: dict[str, GateJudged] = field(default_factory=dict)  # by ask: the judgement that led to it
    _decisions: dict[str, list[Decided]] = field(default_factory=dict)  # by ask
    # Kept beside what they follow from: every crossing asks for them, and a long run has many effects.
    _in_doubt: dict[str, None] = field(default_factory=dict)  # names, in the order of intending
    _reserved: dict[str, int] = field(default_factory=dict)  # by scope: what happened, or may have
    _asked_last: dict[str, AskView] = field(default_factory=dict)  # by call
    _evidence_known: dict[str, tuple[bytes, EvidenceTaken]] = field(default_factory=dict)  # by digest
    _passed: _Passed | None = None  # the gate let it pass, and it has to follow

    @property
    def in_doubt(self) -> list[str]:
        """Names of effects that were intended and never settled."""
        return list(self._in_doubt)

    @property
    def happened(self) -> tuple[str, ...]:
        """Names of effects that are known to have happened."""
        return tuple(effect.name for effect in self.effects.values() if effect.state == "ok")

    @property
    def may_have_happened(self) -> tuple[str, ...]:
        """Names of effects that happened, or may have."""
        return tuple(effect.name for effect in self.effects.values() if effect.may_have_happened)

    @property
    def unfinished(self) -> dict[str, int]:
        """Calls to which the flow has to come again, by the seq at which they began: in doubt, or with a question.

        A yes that was given back waits for its call, and its call for nothing: what failed runs again or is recorded.
        """
        asked = {call: ask.seq for call, ask in self._asked_last.items() if ask.stands and not self._is_given_back(ask)}
        return asked | {name: self.effects[name].begun for name in self._in_doubt}

    def _is_given_back(self, ask: AskView) -> bool:
        """Whether it is the yes to a call that failed since: used by it, and not used up, for nothing happened."""
        effect = self.effects.get(ask.asked.call)
        if effect is None or effect.intended.ask != ask.asked.ask or effect.settled is None:
            return False
        return effect.settled.state == "did_not_happen" and not effect.settled.goes_on

    @property
    def is_awaiting(self) -> bool:
        """Whether the last entry let a call pass, so that what it permits has to come next."""
        return self._passed is not None

    def ask_of(self, call: str) -> AskView | None:
        """The newest question of a call, where it stands."""
        ask = self._asked_last.get(call)
        return ask if ask is not None and ask.stands else None

    def has(self, call: str) -> bool:
        """Whether anything was asked or intended for this call."""
        return call in self.effects or self.last_ask_of(call) is not None

    def last_ask_of(self, call: str) -> AskView | None:
        """The newest question of a call, whatever became of it."""
        return self._asked_last.get(call)

    def last_word(self, effect: EffectView) -> Resolved | None:
        """What was said last of what became of an effect: only that may count."""
        words = self.resolved.get(effect.intention)
        return words[-1] if words else None

    def denials(self, call: str) -> Iterator[AskView]:
        """The questions of a call that somebody said no to, newest first, void or not."""
        ask = self._asked_last.get(call)
        while ask is not None:
            if ask.choice == "deny":
                yield ask
            ask = self.asks.get(ask.asked.instead_of)

    def reserved(self, scope: str, *, without: str) -> int:
        """What this run's effects took of a ceiling, but for one call: of those that happened, or may have."""
        own = self.effects.get(without)
        taken = own.reserved if own is not None and own.may_have_happened else ()
        return self._reserved.get(scope, 0) - sum(each.amount for each in taken if each.scope == scope)

    def evidence_with(self, digest: str) -> tuple[bytes, EvidenceTaken] | None:
        """Value and newest taking of evidence, by its digest: as it was when something was bound to it."""
        return self._evidence_known.get(digest)

    def state(self, view: EvidenceView) -> None:
        """The flow stated this fact. It counts from here on, and is folded again when it is written."""
        self.evidence[view.call] = view

    # -- folding ------------------------------------------------------------------------------------------------------

    def take_post(self, entry: Read) -> None:
        """An entry of lane `post`. It is folded before lane `main`, whose entries name it."""
        header, fact = entry.header, entry.fact
        if isinstance(fact, ApprovalDecided):
            decided = Decided(fact, entry.hash, header.by, header.at, entry.value)
            self._decisions.setdefault(fact.ask, []).append(decided)
            ask = self.asks.get(fact.ask)
            if ask is not None:
                self._answer(ask)
        elif isinstance(fact, DoubtResolved):
            told = Resolved(fact, entry.hash, header.by, header.at, entry.value)
            self.resolved.setdefault(fact.intended, []).append(told)
        elif isinstance(fact, CancelAsked) and self.cancel is None:
            self.cancel = Cancelled(entry.hash, header.by, header.at, entry.value)

    def take(self, entry: Read) -> None:
        """An entry of lane `main`. Raises Illegal."""
        fact, passed = entry.fact, self._passed
        self._passed = None
        if passed is not None and not (
            isinstance(fact, EffectIntended | ApprovalUsed) and entry.header.name == passed.crossing.name
        ):
            raise Illegal("the gate let a call pass, and what it permitted does not follow")
        if isinstance(fact, GateJudged):
            self._judge(entry, fact)
        elif isinstance(fact, EffectIntended):
            self._intend(entry, fact, passed)
        elif isinstance(fact, EffectSettled):
            self._settle(entry, fact)
        elif isinstance(fact, EffectRefused):
            self._refuse(entry.header.name, fact)
        elif isinstance(fact, ApprovalAsked):
            self._ask(entry, fact)
        elif isinstance(fact, ApprovalVoided):
            self._standing(fact.ask).voided = fact.codes or ["approval.void"]
        elif isinstance(fact, ApprovalUsed):
            self._use_in_flow(entry, fact, passed)
        elif isinstance(fact, EvidenceTaken):
            self._take_evidence(entry, fact)
        else:
            assert entry.header.kind not in BOUNDARY_KINDS, "each of them has its branch"

    def check_end(self) -> None:
        """At the end of the journal. Raises Illegal."""
        if self._passed is not None:
            raise Illegal("the gate let a call pass, and the journal ends before what it permitted")

    def _judge(self, entry: Read, fact: GateJudged) -> None:
        crossing = fact.question.effect
        if crossing is not None and crossing.name != entry.header.name:
            raise Illegal("a judgement about another call")
        if fact.verdict.decision != "resume":
            self.judged = self.held[entry.header.name or ""] = fact
        elif crossing is not None:
            self.held.pop(crossing.name, None)
            self._passed = _Passed(fact.question, crossing, entry.entry.body)

    def _intend(self, entry: Read, fact: EffectIntended, passed: _Passed | None) -> None:
        header = entry.header
        if passed is None or header.name is None or entry.value is None or entry.salt is None:
            raise Illegal("an intention that no judgement let pass")
        question, crossing, bound = passed.question, passed.crossing, passed.crossing.bound
        told = (bound.request, bound.effect, crossing.key, question.authority)
        if told != (fact.request, fact.effect, fact.key, fact.authority) or header.value != fact.request:
            raise Illegal("an intention of something else than was judged")
        is_asked = bool(question.needs or question.unanswered)
        if is_asked != bool(fact.ask):
            raise Illegal("an intention without the approval that its judgement demanded")
        before = self.effects.get(header.name)
        if before is not None and before.state in ("ok", "failed"):
            raise Illegal("an effect that was settled is intended again")
        if before is not None and (before.intended.key, before.intended.request) != (fact.key, fact.request):
            raise Illegal("an effect is intended again under another key, or with another request")
        same = before if before is not None and (before.settled is None or before.settled.goes_on) else None
        doubt = before if before is not None and before.settled is None else None
        if fact.ask and (doubt is None or doubt.intended.ask != fact.ask):
            self._use(fact.ask, fact.item, header.name)
        if doubt is not None:
            self._reserve(doubt, -1)
        self._in_doubt[header.name] = None
        view = self.effects[header.name] = EffectView(
            name=header.name,
            intended=fact,
            intention=entry.hash,
            at=header.at,
            begun=header.seq if same is None else same.begun,
            attempts=(*(() if doubt is None else doubt.attempts), header.epoch),
            authority=fact.authority if doubt is None else doubt.authority,
            businesses=_businesses(doubt, fact),
            reserved=_most(() if doubt is None else doubt.reserved, fact.reserved),
            judgement=passed.judgement,
            request=entry.value,
            salt=entry.salt,
            terms_before=() if doubt is None else tuple(doubt.terms),
            calls=1 if before is None else before.calls + 1,
        )
        self._reserve(view, 1)

    def _settle(self, entry: Read, fact: EffectSettled) -> None:
        effect = self.effects.get(entry.header.name or "")
        if effect is None or effect.settled is not None:
            raise Illegal("a settlement of what was not intended")
        if fact.found == "person":
            words = [(told.item, told.fact.state) for told in self.resolved.get(effect.intention, ())]
            if (fact.item, fact.state) not in words:
                raise Illegal("a settlement by a person who did not say so")
            self.taken.add(fact.item)
        effect.settled, effect.outcome = fact, entry.value
        del self._in_doubt[effect.name]
        if fact.state != "ok":
            self._reserve(effect, -1)
        if fact.state == "did_not_happen" and effect.intended.ask:
            self.asks[effect.intended.ask].used_by = ""  # given back

    def _reserve(self, effect: EffectView, sign: Literal[1, -1]) -> None:
        for taken in effect.reserved:
            self._reserved[taken.scope] = self._reserved.get(taken.scope, 0) + sign * taken.amount

    def _refuse(self, name: str | None, fact: EffectRefused) -> None:
        if name in self._in_doubt:
            raise Illegal("a refusal of what may have happened")
        if fact.ask:
            ask = self.asks.get(fact.ask)  # void or not: a no to this matter stands whatever moved since
            decided = None if ask is None else ask.decided
            if ask is None or decided is None or (decided.item, decided.fact.choice) != (fact.item, "deny"):
                raise Illegal("a refusal by somebody who did not say so")
            if ask.asked.call != name:
                raise Illegal("a refusal of another call")
            ask.voided = [fact.code]

    def _ask(self, entry: Read, fact: ApprovalAsked) -> None:
        if fact.ask in self.asks or entry.value is None or entry.salt is None or self.ask_of(fact.call) is not None:
            raise Illegal("a question that was asked before")
        if entry.header.value != fact.bound.request:
            raise Illegal("a question about another request than it is bound to")
        ask = AskView(fact, entry.hash, entry.header.at, entry.header.seq, entry.value, entry.salt)
        judged = self.judged
        crossing = judged.question.effect if judged is not None else None
        if judged is None or crossing is None or (crossing.name, crossing.bound) != (fact.call, fact.bound):
            raise Illegal("a question that no judgement led to")
        self.asks[fact.ask], self.asked_for[fact.ask], self._asked_last[fact.call] = ask, judged, ask
        self._answer(ask)

    def _answer(self, ask: AskView) -> None:
        answers = self._decisions.get(ask.asked.ask, ())
        if ask.decided is None:
            ask.decided = next((d for d in answers if d.fact.asked == ask.hash), None)
            ask.misbound = next((d for d in answers if d.fact.asked != ask.hash), None)

    def _use_in_flow(self, entry: Read, fact: ApprovalUsed, passed: _Passed | None) -> None:
        if passed is None or passed.crossing.bound.effect or entry.header.name is None:
            raise Illegal("an approval that no judgement let pass")
        self._use(fact.ask, fact.item, entry.header.name)

    def _use(self, ask_id: str, item: str, call: str) -> None:
        ask = self._standing(ask_id)
        if ask.decided is None or ask.decided.item != item or ask.decided.fact.choice != "approve":
            raise Illegal("an approval that nobody gave")
        if ask.asked.call != call:
            raise Illegal("an approval of another call")
        ask.used_by = call

    def _standing(self, ask_id: str) -> AskView:
        ask = self.asks.get(ask_id)
        if ask is None or not ask.stands:
            raise Illegal("a question that was never asked, or is answered, void or used up")
        return ask

    def _take_evidence(self, entry: Read, fact: EvidenceTaken) -> None:
        header = entry.header
        if entry.value is None or entry.salt is None or header.value is None or header.name is None:
            raise Illegal("evidence without a value, or without the call that stated it")
        known, digest = self.evidence.get(header.name), header.value
        self._evidence_known[digest] = entry.value, fact
        if fact.again:
            if known is None or (known.name, known.salt) != (fact.evidence, entry.salt):
                raise Illegal("evidence taken again that was never taken")
            known.digest, known.value, known.fact, known.epoch = digest, entry.value, fact, header.epoch
        elif known is None:  # else this turn stated it, and may have stated it anew since
            name = fact.evidence
            self.state(EvidenceView(name, header.name, entry.salt, digest, digest, entry.value, fact, header.epoch))


def _businesses(doubt: EffectView | None, fact: EffectIntended) -> tuple[str, ...]:
    """The business keys that a call holds: what was sent before under another one may still land."""
    held = () if doubt is None else doubt.businesses
    return held if fact.business in ("", *held) else (*held, fact.business)


def _most(held: tuple[Reservation, ...], taken: tuple[Reservation, ...]) -> tuple[Reservation, ...]:
    """Of each scope the larger: one that is sent again under its key is one payment, whichever sending lands."""
    if not held and len(taken) < 2:
        return taken
    most = {each.scope: each for each in held}
    for each in taken:
        if each.scope not in most or most[each.scope].amount < each.amount:
            most[each.scope] = each
    return tuple(most[scope] for scope in sorted(most))
