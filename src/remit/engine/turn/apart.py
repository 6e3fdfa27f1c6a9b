"""Apart: code in an asyncio task of its own, to be awaited. Whoever awaits it cancels it when cancelled.

A task group or a time-out in the user's code cancels the task that it runs in, and may leave that counted.
So a cancellation that is counted outside of it is one of the call, whatever the code did. What exits fails.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Coroutine, Set
from concurrent.futures import thread as pool
from typing import Any, TypeVar

from remit.engine.turn.exits import EXITS, begun, failure_of

T = TypeVar("T")

_IDLE = pool._worker.__code__  # in which a thread of a pool waits for work
_WAITS = threading.Condition.wait.__code__  # in which one waits for another: a result, an event, a queue


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """What it returns. Raises what it raises."""
    return await begun(work)


def through(work: Coroutine[Any, Any, T]) -> T:
    """What it returns, for code that awaits nothing: nobody can cancel it, and what it sets in its context stays there.

    Raises what it raises.
    """
    try:
        contextvars.copy_context().run(work.send, None)
    except StopIteration as done:
        returned: T = done.value
        return returned
    except EXITS as exc:
        raise failure_of(exc) from exc
    work.close()
    raise RuntimeError("code that awaits nothing waited")


def times_cancelled() -> int:
    """How often somebody cancelled this very task and it did not end yet; what runs apart from it is not counted."""
    return cancellations_of(calling_task())


def cancellations_of(task: asyncio.Task[Any] | None) -> int:
    """The same of that one; 0 for a thread of its own, which nobody cancels."""
    return 0 if task is None else task.cancelling()


def busy(threads: Set[int], *, is_waiting_busy: bool = False) -> set[int]:
    """Of threads, by identity, those that live and do not wait in a pool for work. Each may leave them meanwhile.

    is_waiting_busy: whether one that waits for another thread counts: it may have been woken this very moment.
    """
    frames, idle = sys._current_frames(), (_IDLE,) if is_waiting_busy else (_IDLE, _WAITS)
    return {thread for thread in tuple(threads) if thread in frames and frames[thread].f_code not in idle}


def calling_task() -> asyncio.Task[Any] | None:
    """The asyncio task that calls. None in a thread of its own, and where a loop that stopped cancels what it left."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
