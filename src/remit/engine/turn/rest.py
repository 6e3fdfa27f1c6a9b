"""Rest: whether a flow did all that it does with what it was given last.

An outcome goes through as many of the flow's tasks as wait in one another before the flow comes to its next calls, and
each takes turns of the loop. So outcomes are given one at a time, the next when nothing of the flow is ready to run any
more: then it hears of them in one order, however deep it waits, in the turn that wrote them and in each later one.

A flow of which one call is open at a time has nothing to be told out of order, and pays nothing for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Literal
from weakref import WeakKeyDictionary, ref

from remit.engine.declared.place import flow_of
from remit.engine.turn.apart import busy, calling_task
from remit.engine.turn.aside import is_aside

BUSY_SECONDS = 1.0  # a flow that turns in the loop for longer polls; a thread that came to no call waits otherwise
WAKING_SECONDS = 0.02  # in which a thread that waits for another one may be on its way
GIVING_UP_SECONDS = 5.0  # for which a body that was cancelled may clean up
_LOOKS_BLIND = 64  # where a loop does not show what is ready in it
_LOOKS_BUSY = 256  # turns of the loop that it has in that second: others may hold the loop meanwhile
_POLL_SECONDS = 0.001

Ready = frozenset[object]  # turns whose flows have something ready to run in the loop
Seen = Literal["at work", "elsewhere", "at rest"]
Waiting = tuple[asyncio.Task[Any], int] | None  # for a call: the task, and how often it was cancelled by then


class Rest:
    """Belongs to the attempt's event loop. `is_over` between two outcomes; `is_several` from when calls stand beside.

    of: the attempt, as the flow's place knows it.
    calls: that the flow waits for, by name; None for one that stands alone, or is waited for in no task.
    threads: of a plain flow, those that were given something and came to no call since. then: called at rest.
    on_thread: called when a call of another thread than a plain flow's own is made; may raise AttemptClosed.
    """

    __slots__ = (
        "_looks",
        "_of",
        "_since",
        "_waiting",
        "calls",
        "is_over",
        "is_several",
        "on_thread",
        "then",
        "threads",
    )

    def __init__(self, of: object) -> None:
        self._of = ref(of)
        self.then: tuple[Callable[[], None], ...] = ()
        self._looks, self._since = 0, 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self.is_over, self.is_several = True, False
        self.calls: dict[str, Waiting] = {}
        self.threads: set[int] = set()
        self.on_thread: Callable[[], None] | None = None

    def stand_beside(self) -> Waiting:
        """Another call of the flow may be open while the one is that this task waits for. The flow is at work here."""
        self.is_several = True
        if self.on_thread is not None and is_aside():
            self.on_thread()
        self.watch()
        task = calling_task()
        return None if task is None else (task, task.cancelling())

    def begin(self) -> None:
        """The flow was given something."""
        if self.is_several:
            self.watch()

    def watch(self) -> None:
        """It is at work, until it is seen that it is not."""
        if self.is_over:
            loop = asyncio.get_running_loop()
            self.is_over, self._looks, self._since = False, 0, loop.time()
            _watches.setdefault(loop, _Watch()).add(self)

    async def until_over(self) -> None:
        """Wait until what moves in the flow has come to its end: an outcome on its way up, a cancellation down."""
        self.watch()
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def is_at_work(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether something of the flow is ready to run in the loop, or a call of its own is being given up."""
        ready = _ready(loop)
        if ready is None:
            return not self.is_over and self._looks < _LOOKS_BLIND
        return self._has(ready) or self._is_giving_up()

    def see(self, ready: Ready | None, now: float) -> Seen:
        """Look at it, in a turn of the loop. ready: None where the loop does not show it."""
        self._looks += 1
        seconds = now - self._since
        if ready is None:
            is_at_work = self._looks < _LOOKS_BLIND
        else:
            is_at_work = self._has(ready) and (seconds < BUSY_SECONDS or self._looks < _LOOKS_BUSY)
        if is_at_work:
            return "at work"
        if self._is_giving_up() and seconds < GIVING_UP_SECONDS:
            return "elsewhere"
        if self.threads and seconds < BUSY_SECONDS:
            self.threads &= busy(self.threads, is_waiting_busy=seconds < WAKING_SECONDS)
            return "elsewhere" if self.threads else "at rest"
        return "at rest"

    def end(self) -> None:
        """It is at rest: whoever waits for that goes on."""
        self.is_over = True
        self.threads.clear()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        for go_on in self.then:
            go_on()

    def _has(self, ready: Ready) -> bool:
        of = self._of()  # gone with its turn; what is of no flow is ready as None
        return of is not None and of in ready

    def _is_giving_up(self) -> bool:
        """Whether a cancellation came to a call that did not raise it yet: the body that it waits for has to end."""
        return any(call is not None and call[0].cancelling() > call[1] for call in self.calls.values())


class _Watch:
    """Of one loop: looks at all flows that may be at work, once in each of its turns."""

    __slots__ = ("_due", "_rests")

    def __init__(self) -> None:
        self._rests: list[Rest] = []
        self._due: asyncio.Handle | None = None

    def add(self, rest: Rest) -> None:
        self._rests.append(rest)
        self._look_again(is_soon=True)

    def _look_again(self, *, is_soon: bool) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(self._due, asyncio.TimerHandle):
            self._due.cancel()
        elif self._due is not None:
            return
        if is_soon:
            self._due = loop.call_soon(self._look, loop, context=Context())
        else:
            self._due = loop.call_later(_POLL_SECONDS, self._look, loop, context=Context())

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = None
        ready, now = _ready(loop), loop.time()
        seen = [(rest, rest.see(ready, now)) for rest in self._rests]
        self._rests = [rest for rest, what in seen if what != "at rest"]
        if self._rests:
            self._look_again(is_soon=any(what == "at work" for _, what in seen))
        for rest, what in seen:
            if what == "at rest":
                rest.end()


def _ready(loop: asyncio.AbstractEventLoop) -> Ready | None:
    """Which flows have something ready to run in the loop; None where nobody can say."""
    ready = getattr(loop, "_ready", None)
    if ready is None:
        return None
    while True:
        try:
            handles = tuple(ready)
            break
        except RuntimeError:  # a collection of garbage in it made something ready
            continue
    return frozenset(flow_of(getattr(handle, "_context", None)) for handle in handles if not handle.cancelled())


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()
