"""Failures that a flow was given, and what it went on to call.

A failure that leaves the flow runs again at the next turn. One behind which the flow called something
else was dealt with: it stays as it is recorded, or the journal would have what came after it under code
that comes another way, and pays once more. Who was given a failure is known by the context, as tasks inherit
it, and who may know of it by the strands: where it is not certain that nothing was called in its stead, it stays.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Collection, Iterator
from weakref import WeakKeyDictionary

from remit.engine.turn import strand
from remit.engine.turn.strand import Course, Strand, here
from remit.errors import StepError


class _Given:
    """A failure was given to the flow here. calls: made since then by whoever got it. after: what they got since.

    on: the strand that was given it. since: how many calls of its course had been made by then. inside: the same
    failure, as it was given to a strand of which it then became the outcome.
    """

    __slots__ = ("after", "calls", "inside", "on", "since")

    def __init__(self, on: Strand | None = None, inside: _Given | None = None) -> None:
        self.calls: list[str] = []
        self.after: list[_Given] = [] if inside is None else [inside]
        self.on, self.since, self.inside = on, 0 if on is None else len(on.course.calls), inside


_given: contextvars.ContextVar[_Given | None] = contextvars.ContextVar("remit_given", default=None)
_given_with: WeakKeyDictionary[StepError, _Given] = WeakKeyDictionary()

Entered = tuple[contextvars.Token[_Given | None], contextvars.Token[Strand | None]]


def enter() -> Entered:
    """A flow begins here, that was given nothing yet; what it is given says nothing of a flow around it."""
    return _given.set(None), strand.enter()


def leave(entered: Entered) -> None:
    """That flow is over."""
    given_before, strand_before = entered
    _given.reset(given_before)
    strand.leave(strand_before)


def give(error: BaseException | None) -> None:
    """Whoever waited for a call is given this failure now."""
    if isinstance(error, StepError):
        on, before = here(), _given.get()
        if on is not None:
            on.fail()
        given = _given_on(on, error)
        for beside in error.beside:
            if isinstance(beside, StepError):
                _given_on(on, beside).after.append(given)
        if before is not None:
            before.after.append(given)
        _given.set(given)


def _given_on(on: Strand | None, error: StepError) -> _Given:
    given = _given_with[error] = _Given(on, _given_with.get(error))
    if on is not None:
        on.course.given[error.run, error.name] = given
    return given


def raised_behind(exc: BaseException, handled: BaseException | None) -> None:
    """In a task or a thread of its own no exception knows what was being handled where it is waited for."""
    first, known = exc, set(map(id, _contexts(handled)))
    for first in _contexts(exc):
        if id(first) in known:
            return
    first.__context__ = handled


def come_behind() -> None:
    """What is called from here on, by this task or thread or by what it begins, comes behind what is handled here."""
    handled = sys.exception()
    if handled is None:
        return
    before = _given.get()
    behind = [given for error, _ in _behind(handled) if (given := _given_with.get(error)) is not None]
    if any(given is not before and before not in given.after for given in behind):
        both = _Given()
        for given in behind if before is None else (before, *behind):
            given.after.append(both)
        _given.set(both)


def call_made(name: str) -> None:
    """A call is made, or begins: one that was made early comes behind what was given before it was awaited."""
    if sys.exception() is not None:
        come_behind()
    given, on = _given.get(), here()
    if given is not None:
        given.calls.append(name)
    if on is not None and on.course.failures:
        on.call(name)


def to_run_again(exc: BaseException, run_id: str, failed: Collection[str], stays: Collection[str]) -> list[str]:
    """Names of the calls that run again, of those that failed: the ones behind `exc` that nothing else followed.

    stays: those that something followed in an earlier turn, and not in this one.
    """
    followers: dict[str, set[str]] = {}
    courses: set[Course] = set()
    for error, is_proven in _behind(exc):
        given = _given_with.get(error)
        calls = set() if given is None else _calls_since(given, is_proven=is_proven)
        for name in (error.name, *(beside.name for beside in error.beside if isinstance(beside, StepError))):
            if error.run == run_id and name in failed:
                followers.setdefault(name, set()).update(calls)
        if given is not None and given.on is not None:
            courses.add(given.on.course)
    others = {name: given for course in courses for (run, name), given in course.given.items() if run == run_id}
    names = set(followers).difference(stays)
    while True:
        staying = [given for name, given in others.items() if name in failed and name not in names]
        stay = {name for name in names if not names >= followers[name]}
        stay = stay or {name for name in names if _may_be_left_out(others.get(name), name, followers[name], staying)}
        if not stay:
            return sorted(names)
        names -= stay


def failed_behind(exc: BaseException, run_id: str) -> list[str]:
    """Names of this run's calls that failed, for good or not, and are behind `exc`."""
    return sorted({error.name for error, _ in _behind(exc) if error.run == run_id})


def _may_be_left_out(given: _Given | None, name: str, instead: set[str], staying: list[_Given]) -> bool:
    """Whether a failure that stays, on another strand, may lead to what came instead while this call is made anew."""
    if given is None or not instead:
        return False
    beside = [other for other in staying if other.on is not given.on]
    return any(
        name not in _calls_since(other, is_proven=True)
        and not instead.isdisjoint(_by_others(other, is_proven=False, is_late=True))
        for other in beside
    )


def _calls_since(given: _Given, *, is_proven: bool) -> set[str]:
    """What was called behind it; where nothing proves that it left the flow, whatever may have been."""
    calls = set(_by_others(given, is_proven=is_proven))
    seen: set[_Given] = set()
    queue = [given]
    while queue:
        given = queue.pop()
        if given not in seen:
            seen.add(given)
            calls.update(given.calls)
            queue += given.after
    return calls


def _by_others(given: _Given, *, is_proven: bool, is_late: bool = False) -> Iterator[str]:
    """What others called who may have known of it: whoever was given it, from the last one inwards, says who may.

    is_late: also what they called before it was given, which it would come before another time.
    """
    within: Strand | None = None
    while given.on is not None:
        if is_proven:
            yield from given.on.may_follow(given.since, within)
        elif given.inside is None:
            yield from given.on.beside_nobody(0 if is_late else given.since)
        if given.inside is None:
            return
        given, within = given.inside, given.on


def _contexts(exc: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        yield exc
        exc = exc.__context__


def _behind(exc: BaseException) -> Iterator[tuple[StepError, bool]]:
    """Step errors behind an exception, through causes, contexts, groups and gathers; and whether that proves anything.

    That one was being handled when another call failed does not prove that it left the flow.
    """
    seen: set[int] = set()
    proven: list[tuple[BaseException | None, bool]] = [(exc, False)]
    others: list[tuple[BaseException | None, bool]] = []
    while proven or others:
        is_proven = bool(proven)
        error, is_of_a_call = (proven or others).pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        further = proven if is_proven else others
        if isinstance(error, StepError):
            is_of_a_call = True
            further.extend((each, True) for each in error.beside)
            yield error, is_proven
        if isinstance(error, BaseExceptionGroup):
            further.extend((each, is_of_a_call) for each in error.exceptions)
        further.append((error.__cause__, is_of_a_call))
        if not error.__suppress_context__:
            (others if is_of_a_call else further).append((error.__context__, is_of_a_call))
