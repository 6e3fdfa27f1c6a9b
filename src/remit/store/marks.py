"""Marks: what is written beside a run's own rows, and what must be true of another journal, in one commit.

    Fence         the journal `remit:authority` still ends where the judge saw it
    Ground        the same of a run that is opened

    TakeKey       a business key is nobody else's
    Reserve       a ceiling still has room

    FreeKey, Unreserve    what was taken is given back
    OpenAsk, CloseAsk     a question waits in the inbox, or no longer
    Announce              somebody outside is to be told

TakeKey and Reserve are conditions: what a unit takes, it takes whole or is not written at all.
The others are notes: nothing can refuse them, so they ride with whatever unit has them.
"""

from __future__ import annotations

from dataclasses import dataclass

from remit.facts.announced import Announced


@dataclass(frozen=True, slots=True)
class Fence:
    """Where the journal `remit:authority` must still end when the unit is committed; it can't move until then.

    head: hash of its last entry. Where the store lost entries, as a backup that is restored does, others came to
    stand under their numbers.
    """

    run_key: int
    head: bytes


@dataclass(frozen=True, slots=True)
class Ground:
    """Where `remit:authority` must end when a run is opened, and not be set aside; it may move in that moment.

    head: hash of its last entry. Whoever opens knows the journal by heart, and notices here that it is another one.
    """

    run_key: int
    seq: int
    head: bytes


@dataclass(frozen=True, slots=True)
class TakeKey:
    """Hold a business key for one call of this run. Taken by the same call already is no conflict."""

    key: str  # hex digest
    call: str  # name of the call


@dataclass(frozen=True, slots=True)
class Reserve:
    """Add to what is used of a ceiling, unless that would be more than `max`."""

    scope: str
    amount: int  # minor units, 0 or more
    max: int


@dataclass(frozen=True, slots=True)
class FreeKey:
    """Give a business key back that this run holds."""

    key: str


@dataclass(frozen=True, slots=True)
class Unreserve:
    """Take back what was reserved."""

    scope: str
    amount: int


@dataclass(frozen=True, slots=True)
class OpenAsk:
    """A question that waits for a person, for the inbox."""

    ask: str
    call: str
    roles: tuple[str, ...]  # all that may answer, in order
    asked_at: int  # microseconds UTC
    until: int  # microseconds UTC


@dataclass(frozen=True, slots=True)
class CloseAsk:
    """The question needs no answer any more; it stays readable by its id."""

    ask: str


@dataclass(frozen=True, slots=True)
class Announce:
    """A row of the outbox, which webhooks and the live stream read."""

    told: Announced


Condition = TakeKey | Reserve
Note = FreeKey | Unreserve | OpenAsk | CloseAsk | Announce
Mark = Condition | Note
