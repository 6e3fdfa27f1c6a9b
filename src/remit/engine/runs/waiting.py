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
    """The caller went away. act: what ends the turn, once there is one."""

    __slots__ = ("act", "was_called")

    def __init__(self) -> None:
        self.act: Callable[[], None] = lambda: None
        self.was_called = False

    def __call__(self) -> None:
        self.was_called = True
        self.act()


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
            task.cancel()
        finally:
            task.remove_done_callback(waited.release)
    if went is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # whoever went away hears that and nothing else
    raise went
