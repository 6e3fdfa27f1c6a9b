"""Exits: code of the user's that asks for the end of the program (`sys.exit`), where other runs pay meanwhile.

Out of an asyncio task an exit ends the loop, and every payment that is under way in it is in doubt. So where Remit
calls a function of the user's, or makes a task of it, what exits is a failure like any other: a flow or a step failed,
an effect is in doubt. What a signal raised is something else, whatever code that met, and ends the program: a
KeyboardInterrupt in the main thread, where it may be somebody's Ctrl-C, and an exit out of a handler of the program's
own, as for SIGTERM.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import traceback
from collections.abc import Awaitable, Coroutine, Generator
from itertools import pairwise
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

EXITS = (SystemExit, KeyboardInterrupt)


def is_of_a_signal(exc: BaseException) -> bool:
    """Whether this may be what a signal raised, asked in the thread in which it was."""
    if threading.current_thread() is not threading.main_thread():
        return False  # handlers run in the main one
    return isinstance(exc, KeyboardInterrupt) or (isinstance(exc, SystemExit) and _came_from_a_handler(exc))


def _came_from_a_handler(exc: BaseException) -> bool:
    """Whether a handler of a signal stands in its traceback: a function that was given the frame that called it.

    Not by what is set for the signals: many handlers set something else before they exit.
    """
    frames = [frame for frame, _ in traceback.walk_tb(exc.__traceback__)]
    return any(_is_given(frame, before) for before, frame in pairwise(frames))


def _is_given(frame: FrameType, before: FrameType) -> bool:
    given = frame.f_locals.values()
    return any(value is before or (isinstance(value, tuple) and before in value) for value in given)


def failure_of(exc: BaseException) -> RuntimeError:
    """What an exit is instead. Raises it as it is where it may be a signal's."""
    if is_of_a_signal(exc):
        raise exc
    code = f" {exc.code}" if isinstance(exc, SystemExit) else ""
    return RuntimeError(f"it raised {type(exc).__name__}{code}, which ends no program here")


def begun(work: Awaitable[T]) -> asyncio.Future[T]:
    """A task of its own for it, out of which no exit comes; what has one already stays as it is."""
    return asyncio.ensure_future(_Kept(work) if inspect.iscoroutine(work) else work)


class _Kept(Coroutine[Any, Any, T]):
    """The same coroutine. One around it would leave it never awaited, where its task is cancelled before it begins."""

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def send(self, value: Any) -> Any:
        try:
            return self._work.send(value)
        except EXITS as exc:
            raise failure_of(exc) from exc

    def throw(self, *raised: Any) -> Any:
        try:
            return self._work.throw(*raised)
        except EXITS as exc:
            raise failure_of(exc) from exc

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()
