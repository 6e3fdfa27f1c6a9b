"""The newest runs, whole and verified, for whoever asks what journals say beyond one run."""

from __future__ import annotations

from collections.abc import AsyncIterator

from remit.engine.process.admit import UNBELIEVED, read_stored, verify
from remit.engine.process.host import Host
from remit.errors import Tampered
from remit.facts.view import RunView
from remit.store.protocol import RunFilter, RunRow

RUNS_MAX = 1_000
PAGE = 200


async def newest(host: Host) -> AsyncIterator[RunView | Tampered | None]:
    """The newest RUNS_MAX runs of this tenant, newest first. What is wrong with one that does not verify; None for one
    that is set aside, or that a newer version wrote.
    """
    count, before = 0, None
    while count < RUNS_MAX:
        rows = await host.store.list_rows(RunFilter(host.tenant, limit=PAGE, before_key=before))
        for row in rows:
            yield await _view(host, row)
        count += len(rows)
        if len(rows) < PAGE:
            break
        before = rows[-1].run_key


async def _view(host: Host, row: RunRow) -> RunView | Tampered | None:
    if row.quarantined:
        return None
    try:
        return verify(host.store.ledger.origin, await read_stored(host, row.run))
    except UNBELIEVED as exc:
        return exc if isinstance(exc, Tampered) else None
