"""Delivery: outcomes that are written, given to the flow in the order of the journal.

    expect     it is drafted: what is drafted later comes after it
    turn       the call that it is of waits until it is its turn
    close      the call is over, with its outcome or without

Commits are shared, and one kind of call takes more turns of the loop to hear of its outcome than another. A later turn
knows of the journal alone, so in that order the first one has to hear as well.
"""

from __future__ import annotations

import asyncio

from remit.engine.turn.rest import Rest
from remit.facts.machine import COMPLETING


class Delivery:
    """Of one attempt. Belongs to its event loop."""

    __slots__ = ("__weakref__", "_due", "_rest", "_waiting")

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._due: dict[str, None] = {}  # calls that the flow waits for, whose outcome is drafted, in that order
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def close(self, name: str) -> None:
        """It does not wait for it any more."""
        self._rest.calls.pop(name, None)
        if name in self._due:
            self.withdraw(name)

    def expect(self, kind: str, name: str | None) -> None:
        """An entry is drafted: where it is the outcome of a call that is waited for, what follows comes after it."""
        if self._rest.is_several and kind in COMPLETING and name in self._rest.calls:
            self._due[name] = None

    def withdraw(self, name: str | None) -> None:
        """Its outcome was not written, or is not the last of it, or nobody waits for it any more."""
        if name in self._due:
            del self._due[name]
            self.go_on()

    async def turn(self, name: str) -> None:
        """Wait until everything before it was given to the flow."""
        if name not in self._due:
            return
        if self._is_next(name):
            self._give(name)
            return
        self._waiting[name] = asyncio.get_running_loop().create_future()
        try:
            await self._waiting[name]
        finally:
            del self._waiting[name]

    def go_on(self) -> None:
        """Give the next one, where the flow is at rest and somebody waits for it."""
        while self._due and self._rest.is_over:
            waiting = self._waiting.get(next(iter(self._due)))
            if waiting is None or waiting.done():
                return
            waiting.set_result(None)
            self._give(next(iter(self._due)))

    def _is_next(self, name: str) -> bool:
        return self._rest.is_over and next(iter(self._due)) == name

    def _give(self, name: str) -> None:
        del self._due[name]
        self._rest.begin()
