"""Waiting for a run: the turn is over before its flow can hear that nobody waits for it any more.

A flow that is cancelled may catch that: it would compensate, pay another way or return, for a turn
that its caller gave up. So it runs in a task of its own. Whoever cancels the caller halts the
turn in that very moment, by the future on which the caller waits; then the task is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stop:
    """Ends the turn, where there is one, when its caller went away.

    was_in_turn: whether there was one when it was called last. A task that is cancelled before it began would hold what
    nobody gives back; one that then begins gives it back by itself, and is not to be cancelled in the middle of that.
    """

    __slots__ = ("_act", "was_called", "was_in_turn")

    def __init__(self) -> None:
        self._act: Callable[[], None] | None = None
        self.was_called = self.was_in_turn = False

    def __call__(self) -> None:
        self.was_called, self.was_in_turn = True, self._act is not None
        if self._act is not None:
            self._act()

    def ends(self, act: Callable[[], None]) -> None:
        """There is a turn now, which `act` ends. Whoever begins it looks whether this was called before."""
        self._act = act


class _Waited(asyncio.Future[None]):
    """Done when the turn is. Cancelling it, as cancelling the task that waits for it does, stops the turn first."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._stop = stop

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.done():
            self._stop()
        return super().cancel(msg)

    def release(self, _: object) -> None:
        if not self.done():
            self.set_result(None)


async def in_its_own_task(work: Callable[[Stop], Coroutine[Any, Any, T]]) -> T:
    """The result of `work`, or what it raised. A caller who went away hears CancelledError when `work` has ended.

    Each cancellation of the caller is passed on: `work` decides what it still sees through.
    """
    stop = Stop()
    task = asyncio.ensure_future(work(stop))
    went: asyncio.CancelledError | None = None
    while not task.done():
        waited = _Waited(stop)
        task.add_done_callback(waited.release)
        try:
            await waited
        except asyncio.CancelledError as exc:
            went = exc
            if stop.was_in_turn:
                task.cancel()
        finally:
            task.remove_done_callback(waited.release)
    if went is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # whoever went away hears that and nothing else
    raise went
