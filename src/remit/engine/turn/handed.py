"""Handed: calls of the run that a flow handed straight to `gather` or `first`, which alone can hand on what they gave.

A call says itself that it was given up. One that is over can't any more, and where the wait for it is given up then,
nobody hears what became of it. So the wait says it. What a flow wraps in a coroutine of its own, it can look at.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from remit.engine.turn.apart import times_cancelled
from remit.engine.turn.race import has_lost
from remit.errors import Denied

if TYPE_CHECKING:
    from remit.engine.turn.attempt import Attempt

C = TypeVar("C", bound=Coroutine[Any, Any, Any])


class Handed:
    """What one wait was handed: each is the name of a call, another wait, or None for code of the flow's own.

    As a context, it notes what is given up where the task that waits is cancelled in it.
    """

    __slots__ = ("_attempt", "_before", "_calls", "is_decided", "tasks")

    def __init__(self, attempt: Attempt) -> None:
        self._attempt, self._before = attempt, 0
        self._calls: list[str | Handed | None] = []
        self.tasks: Sequence[asyncio.Future[Any]] = ()
        self.is_decided = False  # a race has its winner, and its losers say nothing any more

    def to(self, wait: C) -> C:
        """This is of that wait, which may be handed to another one."""
        _handed[wait] = self
        return wait

    def take(self, calls: Sequence[object]) -> None:
        """Know them, before the first of them begins."""
        self._before = times_cancelled()
        names = self._attempt.unbegun.names()
        self._calls = [(_handed.get(c) or names.get(id(c))) if inspect.iscoroutine(c) else None for c in calls]

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        # Who lost a race is no flow that goes on without an answer: the race around it has one.
        if isinstance(exc, asyncio.CancelledError) and times_cancelled() > self._before and not has_lost():
            self._give_up(is_told=self.is_decided)
            if self.is_decided:  # what lost it is under way beside a flow that never heard who won
                rides, in_flight = self._attempt.writer.rides, self._attempt.in_flight.values()
                left = [wish.name for wish in in_flight if wish.is_let_go and self._attempt.is_outside(wish)]
                self._attempt.let_go |= dict.fromkeys(left, rides)

    def _give_up(self, *, is_told: bool) -> None:
        """is_told: also of those that were cancelled, for they say nothing of it themselves."""
        for call, task in zip(self._calls, self.tasks, strict=False):  # none began, where it was never awaited
            is_over = task.done() and not task.cancelled()
            if call is None or not (is_over or is_told):
                continue
            if isinstance(call, Handed):
                call._give_up(is_told=True)
            elif call in self._attempt.view.calls:
                if call not in self._attempt.replay.unheard:
                    self._attempt.replay.unheard += (call,)
            elif self._may_have_happened(call) or (is_over and self._is_answered(call, task)):
                self._attempt.let_go[call] = self._attempt.writer.rides

    def _may_have_happened(self, call: str) -> bool:
        effect = self._attempt.boundary.effects.get(call)
        return effect is not None and effect.may_have_happened

    def _is_answered(self, call: str, over: asyncio.Future[Any]) -> bool:
        """Whether the outside or a person answered it. A step, or a call that could not be made, is no such thing."""
        boundary = self._attempt.boundary
        is_outside = call in boundary.effects or boundary.last_ask_of(call) is not None
        return is_outside or isinstance(over.exception(), Denied)


_handed: WeakKeyDictionary[Coroutine[Any, Any, Any], Handed] = WeakKeyDictionary()
