"""Openings: the first entry of a journal, whatever the journal is for."""

from __future__ import annotations

from remit.engine.process.host import Host
from remit.engine.process.salt import draw_salt
from remit.facts import kinds
from remit.facts.entry import Identity, Pen, genesis, value_digest
from remit.facts.kinds import RunOpened
from remit.store.protocol import Opening


def draw_up(
    host: Host, run: str, opened: RunOpened, data: bytes, *, at: int, is_held: bool
) -> tuple[Opening, Identity]:
    """What the store is asked to make. data: input bytes. is_held: this worker takes the run at once, under epoch 1."""
    identity = Identity(host.store.ledger.origin, host.tenant, run, 1, opened.flow)
    salt = draw_salt()
    start = genesis(identity, value_digest(salt, data))
    pen = Pen(identity, lane="main", by=opened.by, epoch=0, head=start, seq=0)
    entry = pen.seal("RunOpened", kinds.write(opened), at=at, value=(salt, data))
    made = Opening(
        tenant=host.tenant,
        run=run,
        gen=1,
        flow=opened.flow,
        by=opened.by,
        opened_at=at,
        window_end=opened.window_end,
        entry=entry,
        head=pen.head,
        worker=host.worker if is_held else None,
        lease_ms=host.lease_ms,
    )
    return made, identity
