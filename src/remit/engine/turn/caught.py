"""Failures that a flow was given, and what it went on to call.

A failure that leaves the flow runs again at the next turn. One behind which the flow called something
else was dealt with: it stays as it is recorded, or the journal would have what came after it under code
that comes another way. Who was given a failure is known by the context, as tasks inherit it.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Collection, Iterator
from weakref import WeakKeyDictionary

from remit.errors import StepError


class _Given:
    """A failure was given to the flow here. calls: made since then by whoever got it. after: what they got since."""

    __slots__ = ("after", "calls")

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.after: list[_Given] = []


_given: contextvars.ContextVar[_Given | None] = contextvars.ContextVar("remit_given", default=None)
_given_with: WeakKeyDictionary[StepError, _Given] = WeakKeyDictionary()


def enter() -> contextvars.Token[_Given | None]:
    """A flow begins, that was given nothing yet; what it is given says nothing of a flow around it."""
    return _given.set(None)


def leave(token: contextvars.Token[_Given | None]) -> None:
    """That flow is over."""
    _given.reset(token)


def give(error: BaseException | None) -> None:
    """Whoever waited for a call is given this failure now."""
    if isinstance(error, StepError):
        given, before, given_inside = _Given(), _given.get(), _given_with.get(error)
        if given_inside is not None:  # to a task whose outcome it then became
            given.after.append(given_inside)
        if before is not None:
            before.after.append(given)
        _given_with[error] = given
        _given.set(given)


def raised_behind(exc: BaseException, handled: BaseException | None) -> None:
    """In a task or a thread of its own no exception knows what was being handled where it is waited for."""
    first, known = exc, set(map(id, _contexts(handled)))
    for first in _contexts(exc):
        if id(first) in known:
            return
    first.__context__ = handled


def come_behind() -> None:
    """What is called from here on, by this task or thread or by what it begins, comes behind what is handled here."""
    handled = sys.exc_info()[1]
    if handled is None:
        return
    before = _given.get()
    behind = [given for error in _behind(handled) if (given := _given_with.get(error)) is not None]
    if any(given is not before and before not in given.after for given in behind):
        here = _Given()
        for given in behind if before is None else (before, *behind):
            given.after.append(here)
        _given.set(here)


def call_made(name: str) -> None:
    """A call is made, or begins: one that was made early comes behind what was given before it was awaited."""
    come_behind()
    given = _given.get()
    if given is not None:
        given.calls.append(name)


def to_run_again(exc: BaseException, run_id: str, failed: Collection[str]) -> list[str]:
    """Names of the calls that run again, of those that failed: the ones behind `exc` that nothing else followed."""
    followed = [
        (name, _calls_since(error))
        for error in _behind(exc)
        for name in (error.name, *(beside.name for beside in error.beside if isinstance(beside, StepError)))
        if error.run == run_id and name in failed
    ]
    names = {name for name, _ in followed}
    while True:
        stay = {name for name, calls in followed if name in names and not names.issuperset(calls)}
        if not stay:
            return sorted(names)
        names -= stay


def _calls_since(error: StepError) -> set[str]:
    calls: set[str] = set()
    seen: set[_Given] = set()
    queue = [_given_with[error]] if error in _given_with else []
    while queue:
        given = queue.pop()
        if given not in seen:
            seen.add(given)
            calls.update(given.calls)
            queue += given.after
    return calls


def _contexts(exc: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        yield exc
        exc = exc.__context__


def _behind(exc: BaseException) -> Iterator[StepError]:
    """Step errors behind an exception, through causes, contexts, groups and gathers."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [exc]
    while queue:
        error = queue.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        if isinstance(error, StepError):
            queue.extend(error.beside)
            yield error
        if isinstance(error, BaseExceptionGroup):
            queue.extend(error.exceptions)
        queue.append(error.__cause__)
        if not error.__suppress_context__:
            queue.append(error.__context__)
