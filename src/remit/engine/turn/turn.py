"""A turn: all that the calls of one attempt share, as one value."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from remit.authority.contract import digest
from remit.authority.rules import Rules, resume_groups, risk_of, rules_for, window_end
from remit.engine.declared.outward import Outward
from remit.engine.declared.terms import Terms
from remit.engine.process.host import Host
from remit.engine.turn.attempt import Attempt
from remit.engine.turn.wish import Permit, Stated


@dataclass(slots=True)
class BusinessOf:
    """Calls of one effect by the business that their requests state. seen: how many calls of the run were looked at.

    A call that is sent again keeps its place among them, and its request.
    """

    calls: dict[str, list[str]] = field(default_factory=dict)
    seen: int = 0


@dataclass(slots=True)
class Turn:
    """One attempt at a run in a process, whatever makes its calls.

    terms: of the code that makes them. within: how the names of functions begin that the flow makes.
    stated: the evidence that the flow stated in this turn.
    fetchers: how evidence is taken again, by the call that stated it. unreadable: what was
    raised where that failed, likewise.
    before_ceiling: by scope of the run's own ceilings and version of the authority, what its effects took uncounted;
    None where that is no amount.
    business_of: by effect and field that is its business key, which calls of the run state what business.
    called: what was called in this turn, by the words for its function.
    permits: given by the crossing and not used yet. one_judged: held from a question to the commit of its answer,
    so that what one call of this run takes is seen by the next. pinned_digest: of the contract that the run was
    opened under. risk: the higher of what was pinned and what the code declares. resume: groups of roles, of each of
    which the executor must hold one.
    """

    host: Host
    terms: Terms
    attempt: Attempt
    within: str = ""
    fetchers: dict[str, Callable[..., Any]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    stated: Stated = field(default_factory=Stated)
    one_judged: asyncio.Lock = field(default_factory=asyncio.Lock)
    before_ceiling: dict[tuple[str, int], dict[str, int | None]] = field(default_factory=dict)
    business_of: dict[tuple[str, str], BusinessOf] = field(default_factory=dict)
    called: dict[str, list[Outward[Any]]] = field(default_factory=dict)
    permits: set[Permit] = field(default_factory=set)
    pinned_digest: str = field(init=False)
    risk: str = field(init=False)
    resume: list[list[str]] = field(init=False)
    _rules: dict[tuple[str, int], Rules] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pinned, coded = self.attempt.view.opened.contract, self.terms.pin
        self.pinned_digest = self.terms.digest if pinned == coded else digest(pinned)
        self.risk, self.resume = risk_of(pinned, coded), resume_groups(pinned, coded)

    @property
    def window_end(self) -> int:
        """When the run's time is over by today's policy, microseconds UTC."""
        view, policy = self.attempt.view, self.host.standing.authority.policy
        risks = view.opened.contract.risk, self.terms.pin.risk
        return window_end(view.opened_at, view.opened.window_end, risks, policy)

    def rules(self, effect: str) -> Rules:
        """What holds for an effect under the authority that is known now; "" for a question of the flow's own."""
        authority = self.host.standing.authority
        key = effect, authority.version
        found = self._rules.get(key)
        if found is None:
            pinned = self.attempt.view.opened.contract
            found = self._rules[key] = rules_for(effect, pinned=pinned, coded=self.terms.pin, policy=authority.policy)
        return found
