"""Apart: code in an asyncio task of its own, to be awaited. Whoever awaits it cancels it when cancelled.

A task group or a time-out in the user's code cancels the task that it runs in, and may leave that counted.
So a cancellation that is counted outside of it is one of the call, whatever the code did. What exits would
end the loop from a task, in which other runs go on: it is carried out, and raised where it is awaited.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Left:
    """What exits."""

    why: SystemExit | KeyboardInterrupt


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """What it returns. Raises what it raises."""
    try:
        return handed_on(await asyncio.ensure_future(carried(work)))
    finally:
        if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()  # it was cancelled before its first turn, and nobody forgot to await it


def through(work: Coroutine[Any, Any, T]) -> T:
    """What it returns, for code that awaits nothing: nobody can cancel it, and what it sets in its context stays there.

    Raises what it raises.
    """
    try:
        contextvars.copy_context().run(work.send, None)
    except StopIteration as done:
        returned: T = done.value
        return returned
    work.close()
    raise RuntimeError("code that awaits nothing waited")


async def carried(work: Coroutine[Any, Any, T]) -> T | Left:
    """For a task: what it returns, or what exits."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as exc:
        return Left(exc)


def handed_on(said: T | Left) -> T:
    """For whoever waits for that task."""
    if isinstance(said, Left):
        raise said.why
    return said


def times_cancelled() -> int:
    """How often somebody cancelled this very task and it did not end yet; what runs apart from it is not counted.

    0 in a thread of its own, which nobody cancels.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()
