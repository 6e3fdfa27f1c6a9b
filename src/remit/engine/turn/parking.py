"""Parking: when every open call of a flow waits for something outside, the turn is over.

A call that must wait simply awaits. Nothing is held for it: once all open calls wait, the
flow is unwound, the run's row says what it waits for, and the lease is given back, when
the flow is at rest: another of its tasks may be on its way to its next call. A flow whose
own task waits in a call can't go on by itself. Where only tasks that it made wait, another
of its tasks may be busy with what shows in no loop, and gets a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from remit.engine.turn.answers import is_trouble
from remit.engine.turn.caught import give
from remit.engine.turn.closing import AttemptClosed
from remit.engine.turn.halt import URGENCY, Parked
from remit.engine.turn.rest import Rest

STILL_SECONDS = 0.05
HOPS = 12  # turns of the loop in which what was ready has its turn, tasks within tasks too


@dataclass(slots=True)
class _Waiting:
    why: Parked
    is_whole: bool  # the whole flow waits when this call does
    future: asyncio.Future[None]


class Parking:
    """Which calls are open, and which of them wait. Each is entered from its beginning to its outcome.

    open: how many are. on_still: told what the run waits for. on_lost: told what is no answer to a call that raised it,
    and raises AttemptClosed.
    """

    __slots__ = ("_is_armed", "_is_stopped", "_moves", "_on_lost", "_on_still", "_rest", "_waiting", "open", "wakes")

    def __init__(
        self, on_still: Callable[[Parked], None], on_lost: Callable[[BaseException], None], rest: Rest
    ) -> None:
        self._on_still, self._on_lost, self._rest = on_still, on_lost, rest
        self.open = self._moves = 0
        self.wakes = 0  # how often something moved for which calls wait
        self._waiting: list[_Waiting] = []
        self._is_armed = self._is_stopped = False

    def __enter__(self) -> None:
        self.open += 1
        self._moves += 1

    def __exit__(self, _kind: object = None, error: BaseException | None = None, _trace: object = None) -> None:
        if error is not None:
            give(error)
        self.open -= 1
        self._moves += 1
        if self._waiting:
            self._arm()
        if error is not None and is_trouble(error):
            self._on_lost(error)

    def outlive(self, task: asyncio.Task[Any]) -> None:
        """A call that its flow let go of is open until `task` is through: in doubt it holds the run."""
        self.__enter__()
        task.add_done_callback(lambda _: self.__exit__())

    async def wait(self, why: Parked, *, is_whole: bool, since: int) -> None:
        """Wait until something moved. Raises AttemptClosed where the turn ended before, or has ended already.

        since: `wakes` when the caller looked; what moved while it wrote down what it saw is not waited for again.
        """
        if self._is_stopped:
            raise AttemptClosed
        if self.wakes != since:
            return
        waiting = _Waiting(why, is_whole, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._arm()
        try:
            await waiting.future
        finally:
            self._waiting.remove(waiting)
            self._moves += 1

    def wake(self) -> None:
        """Something that calls may wait for has moved: each looks again."""
        self.wakes += 1
        for waiting in self._waiting:
            if not waiting.future.done():
                waiting.future.set_result(None)

    def stop(self) -> None:
        """The turn is over: who waits is told, and so is who comes later, out of a call that was under way outside."""
        self._is_stopped = True
        for waiting in self._waiting:
            if not waiting.future.done():
                waiting.future.set_exception(AttemptClosed())
                waiting.future.exception()  # a call that was given up is not a warning

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            self._look_again(self._moves, has_paused=False, is_busy=False)

    def _look_again(self, moves: int, has_paused: bool, is_busy: bool) -> None:
        """is_busy: the flow was, when it was looked at last, and is watched since."""
        if not is_busy:
            self._rest.watch()
        self._look(moves, HOPS, has_paused)

    def _look(self, moves: int, hops: int, has_paused: bool) -> None:
        loop = asyncio.get_running_loop()
        if hops and self._moves == moves:
            loop.call_soon(self._look, moves, hops - 1, has_paused, context=Context())
            return
        is_still, is_busy = self._moves == moves, not self._rest.is_over
        if not self._is_all_waiting():
            self._is_armed = False  # an open call will arm it again when it ends
        elif is_still and not is_busy and (has_paused or any(waiting.is_whole for waiting in self._waiting)):
            self._is_armed = False
            self._on_still(min((w.why for w in self._waiting), key=lambda why: URGENCY[why.waits_for]))
        else:
            pause = 0 if not is_still else STILL_SECONDS
            loop.call_later(pause, self._look_again, self._moves, is_still, is_busy, context=Context())

    def _is_all_waiting(self) -> bool:
        return bool(self._waiting) and len(self._waiting) == self.open
