"""A run's life: one table of allowed moves.

Every entry of lane `main` is a move from one status to the next. A move that the table
does not have can't have been written by Remit, so stored data that holds one is tampered.
Lane `post` moves nothing: what others leave there is taken up into `main`.
"""

from __future__ import annotations

from enum import StrEnum

from remit.facts.fact import Fact
from remit.facts.kinds import RunEnded, RunParked


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

_WITHIN: Moves = {Status.RUNNING: Status.RUNNING}

# All but RunEnded and RunParked, whose targets their bodies tell.
MOVES: dict[str, Moves] = {
    "RunOpened": {None: Status.QUEUED},
    # A run that is still `running` is started again after its worker died.
    "AttemptStarted": {
        Status.QUEUED: Status.RUNNING,
        Status.RUNNING: Status.RUNNING,
        Status.WAITING: Status.RUNNING,
        Status.IN_DOUBT: Status.RUNNING,
    },
    "StepDone": _WITHIN,
    "StepFailed": _WITHIN,
    "ValueDrawn": _WITHIN,
    "RaceWon": _WITHIN,
    "EvidenceTaken": _WITHIN,
    "GateJudged": _WITHIN,
    "EffectIntended": _WITHIN,
    "EffectSettled": _WITHIN,
    "EffectRefused": _WITHIN,
    "ApprovalAsked": _WITHIN,
    "ApprovalVoided": _WITHIN,
    "ApprovalUsed": _WITHIN,
}

# What people or models wrote stands in a value; of lane `main` these have one, erased or not, and the others have none.
VALUED = frozenset(
    {
        "RunOpened",
        "StepDone",
        "StepFailed",
        "ValueDrawn",
        "EvidenceTaken",
        "EffectIntended",
        "EffectSettled",
        "EffectRefused",
        "ApprovalAsked",
        "ApprovalUsed",
        "RunParked",
        "RunEnded",
    }
)

POSTED = frozenset({"SignalSent", "CancelAsked", "ApprovalDecided", "DoubtResolved"})

# The journals that are Remit's own hold facts about others and have no life of their own.
RESERVED_KINDS: dict[str, frozenset[str]] = {
    "remit:incidents": frozenset({"RunQuarantined", "QuarantineLifted"}),
    "remit:authority": frozenset(
        {"RoleGranted", "RoleRevoked", "PrincipalDisabled", "PrincipalEnabled", "PrincipalLinked", "PolicySet"}
    ),
}


def move(status: Status | None, kind: str, fact: Fact | None) -> Status | None:
    """The status after this entry, or None where the table has no such move."""
    if isinstance(fact, RunEnded):
        return Status(fact.status) if status is Status.RUNNING else None
    if isinstance(fact, RunParked):
        parked = Status.IN_DOUBT if fact.waits_for == "doubt" else Status.WAITING
        return parked if status is Status.RUNNING else None
    return MOVES.get(kind, {}).get(status)
