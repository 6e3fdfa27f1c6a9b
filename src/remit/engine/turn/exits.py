"""Exits: code of the user's that asks for the end of the program (`sys.exit`), where other runs pay meanwhile.

Out of an asyncio task an exit ends the loop, and every payment that is under way in it is in doubt. So where Remit
calls a function of the user's, or makes a task of it, what exits is a failure like any other: a flow or a step failed,
an effect is in doubt. What a signal raised is something else, whatever code that met, and ends the program: a
KeyboardInterrupt in the main thread, where it may be somebody's Ctrl-C, and an exit out of a handler of the program's
own, as for SIGTERM. What a library raises past `except Exception`, as one that panics, has no meaning here but that.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
import traceback
from collections.abc import Awaitable, Coroutine, Generator
from functools import partial
from importlib import import_module
from itertools import pairwise
from operator import is_not
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, TypeVar

from remit.engine.turn.closing import is_closing

T = TypeVar("T")

EXITS = (SystemExit, KeyboardInterrupt)


def is_failure(exc: BaseException) -> bool:
    """Whether the code that raised it failed, and nothing else: what ends a task, a turn or the program passes."""
    return isinstance(exc, Exception) or not (
        isinstance(exc, (GeneratorExit, asyncio.CancelledError, *EXITS)) or is_closing(exc)
    )


def is_of_a_signal(exc: BaseException) -> bool:
    """Whether this may be what a signal raised, asked in the thread in which it was."""
    if threading.current_thread() is not threading.main_thread():
        return False  # handlers run in the main one
    return isinstance(exc, KeyboardInterrupt) or (isinstance(exc, SystemExit) and _came_from_a_handler(exc))


def _came_from_a_handler(exc: BaseException) -> bool:
    """Whether a function that a signal called stands in its traceback.

    Not by what is set for the signals alone: many handlers set something else before they exit.
    """
    note_handlers()
    frames = [frame for frame, _ in traceback.walk_tb(exc.__traceback__)]
    return any(_is_handler(frame, before) for before, frame in pairwise(frames))


def _is_handler(frame: FrameType, before: FrameType) -> bool:
    """Whether it was given the number of a signal and the frame that it came between, or is one that let go of them.

    Nothing of the user's runs for that: what it was given is compared with nothing.
    """
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount]
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & inspect.CO_VARARGS else ""
    if not (names or rest):
        return False  # and what it has may be a mapping of the user's
    here = frame.f_locals
    several = here.get(rest)
    given = [*(here.get(name) for name in names), *(several if type(several) is tuple else ())]
    if any(came_between is before and _is_number(number) for number, came_between in pairwise(given)):
        return True
    # One that takes whatever it is given may be a decorator's, and stand around others too: what it has there says it.
    return type(several) is not tuple and any(code is known for known in _handlers)


def _is_number(given: object) -> bool:
    return (type(given) is int or type(given) is signal.Signals) and given in _NUMBERS


def note_handlers() -> None:
    """Know the functions that are set for signals now, whatever is set by the time that one of them exits."""
    global _noted
    handlers = tuple(map(_signal.getsignal, _NUMBERS))
    if not any(map(is_not, handlers, _noted)):  # each turn asks, and hardly any finds another
        return
    for handler in handlers:
        code = _code_of(handler)
        if code is not None and not any(code is known for known in _handlers):
            _handlers.append(code)
    _noted = handlers


def _code_of(handler: object) -> CodeType | None:
    """Of a function, a method, a partial of either, or an object that can be called; None for what is no Python."""
    if not callable(handler):
        return None
    while isinstance(handler, partial | MethodType):
        handler = handler.func if isinstance(handler, partial) else handler.__func__
    function = handler if isinstance(handler, FunctionType) else getattr(type(handler), "__call__", None)  # noqa: B004
    return function.__code__ if isinstance(function, FunctionType) else None


_signal: Any = import_module("_signal")  # `signal` makes names of what is set, and compares it for that
_NUMBERS = frozenset(map(int, signal.valid_signals()))
_noted: tuple[Any, ...] = (None,) * len(_NUMBERS)  # by number, as they were set when they were looked at last
_handlers: list[CodeType] = []  # each is there once, and stays


def failure_of(exc: BaseException) -> BaseException:
    """What failed: this, but for an exit. Raises as it is what may be a signal's, or is no failure otherwise."""
    if is_failure(exc):
        return exc
    if is_of_a_signal(exc) or not isinstance(exc, EXITS):
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
