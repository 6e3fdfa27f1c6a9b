"""Where a flow stands while it is played, and the log of what its calls gave it.

A call that the flow gives up is told apart from one that lost a race by what may cancel it (`Scope`): a time-out that
is over, a group that failed, or whoever said so.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import remit
from tests.spec.random_flows.outside import Outside, Process


@dataclass(frozen=True)
class Told:
    """What a call gave the flow. state: "value", the name of an error's class, or "given up"."""

    at: int
    call: str
    state: str
    value: Any = None


@dataclass
class Turn:
    """One call of the flow's code, and what it saw."""

    run: str
    process: Process
    outside: Outside
    made: dict[str, int] = field(default_factory=dict)  # calls, by when they were made
    awaited: dict[str, int] = field(default_factory=dict)  # of them, those that were made early, by when they were
    told: list[Told] = field(default_factory=list)
    given_up: dict[str, int] = field(default_factory=dict)  # calls that the flow let go of, other than in a race
    is_patient: bool = False
    turned: random.Random | None = (
        None  # by which the sides of a race are put in another order; None as they are written
    )
    is_cancelled: bool = False  # from outside
    has_given_up: bool = False  # the flow went on without something that it had begun: nothing records that
    left: list[asyncio.Future[Any]] = field(default_factory=list)  # tasks that it may leave behind
    heard: set[str] = field(default_factory=set)  # calls of which it was told, since it began
    begun_at: int = 0
    gave: str | None = None  # what its code returned
    is_over: bool = False  # the flow's code has ended

    def begin(self) -> None:
        """The code runs from its first line; more than once where Remit takes the run up again at once."""
        self.begun_at, self.is_over = self.outside.tick(), False
        for seen in (self.made, self.awaited, self.given_up, self.left, self.heard):
            seen.clear()

    def note(self, call: str, state: str, value: Any = None) -> None:
        if self.is_over:
            return  # to what the flow left behind
        self.heard.add(call)
        self.told.append(Told(self.outside.tick(), call, state, value))

    def let_go(self, call: str, place: Place, *scopes: Scope) -> None:
        """A call was cancelled: by the flow, or because another one won its race, which can't be told apart outside it.

        scopes: more of them than those of its place.
        """
        is_given_up = any(scope.has_fired() for scope in (*place.scopes, *scopes))
        if is_given_up or (self.is_cancelled and not place.is_racing):
            self.given_up[call] = self.outside.tick()
        if is_given_up or self.is_cancelled or any(scope.has_fired() for scope in place.around):
            self.has_given_up = True
            self.outside.given_up.set()


class Scope:
    """What may cancel the calls inside it."""

    def __init__(self, ms: int | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._over_at = None if ms is None else self._loop.time() + ms / 1000 - 0.0005
        self.is_fired = False

    def has_fired(self) -> bool:
        return self.is_fired or (self._over_at is not None and self._loop.time() >= self._over_at)


class Place:
    """Where in the flow a part is played: the run under its branch, with what may cancel it and what it was given.

    scopes: inside of the race that it is in, if it is in one. around: outside of that.
    """

    def __init__(self, turn: Turn, run: remit.Run, prefix: str = "", scopes: tuple[Scope, ...] = ()) -> None:
        self.turn, self.run, self.prefix, self.scopes = turn, run, prefix, scopes
        self.around: tuple[Scope, ...] = ()
        self.is_racing = False
        self.given = "nothing"
        self._counts: dict[str, int] = {}

    def name(self, base: str) -> str:
        """What Remit calls the next call of this name."""
        times = self._counts[base] = self._counts.get(base, 0) + 1
        return f"{self.prefix}{base}" if times == 1 else f"{self.prefix}{base}#{times}"

    def branch(self, base: str, *scopes: Scope, races: bool = False) -> Place:
        times = self._counts[base + "/"] = self._counts.get(base + "/", 0) + 1
        segment = base if times == 1 else f"{base}#{times}"
        kept = () if races else self.scopes
        place = Place(self.turn, self.run.branch(base), f"{self.prefix}{segment}/", (*kept, *scopes))
        place.around = (*self.around, *self.scopes) if races else self.around
        place.given, place.is_racing = self.given, races or self.is_racing
        return place

    def within(self, scope: Scope) -> Place:
        """The same place, inside of what may cancel it."""
        twin = Place(self.turn, self.run, self.prefix, (*self.scopes, scope))
        twin.given, twin._counts = self.given, self._counts
        twin.around, twin.is_racing = self.around, self.is_racing
        return twin
