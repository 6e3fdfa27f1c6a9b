"""Kinds: what each entry says, as frozen structs in past tense.

An effect leaves three: the gate's judgement and the intention in one append, before the
outside world is touched, and the settlement after it answered. A journal that ends in an
intention is in doubt. What others leave in lane `post` counts from the entry of lane
`main` that names it by its hash. What else is known of each kind stands in `machine`.
"""

from __future__ import annotations

from typing import Literal

from remit.canonical import Integer, encode
from remit.facts.fact import Fact
from remit.facts.judgement import Bound, Question, Verdict
from remit.facts.rules import ContractPin, PolicyPin

Assurance = Literal["asserted", "session", "passkey"]  # how surely the writer of an entry was known

WaitsFor = Literal["repair", "approval", "doubt", "evidence", "gate"]


class RunOpened(Fact, frozen=True, kw_only=True):
    """The run exists. What it was opened under is pinned here; the value is its input."""

    authority: Integer = 0  # head seq of `remit:authority` that it was opened at; 0 for a journal of Remit's own
    behalf: str | None = None  # principal for whom the executor acts
    by: str  # the executor
    contract: ContractPin
    flow: str
    mandate: str = ""  # id of the mandate it was opened under
    models: dict[str, str] = {}
    policy: str = ""  # digest of the operators' policy; "" while there is none
    prompts: dict[str, str] = {}
    tools: dict[str, str] = {}
    window_end: Integer  # microseconds UTC; after it the run may only settle, resolve and undo


class AttemptStarted(Fact, frozen=True, kw_only=True):
    """A worker's turn began, under a higher epoch than every earlier one."""

    contract: str  # digest of the contract that this attempt's code declares
    dead: list[str] = []  # workers that left a call in doubt and are proven dead from here on, in order
    early: list[str] = []  # hashes of posted words that a call did not happen which may have been at work till then
    host: str = ""  # boot and process-id namespace in which they were; "" where nobody was, or nobody could tell
    up: Integer = 0  # microseconds from that boot to the proof
    version: str  # of that contract
    worker: str


class StepDone(Fact, frozen=True, kw_only=True):
    """A step returned; the value is its outcome."""

    beside: bool = False  # other calls of the flow stood beside it, or had before in this turn
    given: str = ""  # digest of what it was called with
    took: Integer  # microseconds


class StepFailed(Fact, frozen=True, kw_only=True):
    """A step raised; the value is {"detail": its text}."""

    beside: bool = False  # as of `StepDone`
    error: str  # qualified name of what was raised
    given: str = ""  # as of `StepDone`
    took: Integer  # microseconds


class ValueDrawn(Fact, frozen=True, kw_only=True):
    """The flow asked for the time, a random number or a new id; the value is what it got."""

    source: Literal["now", "random", "uuid"]


class RaceWon(Fact, frozen=True, kw_only=True):
    """One of several calls finished first; the others may not begin any more."""

    beside: list[str] = []  # effects that were under way for those that lost, by name, in order
    calls: list[str] = []  # that the winner came to, by name, in order
    sides: list[str]  # that raced, as they stood there: names of calls, and of functions where a side is code
    winner: Integer  # position of the winner, from 0


class EvidenceTaken(Fact, frozen=True, kw_only=True):
    """A fact that effects may rest on, with the time until which they may; the value is the fact."""

    again: bool = False  # the gate took it again, with the same salt, so that equal values have equal digests
    as_of: Integer  # microseconds UTC
    evidence: str  # its name
    until: Integer  # microseconds UTC


class GateJudged(Fact, frozen=True, kw_only=True):
    """The gate was asked and answered. Of a plain resume it stands here only where the answer was not to go on."""

    question: Question
    verdict: Verdict


class Reservation(Fact, frozen=True, kw_only=True):
    """What an intention takes of a ceiling, until it is settled."""

    amount: Integer  # minor units
    scope: str  # "pay.amount/GBP/month/2026-11"


class EffectIntended(Fact, frozen=True, kw_only=True):
    """The run is about to touch the outside world, and says so first. The value is the request."""

    ask: str = ""  # id of the question whose answer this uses up
    authority: Integer  # head seq of `remit:authority` that the judge saw
    business: str = ""  # digest of the business key that it holds
    effect: str  # declared name of the effect
    function: str  # which function is called, in words
    item: str = ""  # hash of the posted decision
    key: str  # idempotency key that the outside world is given
    request: str  # salted digest of the request bytes: the header's `value`
    reserved: tuple[Reservation, ...] = ()


class ValueLost(Fact, frozen=True, kw_only=True):
    """An outcome that could not be stored, and what is known of it."""

    code: str  # of the error: "value.refused"
    digest: str = ""  # hex SHA-256 of its bytes, where it had any
    size: Integer = 0  # bytes, where it had any


class EffectSettled(Fact, frozen=True, kw_only=True):
    """The outside world answered; the value is the outcome, or {"detail": why, in words}."""

    error: str = ""  # qualified name of what was raised
    found: Literal["", "probe", "person", "unsent"] = ""  # how that is known, where its call did not say so
    item: str = ""  # hash of the posted resolution, where a person ended the doubt
    lost: ValueLost | None = None  # it is done, and its outcome could not be stored
    state: Literal["ok", "failed", "did_not_happen"]
    took: Integer = 0  # microseconds

    @property
    def goes_on(self) -> bool:
        """Whether its call is judged anew, unseen by the flow: a doubt that ended so, or a call that never began."""
        return self.state == "did_not_happen" and bool(self.found)


