"""Explaining: what happened in a run and why it stands where it stands. Reads, executes nothing, always safe."""

from __future__ import annotations

from dataclasses import dataclass

from remit.engine import admit, incidents
from remit.engine.host import Host
from remit.engine.journal import heads_of, identity_of
from remit.engine.liveness import is_proven_dead
from remit.engine.outcome import detail_of
from remit.errors import RemitError
from remit.facts.kinds import QuarantineLifted, RunQuarantined
from remit.facts.timeline import Timeline, read_timeline
from remit.facts.view import RunView
from remit.store.protocol import RunRow, Stored


@dataclass(frozen=True, slots=True)
class Explanation:
    """A run's timeline, and the run that it tells; `view` is None where the journal does not verify."""

    row: RunRow
    timeline: Timeline
    view: RunView | None


@dataclass(frozen=True, slots=True)
class Why:
    """Why a run stands where it stands.

    status: the run's, "quarantined" over any other. since: microseconds UTC. calls: the failed calls that run again.
    holder: the worker that holds it, "" for none; is_holder_dead is proven. incident: why it was set aside.
    """

    run: str
    flow: str
    status: str
    since: int
    code: str
    reason: str
    calls: tuple[str, ...]
    holder: str
    lease_until: int
    is_holder_dead: bool
    incident: str


def explain(origin: str, stored: Stored) -> Explanation:
    """The timeline of a stored run, whatever state it is in."""
    row = stored.row
    timeline = read_timeline(identity_of(origin, row), heads_of(row), stored.main, stored.post)
    try:
        return Explanation(row, timeline, admit.verify(origin, stored))
    except RemitError as exc:
        return Explanation(row, Timeline(timeline.lines, timeline.problem or exc), None)


async def why(host: Host, stored: Stored) -> Why:
    """Why a run stands where it stands. A quarantined one is told from the incidents. Raises Tampered."""
    row = stored.row
    is_dead = False
    if row.worker is not None:
        known = await host.store.read_worker(row.worker)
        is_dead = known is not None and is_proven_dead(known)
    incident = await _incident(host, row)
    view = None if row.quarantined else admit.verify(host.store.ledger.origin, stored)
    return Why(
        run=row.run,
        flow=row.flow,
        status="quarantined" if view is None else str(view.status),
        since=0 if view is None else view.last_at,
        code=row.code if view is None else view.code,
        reason="" if view is None or not view.code else detail_of(view.last_value),
        calls=tuple(view.parked.calls) if view is not None and view.parked is not None else (),
        holder=row.worker or "",
        lease_until=row.lease_until,
        is_holder_dead=is_dead,
        incident=incident,
    )


async def _incident(host: Host, row: RunRow) -> str:
    """What was found when the run was set aside last; "" where it never was, or was lifted."""
    kept = await host.store.read_row(host.tenant, incidents.INCIDENTS)
    stored = await host.store.read_run(kept.run_key) if kept is not None else None
    found = ""
    for entry in incidents.verify(host.store.ledger.origin, stored) if stored is not None else ():
        fact = entry.fact
        if isinstance(fact, RunQuarantined) and (fact.run, fact.gen) == (row.run, row.gen):
            found = f"{fact.code}: {detail_of(entry.value)}"
        elif isinstance(fact, QuarantineLifted) and (fact.run, fact.gen) == (row.run, row.gen):
            found = ""
    return found
