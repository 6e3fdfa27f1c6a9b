"""Incidents: a run whose journal did not verify is set aside, and nothing else is touched.

The quarantine is an overlay: an entry in the journal `remit:incidents` and a flag on the
run's row, written in one commit. The run's own bytes stay as they were found. It is lifted
only when the restored bytes verify and an operator says so.
"""

from __future__ import annotations

import logging
import os

from remit.authority.contract import ANYONE
from remit.canonical import INTEGER_MAX
from remit.engine.host import Host
from remit.engine.journal import read_journal
from remit.engine.opening import draw_up
from remit.engine.outcome import detail
from remit.errors import LeaseLost, StoreUnavailable, Tampered
from remit.facts import chain, kinds
from remit.facts.entry import SALT_BYTES, Identity, Pen
from remit.facts.fact import Fact
from remit.facts.kinds import QuarantineLifted, RunOpened
from remit.facts.machine import RESERVED_KINDS
from remit.facts.rules import ContractPin
from remit.store.protocol import RunRow, Stored, Unit

INCIDENTS = "remit:incidents"
SELF = "service:remit"

_log = logging.getLogger("remit")

_TRIES = 8
_FOREVER = INTEGER_MAX  # microseconds
_PIN = ContractPin(resume=[ANYONE], risk="low", version="1", window=_FOREVER)


async def quarantine(host: Host, row: RunRow, found: Tampered) -> None:
    """Set a run aside and call for a person. Whoever holds it loses it."""
    _log.critical("Run %r is quarantined: %s", row.run, str(found))
    fact = kinds.RunQuarantined(code=found.code, gen=row.gen, lane=found.lane, run=row.run, seq=found.seq)
    await _write(host, fact, found.message, by=SELF, overlay=(row.run_key, True))


async def lift(host: Host, row: RunRow, *, by: str, reason: str) -> None:
    """Clear the overlay of a run whose bytes were verified again by the caller."""
    await _write(host, QuarantineLifted(gen=row.gen, run=row.run), reason, by=by, overlay=(row.run_key, False))


async def _write(host: Host, fact: Fact, words: str, *, by: str, overlay: tuple[int, bool]) -> None:
    """Append to the incidents, which have no lease: compare the head, and read again when somebody was faster."""
    async with host.incidents:
        for _ in range(_TRIES):
            row = await host.store.read_row(host.tenant, INCIDENTS) or await _open(host)
            if row is None:
                continue
            try:
                return await host.store.append(_unit(host, row, fact, words, by=by, overlay=overlay))
            except LeaseLost:
                continue
    raise StoreUnavailable(f"The incident could not be written: others wrote {_TRIES} times in between.")


def _unit(host: Host, row: RunRow, fact: Fact, words: str, *, by: str, overlay: tuple[int, bool]) -> Unit:
    identity = Identity(host.store.ledger.origin, host.tenant, INCIDENTS, row.gen, row.flow)
    pen = Pen(identity, lane="main", by=by, epoch=0, head=row.head, seq=row.seq)
    value = (os.urandom(SALT_BYTES), detail(words))
    entry = pen.seal(type(fact).__name__, kinds.write(fact), at=host.clock.now(), value=value)
    return Unit(row.run_key, "main", row.head, pen.head, pen.seq, [entry], None, quarantine=overlay)


async def _open(host: Host) -> RunRow | None:
    opened = RunOpened(by=SELF, contract=_PIN, flow=INCIDENTS, window_end=_FOREVER)
    made, _ = draw_up(host, INCIDENTS, opened, b"null", at=host.clock.now(), is_held=False)
    return await host.store.open_run(made)


def verify(origin: str, stored: Stored) -> list[chain.Read]:
    """The incidents of a tenant, verified. Raises Tampered."""
    identity, journal = read_journal(origin, stored)
    for entry in journal.main[1:]:
        if entry.header.kind not in RESERVED_KINDS[INCIDENTS]:
            raise chain.tampered(
                identity, "chain.move", f"{entry.header.kind} in {INCIDENTS}", "main", entry.header.seq
            )
    return journal.main[1:]
