"""Unwinding: a flow whose turn is over lets go of what else it waits for.

Its calls raise. But where one branch waits for an event that another would have set, nothing raises there: it would
wait for ever, and its lease be renewed. So once nothing of the turn is under way outside it is cancelled, as often as
it goes on to wait. A plain flow has a thread, which nobody can interrupt.
"""

from __future__ import annotations

import asyncio
from typing import Any

from remit.engine.turn.attempt import Attempt

UNWIND_SECONDS = 1.0  # that a flow is given to unwind by itself; its own cleaning up may take some


class Unwinding:
    """Entered by the task that runs the flow. task: None for a plain flow."""

    __slots__ = ("_attempt", "_task", "_timer", "_times")

    def __init__(self, attempt: Attempt, task: asyncio.Task[Any] | None) -> None:
        self._attempt, self._task = attempt, task
        self._timer: asyncio.TimerHandle | None = None
        self._times = 0

    def __enter__(self) -> None:
        if self._task is not None:
            self._attempt.when_over = self._arm
            if not self._attempt.is_open:
                self._arm()

    def __exit__(self, *_: object) -> None:
        self._attempt.when_over = None
        if self._timer is not None:
            self._timer.cancel()
        while self._times and self._task is not None:
            self._task.uncancel()
            self._times -= 1

    def _arm(self) -> None:
        assert self._task is not None, "armed for a task"
        if self._timer is None:  # whoever ends the turn may do so outside of its loop, as a signal's handler does
            self._timer = self._task.get_loop().call_later(UNWIND_SECONDS, self._look)

    def _look(self) -> None:
        assert self._task is not None, "armed for a task"
        self._timer = None
        if not self._attempt.in_flight:
            self._times += 1
            self._task.cancel()
        self._arm()
