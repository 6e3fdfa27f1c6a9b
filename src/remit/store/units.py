"""Units: what a store is asked to write, and why it may refuse.

    Unit      entries of one run, written whole or not at all
    Overlay   a quarantine that is set or cleared with a unit
    Opening   a run that may not exist yet, with its first entry
    Claim     a run that a worker asks to hold
    Renewal   a hold that is to go on

Each says what must still be so, and is written under that or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec

from remit.facts.entry import Entry, Lane
from remit.store.marks import Condition, Fence, Ground, Mark
from remit.store.rows import RunRow


@dataclass(frozen=True, slots=True)
class Move:
    """New index values of a run's row, written with the entries that cause them."""

    status: str
    code: str = ""
    release: bool = False  # the attempt is over: worker and lease are cleared


# Why a unit was not written: head, epoch or lease; or what it rests on moved, and it can be judged again.
Loss = Literal["lease", "authority", "post", "business", "ceiling", "quarantine"]


class Ended(Protocol):
    """Where a run ends, and whether it is set aside, as the store reads it while nobody else can write."""

    @property
    def quarantined(self) -> bool: ...
    @property
    def head(self) -> bytes: ...
    @property
    def seq(self) -> int: ...
    @property
    def post_head(self) -> bytes: ...
    @property
    def post_seq(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Overlay:
    """The quarantine of a run, which a unit sets or clears. It must not be so already.

    ends: heads at which both lanes must still end; None: wherever they do.
    tell: draws the unit up by where the run ends in that very commit, behind the same head; None where the unit says
    nothing of it. It may be asked more than once, on any thread, and does nothing else.
    """

    run_key: int
    is_set: bool
    ends: tuple[bytes, bytes] | None = None
    tell: Callable[[Ended], Unit] | None = None


class Unit(msgspec.Struct):
    """Entries of one run and lane that are written together, and what must still be true of its row.

    epoch: of the lease that must still hold; None for lane post and for journals of Remit's own,
    which need no lease and compare the head alone.
    quarantine, fence, post_head, and the marks that are conditions: where one fails nothing of the unit is written.
    """

    run_key: int
    lane: Lane
    head_before: bytes
    head_after: bytes
    seq_after: int
    entries: list[Entry]
    epoch: int | None
    move: Move | None = None
    quarantine: Overlay | None = None  # of another run, laid in the same commit
    fence: Fence | None = None
    post_head: bytes | None = None  # where lane post must still end
    marks: tuple[Mark, ...] = ()

    @property
    def is_conditional(self) -> bool:
        """Whether it may be refused although the lease holds. Such a unit is never joined with another."""
        if self.fence is not None or self.post_head is not None or self.quarantine is not None:
            return True
        return bool(self.marks) and any(isinstance(mark, Condition) for mark in self.marks)

    def lay(self, run: Ended | None) -> Loss | None:
        """Why its overlay can't be laid on the run as it is, or None: then its entries say where that run ends.

        Asked for each try, while nobody else can write; the run can't move until the commit.
        """
        overlay = self.quarantine
        if overlay is None:
            return None
        if run is None or run.quarantined == overlay.is_set:
            return "quarantine"
        if overlay.ends is not None and overlay.ends != (run.head, run.post_head):
            return "quarantine"
        if overlay.tell is not None:
            told = overlay.tell(run)
            self.entries, self.head_after, self.seq_after = told.entries, told.head_after, told.seq_after
        return None


@dataclass(frozen=True, slots=True)
class Opening:
    """A run to be made, unless its id is taken in that tenant, in whichever generation.

    worker: takes the run at once under epoch 1; None leaves it unheld, with epoch 0.
    ground: what must still be true of `remit:authority`; None for a journal of Remit's own.
    """

    tenant: str
    run: str
    gen: int
    flow: str
    by: str
    opened_at: int
    window_end: int
    entry: Entry
    head: bytes
    worker: str | None
    lease_ms: int
    ground: Ground | None = None

    def row(self, run_key: int, *, lease_until: int) -> RunRow:
        """The row of the run that was made. lease_until: what the store granted; 0 where nobody holds it."""
        return RunRow(
            run_key=run_key,
            tenant=self.tenant,
            run=self.run,
            gen=self.gen,
            flow=self.flow,
            by=self.by,
            status="queued",
            code="",
            quarantined=False,
            opened_at=self.opened_at,
            window_end=self.window_end,
            head=self.head,
            seq=1,
            post_head=self.head,
            post_seq=0,
            epoch=0 if self.worker is None else 1,
            worker=self.worker,
            lease_until=lease_until,
        )


Made = RunRow | Literal["authority"] | None  # its row; or what moved, so that it was not made; None: its id is taken


@dataclass(frozen=True, slots=True)
class Claim:
    """A wish to hold a run: granted when nobody does, when the lease ran out, or when `dead` holds it.

    epoch_seen: the row's epoch that the wish is based on; if it moved, somebody was faster.
    dead: a worker that is proven dead, whose lease needs no waiting for.
    """

    run_key: int
    epoch_seen: int
    worker: str
    lease_ms: int
    dead: str | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """One lease to be prolonged."""

    run_key: int
    epoch: int
