"""Brought: what a function brings along to its call that was made where it is called.

A flow may make a function for each piece of its work, which closes over it. Such a function is known by its name, which
says what made it: the flow, or a function that is at work below the call. So is one that these hand on: to a step, to a
wrapper that names what it wraps (`functools.wraps`), to another function that they make.

What was there before the flow is part of the code: it may count, or keep what it fetched, from turn to turn. And what
functions write themselves, or branches share, says nothing of whose work it is.
"""

from __future__ import annotations

import asyncio
import dis
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from remit.engine.declared.flow import Step, has_values, is_bare

_MANY = 100  # functions that are looked at, of one call
_HANDS_ON = (Step, partial)
_FUNCTIONS = (FunctionType, Step)
_SHARED = (list, set, dict, deque)


def within_flow(fn: Callable[..., Any]) -> str:
    """How the names of functions begin that this flow makes."""
    return f"{getattr(fn, '__qualname__', '')}.<locals>."


def brought(fn: object, within: str) -> Iterator[Any]:
    """What this function brings along. within: how the names of those begin that its flow makes.

    Of a partial its arguments, of a method its object, of a function that the flow makes what it closes over or has as
    a default; of a step that the flow makes what its function brings.
    """
    while isinstance(fn, partial) or (isinstance(fn, Step) and fn.is_of_flow):
        if isinstance(fn, partial):
            yield from fn.args
            yield fn.keywords
            fn = fn.func
        else:
            fn = fn.fn
    if isinstance(fn, MethodType):
        yield fn.__self__
    elif not (fn.body.is_bare if isinstance(fn, Step) else is_bare(fn)):
        made = _Made(within)
        yield from _closed_over(_reached(fn, made), made)


class _Made:
    """Which functions were made by the flow, or by what is at work where the call is made."""

    def __init__(self, within: str) -> None:
        self._within = within
        self._at_work: list[tuple[str, str]] | None = None

    def __contains__(self, fn: FunctionType) -> bool:
        name = fn.__qualname__
        if name.startswith(self._within):
            return True
        if "<locals>" not in name:
            return False
        if self._at_work is None:
            self._at_work = _at_work()
        return any(fn.__module__ == module and name.startswith(begins) for module, begins in self._at_work)


def _at_work() -> list[tuple[str, str]]:
    """Of the functions of the flow that the call is made in, up to where its task or thread began: module, and how the
    names begin of those that it makes. None of them where it can't be told where that is."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and _is_remits(frame):
        frame = frame.f_back
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread
        task = None
    begin = getattr(task.get_coro(), "cr_frame", None) if task is not None else None
    found = []
    while frame is not None and not _is_remits(frame):
        found.append((frame.f_globals.get("__name__", ""), f"{frame.f_code.co_qualname}.<locals>."))
        if frame is begin:
            return found
        frame = frame.f_back
    return found if task is None or frame is not None else []


def _is_remits(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == "remit" or name.startswith("remit.")


def _reached(fn: object, made: _Made) -> dict[FunctionType, bool]:
    """Functions that were made there: this one, what it wraps, what these close over. Whether it is the work itself."""
    reached, seen = dict[FunctionType, bool](), set[int]()
    coming = deque([(fn, True)])
    while coming and len(seen) < _MANY:
        each, is_work = coming.popleft()
        while isinstance(each, _HANDS_ON):
            each = each.fn if isinstance(each, Step) else each.func
        wrapped = _wrapped(each)
        if (wrapped is None and not isinstance(each, FunctionType)) or id(each) in seen:
            continue
        seen.add(id(each))
        if wrapped is not None:
            coming.append((wrapped, is_work))
        if isinstance(each, FunctionType) and has_values(each) and each in made:
            reached[each] = is_work and wrapped is None
            coming.extend((value, False) for _, value in _values(each))
    return reached


def _wrapped(fn: object) -> object:
    """What a wrapper says that it wraps."""
    if isinstance(fn, FunctionType):
        return getattr(fn, "__wrapped__", None)
    try:
        return vars(fn).get("__wrapped__")
    except TypeError:  # has no attributes of its own
        return None


def _closed_over(functions: dict[FunctionType, bool], made: _Made) -> Iterator[Any]:
    """What says of which work they are. Of the work itself dicts too: what wraps it or is called may keep in one."""
    written = {id(cell) for fn in functions for cell in _written_by(fn)}
    for fn, is_work in functions.items():
        for cell, value in _values(fn):
            if isinstance(value, partial):
                called = _function_of(value)
                if isinstance(called, FunctionType) and called in made:
                    yield value.args
                    yield value.keywords
            elif isinstance(value, _FUNCTIONS) or (cell is not None and id(cell) in written):
                continue
            elif (type(value) is dict and is_work) or not isinstance(value, _SHARED):
                yield value


def _function_of(fn: Any) -> Any:
    while isinstance(fn, partial):
        fn = fn.func
    return fn


def _values(fn: FunctionType) -> Iterator[tuple[CellType | None, Any]]:
    """What it closes over, with its cell, and its defaults."""
    for cell in fn.__closure__ or ():
        try:
            yield cell, cell.cell_contents
        except ValueError:  # not set yet
            continue
    yield from ((None, value) for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()))


def _written_by(fn: FunctionType) -> Iterator[CellType]:
    """What it closes over and sets itself (`nonlocal`): a count, what it found last."""
    names = _sets(fn.__code__)
    return (cell for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True) if name in names)


def _sets(code: CodeType) -> frozenset[str]:
    if not code.co_freevars:
        return frozenset()
    known = _set_by.get(code)
    if known is None:
        inner = (each for each in code.co_consts if isinstance(each, CodeType))
        own = {found.argval for found in dis.get_instructions(code) if found.opname in ("STORE_DEREF", "DELETE_DEREF")}
        known = frozenset(code.co_freevars) & own.union(*map(_sets, inner))
        _set_by[code] = known
    return known


_set_by: WeakKeyDictionary[CodeType, frozenset[str]] = WeakKeyDictionary()
