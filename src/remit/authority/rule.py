"""Rules: what a contract demands before one of its effects may happen.

    Approval   a person's yes, from somebody who holds a role, within a time
    Ceiling    an upper bound on an amount of the request, for each effect or summed over a time
    Rule       both of these, evidence that it must rest on, and whether it is still wanted

A rule is declared in code and pinned as facts. Its predicates are the user's own functions: the
pin has their names, and what they say enters a judgement as a fact.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from remit.authority.durations import MICROSECOND
from remit.authority.named import function_text, takes
from remit.authority.roles import role_fault
from remit.canonical import INTEGER_MAX
from remit.errors import DeclarationRefused, IdRefused, NotBuilt
from remit.facts.names import check_id, plain
from remit.facts.rules import ApprovalPin, CeilingPin, Period, RulePin

Predicate = Callable[[Any], bool] | Callable[[Any], Awaitable[bool]]

Use = Literal["when", "still_wanted"]

CURRENCY_CHARACTERS_MAX = 16

EVIDENCE_MAX = timedelta(days=3650)  # as long as a run may have

_PERIODS = get_args(Period)


@dataclass(frozen=True)
class Approval:
    """A person's yes that an effect needs.

    roles: the decider must hold one of them, when deciding and when it counts.
    within: how long the question stands, and a yes with it; more than 0, and no longer than the contract's window.
    when: asked with the request whether it is needed at all, plain or async; None means always. Where it raises
        or says neither True nor False, it is needed.
    immaterial: fields of the request ("note", "order.comment") whose change leaves a yes valid.
    alone: the executor, or the one on whose behalf it acts, may decide itself.
    quorum: how many people must say yes; this version knows 1 only.
    Raises DeclarationRefused `contract.approval`, and NotBuilt for another quorum.
    """

    roles: Collection[str]
    within: timedelta
    _: KW_ONLY
    when: Predicate | None = None
    immaterial: Collection[str] = ()
    alone: bool = False
    quorum: int = 1

    def __post_init__(self) -> None:
        roles = several_names("approval", "roles", self.roles)
        if not roles:
            raise _approval("it names no role whose holders may decide")
        if fault := next(filter(None, map(role_fault, roles)), ""):
            raise _approval(fault)
        if not isinstance(self.within, timedelta):
            raise _approval(f"`within` is a timedelta, not {type(self.within).__name__}")
        if self.within <= timedelta(0):
            raise _approval(f"nobody can decide within {self.within}")
        if self.when is not None and not takes(self.when, None):
            raise _approval("`when` is a function of one argument, the request, which says whether approval is needed")
        if not isinstance(self.alone, bool):
            raise _approval("`alone` is True or False")
        immaterial = several_names("approval", "immaterial", self.immaterial)
        if fault := next(filter(None, map(path_fault, immaterial)), ""):
            raise _approval(f"immaterial: {fault}")
        if type(self.quorum) is not int or self.quorum < 1:
            raise _approval(f"a quorum of {self.quorum!r} can't be met")
        if self.quorum != 1:
            raise NotBuilt("This version asks one person; a quorum of several can't be declared yet.")
        object.__setattr__(self, "roles", roles)
        object.__setattr__(self, "immaterial", immaterial)

    def pin(self) -> ApprovalPin:
        """The approval as facts."""
        return ApprovalPin(
            alone=self.alone,
            immaterial=list(self.immaterial),
            predicate=function_text(self.when),
            roles=list(self.roles),
            within=self.within // MICROSECOND,
        )


@dataclass(frozen=True)
class Ceiling:
    """An upper bound on an amount that the request states.

    field: where in the request: "amount", "order.total". A request without a whole number there is over it.
    max: minor units (pence, cents), 0 to 2**53 - 1; the bound itself is allowed.
    currency: of `max`. A request that states none means this one, one that states another is refused; where
        this is "", none is compared.
    per: what shares it: each effect alone, all of one run, or of a day or month (UTC) the runs that were themselves
        under a ceiling over the same effect, field, currency and period.
    Raises DeclarationRefused `contract.ceiling`.
    """

    field: str
    _: KW_ONLY
    max: int
    currency: str = ""
    per: Period = "effect"

    def __post_init__(self) -> None:
        if fault := path_fault(self.field):
            raise _ceiling(fault)
        if fault := bound_fault(self.max, self.currency, self.per):
            raise _ceiling(f"{self.field!r}: {fault}")
        for name in ("field", "currency", "per"):
            object.__setattr__(self, name, plain(getattr(self, name)))

    def pin(self) -> CeilingPin:
        """The ceiling as facts."""
        return CeilingPin(currency=self.currency, field=self.field, max=self.max, per=self.per)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a contract demands of one effect.

    approval: a person's yes, or None.
    evidence: names of what it must rest on, each fresh when it happens: {"quote"}; or with the time for which it may be
        relied on at most, counted from its `as_of`: {"quote": timedelta(hours=48)}, None for as long as the flow says.
    ceiling: one, or several that all hold.
    still_wanted: asked with the request, each time, whether the effect is still wanted; plain or async. False
        abandons the run, an error leaves it waiting.
    Raises DeclarationRefused: `contract.approval`, `contract.evidence`, `contract.ceiling`, `contract.effects`.
    """

    approval: Approval | None = None
    evidence: Collection[str] | Mapping[str, timedelta | None] = ()
    ceiling: Ceiling | Iterable[Ceiling] | None = None
    still_wanted: Predicate | None = None

    def __post_init__(self) -> None:
        if self.approval is not None and not isinstance(self.approval, Approval):
            raise _approval(f"it is an Approval or None, not {type(self.approval).__name__}")
        given_evidence = self.evidence if isinstance(self.evidence, Mapping) else {}
        evidence = {name: given_evidence.get(name) for name in several_names("evidence", "evidence", self.evidence)}
        for name, longest in evidence.items():
            check_evidence(name)
            _check_longest(name, longest)
        if self.still_wanted is not None and not takes(self.still_wanted, None):
            raise refused(
                "effects", "`still_wanted` is a function of one argument, the request", code="contract.effects"
            )
        given: Any = () if self.ceiling is None else self.ceiling
        if isinstance(given, (str, bytes)) or not isinstance(given, (Ceiling, Iterable)):
            raise _ceiling(f"it is a Ceiling or several, not {type(given).__name__}")
        ceilings: tuple[object, ...] = (given,) if isinstance(given, Ceiling) else tuple(given)
        for each in ceilings:
            if not isinstance(each, Ceiling):
                raise _ceiling(f"it is a Ceiling or several, not {type(each).__name__}")
        object.__setattr__(self, "evidence", MappingProxyType(evidence))
        object.__setattr__(self, "ceiling", ceilings)

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """All of them; none is an empty tuple."""
        return cast("tuple[Ceiling, ...]", self.ceiling)  # made one above

    @property
    def longest(self) -> Mapping[str, timedelta | None]:
        """By name of evidence: for how long it may be relied on at most; None for as long as the flow says."""
        return cast("Mapping[str, timedelta | None]", self.evidence)  # made one above

    def predicate(self, name: str, use: Use) -> Predicate | None:
        """`when` or `still_wanted`, where the pin has it by this name. Two lambdas may share a name."""
        found = self.still_wanted if use == "still_wanted" else self.approval.when if self.approval else None
        return found if found is not None and function_text(found) == name else None

    def pin(self) -> RulePin:
        """The rule as facts. The order in which its ceilings were declared means nothing, so they are sorted."""
        pins = [ceiling.pin() for ceiling in self.ceilings]
        return RulePin(
            approval=self.approval.pin() if self.approval else None,
            ceilings=sorted(pins, key=lambda pin: (pin.field, pin.per, pin.currency, pin.max)),
            evidence=list(self.evidence),
            fresh_for={name: longest // MICROSECOND for name, longest in self.longest.items() if longest is not None},
            wanted=function_text(self.still_wanted),
        )


def path_fault(path: object) -> str:
    """Why `path` is no field of a request, as the end of a sentence; "" where it is: names joined by dots."""
    try:
        text = check_id(path, "field")
    except IdRefused as refusal:
        return f"the field can't be {path!a} ({refusal.message.partition(';')[0]})"
    if any(mark in text for mark in "[]/") or text.startswith("$") or "" in text.split("."):
        return f'{text!r} is no field: write names joined by dots, "order.total"'
    return ""


def bound_fault(max_: object, currency: object, per: object) -> str:
    """Why this is no ceiling, as the end of a sentence; "" where it is."""
    if type(max_) is not int:  # True is no amount
        return f"`max` is a whole number of minor units, not {type(max_).__name__}"
    if not 0 <= max_ <= INTEGER_MAX:
        return f"`max` is 0 to {INTEGER_MAX} minor units, not {max_}"
    if not isinstance(currency, str) or not is_currency(currency):
        return f"{currency!a} is no currency, like GBP"
    if per not in _PERIODS:
        return f"`per` is one of {', '.join(_PERIODS)}, not {per!a}"
    return ""


def is_currency(text: str) -> bool:
    """Whether it can name a currency: "" or a few letters and digits of ASCII. Case counts."""
    return not text or (len(text) <= CURRENCY_CHARACTERS_MAX and text.isascii() and text.isalnum())


def check_evidence(name: object) -> None:
    """Raises DeclarationRefused `contract.evidence` where evidence can't be called that."""
    try:
        check_id(name, "name of evidence")
    except IdRefused as refusal:
        raise refused("evidence", refusal.message.partition(";")[0], code="contract.evidence") from None


def refused(part: str, what: str, *, code: str) -> DeclarationRefused:
    """The error for one wrong part of a declared rule."""
    return DeclarationRefused(f"The contract's {part} can't be declared: {what}.", code=code)


def _check_longest(name: str, longest: object) -> None:
    if longest is not None and not isinstance(longest, timedelta):
        what = f"{name!r} has {type(longest).__name__} where a timedelta, or None, should be"
        raise refused("evidence", what, code="contract.evidence")
    if longest is not None and not timedelta(0) < longest <= EVIDENCE_MAX:
        what = f"{name!r} may be relied on for {longest}, which is not more than 0 and at most {EVIDENCE_MAX.days} days"
        raise refused("evidence", what, code="contract.evidence")


def several_names(part: str, field: str, given: object) -> tuple[str, ...]:
    """Several names, in order and once each. Raises DeclarationRefused: text alone would fall apart into letters."""
    code = "contract.evidence" if part == "evidence" else "contract.approval"
    if isinstance(given, (str, bytes)) or not isinstance(given, Collection):
        raise refused(part, f"`{field}` is several names, not {type(given).__name__}", code=code)
    if wrong := [each for each in given if not isinstance(each, str)]:
        raise refused(part, f"`{field}` has {wrong[0]!a}, which is no text", code=code)
    return tuple(sorted({plain(each) for each in given}))


def _approval(what: str) -> DeclarationRefused:
    return refused("approval", what, code="contract.approval")


def _ceiling(what: str) -> DeclarationRefused:
    return refused("ceiling", what, code="contract.ceiling")
