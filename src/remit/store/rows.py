"""Rows: what a store has, as it is read.

    RunRow    the row that a run has: where its chains end, who holds it, and an index
    Stored    the entries of a run with it
    others    an index each: of questions, of keys, of what is to be told, of workers

A row is an index and no witness: what a decision rests on is read from the verified journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from remit.facts.entry import Entry


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a database says of itself."""

    origin: str  # 32 hex digits, drawn when it was made; in every header
    schema: int  # number of the newest migration that was applied
    clock: Literal["database", "given"]  # "given": it was opened with a clock of the caller's at least once


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run's row. Heads and epoch are compared by every append; the rest is an index, never believed."""

    run_key: int
    tenant: str
    run: str
    gen: int
    flow: str
    by: str
    status: str
    code: str  # why it waits or how it ended; "" where there is nothing to say
    quarantined: bool
    opened_at: int  # microseconds UTC
    window_end: int  # microseconds UTC
    head: bytes  # 32 bytes: hash of the last entry of lane main
    seq: int  # of that entry
    post_head: bytes  # 32 bytes: hash of the last entry of lane post, or of RunOpened while it is empty
    post_seq: int  # 0 while lane post is empty
    epoch: int
    worker: str | None  # who holds it; None while nobody does
    lease_until: int  # microseconds UTC by the store's clock; 0 while nobody holds it


class Stored(NamedTuple):
    """A run as it is stored, read in one snapshot; both lanes in order of seq."""

    row: RunRow
    main: list[Entry]
    post: list[Entry]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs `list_rows` gives, newest first: every field that is set must match. `remit:` journals are no runs."""

    tenant: str
    flow: str | None = None
    status: str | None = None
    quarantined: bool | None = None
    run_prefix: str | None = None  # literal, no wildcards
    limit: int = 50
    before_key: int | None = None  # only runs opened before this one


class Peek(NamedTuple):
    """Where lane main of a journal ends, whether it is set aside, and the store's clock at that moment."""

    seq: int
    head: bytes
    quarantined: bool
    now: int  # microseconds UTC


@dataclass(frozen=True, slots=True)
class KeyRow:
    """Who holds a business key. The run key decides: an id may begin afresh, and a row be edited."""

    run_key: int
    run: str
    call: str


@dataclass(frozen=True, slots=True)
class AskRow:
    """A question, as an index: what it asks is read from the run's verified journal."""

    number: int  # rises with each question
    ask: str
    run_key: int
    run: str
    call: str
    roles: tuple[str, ...]
    asked_at: int
    until: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class AskFilter:
    """Which open questions `list_asks` gives, oldest first."""

    tenant: str
    role: str | None = None
    limit: int = 20
    after: int = 0  # only questions with a higher number


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Something to be told to the outside, in order of number; see `facts.announced`."""

    number: int
    tenant: str
    run: str
    kind: str
    data: bytes
    at: int  # microseconds UTC, of the commit


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A process that holds or held runs, and where it runs. Whether it lives is asked there, and not of this row."""

    worker: str  # the file that the process keeps locked while it lives is named by this
    host: str  # boot id and process-id namespace; the same one means the same machine and namespace
    started_at: int


@dataclass(frozen=True, slots=True)
class Checkup:
    """One thing that `doctor` looked at."""

    name: str
    ok: bool
    seen: str
    hint: str = ""
