"""The machine: one table of kinds, and a run's life, which its rows make.

Every entry of lane `main` is a move from one status to the next. A move that the table
does not have can't have been written by Remit, so stored data that holds one is tampered.
Lane `post` moves nothing: what others leave there is taken up into `main`.

A new kind is a struct in `kinds` and a row here. What else depends on the kind is read from
its row, or is held against the table by a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from remit.canonical import Form
from remit.facts import kinds
from remit.facts.entry import Lane
from remit.facts.fact import Fact
from remit.facts.kinds import RunEnded, RunParked
from remit.facts.names import AUTHORITY, INCIDENTS


class Status(StrEnum):
    """Where a run stands. `quarantined` lies over any of these and is not one of them."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    IN_DOUBT = "in_doubt"
    COMPLETED = "completed"
    FAILED = "failed"
    ABANDONED = "abandoned"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


OPEN = frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING, Status.PAUSED, Status.IN_DOUBT})
ENDED = frozenset(Status) - OPEN

Moves = dict[Status | None, Status]

# What a completed call was. `draw`: the flow draws or states it, and gets it at once, in whatever order.
CallKind = Literal["step", "effect", "question", "race", "draw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of entry: all that is known of it besides its fields.

    has_value: what people or models wrote stands in a value; kinds that have one always do, erased or not, and others
    never. moves: from status to status, None where it has no part in a run's life or its body tells where to.
    completes: what kind of call is over with it. is_boundary: the boundary's own view of a run is folded from it.
    is_final: it says what happened, and is written whatever the clock says. journal: of Remit's own, "" for a run's.
    """

    fact: type[Fact]
    lane: Lane = "main"
    has_value: bool = True
    moves: Moves | None = None
    completes: CallKind | None = None
    is_boundary: bool = False
    is_final: bool = False
    journal: str = ""


_WITHIN: Moves = {Status.RUNNING: Status.RUNNING}
# A run that is still `running` is started again after its worker died.
_BEGINS: Moves = dict.fromkeys((Status.QUEUED, Status.RUNNING, Status.WAITING, Status.IN_DOUBT), Status.RUNNING)

KINDS: dict[str, Kind] = {
    kind.fact.__name__: kind
    for kind in (
        Kind(fact=kinds.RunOpened, moves={None: Status.QUEUED}),
        Kind(fact=kinds.AttemptStarted, has_value=False, moves=_BEGINS),
        Kind(fact=kinds.StepDone, moves=_WITHIN, completes="step"),
        Kind(fact=kinds.StepFailed, moves=_WITHIN, completes="step"),
        Kind(fact=kinds.ValueDrawn, moves=_WITHIN, completes="draw"),
        Kind(fact=kinds.RaceWon, has_value=False, moves=_WITHIN, completes="race"),
        Kind(fact=kinds.EvidenceTaken, moves=_WITHIN, completes="draw", is_boundary=True),
        Kind(fact=kinds.GateJudged, has_value=False, moves=_WITHIN, is_boundary=True),
        Kind(fact=kinds.EffectIntended, moves=_WITHIN, is_boundary=True),
        Kind(fact=kinds.EffectSettled, moves=_WITHIN, completes="effect", is_boundary=True, is_final=True),
        Kind(fact=kinds.EffectRefused, moves=_WITHIN, completes="effect", is_boundary=True),
        Kind(fact=kinds.ApprovalAsked, moves=_WITHIN, is_boundary=True),
        Kind(fact=kinds.ApprovalVoided, has_value=False, moves=_WITHIN, is_boundary=True),
        Kind(fact=kinds.ApprovalUsed, moves=_WITHIN, completes="question", is_boundary=True),
        Kind(fact=RunParked),
        Kind(fact=RunEnded, is_final=True),
        Kind(fact=kinds.SignalSent, lane="post"),
        Kind(fact=kinds.CancelAsked, lane="post"),
        Kind(fact=kinds.ApprovalDecided, lane="post"),
        Kind(fact=kinds.DoubtResolved, lane="post"),
        Kind(fact=kinds.RunQuarantined, journal=INCIDENTS),
        Kind(fact=kinds.QuarantineLifted, journal=INCIDENTS),
        Kind(fact=kinds.RoleGranted, journal=AUTHORITY),
        Kind(fact=kinds.RoleRevoked, journal=AUTHORITY),
        Kind(fact=kinds.PrincipalDisabled, journal=AUTHORITY),
        Kind(fact=kinds.PrincipalEnabled, journal=AUTHORITY),
        Kind(fact=kinds.PrincipalLinked, journal=AUTHORITY),
        Kind(fact=kinds.PolicySet, journal=AUTHORITY),
    )
}

FORMS: dict[str, Form[Fact]] = {name: Form(kind.fact) for name, kind in KINDS.items()}

MOVES: dict[str, Moves] = {name: kind.moves for name, kind in KINDS.items() if kind.moves is not None}
VALUED = frozenset(name for name, kind in KINDS.items() if kind.has_value)
POSTED = frozenset(name for name, kind in KINDS.items() if kind.lane == "post")
COMPLETING = frozenset(name for name, kind in KINDS.items() if kind.completes is not None)
BOUNDARY_KINDS = frozenset(name for name, kind in KINDS.items() if kind.is_boundary)
FINAL_KINDS = frozenset(name for name, kind in KINDS.items() if kind.is_final)
# The journals that are Remit's own hold facts about others and have no life of their own.
RESERVED_KINDS: dict[str, frozenset[str]] = {
    journal: frozenset(name for name, kind in KINDS.items() if kind.journal == journal)
    for journal in (INCIDENTS, AUTHORITY)
}


def move(status: Status | None, kind: str, fact: Fact | None) -> Status | None:
    """The status after this entry, or None where the table has no such move."""
    if isinstance(fact, RunEnded):
        return Status(fact.status) if status is Status.RUNNING else None
    if isinstance(fact, RunParked):
        parked = Status.IN_DOUBT if fact.waits_for == "doubt" else Status.WAITING
        return parked if status is Status.RUNNING else None
    return MOVES.get(kind, {}).get(status)
