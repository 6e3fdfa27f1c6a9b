"""The newest runs, whole and verified, for whoever asks what journals say beyond one run."""

from __future__ import annotations

from collections.abc import AsyncIterator

from remit.engine.people.left_out import LeftOut, left_out
from remit.engine.process.admit import UNBELIEVED, read_stored, set_aside, verify
from remit.engine.process.host import Host
from remit.facts.view import RunView
from remit.store.rows import RunFilter

RUNS_MAX = 1_000
PAGE = 200


async def newest(host: Host) -> AsyncIterator[RunView | LeftOut]:
    """The newest RUNS_MAX runs of this tenant, newest first; of one that can't be believed or read why that is so."""
    count, before = 0, None
    while count < RUNS_MAX:
        rows = await host.store.list_rows(RunFilter(host.tenant, limit=PAGE, before_key=before))
        for row in rows:
            yield await view_of(host, row.run)
        count += len(rows)
        if len(rows) < PAGE:
            break
        before = rows[-1].run_key


async def view_of(host: Host, run: str) -> RunView | LeftOut:
    """The same of one run."""
    try:
        stored = await read_stored(host, run)
        return left_out(run, set_aside(run)) if stored.row.quarantined else verify(host.store.ledger.origin, stored)
    except UNBELIEVED as exc:
        return left_out(run, exc)
