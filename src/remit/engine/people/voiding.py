"""Voiding: which questions and unused yeses another policy would void.

Both are bound to the setting of the policy that held when they were asked, whatever it says about
their effect, so that setting any other one sends all of them back to people, and setting that one
again after it brings none of them back. Whoever sets it is told before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from remit.engine.people.asks import Ask, is_policy_moved, shown, standing
from remit.engine.people.left_out import LeftOut, Listed
from remit.engine.people.newest import PAGE, RUNS_MAX, newest, view_of
from remit.engine.process.host import Host
from remit.engine.process.standing import glance
from remit.facts.machine import ENDED
from remit.facts.view import RunView
from remit.store.rows import AskFilter


async def voided_by(host: Host, policy: str) -> Listed[Ask]:
    """Questions that are open or have a yes that nothing used yet, and would hold no longer.

    Of the newest runs, and of older ones those with open questions. One that can't be believed or read is left out.

    policy: digest of the one that is to be set. A no stands whatever is set, and what is past its time is over anyway.
    Raises AuthorityUnreadable: which policy holds is not known, and "none" would be an answer.
    """
    found, without = list[Ask](), list[LeftOut]()
    authority = await glance(host)
    if authority.policy_digest == policy:
        return Listed()
    seen: set[str] = set()
    async for view in _asking(host):
        if isinstance(view, LeftOut):
            without.append(view)
            continue
        if view.status in ENDED or view.identity.run in seen:
            continue
        seen.add(view.identity.run)
        now = host.clock.latest()
        for ask in view.boundary.asks.values():
            if standing(view, ask, now) in ("open", "approved") and not is_policy_moved(ask, authority):
                found.append(shown(view, ask, now, authority))
    return Listed(found, without)


async def _asking(host: Host) -> AsyncIterator[RunView | LeftOut]:
    """The newest runs, and then those of the oldest questions that wait, as many."""
    async for view in newest(host):
        yield view
    count, after = 0, 0
    while count < RUNS_MAX:
        rows = await host.store.list_asks(AskFilter(host.tenant, limit=PAGE, after=after))
        for run in dict.fromkeys(row.run for row in rows):
            yield await view_of(host, run)
        count += len(rows)
        if len(rows) < PAGE:
            break
        after = rows[-1].number
