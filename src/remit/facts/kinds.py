"""Kinds: what each entry says, as frozen structs in past tense.

A field that has its default is left out of the bytes, so a later version may add one
without making an old entry unreadable. Fields stand in code-point order, because that is
the order in which they are hashed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from remit.canonical import Form


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of an entry."""


class ContractPin(Fact, frozen=True, kw_only=True):
    """The contract that a run was opened under, as facts."""

    resume: list[str]  # role names in order, or ["anyone"]
    risk: str  # low, medium, high
    version: str
    window: int  # microseconds


class RunOpened(Fact, frozen=True, kw_only=True):
    """The run exists. What it was opened under is pinned here; the value is its input."""

    behalf: str | None = None  # principal for whom the executor acts
    by: str  # the executor
    contract: ContractPin
    flow: str
    mandate: str | None = None  # id of the mandate it was opened under
    models: dict[str, str] = {}
    policy: str | None = None  # digest of the operators' policy
    prompts: dict[str, str] = {}
    tools: dict[str, str] = {}
    window_end: int  # microseconds UTC; after it the run may only settle, resolve and undo


class AttemptStarted(Fact, frozen=True, kw_only=True):
    """A worker's turn began, under a higher epoch than every earlier one."""

    contract: str  # digest of the contract that this attempt's code declares
    version: str  # of that contract
    worker: str


class StepDone(Fact, frozen=True, kw_only=True):
    """A step returned; the value is its outcome."""

    took: int  # microseconds


class StepFailed(Fact, frozen=True, kw_only=True):
    """A step raised; the value is {"detail": its text}."""

    error: str  # qualified name of what was raised
    took: int  # microseconds


class ValueDrawn(Fact, frozen=True, kw_only=True):
    """The flow asked for the time, a random number or a new id; the value is what it got."""

    source: Literal["now", "random", "uuid"]


class RaceWon(Fact, frozen=True, kw_only=True):
    """One of several calls finished first; the others may not begin any more."""

    of: int  # how many raced
    winner: int  # position of the winner, from 0


class RunParked(Fact, frozen=True, kw_only=True):
    """The attempt ended and the run waits; the value is {"detail": why, in words}."""

    calls: list[str] = []  # failed calls that run again at the next attempt
    code: str  # error code of what stopped it
    reason: Literal["repair"]


class RunEnded(Fact, frozen=True, kw_only=True):
    """The run is over; the value is its outcome, or {"detail": why, in words}."""

    code: str = ""
    status: Literal["completed", "failed", "abandoned", "expired", "cancelled"]


class SignalSent(Fact, frozen=True, kw_only=True):
    """Somebody sent the run a named value; it waits in lane `post` until an attempt takes it up."""


class CancelAsked(Fact, frozen=True, kw_only=True):
    """Somebody asked for the run to end; the value is the reason."""


class RunQuarantined(Fact, frozen=True, kw_only=True):
    """In `remit:incidents`: a run's journal did not verify. The value is {"detail": what was found}."""

    code: str
    gen: int
    lane: str = ""
    run: str
    seq: int = 0


class QuarantineLifted(Fact, frozen=True, kw_only=True):
    """In `remit:incidents`: the run's restored bytes verified and an operator said so."""

    gen: int
    run: str


KINDS: dict[str, type[Fact]] = {
    kind.__name__: kind
    for kind in (
        RunOpened,
        AttemptStarted,
        StepDone,
        StepFailed,
        ValueDrawn,
        RaceWon,
        RunParked,
        RunEnded,
        SignalSent,
        CancelAsked,
        RunQuarantined,
        QuarantineLifted,
    )
}

FORMS: dict[str, Form[Fact]] = {name: Form(kind) for name, kind in KINDS.items()}


def write(fact: Fact) -> bytes:
    """The body bytes of a fact."""
    return FORMS[type(fact).__name__].write(fact)
