"""Judgement: what the gate was asked and what it answered, as facts.

    Question    all that bears on one crossing, each part with the version it was read at
    Verdict     resume, revalidate or abandon, with what each check found

Both are journaled, so that anybody can call the judge again with the same question. A
question holds names, numbers and digests; what people or models wrote stays in values.
Fields stand in code-point order, because that is the order in which they are hashed.
"""

from __future__ import annotations

from typing import Literal

from remit.canonical import Integer
from remit.facts.fact import Fact

Decision = Literal["resume", "revalidate", "abandon"]
Check = Literal["objective", "identity", "authority", "evidence", "policy", "effects", "duplicates", "approval"]


class Who(Fact, frozen=True, kw_only=True):
    """A principal, as the directory has it at the version that the question names."""

    disabled: bool = False
    known: bool = False  # the directory has an entry about it
    person: str = ""  # the principal of the person behind it, where that is another one
    principal: str
    roles: list[str] = []  # in order


class Need(Fact, frozen=True, kw_only=True):
    """A person's yes that a rule demands."""

    alone: bool = False  # executor and `behalf` may decide themselves; written out, and loud
    immaterial: list[str] = []  # fields of the request whose change leaves an approval valid, in order
    roles: list[str]  # the decider must hold one of these; in order
    source: str  # "contract", "pinned contract", "policy", "flow"
    within: Integer  # microseconds from the asking


class Limit(Fact, frozen=True, kw_only=True):
    """A ceiling, what this effect would add to it, and what is used of it already."""

    amount: Integer | None = None  # minor units that the request states; None where that is no whole number
    currency: str = ""  # of the ceiling; "" where it has none
    field: str
    max: Integer  # minor units
    per: str  # effect, run, day, month
    scope: str  # what shares this ceiling: "pay.amount/GBP/month/2026-11"
    source: str
    stated: str = ""  # currency that the request states
    uncounted: str = ""  # an earlier call of this run whose request states no amount that counts; "" for none
    used: Integer = 0  # minor units, settled or reserved, without this effect

    @property
    def is_of_another(self) -> bool:
        """Whether the request states another currency. A ceiling without one counts minor units of whatever."""
        return bool(self.stated and self.currency and self.stated != self.currency)

    @property
    def is_counted(self) -> bool:
        """Whether what the request states can be added up under the ceiling, however much it is."""
        return self.amount is not None and self.amount >= 0 and not self.is_of_another


class Basis(Fact, frozen=True, kw_only=True):
    """One piece of evidence that the effect rests on."""

    digest: str = ""  # of the value as it stands now; "" where there is none
    failed: str = ""  # it was to be taken again and could not be: the name of what was raised
    name: str
    relied: str = ""  # digest of the value that the flow relied on, where it is another one
    until: Integer = 0  # microseconds UTC; until then it may be relied on


class Bound(Fact, frozen=True, kw_only=True):
    """What an approval is bound to. One field that differs, and the approval is void."""

    connector: str = ""  # digest of where the effect goes
    contract: str = ""  # digest of the contract that the code declares
    effect: str  # declared name of the effect; "" for a question that the flow itself asks
    evidence: dict[str, str] = {}  # digest by name
    immaterial: list[str] = []  # fields of the request that may differ, in order; empty where nobody is asked
    material: str = ""  # digest of the request without its immaterial fields, where it has such
    policy: str = ""  # digest of the operators' policy; "" while there is none
    policy_set: Integer = 0  # seq of `remit:authority` at which that was set; 0 while there is none, or nobody is asked
    request: str  # salted digest of the request bytes, which are what is executed
    roles: list[list[str]] = []  # of each need
    shown: str = ""  # digest of what the approver is shown
    version: str = ""  # of the effect
    within: Integer = 0  # microseconds from the asking; the shortest of all needs

    def is_same_matter(self, other: Bound) -> bool:
        """Whether the requests are one, or differ only in fields that both call immaterial."""
        if self.request == other.request:
            return True
        return bool(self.material) and (self.material, self.immaterial) == (other.material, other.immaterial)


