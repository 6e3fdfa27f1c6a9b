"""Exits: code of the user's that asks for the end of the program (`sys.exit`), where other runs pay meanwhile.

Out of an asyncio task an exit ends the loop, and every payment that is under way in it is in doubt. So where Remit
calls a function of the user's, or makes a task of it, what exits is a failure like any other: a flow or a step failed,
an effect is in doubt. A KeyboardInterrupt in the main thread is something else: there it may be somebody's Ctrl-C,
whatever code that met, and it ends the program.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

EXITS = (SystemExit, KeyboardInterrupt)


def is_ctrl_c(exc: BaseException) -> bool:
    """Whether this may be what a signal raised, asked in the thread in which it was."""
    return isinstance(exc, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def failure_of(exc: BaseException) -> RuntimeError:
    """What an exit is instead. Raises it as it is where it may be a Ctrl-C."""
    if is_ctrl_c(exc):
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
