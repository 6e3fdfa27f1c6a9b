"""Contracts: the rules that a flow declares, versioned with its code.

A flow must say who may resume it. Leaving that out is refused when the flow is declared,
because "nobody said" is how a run comes to go on under somebody who may not. `anyone` is
allowed and must be written out. What single effects demand stands beside it, a rule for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Literal, get_args

from remit.authority.durations import MICROSECOND
from remit.authority.roles import ANYONE as ANYONE
from remit.authority.roles import role_fault
from remit.authority.rule import Predicate, Rule, Use
from remit.canonical import encode
from remit.errors import DeclarationRefused, IdRefused
from remit.facts.names import check_effect_name, check_id, plain
from remit.facts.rules import ContractPin

Risk = Literal["low", "medium", "high"]
Others = Literal["free", "refused"]

WINDOWS: dict[str, timedelta] = {
    "low": timedelta(hours=24),
    "medium": timedelta(hours=8),
    "high": timedelta(minutes=30),
}

WINDOW_MAX = timedelta(days=3_650)

_PIN_TAG = b"remit/contract/1\n"


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a flow promises about itself.

    version: of the rules, in the flow's own counting; changes with them.
    resume: roles that its executor must hold to go on, or "anyone", written out.
    risk: how bad a wrong continuation is: low, medium, high.
    window: how long a run may take from its opening; by default what its risk says (24 h, 8 h, 30 min);
        at most 3,650 days.
    effects: what single effects demand, by their declared names; `Rule()` for one that demands nothing.
    others: what becomes of effects that no rule of a contract names: "refused" or "free". Not said, they are
        refused where `effects` has any, because a rule whose name is misspelt would hold for nothing; else free.
    Raises DeclarationRefused: `contract.resume`, `contract.version`, `contract.risk`, `contract.window`,
    `contract.effects`, `contract.others`, and from its rules `contract.approval`, `contract.ceiling`,
    `contract.evidence`; from `contract_from_toml` also `contract.toml`.
    """

    version: str
    resume: AbstractSet[str] | Literal["anyone"] | None = None
    risk: Risk = "low"
    window: timedelta | None = None
    effects: Mapping[str, Rule] = field(default_factory=dict)
    others: Others | None = None

    def __post_init__(self) -> None:
        try:
            version = check_id(self.version, "version")
        except IdRefused as refusal:
            raise _refused("version", f"it needs a version, as text ({refusal.message.partition(';')[0]})") from None
        if self.risk not in list(WINDOWS):  # compared, not hashed: it may be anything
            raise _refused("risk", f"risk {self.risk!r} is none of {', '.join(WINDOWS)}")
        object.__setattr__(self, "resume", _checked_resume(self.resume))
        if self.window is not None and not isinstance(self.window, timedelta):
            raise _refused("window", f"`window` is a timedelta, not {type(self.window).__name__}")
        if self.window is not None and self.window <= timedelta(0):
            raise _refused("window", f"a window of {self.window} is over before it begins")
        if self.window is not None and self.window > WINDOW_MAX:
            raise _refused("window", f"a window of {self.window} is longer than {WINDOW_MAX.days} days")
        if self.others not in (None, *get_args(Others)):
            raise _refused("others", f'`others` is "free" or "refused", not {self.others!r}')
        texts = {"version": version, "risk": plain(self.risk), "others": self.others and plain(self.others)}
        for name, text in texts.items():
            object.__setattr__(self, name, text)
        object.__setattr__(self, "effects", MappingProxyType(self._checked_effects()))

    def _checked_effects(self) -> dict[str, Rule]:
        if not isinstance(self.effects, Mapping):
            raise _refused("effects", f"`effects` has a Rule for each name, and is no {type(self.effects).__name__}")
        for name, rule in self.effects.items():
            try:
                check_effect_name(name, "effect name")
            except IdRefused as refusal:
                raise _refused("effects", refusal.message.partition(";")[0]) from None
            if not isinstance(rule, Rule):
                raise _refused("effects", f"{name!r} has {type(rule).__name__} where its Rule should be")
            if rule.approval is not None and rule.approval.within // MICROSECOND > self.window_us:
                within, window = rule.approval.within, timedelta(microseconds=self.window_us)
                raise _refused("approval", f"{name!r} asks for {within}, and a run is over after {window}")
        return {plain(name): rule for name, rule in self.effects.items()}

    @property
    def roles(self) -> list[str]:
        """Roles in order, or ["anyone"]."""
        return [ANYONE] if isinstance(self.resume, str) else sorted(self.resume or ())

    @property
    def window_us(self) -> int:
        """Microseconds from opening to the end of the window."""
        window = self.window if self.window is not None else WINDOWS[self.risk]
        return window // MICROSECOND

    def predicate(self, effect: str, name: str, use: Use) -> Predicate | None:
        """The function of an effect's rule that pins call by this name in this use; None where this code has none."""
        rule = self.effects.get(effect)
        return None if rule is None else rule.predicate(name, use)

    def pin(self) -> ContractPin:
        """The contract as facts, to be recorded."""
        return ContractPin(
            effects={name: rule.pin() for name, rule in sorted(self.effects.items())},
            others=self.others or "",
            resume=self.roles,
            risk=self.risk,
            version=self.version,
            window=self.window_us,
        )


def digest(pin: ContractPin) -> str:
    """Hex SHA-256 over the canonical bytes of a contract."""
    return sha256(_PIN_TAG + encode(pin)).hexdigest()


def _checked_resume(resume: object) -> frozenset[str] | Literal["anyone"]:
    """The roles, in a set that nobody can add to any more. Raises DeclarationRefused `contract.resume`."""
    if resume == ANYONE:
        return "anyone"
    if isinstance(resume, str):
        raise _refused("resume", f'{resume!r} is text: write a set of roles, {{"{resume}"}}')
    if resume is not None and not isinstance(resume, Collection):
        raise _refused("resume", f"it is a set of roles, not {type(resume).__name__}")
    if not resume:
        raise _refused("resume", 'it does not say who may resume a run: name roles, or write resume="anyone"')
    for role in resume:
        if role == ANYONE:
            raise _refused("resume", '"anyone" is not a role: write resume="anyone"')
        if fault := role_fault(role):
            raise _refused("resume", fault)
    return frozenset(map(str.__str__, resume))


def _refused(field: str, what: str) -> DeclarationRefused:
    return DeclarationRefused(f"The contract can't be declared: {what}.", code=f"contract.{field}")
