"""Voiding: which questions and unused yeses another policy would void.

Both are bound to the setting of the policy that held when they were asked, whatever it says about
their effect, so that setting any other one sends all of them back to people, and setting that one
again after it brings none of them back. Whoever sets it is told before.
"""

from __future__ import annotations

from remit.engine.people.deciding import Ask, shown, standing
from remit.engine.people.newest import newest
from remit.engine.process.host import Host
from remit.engine.process.standing import glance
from remit.facts.machine import ENDED
from remit.facts.view import RunView


async def voided_by(host: Host, policy: str) -> list[Ask]:
    """Questions of the newest runs that are open or have a yes that nothing used yet, and would hold no longer.

    policy: digest of the one that is to be set. A no stands whatever is set, and what is past its time is over anyway.
    Raises AuthorityUnreadable: which policy holds is not known, and "none" would be an answer.
    """
    found: list[Ask] = []
    authority = await glance(host)
    if authority.policy_digest == policy:
        return found
    async for view in newest(host):
        if not isinstance(view, RunView) or view.status in ENDED:
            continue
        now = host.clock.latest()
        for ask in view.boundary.asks.values():
            if standing(view, ask, now) in ("open", "approved") and ask.asked.bound.policy_set == authority.policy_set:
                found.append(shown(view, ask, now, authority))
    return found
