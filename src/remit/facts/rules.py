"""Rules as facts: what a contract pinned and what the operators' policy says.

Both are recorded and hashed, so that a later reader knows under which rules something
was judged. How they are declared and which of them is stricter is decided elsewhere.
"""

from __future__ import annotations

from typing import Literal

from remit.canonical import Integer
from remit.facts.fact import Fact

Period = Literal["effect", "run", "day", "month"]


class ApprovalPin(Fact, frozen=True, kw_only=True):
    """A person's yes that a rule demands."""

    alone: bool = False  # executor and `behalf` may decide themselves
    immaterial: list[str] = []  # fields of the request that a yes does not depend on, in order
    predicate: str = ""  # which function says whether it is needed, in words; "" means always
    roles: list[str]  # the decider holds one of these; in order
    within: Integer  # microseconds from the asking


class CeilingPin(Fact, frozen=True, kw_only=True):
    """A ceiling over one field of the request."""

    currency: str = ""
    field: str  # path in the request: "amount", "order.total"
    max: Integer  # minor units
    per: Period


class RulePin(Fact, frozen=True, kw_only=True):
    """What a contract demands of one effect."""

    approval: ApprovalPin | None = None
    ceilings: list[CeilingPin] = []
    evidence: list[str] = []  # names that it must rest on, in order
    fresh_for: dict[str, Integer] = {}  # by name of those: microseconds from `as_of` that it may be relied on, at most
    wanted: str = ""  # which function says whether it is still wanted, in words


class ContractPin(Fact, frozen=True, kw_only=True):
    """The contract that a run was opened under."""

    effects: dict[str, RulePin] = {}  # by name of the effect
    others: str = ""  # effects that no rule names: free, refused; "" where it does not say
    resume: list[str]  # role names in order, or ["anyone"]
    risk: str  # low, medium, high
    version: str
    window: Integer  # microseconds


class PolicyPin(Fact, frozen=True, kw_only=True):
    """What the operators set. It can only be stricter than a contract, never laxer."""

    approvals: dict[str, ApprovalPin] = {}  # by name of the effect
    ceilings: dict[str, list[CeilingPin]] = {}  # by name of the effect
    evidence: dict[str, Integer] = {}  # microseconds that evidence of this name may be relied on, at most
    forbid: list[str] = []  # names of effects that nobody performs, in order
    version: str
    windows: dict[str, Integer] = {}  # microseconds by risk class, at most
