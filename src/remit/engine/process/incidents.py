"""Incidents: a run whose journal did not verify is set aside, and nothing else is touched.

The quarantine is an overlay: an entry in the journal `remit:incidents` and a flag on the
run's row, written in one commit. The run's own bytes stay as they were found. It is lifted
only when the restored bytes verify and an operator says so.
"""

from __future__ import annotations

import logging
import shlex

from remit.engine.process.host import Host
from remit.engine.process.journal import identity_of
from remit.engine.process.reserved import SELF, append_behind, check_not_set_aside, read_own, unit_of
from remit.errors import Tampered
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
    fact = kinds.RunQuarantined(code=found.code, gen=row.gen, lane=found.lane, run=row.run, seq=found.seq)
    told = RunSetAside(gen=row.gen, run=row.run)
    await _write(host, fact, found.message, told, by=SELF, overlay=(row.run_key, True))


async def lift(host: Host, row: RunRow, *, by: str, reason: str) -> None:
    """Clear the overlay of a run whose bytes were verified again by the caller."""
    fact, told = QuarantineLifted(gen=row.gen, run=row.run), RunLifted(gen=row.gen, run=row.run)
    await _write(host, fact, reason, told, by=by, overlay=(row.run_key, False))


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
