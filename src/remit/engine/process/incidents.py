"""Incidents: a run whose journal did not verify is set aside, and nothing else is touched.

The quarantine is an overlay: an entry in the journal `remit:incidents` and a flag on the
run's row, written in one commit. The run's own bytes stay as they were found. It is lifted
only when the restored bytes verify and an operator says so. The incident keeps where the run
ended: bytes from an older backup verify too, and what they lack may have been done outside.
"""

from __future__ import annotations

import logging
import shlex

from remit.canonical import INTEGER_MAX
from remit.engine.process.host import Host
from remit.engine.process.journal import identity_of
from remit.engine.process.reserved import SELF, append_behind, check_not_set_aside, read_own, unit_of
from remit.errors import Refused, Tampered
from remit.facts import chain, kinds
from remit.facts.announced import Announced, RunLifted, RunSetAside
from remit.facts.fact import Fact
from remit.facts.kinds import QuarantineLifted
from remit.facts.machine import RESERVED_KINDS
from remit.facts.names import INCIDENTS
from remit.store.marks import Announce
from remit.store.rows import RunRow, Stored
from remit.store.units import Unit

_log = logging.getLogger("remit")


async def quarantine(host: Host, row: RunRow, found: Tampered) -> None:
    """Set a run aside and call for a person. Whoever holds it loses it."""
    where = f"{found.code} at {found.lane} {found.seq}" if found.seq else found.code
    _log.critical("Run %r is quarantined: %s; `remit why %s` tells more.", row.run, where, shlex.quote(row.run))
    fact = kinds.RunQuarantined(
        code=found.code,
        gen=row.gen,
        lane=found.lane,
        main=_stated(row.seq),
        post=_stated(row.post_seq),
        run=row.run,
        seq=found.seq,
    )
    told = RunSetAside(gen=row.gen, run=row.run)
    await _write(host, fact, found.message, told, by=SELF, overlay=(row.run_key, True))


async def newest(host: Host, row: RunRow) -> chain.Read | None:
    """The incident that a run was set aside for last; None where it never was, or was lifted since. Raises Tampered."""
    kept = await host.store.read_row(host.tenant, INCIDENTS)
    stored = await host.store.read_run(kept.run_key) if kept is not None else None
    found = None
    for entry in verify(host.store.ledger.origin, stored) if stored is not None else ():
        fact = entry.fact
        if isinstance(fact, kinds.RunQuarantined | QuarantineLifted) and (fact.run, fact.gen) == (row.run, row.gen):
            found = entry if isinstance(fact, kinds.RunQuarantined) else None
    return found


def missing(row: RunRow, incident: chain.Read | None) -> str:
    """What a run that verifies lacks of what it had when it was set aside, in words; "" where it goes as far.

    By its row of then. Whoever edits a row writes any number there, so it helps who restores, and binds nobody.
    """
    if incident is None or not isinstance(incident.fact, kinds.RunQuarantined):
        return ""
    ends = (("main", row.seq, incident.fact.main), ("post", row.post_seq, incident.fact.post))
    return " and ".join(f"{then - now:,} of lane {lane} behind {now:,}" for lane, now, then in ends if now < then)


async def lift(host: Host, row: RunRow, *, by: str, reason: str, shorter: bool) -> None:
    """Clear the overlay of a run whose bytes were verified again by the caller.

    shorter: the operator found out what was done outside by entries that are missing. Nothing is compared then, so
    that incidents that can't be read, or a number that somebody wrote into the row, keep no run for good.
    Raises Refused `lift.shorter` where entries are missing and they did not say so: nothing was written.
    """
    if not shorter and (lacking := missing(row, await newest(host, row))):
        raise _shorter(row.run, lacking)
    fact, told = QuarantineLifted(gen=row.gen, run=row.run, shorter=shorter), RunLifted(gen=row.gen, run=row.run)
    await _write(host, fact, reason, told, by=by, overlay=(row.run_key, False))


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


async def _write(host: Host, fact: Fact, words: str, told: Announced, *, by: str, overlay: tuple[int, bool]) -> None:
    """Append to the incidents. Raises StoreUnavailable, Tampered: nothing was written."""

    async def unit_behind(row: RunRow) -> Unit:
        check_not_set_aside(row)
        unit = unit_of(host, row, fact, words, by=by)
        unit.quarantine = overlay
        unit.marks = (Announce(told),)
        return unit

    await append_behind(host, INCIDENTS, unit_behind)


def verify(origin: str, stored: Stored) -> list[chain.Read]:
    """The incidents of a tenant, verified. Raises Tampered."""
    _, *entries = read_own(origin, stored)
    for entry in entries:
        if entry.header.kind not in RESERVED_KINDS[INCIDENTS]:
            what = f"{entry.header.kind} in {INCIDENTS}"
            raise chain.tampered(identity_of(origin, stored.row), "chain.move", what, "main", entry.header.seq)
    return entries
