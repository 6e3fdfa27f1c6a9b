"""Incidents: a run whose journal did not verify is set aside, and nothing else is touched.

The quarantine is an overlay: an entry in the journal `remit:incidents` and a flag on the
run's row, written in one commit. The run's own bytes stay as they were found. It is lifted
only when the restored bytes verify and an operator says so. The incident keeps where the run
ended in that commit, up to which whoever held it went on: bytes from an older backup verify
too, and what they lack may have been done outside.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from remit.canonical import INTEGER_MAX
from remit.engine.process.host import Host
from remit.engine.process.journal import identity_of
from remit.engine.process.reserved import SELF, append_behind, check_not_set_aside, read_own, unit_of
from remit.errors import Moved, Refused, Tampered
from remit.facts import chain, kinds
from remit.facts.announced import Announced, RunLifted, RunSetAside
from remit.facts.kinds import QuarantineLifted
from remit.facts.machine import RESERVED_KINDS
from remit.facts.names import INCIDENTS
from remit.store.marks import Announce
from remit.store.rows import RunRow, Stored
from remit.store.units import Ended, Overlay, Unit

_log = logging.getLogger("remit")


class Incident(NamedTuple):
    """What a run was set aside for, and where its lanes ended: the furthest since it was lifted last."""

    code: str
    detail: bytes | None
    main: int
    post: int


async def quarantine(host: Host, row: RunRow, found: Tampered) -> None:
    """Set a run aside and call for a person. Whoever holds it loses it. One that is set aside already stays as it is.

    row: as it was read; whoever holds the run may have gone on since, so where it ends is told by the commit.
    """
    where = f"{found.code} at {found.lane} {found.seq}" if found.seq else found.code
    _log.critical("Run %r is quarantined: %s; `remit why %s` tells more.", row.run, where, shlex.quote(row.run))
    at = host.clock.now()

    async def unit_behind(own: RunRow) -> Unit:
        check_not_set_aside(own)

        def told(run: Ended) -> Unit:
            fact = kinds.RunQuarantined(
                code=found.code,
                gen=row.gen,
                lane=found.lane,
                main=_stated(run.seq),
                post=_stated(run.post_seq),
                run=row.run,
                seq=found.seq,
            )
            return unit_of(host, own, fact, found.message, by=SELF, at=at)

        return _laid(told(row), Overlay(row.run_key, is_set=True, tell=told), RunSetAside(gen=row.gen, run=row.run))

    try:
        await append_behind(host, INCIDENTS, unit_behind)
    except Moved:
        return  # somebody else came upon it as well, and set it aside


async def newest(host: Host, row: RunRow) -> Incident | None:
    """The incident that a run was set aside for last; None where it never was, or was lifted since. Raises Tampered."""
    kept = await host.store.read_row(host.tenant, INCIDENTS)
    stored = await host.store.read_run(kept.run_key) if kept is not None else None
    return None if stored is None else _newest(verify(host.store.ledger.origin, stored), row)


def _newest(entries: Sequence[chain.Read], row: RunRow) -> Incident | None:
    found = None
    for entry in entries:
        fact = entry.fact
        if not isinstance(fact, kinds.RunQuarantined | QuarantineLifted) or (fact.run, fact.gen) != (row.run, row.gen):
            continue
        if isinstance(fact, QuarantineLifted):
            found = None
            continue
        # One whose overlay a backup cleared is set aside again, where it ends by then: what it lacks, it lacks still.
        main, post = (0, 0) if found is None else (found.main, found.post)
        found = Incident(fact.code, entry.value, max(main, fact.main), max(post, fact.post))
    return found


def missing(row: RunRow, incident: Incident | None) -> str:
    """What a run that verifies lacks of what it had when it was set aside, in words; "" where it goes as far.

    By its row of then. Whoever edits a row writes any number there, so it helps who restores, and binds nobody.
    """
    if incident is None:
        return ""
    ends = (("main", row.seq, incident.main), ("post", row.post_seq, incident.post))
    return " and ".join(f"{then - now:,} of lane {lane} behind {now:,}" for lane, now, then in ends if now < then)


async def lift(host: Host, row: RunRow, *, by: str, reason: str, shorter: bool) -> None:
    """Clear the overlay of a run whose bytes were verified by the caller, as `row` was read with them.

    shorter: the operator found out what was done outside by entries that are missing. Nothing is compared then, so
    that incidents that can't be read, or a number that somebody wrote into the row, keep no run for good.
    Raises Refused `lift.shorter` where entries are missing and they did not say so, Moved where the run is not set
    aside any more or does not end as `row` says: nothing was written.
    """
    fact, told = QuarantineLifted(gen=row.gen, run=row.run, shorter=shorter), RunLifted(gen=row.gen, run=row.run)
    overlay = Overlay(row.run_key, is_set=False, ends=(row.head, row.post_head))

    async def unit_behind(own: RunRow) -> Unit:
        check_not_set_aside(own)
        if not shorter and (lacking := missing(row, await newest(host, row))):  # behind `own`, or the append loses
            raise _shorter(row.run, lacking)
        return _laid(unit_of(host, own, fact, reason, by=by), overlay, told)

    await append_behind(host, INCIDENTS, unit_behind)


def _shorter(run: str, lacking: str) -> Refused:
    return Refused(
        f"Run {run!r} verifies, and by its row when it was set aside entries are missing: {lacking}. What they did "
        "outside may have happened, and the run would do it again; nothing was done.",
        code="lift.shorter",
        hint="Restore a later backup; or find out outside what was done since this one, and say so: "
        f"`remit lift {shlex.quote(run)} --shorter --by user:YOU --reason WHAT-YOU-FOUND` (`shorter=True`). "
        "The same lets it go on where that row was edited and no such entries are.",
    )


def _stated(seq: int) -> int:
    """A seq of a row, which may be edited: what can't be written would keep the run from being set aside."""
    return min(max(seq, 0), INTEGER_MAX)


def _laid(unit: Unit, overlay: Overlay, told: Announced) -> Unit:
    unit.quarantine, unit.marks = overlay, (Announce(told),)
    return unit


def verify(origin: str, stored: Stored) -> list[chain.Read]:
    """The incidents of a tenant, verified. Raises Tampered."""
    _, *entries = read_own(origin, stored)
    for entry in entries:
        if entry.header.kind not in RESERVED_KINDS[INCIDENTS]:
            what = f"{entry.header.kind} in {INCIDENTS}"
            raise chain.tampered(identity_of(origin, stored.row), "chain.move", what, "main", entry.header.seq)
    return entries
