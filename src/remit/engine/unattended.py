"""Unattended: a run that has to end, and needs none of its code for that."""

from __future__ import annotations

from remit.authority.contract import digest
from remit.engine.attempt import Attempt
from remit.engine.ending import finish
from remit.engine.halt import ended
from remit.engine.host import Host
from remit.engine.outcome import Outcome
from remit.engine.posts import words_of_cancel
from remit.engine.settling import take_words
from remit.errors import LeaseLost
from remit.facts.entry import Pen
from remit.facts.kinds import AttemptStarted
from remit.facts.view import RunView
from remit.store.protocol import RunRow


async def end_unattended(host: Host, view: RunView, row: RunRow, *, sent_ms: int) -> Outcome:
    """End a run that somebody cancelled, under a lease that was just granted; in doubt it waits."""
    cancel = view.boundary.cancel
    assert cancel is not None

    def on_lost() -> None:
        attempt.close(LeaseLost(f"Run {row.run!r} is held by somebody else; nothing more was written."))

    lease = host.keeper.hold(row.run_key, row.epoch, sent_ms=sent_ms, on_lost=on_lost)
    pen = Pen(view.identity, lane="main", by=view.opened.by, epoch=row.epoch, head=row.head, seq=row.seq)
    attempt = Attempt(host.store, host.clock, view, pen, lease, main=None)
    pinned = view.opened.contract
    attempt.start(AttemptStarted(contract=digest(pinned), version=pinned.version, worker=host.worker))
    try:
        await take_words(attempt, host.outstanding)
        words = words_of_cancel(cancel.by, cancel.reason)
        outcome = await finish(attempt, ended("cancelled", words, item=cancel.item))
        if not attempt.has_ended:
            await host.store.release(row.run_key, row.epoch)
        return outcome
    finally:
        host.keeper.drop(lease)
