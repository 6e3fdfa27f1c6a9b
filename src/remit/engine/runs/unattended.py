"""Unattended: a run that has to end, and needs none of its code for that."""

from __future__ import annotations

from contextlib import suppress

from remit.authority.contract import digest
from remit.engine.boundary.settling import take_words
from remit.engine.process.host import Host
from remit.engine.process.outcome import Outcome
from remit.engine.process.standing import look
from remit.engine.process.taking import Taken
from remit.engine.runs.ending import finish
from remit.engine.runs.holding import held, is_unheard
from remit.engine.turn.halt import Again
from remit.engine.turn.posts import cancelled
from remit.errors import AuthorityUnreadable
from remit.facts.kinds import AttemptStarted


async def end_unattended(host: Host, taken: Taken) -> Outcome | Again:
    """End a run that somebody cancelled; in doubt it waits. Again: somebody posted meanwhile, who is to be heard."""
    cancel = taken.view.boundary.cancel
    assert cancel is not None
    pinned = taken.view.opened.contract
    started = AttemptStarted(contract=digest(pinned), dead=list(taken.dead), version=pinned.version, worker=host.worker)
    async with held(host, taken, started, main=None) as attempt:
        if attempt.boundary.in_doubt:
            with suppress(AuthorityUnreadable):  # then nobody's word counts, and the run waits in doubt
                await look(host)
                await take_words(host, attempt)
        told = await finish(attempt, cancelled(cancel))
    return Again() if await is_unheard(host, attempt) else told