class Crossing(Fact, frozen=True, kw_only=True):
    """The effect that is about to be performed, or the question that the flow asks."""

    bound: Bound
    business: str = ""  # digest of the business key; "" where it has none
    key: str = ""  # idempotency key that the outside world is given
    lost: str = ""  # call of this run that holds the business key, and of which the journal has no intention
    name: str  # of the call: "place_order#2"
    own: Literal["", "ok", "failed", "in_doubt"] = (
        ""  # what became of this very call before; its own resent doubt is ""
    )
    rival: str = ""  # another run (or another call) that holds the business key, or did its business without one


class Answer(Fact, frozen=True, kw_only=True):
    """A decision that was taken on this crossing, with what holds of its decider then and now."""

    asked_at: Integer  # microseconds UTC
    ask: str
    at: Integer  # microseconds UTC, of the decision
    binding: bool = True  # it names the very question, as it was shown
    bound: Bound
    by: Who  # the decider, now
    choice: Literal["approve", "deny"]
    disabled_since: bool = False  # the decider was disabled after the decision, and enabled again
    granted_after: bool = False  # the role was granted after the question was asked
    immaterial: list[str] = []  # of a no: fields that may differ, as it was asked or as the rules are now; in order
    lost: list[str] = []  # of those roles the ones that were taken from the decider since, and given again; in order
    roles: list[str]  # that the decider held when deciding, in order
    same: bool = False  # of a no: the requests are one, or differ only in those fields
    until: Integer  # microseconds UTC; the end of its window
    used: bool = False


class Question(Fact, frozen=True, kw_only=True):
    """All that the judge is told about one crossing. `effect` None is a plain resume."""

    answer: Answer | None = None
    authority: Integer  # head seq of `remit:authority` that all of this was read at
    behalf: Who | None = None
    cancelled: bool = False
    ceilings: list[Limit] = []
    doubts: list[str] = []  # names of other effects of this run that are in doubt
    effect: Crossing | None = None
    evidence: list[Basis] = []
    executor: Who
    forbidden: bool = False  # the operators' policy forbids this effect
    head: str  # hash of the last entry of lane main
    near: str = ""  # of an effect that no rule names: the name in the code's contract that is nearest to its own
    needs: list[Need] = []
    now: Integer  # microseconds UTC: the latest of wall time and the last entry
    pinned_contract: str = ""  # digest that the run was opened under, where the code declares another
    pinned_policy: str = ""  # digest that the run was opened under, where another holds today
    post: Integer = 0  # seq of the last entry of lane post that was read
    regressed: bool = False  # wall time stood behind the last entry
    resume: list[list[str]] = []  # of each contract, the roles of which the executor must hold one; none for "anyone"
    risk: str
    seq: Integer  # of the last entry of lane main
    unanswered: str = ""  # why a predicate could not say whether approval is needed: the name of its error
    unnamed: bool = False  # the code's contract refuses effects that no rule names, and this is one
    unwanted_by: str = ""  # why `still_wanted` could not say: the name of its error, or of the type of its answer
    wanted: Literal["", "yes", "no", "unknown"] = ""  # what `still_wanted` says; "" where nobody is asked
    wanted_lost: str = ""  # which one the run was opened with, in words, where the code no longer has it
    window_end: Integer  # microseconds UTC, as policy caps it today


class Finding(Fact, frozen=True, kw_only=True):
    """What one check found. A plain yes has nothing but its name."""

    check: Check
    code: str = ""  # dotted: "approval.payload"; a note where ok is true
    detail: str = ""  # a name, number or digest that it is about
    ok: bool = True
    verdict: Literal["", "revalidate", "abandon"] = ""  # what this finding asks for


class Verdict(Fact, frozen=True, kw_only=True):
    """The answer. The worst finding decides; all eight stand here in order."""

    code: str = ""  # snake_case outcome code of the finding that decided; "" for resume
    decision: Decision
    findings: list[Finding]
