"""Cancelling: somebody wants a run to end.

The wish is posted. A turn that is under way stops at its next call and lets what it began
outside be settled; a run that nobody holds is ended here, by an attempt without a flow. A run
with an effect in doubt does not end before that is known.
"""

from __future__ import annotations

from remit.clock import monotonic_ms
from remit.engine.people.post import Letter, post
from remit.engine.process.admit import claim, find
from remit.engine.process.host import Host
from remit.engine.process.outcome import Outcome, detail, outcome_of
from remit.engine.runs.unattended import end_unattended
from remit.facts.kinds import CancelAsked
from remit.facts.value import codec_for

_UNTYPED = codec_for(object)


async def cancel(host: Host, run: str, *, by: str, reason: str) -> Outcome:
    """Ask for the end; how the run stands after that. Raises Refused `run.ended`, RunAbsent, Tampered."""

    await post(host, run, by=by, write=lambda found: Letter(CancelAsked(), detail(reason)))
    await host.introduce()
    found = await find(host, run)
    sent_ms = monotonic_ms()
    held = await claim(host, found.row) if run not in host.under_way else None
    if held is not None and (held.head, held.post_head) == (found.row.head, found.row.post_head):
        return await end_unattended(host, found.view, held, sent_ms=sent_ms)
    if held is not None:
        await host.store.release(held.run_key, held.epoch)
    return outcome_of((await find(host, run)).view, _UNTYPED)
