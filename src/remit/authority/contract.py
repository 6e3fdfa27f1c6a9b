"""Contracts: the rules that a flow declares, versioned with its code.

A flow must say who may resume it. Leaving that out is refused when the flow is declared,
because "nobody said" is how a run comes to go on under somebody who may not. `anyone` is
allowed and must be written out.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Literal

from remit.canonical import encode
from remit.errors import DeclarationRefused
from remit.facts.rules import ContractPin

Risk = Literal["low", "medium", "high"]

WINDOWS: dict[str, timedelta] = {
    "low": timedelta(hours=24),
    "medium": timedelta(hours=8),
    "high": timedelta(minutes=30),
}

WINDOW_MAX = timedelta(days=3_650)

ANYONE = "anyone"

_PIN_TAG = b"remit/contract/1\n"


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a flow promises about itself.

    version: of the rules, in the flow's own counting; changes with them.
    resume: roles that its executor must hold to go on, or "anyone", written out.
    risk: how bad a wrong continuation is: low, medium, high.
    window: how long a run may take from its opening; by default what its risk says (24 h, 8 h, 30 min);
        at most 3,650 days.
    Raises DeclarationRefused: `contract.resume`, `contract.version`, `contract.risk`, `contract.window`.
    """

    version: str
    resume: AbstractSet[str] | Literal["anyone"] | None = None
    risk: Risk = "low"
    window: timedelta | None = None

    def __post_init__(self) -> None:
        if not self.version or not isinstance(self.version, str):
            raise _refused("version", "it needs a version, as text")
        if self.risk not in WINDOWS:
            raise _refused("risk", f"risk {self.risk!r} is none of {', '.join(WINDOWS)}")
        if self.resume is None or (not isinstance(self.resume, str) and not self.resume):
            raise _refused("resume", 'it does not say who may resume a run: name roles, or write resume="anyone"')
        if isinstance(self.resume, str) and self.resume != ANYONE:
            raise _refused("resume", f'{self.resume!r} is text: write a set of roles, {{"{self.resume}"}}')
        if not isinstance(self.resume, str) and ANYONE in self.resume:
            raise _refused("resume", '"anyone" is not a role: write resume="anyone"')
        if self.window is not None and self.window <= timedelta(0):
            raise _refused("window", f"a window of {self.window} is over before it begins")
        if self.window is not None and self.window > WINDOW_MAX:
            raise _refused("window", f"a window of {self.window} is longer than {WINDOW_MAX.days} days")

    @property
    def roles(self) -> list[str]:
        """Roles in order, or ["anyone"]."""
        return [ANYONE] if isinstance(self.resume, str) else sorted(self.resume or ())

    @property
    def window_us(self) -> int:
        """Microseconds from opening to the end of the window."""
        window = self.window if self.window is not None else WINDOWS[self.risk]
        return window // timedelta(microseconds=1)

    def pin(self) -> ContractPin:
        """The contract as facts, to be recorded."""
        return ContractPin(resume=self.roles, risk=self.risk, version=self.version, window=self.window_us)


def digest(pin: ContractPin) -> str:
    """Hex SHA-256 over the canonical bytes of a contract."""
    return sha256(_PIN_TAG + encode(pin)).hexdigest()


def _refused(field: str, what: str) -> DeclarationRefused:
    return DeclarationRefused(f"The contract can't be declared: {what}.", code=f"contract.{field}")
