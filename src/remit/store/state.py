"""State: runs, entries, workers and what stands beside them, and the rules that every append passes.

    State   what is believed
    Draft   what is about to be: changed rows and added entries, laid over a state

A draft that is merged becomes what is believed; one that is dropped leaves no trace. So a
store that has to write somewhere first shows nothing that it did not write, and has
nothing to take back. Entries are added at the end of lists: a step costs the same however
long its run is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from remit.facts.entry import Entry, Lane
from remit.facts.machine import OPEN
from remit.facts.names import RESERVED_PREFIX
from remit.store.beside import Beside
from remit.store.marks import Ground
from remit.store.rows import RunFilter, RunRow, Stored, WorkerRow
from remit.store.tables import fitted
from remit.store.units import Claim, Loss, Made, Opening, Renewal, Unit


@dataclass(slots=True)
class KeptRun:
    """A run's row and its two lanes, in order of seq."""

    row: RunRow
    main: list[Entry] = field(default_factory=list)
    post: list[Entry] = field(default_factory=list)

    def lane(self, lane: Lane) -> list[Entry]:
        return self.main if lane == "main" else self.post


@dataclass(slots=True)
class State:
    """A ledger in memory. Changed by merging a draft, and in no other way."""

    run_key_next: int = 1
    runs: dict[int, KeptRun] = field(default_factory=dict)  # by run key, oldest first
    ids: dict[tuple[str, str, int], int] = field(default_factory=dict)  # tenant, run, gen -> run key
    newest: dict[tuple[str, str], int] = field(default_factory=dict)  # tenant, run -> run key of the highest gen
    workers: dict[str, WorkerRow] = field(default_factory=dict)
    beside: Beside = field(default_factory=Beside)

    def keep(self, run: KeptRun) -> None:
        """Add a run that was opened or read."""
        row = run.row
        assert row.run_key >= self.run_key_next and (row.tenant, row.run, row.gen) not in self.ids
        self.run_key_next = row.run_key + 1
        self.runs[row.run_key] = run
        self.ids[row.tenant, row.run, row.gen] = row.run_key
        newest = self.read_row(row.tenant, row.run)
        if newest is None or newest.gen < row.gen:
            self.newest[row.tenant, row.run] = row.run_key

    def forget(self, run_key: int) -> None:
        """Take a run out that is to be read again from where it is kept. Its key is not given again."""
        row = self.runs.pop(run_key).row
        del self.ids[row.tenant, row.run, row.gen]
        del self.newest[row.tenant, row.run]

    def read_row(self, tenant: str, run: str) -> RunRow | None:
        key = self.newest.get((tenant, run))
        return None if key is None else self.runs[key].row

    def read_run(self, run_key: int) -> Stored | None:
        kept = self.runs.get(run_key)
        return None if kept is None else Stored(kept.row, list(kept.main), list(kept.post))

    def list_rows(self, which: RunFilter) -> list[RunRow]:
        rows = (kept.row for kept in reversed(self.runs.values()))
        return list(islice((row for row in rows if _matches(row, which)), fitted(which.limit)))