class EffectRefused(Fact, frozen=True, kw_only=True):
    """The answer to this call was no, and the flow was told; the value is {"detail": why, in words}."""

    ask: str = ""  # id of the question that was denied
    business: str = ""  # digest of the business key that is another's
    code: str  # error code that the flow was given
    item: str = ""  # hash of the posted decision


class ApprovalAsked(Fact, frozen=True, kw_only=True):
    """A person is asked. The value is the request, with the salt that its intention will have."""

    ask: str  # random, single use; not a capability
    authority: Integer  # head seq of `remit:authority`
    bound: Bound
    call: str  # name of the call that waits
    instead_of: str = ""  # the question that this one follows, whose answer is void
    until: Integer  # microseconds UTC


class ApprovalVoided(Fact, frozen=True, kw_only=True):
    """A question, or its answer, holds no longer."""

    ask: str
    codes: list[str]  # dotted finding codes, each naming what changed: "approval.payload"


class ApprovalUsed(Fact, frozen=True, kw_only=True):
    """The flow's own question was answered with yes, and the gate let it count; the value is {"detail": the reason}."""

    ask: str
    item: str  # hash of the posted decision


AT_WORK = "effect.at_work"  # code of a run that parked while a call in doubt had not returned
TOLD_EARLY = "effect.told_early"  # the same, while a word about one was from before it returned


class RunParked(Fact, frozen=True, kw_only=True):
    """The attempt ended and the run waits; the value is {"detail": why, in words}."""

    at_work: list[str] = []  # calls in doubt that had not returned in the process of its worker
    calls: list[str] = []  # failed calls that run again at the next attempt
    code: str  # error code of what stopped it
    early: list[str] = []  # hashes of posted words that a call did not happen which may not have returned by then
    waits_for: WaitsFor


class RunEnded(Fact, frozen=True, kw_only=True):
    """The run is over; the value is its outcome, or {"detail": why, in words}."""

    code: str = ""
    item: str = ""  # hash of the posted CancelAsked that ended it
    status: Literal["completed", "failed", "abandoned", "expired", "cancelled"]


class SignalSent(Fact, frozen=True, kw_only=True):
    """Somebody sent the run a named value; it waits in lane `post` until an attempt takes it up."""


class CancelAsked(Fact, frozen=True, kw_only=True):
    """Somebody asked for the run to end; the value is the reason."""

    assurance: Assurance = "asserted"


class ApprovalDecided(Fact, frozen=True, kw_only=True):
    """In lane `post`: a person answered a question; the value is {"detail": the reason}. The writer is the decider."""

    alone: bool = False  # the decider is the executor or `behalf`, which the rule allows in writing
    ask: str
    asked: str  # hash of the ApprovalAsked that was shown
    assurance: Assurance = "asserted"
    authority: Integer  # head seq of `remit:authority` that the roles were read at
    choice: Literal["approve", "deny"]
    meaning: str  # what a yes or no to this means, as it was shown
    roles: list[str]  # that the decider held then, in order


class DoubtResolved(Fact, frozen=True, kw_only=True):
    """In lane `post`: a person says what became of an effect; the value is {"evidence": words, "outcome": JSON}."""

    assurance: Assurance = "asserted"
    authority: Integer  # head seq of `remit:authority` that it was read at who may say so
    call: str  # name of the effect's call
    intended: str  # hash of the EffectIntended that it is about
    returned: bool = False  # it was known to be over, or they say so: its call has returned, or its process is gone
    state: Literal["ok", "did_not_happen"]


class RunQuarantined(Fact, frozen=True, kw_only=True):
    """In `remit:incidents`: a run's journal did not verify. The value is {"detail": what was found}."""

    code: str
    gen: Integer
    lane: str = ""
    main: Integer = 0  # seq at which lane main ended, by the run's row; what is restored may not end before it
    post: Integer = 0  # the same of lane post
    run: str
    seq: Integer = 0


class QuarantineLifted(Fact, frozen=True, kw_only=True):
    """In `remit:incidents`: the run's restored bytes verified and an operator said so."""

    gen: Integer
    run: str
    shorter: bool = False  # they found out what entries that are missing did outside


class RoleGranted(Fact, frozen=True, kw_only=True):
    """In `remit:authority`: a principal holds a role from here on; the value is {"detail": the reason}."""

    assurance: Assurance = "asserted"
    principal: str
    role: str


class RoleRevoked(Fact, frozen=True, kw_only=True):
    """In `remit:authority`: a principal holds a role no longer; the value is {"detail": the reason}."""

    assurance: Assurance = "asserted"
    principal: str
    role: str


class PrincipalDisabled(Fact, frozen=True, kw_only=True):
    """In `remit:authority`: nothing goes on under this principal; the value is {"detail": the reason}."""

    assurance: Assurance = "asserted"
    principal: str


class PrincipalEnabled(Fact, frozen=True, kw_only=True):
    """In `remit:authority`: the principal counts again; the value is {"detail": the reason}."""

    assurance: Assurance = "asserted"
    principal: str


class PrincipalLinked(Fact, frozen=True, kw_only=True):
    """In `remit:authority`: two principals are one person; the value is {"detail": the reason}."""

    assurance: Assurance = "asserted"
    person: str  # the principal that speaks for the person
    principal: str


class PolicySet(Fact, frozen=True, kw_only=True):
    """In `remit:authority`: the operators' policy is this one from here on; the value is {"detail": the reason}."""

    assurance: Assurance = "asserted"
    policy: PolicyPin


def write(fact: Fact) -> bytes:
    """The body bytes of a fact."""
    return encode(fact)
