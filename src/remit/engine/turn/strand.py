"""Strands: a flow's own task or thread, and those that it began. Which of them may know of a failure.

A failure is given to one strand. It comes out when that strand is over and somebody asked what came of it. From then
on whoever stands around it may know, and so may whatever they begin. A strand beside it that was there before is told
of nothing by that. Of a thread nobody knows when it is over, so from its failure on whoever stands around it may know.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Iterator
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary, ref

from remit.engine.turn.apart import calling_task
from remit.engine.turn.exits import begun


class Course:
    """What one flow called since something failed. calls: name and strand, in order. given: what `caught` keeps."""

    __slots__ = ("calls", "failures", "given", "inside", "seen")

    def __init__(self) -> None:
        self.calls: list[tuple[str, Strand]] = []
        self.given: dict[tuple[str, str], Any] = {}  # by run and call that failed
        self.failures = 0  # given so far
        self.inside: frozenset[Strand] = frozenset()  # that were given some, which did not come out yet
        self.seen: WeakKeyDictionary[asyncio.Task[Any], int] | None = None  # by how many were given before

    def began(self, task: asyncio.Task[Any] | None) -> int:
        """How many failures were given by when this was there for sure."""
        return self.failures if task is None or self.seen is None else self.seen.get(task, self.failures)

    def see(self) -> None:
        """Whoever is there now was there before the failure that is being given."""
        if self.seen is None:
            self.seen = WeakKeyDictionary()
        for task in _tasks():
            self.seen.setdefault(task, self.failures)


class Strand:
    """One task or thread. around: the one that it was begun by, as far as that is known. began: failures given before.

    is_branch: begun by the run's own `gather` or `first`, so that who stands around it is known for sure.
    """

    __slots__ = ("around", "began", "course", "failed_at", "is_branch", "out_from", "owner")

    def __init__(self, course: Course, around: Strand | None, began: int, *, is_branch: bool = False) -> None:
        self.course, self.around, self.began, self.is_branch = course, around, began, is_branch
        self.owner: ref[asyncio.Task[Any]] | int | None = None  # a task, or a thread by its number
        self.failed_at = 0  # the number of the failure that it was given last before one could come out of it
        self.out_from: int | None = None  # calls of the course by when a failure could come out of it; None: none could

    def call(self, name: str) -> None:
        """A call is made, or begins, on this strand; asked for once something failed in its course."""
        course = self.course
        with _one_at_a_time:
            out = frozenset(strand for strand in course.inside if strand._is_out())
            for strand in out:
                strand.out_from = len(course.calls)
            course.inside -= out
            course.calls.append((name, self))

    def fail(self) -> None:
        """A failure is given to it."""
        course = self.course
        with _one_at_a_time:
            if self.around is not None:
                course.see()
            course.failures += 1
            if self.out_from is None:
                self.failed_at = course.failures
                course.inside |= {self} if self.around is not None else frozenset()

    def may_follow(self, since: int, within: Strand | None) -> Iterator[str]:
        """Calls from that one on by whoever may know of what it was given then, and is no strand that it began.

        within: the one that was given it next, without whom nobody around that one knew. None: it was given to none.
        """
        around = set(takewhile(lambda each: each is not within, self._outwards())) - {self}
        if around and self.out_from is not None:
            for name, strand in self.course.calls[max(since, self.out_from) :]:
                if next(each for each in strand._outwards() if self._met(each)) in around:
                    yield name

    def beside_nobody(self, since: int) -> Iterator[str]:
        """Calls from that one on, but for those on other branches of a `gather` or `first` around it."""
        here = set(self._outwards())
        for name, strand in self.course.calls[since:]:
            way = [each for each in strand._outwards() if each not in here]
            if not (way and way[-1].is_branch and self._met(way[-1])):
                yield name

    def _met(self, other: Strand) -> bool:
        """Whether the other was there when it failed; the flow's own always was."""
        return other.around is None or other.began < self.failed_at

    def _outwards(self) -> Iterator[Strand]:
        strand: Strand | None = self
        while strand is not None:
            yield strand
            strand = strand.around

    def _is_mine(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether the calling code is on it. What a thread calls is made in the loop, by a task in its context."""
        if isinstance(self.owner, int):
            return task is not None or self.owner == threading.get_ident()
        return self.owner is None or (task is not None and self.owner() is task)

    def _is_out(self) -> bool:
        task = self.owner() if isinstance(self.owner, ref) else None
        # Of a task that failed, asyncio itself knows whether anybody asked: it complains of one that nobody did.
        return task is None or (task.done() and not getattr(task, "_log_traceback", False))


_strand: contextvars.ContextVar[Strand | None] = contextvars.ContextVar("remit_strand", default=None)
_one_at_a_time = threading.Lock()  # threads of a plain flow begin and fail side by side


def enter() -> contextvars.Token[Strand | None]:
    """A flow begins on the calling task or thread."""
    return _strand.set(_owned(Strand(Course(), None, 0), calling_task()))


def leave(token: contextvars.Token[Strand | None]) -> None:
    """That flow is over."""
    _strand.reset(token)


def here() -> Strand | None:
    """The strand that calls; one that was not met before is known from now on. None outside of any flow."""
    strand = _strand.get()
    if strand is None:
        return None
    task, owner = calling_task(), strand.owner
    if (isinstance(owner, ref) and owner() is task is not None) or strand._is_mine(task):
        return strand
    course = strand.course
    with _one_at_a_time:
        strand = _owned(Strand(course, strand, course.began(task)), task)
    _strand.set(strand)
    return strand


def branched(call: Awaitable[Any]) -> asyncio.Future[Any]:
    """As `exits.begun`, on a strand of its own that stands beside the others of its gather or race."""
    around = here()
    if around is None:
        return begun(call)
    strand = Strand(around.course, around, around.course.failures, is_branch=True)
    token = _strand.set(strand)
    try:
        task = begun(call)
    finally:
        _strand.reset(token)
    strand.owner = ref(task) if isinstance(task, asyncio.Task) else None
    return task


def _owned(strand: Strand, task: asyncio.Task[Any] | None) -> Strand:
    strand.owner = threading.get_ident() if task is None else ref(task)
    return strand


def _tasks() -> set[asyncio.Task[Any]]:
    """Those of the calling loop; none in a thread that has no loop."""
    try:
        return asyncio.all_tasks()
    except RuntimeError:
        return set()