class Draft:
    """Changes that are not believed yet. now: microseconds of the store's clock, one for the whole draft."""

    def __init__(self, state: State, now: int) -> None:
        self._state, self._now = state, now
        self.rows: dict[int, RunRow] = {}  # changed and opened
        self.added: dict[tuple[int, Lane], list[Entry]] = {}
        self.opened: dict[tuple[str, str, int], int] = {}  # id -> run key
        self.workers: dict[str, WorkerRow] = {}
        self.beside = Beside(state.beside)

    def __bool__(self) -> bool:
        return bool(self.rows or self.workers)

    def merge(self) -> None:
        """Make all of it what is believed."""
        state = self._state
        for key in self.opened.values():
            state.keep(KeptRun(self.rows[key]))
        for key, row in self.rows.items():
            state.runs[key].row = row
        for (key, lane), entries in self.added.items():
            state.runs[key].lane(lane).extend(entries)
        state.workers.update(self.workers)
        if self.beside:
            self.beside.merge()

    def append(self, unit: Unit) -> Loss | None:
        """Why the unit is not written, or None; nothing of it is in the draft where there is a reason."""
        row, aside = self._row(unit.run_key), unit.quarantine
        unlaid = None if aside is None else unit.lay(self._row(aside.run_key))
        moved = None if row is None else self._advanced(row, unit)
        if row is None or moved is None:
            return "lease"
        lost = unlaid or self._missed(unit, row) or self._mark(unit, row)
        if lost is not None:
            return lost
        self.rows[unit.run_key] = moved
        self.added.setdefault((unit.run_key, unit.lane), []).extend(unit.entries)
        if aside is not None and (other := self._row(aside.run_key)) is not None:
            self.rows[aside.run_key] = replace(other, quarantined=aside.is_set)
        return None

    def _advanced(self, row: RunRow, unit: Unit) -> RunRow | None:
        """The row behind the unit; None where head, epoch or lease are not as it says."""
        if row.quarantined:
            return None
        if unit.lane == "post":
            if row.post_head != unit.head_before or row.status not in OPEN:
                return None
            return replace(row, post_head=unit.head_after, post_seq=unit.seq_after)
        if row.head != unit.head_before or not self._is_held(row, unit.epoch):
            return None
        row = replace(row, head=unit.head_after, seq=unit.seq_after)
        if unit.move is not None:
            row = replace(row, status=unit.move.status, code=unit.move.code)
            if unit.move.release:
                row = replace(row, worker=None, lease_until=0)
        return row

    def _missed(self, unit: Unit, row: RunRow) -> Loss | None:
        """What the unit rests on and is not so, marks aside."""
        if unit.fence is not None:
            journal = self._row(unit.fence.run_key)
            if journal is None or journal.head != unit.fence.head:
                return "authority"
        return "post" if unit.post_head not in (None, row.post_head) else None

    def _stands(self, ground: Ground) -> bool:
        journal = self._row(ground.run_key)
        at = (ground.seq, ground.head, False)
        return journal is not None and (journal.seq, journal.head, journal.quarantined) == at

    def _mark(self, unit: Unit, row: RunRow) -> Loss | None:
        """Make all marks of a unit or none."""
        if not unit.marks:
            return None
        trial = Beside(self.beside)
        lost = trial.make(unit, row, self._now)
        if lost is None:
            trial.merge()
        return lost

    def open_run(self, opening: Opening) -> Made:
        o = opening
        if o.ground is not None and not self._stands(o.ground):
            return "authority"
        name = (o.tenant, o.run, o.gen)
        # In whichever generation: a row whose gen was edited must not begin afresh.
        if (o.tenant, o.run) in self._state.newest or name in self.opened:
            return None
        key = self._state.run_key_next + len(self.opened)
        row = o.row(key, lease_until=0 if o.worker is None else self._until(o.lease_ms))
        self.opened[name], self.rows[key], self.added[key, "main"] = key, row, [o.entry]
        return row

    def claim(self, claim: Claim) -> RunRow | None:
        row = self._row(claim.run_key)
        if row is None or row.epoch != claim.epoch_seen or row.quarantined or row.status not in OPEN:
            return None
        if row.worker is not None and row.lease_until > self._now and row.worker != claim.dead:
            return None
        held = replace(row, epoch=row.epoch + 1, worker=claim.worker, lease_until=self._until(claim.lease_ms))
        self.rows[claim.run_key] = held
        return held

    def release(self, run_key: int, epoch: int) -> bool:
        row = self._row(run_key)
        if row is None or row.epoch != epoch or row.worker is None:
            return False
        self.rows[run_key] = replace(row, worker=None, lease_until=0)
        return True

    def renew(self, worker: str, leases: Sequence[Renewal], lease_ms: int) -> dict[int, bytes]:
        """A lease that ran out and that nobody took is prolonged too."""
        held = {}
        for lease in leases:
            row = self._row(lease.run_key)
            if row is not None and row.epoch == lease.epoch and row.worker == worker:
                self.rows[lease.run_key] = replace(row, lease_until=self._until(lease_ms))
                held[lease.run_key] = row.post_head
        return held

    def put_worker(self, row: WorkerRow) -> None:
        self.workers[row.worker] = row

    def _row(self, run_key: int) -> RunRow | None:
        kept = self._state.runs.get(run_key)
        return self.rows.get(run_key) or (None if kept is None else kept.row)

    def _is_held(self, row: RunRow, epoch: int | None) -> bool:
        return epoch is None or (row.epoch == epoch and row.lease_until > self._now)

    def _until(self, lease_ms: int) -> int:
        return self._now + lease_ms * 1_000


def _matches(row: RunRow, which: RunFilter) -> bool:
    return (
        row.tenant == which.tenant
        and not row.run.startswith(RESERVED_PREFIX)
        and which.flow in (None, row.flow)
        and which.status in (None, row.status)
        and which.quarantined in (None, row.quarantined)
        and row.run.startswith(which.run_prefix or "")
        and (which.before_key is None or row.run_key < which.before_key)
    )
