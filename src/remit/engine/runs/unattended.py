"""Unattended: a run that has to end, and needs none of its code for that."""

from __future__ import annotations

from contextlib import suppress

from remit.authority.contract import digest
from remit.engine.boundary.settling import take_words
from remit.engine.process.admit import Found, find
from remit.engine.process.host import Host
from remit.engine.process.outcome import Outcome
from remit.engine.process.standing import look
from remit.engine.process.taking import Taken, Taker
from remit.engine.runs.ending import finish
from remit.engine.runs.holding import beginning, granted, held, is_unheard
from remit.engine.turn.halt import Again
from remit.engine.turn.posts import cancelled
from remit.errors import AuthorityUnreadable
from remit.facts.machine import ENDED
from remit.store.rows import RunRow


async def end_unattended(host: Host, taker: Taker, found: Found) -> Outcome | RunRow | Again | None:
    """End a run that somebody cancelled; in doubt it waits.

    Its row, where somebody else holds it or took it since; None where it moved. Again: somebody posted meanwhile, who
    is to be heard.
    """
    taken = await granted(host, taker.take(found))
    return await _end(host, taken) if isinstance(taken, Taken) else taken


async def end_if_cancelled(host: Host, taker: Taker, run: str) -> None:
    """After a turn that its caller left: whoever cancelled the run meanwhile was told that it is worked at."""
    told: Outcome | RunRow | Again | None = None
    while told is None or isinstance(told, Again):
        found = await find(host, run)
        if found.view.status in ENDED or found.view.boundary.cancel is None:
            return
        told = await end_unattended(host, taker, found)


async def _end(host: Host, taken: Taken) -> Outcome | Again:
    cancel = taken.view.boundary.cancel
    assert cancel is not None
    pinned = taken.view.opened.contract
    started = beginning(host, taken, contract=digest(pinned), version=pinned.version)
    async with held(host, taken, started, main=None) as attempt:
        if attempt.boundary.in_doubt:
            with suppress(AuthorityUnreadable):  # then nobody's word counts, and the run waits in doubt
                await look(host)
                await take_words(host, attempt)
        told = await finish(attempt, cancelled(cancel))
    return Again() if await is_unheard(host, attempt) else told
