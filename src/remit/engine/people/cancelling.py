"""Cancelling: somebody wants a run to end.

The wish is posted. A turn that is under way stops at its next call once it hears of it, and lets what
it began outside be settled; a run that nobody holds is ended here, by an attempt without a flow. A run
with an effect in doubt does not end before that is known.
"""

from __future__ import annotations

from remit.engine.people.post import Letter, post
from remit.engine.process.admit import find
from remit.engine.process.host import Host
from remit.engine.process.outcome import Outcome, detail, outcome_of
from remit.engine.process.taking import Taker, alone
from remit.engine.runs.unattended import end_unattended
from remit.facts.kinds import CancelAsked
from remit.facts.machine import ENDED
from remit.facts.value import codec_for
from remit.store.rows import RunRow

_UNTYPED = codec_for(object)


async def cancel(host: Host, run: str, *, by: str, reason: str) -> Outcome:
    """Ask for the end; how the run stands after that. Raises Refused `run.ended`, RunAbsent, Tampered."""

    await post(host, run, by=by, write=lambda found: Letter(CancelAsked(), detail(reason)), is_fenced=False)
    await host.introduce()
    while True:
        found = await find(host, run)
        if found.view.status in ENDED:
            return outcome_of(found.view, _UNTYPED)
        with alone(host, run) as taker:
            told = await end_unattended(host, taker, found) if isinstance(taker, Taker) else found.row
        if isinstance(told, Outcome):
            return told
        if isinstance(told, RunRow):  # whoever is at it hears of it
            return outcome_of((await find(host, run)).view, _UNTYPED)
