"""Calls at the boundary, each as a journal tells of it: an effect, a question with its answer, a piece of evidence.

What others posted about one stands with it. How they come about, entry by entry, is `boundary`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from remit.canonical import Form
from remit.facts.judgement import Need
from remit.facts.kinds import (
    ApprovalAsked,
    ApprovalDecided,
    DoubtResolved,
    EffectIntended,
    EffectSettled,
    EvidenceTaken,
    GateJudged,
    Reservation,
)

_JUDGED = Form(GateJudged)

EffectState = Literal["in_doubt", "ok", "failed", "did_not_happen"]
AskState = Literal["open", "approved", "denied", "void", "used"]


@dataclass(frozen=True, slots=True)
class Terms:
    """What one sending was let pass under. Who says what became of it is held to that."""

    risk: str
    needs: list[Need]


class EffectView(msgspec.Struct, gc=False):
    """One call of an effect. Until its call returned, `in_doubt` is what a reader of the journal must call it.

    What is sent again while it is in doubt is one call of several sendings, and each of them may still land. So what
    the call holds, and what a witness of it is held to, is what any of them took and was judged under.
    """

    name: str
    intended: EffectIntended  # the newest; a resent call has several under one key
    intention: str  # hash of that entry
    at: int  # microseconds UTC
    begun: int  # seq of the first intention of this call: one that is sent again goes on, and does not begin
    attempts: tuple[int, ...]  # epochs of the attempts that called since it was settled last, in order
    authority: int  # version that the first of these judges saw
    businesses: tuple[str, ...]  # digests of the business keys that it holds
    reserved: tuple[Reservation, ...]  # by scope, in order: of each the most that a sending took
    judgement: bytes  # body of the GateJudged before it: of thousands of effects one is looked at, if any
    request: bytes
    salt: bytes
    terms_before: tuple[Terms, ...] = ()  # of its earlier sendings
    calls: int = 1  # intentions so far
    settled: EffectSettled | None = None
    outcome: bytes | None = None

    @property
    def attempt(self) -> int:
        """Epoch of the attempt that called last."""
        return self.attempts[-1]

    @property
    def judged(self) -> GateJudged:
        """What the gate was asked about it and answered."""
        return _JUDGED.read(self.judgement)

    @property
    def terms(self) -> list[Terms]:
        """What its sendings were let pass under, each once."""
        question = self.judged.question
        newest = Terms(question.risk, question.needs)
        return [*(terms for terms in self.terms_before if terms != newest), newest]

    @property
    def state(self) -> EffectState:
        return "in_doubt" if self.settled is None else self.settled.state

    @property
    def may_have_happened(self) -> bool:
        """Whether it happened, or nobody knows: what it took of ceilings is taken, and its business keys are held."""
        return self.state in ("ok", "in_doubt")


@dataclass(frozen=True, slots=True)
class Decided:
    """An answer as it was posted."""

    fact: ApprovalDecided
    item: str  # hash of the entry
    by: str
    at: int  # microseconds UTC
    reason: bytes | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a person said became of an effect."""

    fact: DoubtResolved
    item: str
    by: str
    at: int
    value: bytes | None


@dataclass(slots=True)
class AskView:
    """One question to a person."""

    asked: ApprovalAsked
    hash: str  # of the entry: what an answer names
    at: int  # microseconds UTC
    seq: int
    request: bytes
    salt: bytes
    decided: Decided | None = None  # the first answer that names this very question
    misbound: Decided | None = None  # an answer that names its id and another question
    voided: list[str] = field(default_factory=list)
    used_by: str = ""  # name of the call

    @property
    def state(self) -> AskState:
        """How it stands. An answer that was given stands until the call uses it, or it is void."""
        if self.voided:
            return "void"
        if self.used_by:
            return "used"
        if self.decided is None:
            return "open"
        return "approved" if self.decided.fact.choice == "approve" else "denied"

    @property
    def choice(self) -> Literal["", "approve", "deny"]:
        """What was said, whatever became of it; "" while nobody did."""
        return "" if self.decided is None else self.decided.fact.choice

    @property
    def stands(self) -> bool:
        """Whether it is open, or answered and not used yet: neither void nor used up."""
        return not self.voided and not self.used_by

    @property
    def is_open(self) -> bool:
        """Whether an answer to it would still be heard."""
        return self.decided is None and self.stands


@dataclass(slots=True)
class EvidenceView:
    """A piece of evidence: as the flow relied on it, and as it stands now."""

    name: str
    call: str  # name of the call that stated it: "a/run.evidence.quote"
    salt: bytes
    relied: str  # digest
    digest: str
    value: bytes
    fact: EvidenceTaken  # the newest
    epoch: int  # of the attempt in which it was taken last
