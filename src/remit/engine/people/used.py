"""Used: how much of the policy's ceilings per day and month is taken, as the gate would count it now.

It is read where the gate reads it, beside the journals, and holds what is settled and what is reserved by
intentions in doubt. Whoever can write the database can empty it; `recount` compares it with the journals.
"""

from __future__ import annotations

from dataclasses import dataclass

from remit.authority.rules import scope_of, times_of
from remit.engine.process.host import Host
from remit.engine.process.standing import glance


@dataclass(frozen=True, slots=True)
class Used:
    """A ceiling of the policy that runs share, and what is used of it. max, used: minor units. per: day or month."""

    effect: str
    field: str
    currency: str
    per: str
    max: int
    used: int


async def used(host: Host) -> list[Used]:
    """Of each ceiling per day or month of today's policy, in the day or month that it is now, UTC.

    Where this machine's clock and the store's are in different ones, in the one that has more.
    """
    policy = (await glance(host)).policy
    between = host.clock.earliest(), host.clock.latest()
    found: list[Used] = []
    for effect, pins in sorted(policy.ceilings.items()) if policy is not None else ():
        for pin in (each for each in pins if each.per in ("day", "month")):
            scopes = [scope_of(effect, pin, at) for at in times_of(pin.per, *between)]
            taken = [await host.store.read_used(host.tenant, scope) for scope in scopes]
            found.append(Used(effect, pin.field, pin.currency, pin.per, pin.max, max(taken)))
    return found
