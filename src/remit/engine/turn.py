"""A turn: all that the calls of one attempt share, as one value."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from remit.authority.contract import digest
from remit.authority.rules import Rules, resume_groups, risk_of, rules_for, window_end
from remit.engine.attempt import Attempt
from remit.engine.flow import Flow
from remit.engine.host import Host

if TYPE_CHECKING:
    from remit.engine.port import Permit


@dataclass(slots=True)
class Turn:
    """One attempt of a flow in a process.

    fetchers: how evidence is taken again, by its name. unreadable: names whose taking again failed.
    permits: given by the crossing and not used yet. one_judged: held from a question to the commit of its answer,
    so that what one call of this run takes is seen by the next.
    """

    host: Host
    flow: Flow[Any]
    attempt: Attempt
    fetchers: dict[str, Callable[..., Any]] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    one_judged: asyncio.Lock = field(default_factory=asyncio.Lock)
    permits: set[Permit] = field(default_factory=set)
    _rules: dict[tuple[str, int], Rules] = field(default_factory=dict)

    @property
    def pinned_digest(self) -> str:
        """Digest of the contract that the run was opened under."""
        pinned = self.attempt.view.opened.contract
        return self.flow.contract_digest if pinned == self.flow.pin else digest(pinned)

    @property
    def risk(self) -> str:
        """The higher of what was pinned and what the code declares."""
        return risk_of(self.attempt.view.opened.contract, self.flow.pin)

    @property
    def resume(self) -> list[list[str]]:
        """Groups of roles, of each of which the executor must hold one."""
        return resume_groups(self.attempt.view.opened.contract, self.flow.pin)

    @property
    def window_end(self) -> int:
        """When the run's time is over by today's policy, microseconds UTC."""
        view = self.attempt.view
        return window_end(view.opened_at, view.opened.window_end, self.risk, self.host.standing.authority.policy)

    def rules(self, effect: str) -> Rules:
        """What holds for an effect under the authority that is known now."""
        authority = self.host.standing.authority
        key = effect, authority.version
        found = self._rules.get(key)
        if found is None:
            pinned = self.attempt.view.opened.contract
            found = self._rules[key] = rules_for(effect, pinned=pinned, coded=self.flow.pin, policy=authority.policy)
        return found
