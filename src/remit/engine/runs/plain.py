"""What a plain synchronous flow is handed: the same run, whose calls wait for their outcome.

The flow has a thread of its own, and the calls are made in the loop, where alone entries are
sealed. Calls side by side are named first and handed to `gather` or `first` together.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from remit.engine.runs.run import Run, at_work, from_thread
from remit.engine.turn.aside import aside
from remit.engine.turn.caught import come_behind, give
from remit.engine.turn.closing import AttemptClosed
from remit.errors import CallRefused, StepError

P = ParamSpec("P")
T = TypeVar("T")


class Waits:
    """The calls for which a plain flow waits in its thread, so that they end where the flow is cancelled."""

    __slots__ = ("_at_work", "_is_over", "_own_thread", "_under_way")

    def __init__(self) -> None:
        self._under_way: set[Future[Any]] = set()
        self._is_over = False
        self._own_thread = 0
        self._at_work: set[int] = set()

    def begin(self, run: Run, loop: asyncio.AbstractEventLoop) -> SyncRun:
        """What the flow is handed, from its thread."""
        self._own_thread, self._at_work = threading.get_ident(), at_work(run)
        return SyncRun(run, loop, self)

    def made_here(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """This call, of the calling thread: the flow waits for it whole, or goes on beside it."""
        thread = threading.get_ident()
        self._at_work.discard(thread)
        made = self._of(thread, call)
        return made if thread == self._own_thread else aside(made)

    async def _of(self, thread: int, call: Coroutine[Any, Any, T]) -> T:
        try:
            return await call
        finally:
            self._at_work.add(thread)

    def for_(self, future: Future[T]) -> T:
        """Wait for a call, from the flow's thread. Raises AttemptClosed where nobody waits for the flow any more."""
        self._under_way.add(future)
        if self._is_over:  # the call was handed to the loop before it was noted here
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            if not self._is_over:
                raise
            raise AttemptClosed from None  # this CancelledError is an Exception, which a flow may take for news
        finally:
            self._under_way.discard(future)

    def cancel(self) -> None:
        """End them, and those that come; from the loop."""
        self._is_over = True
        for future in list(self._under_way):
            future.cancel()


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A call that has its name and was not begun, for `SyncRun.gather` and `SyncRun.first`."""

    made: Coroutine[Any, Any, T]


def _waited(method: Callable[Concatenate[Run, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[SyncRun, P], T]:
    """The same call, waited for in the flow's thread."""

    @functools.wraps(method)
    def call(self: SyncRun, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self._run, *args, **kwargs))

    call.__doc__ = f"As Run.{method.__name__}, and waits for the outcome. {method.__doc__}"
    call.__qualname__ = f"SyncRun.{method.__name__}"
    return call


def _named(method: Callable[Concatenate[Run, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[SyncRun, P], Call[T]]:
    """The same call, named and not begun."""

    @functools.wraps(method)
    def call(self: SyncRun, /, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        return Call(method(self._run, *args, **kwargs))

    call.__name__ = f"{method.__name__}_call"
    call.__qualname__ = f"SyncRun.{method.__name__}_call"
    call.__doc__ = f"Name a call of `{method.__name__}` without beginning it, for `gather` and `first`."
    return call


def _same(method: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[SyncRun, P], T]:
    """The same, of which nothing is waited for but the loop."""

    @functools.wraps(method)
    def call(self: SyncRun, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._run, *args, **kwargs)

    call.__qualname__ = f"SyncRun.{method.__name__}"
    return call


class SyncRun:
    """A run, as its plain synchronous flow sees it. The flow has a thread of its own; a call waits for its outcome."""

    __slots__ = ("_loop", "_run", "_waits")

    def __init__(self, run: Run, loop: asyncio.AbstractEventLoop, waits: Waits) -> None:
        self._run, self._loop, self._waits = from_thread(run, self._at_once), loop, waits

    @property
    def id(self) -> str:
        """The run id."""
        return self._run.id

    @property
    def full_name(self) -> tuple[str, str, str]:
        """Ledger, tenant and run id. As Run.full_name."""
        return self._run.full_name

    step, step_call = _waited(Run.step), _named(Run.step)
    effect, effect_call = _waited(Run.effect), _named(Run.effect)
    transact, transact_call = _waited(Run.transact), _named(Run.transact)
    approve, approve_call = _waited(Run.approve), _named(Run.approve)
    evidence, now, random, uuid = _same(Run.evidence), _same(Run.now), _same(Run.random), _same(Run.uuid)

    def branch(self, name: str) -> SyncRun:
        """The same run under a path of its own."""
        return SyncRun(self._run.branch(name), self._loop, self._waits)

    def gather(self, *calls: Call[Any]) -> list[Any]:
        """Make all calls side by side; their outcomes in order: `run.gather(run.step_call(fetch, a), ...)`."""
        return self._wait(self._run.gather(*_made(calls)))

    def first(self, *calls: Call[Any]) -> Any:
        """Make all calls side by side; the outcome of the one that finishes first, which is recorded."""
        return self._wait(self._run.first(*_made(calls)))

    def _at_once(self, make: Callable[[], T], /) -> T:
        """A plain flow may have other threads that make calls, and entries are sealed in the loop alone."""

        async def made() -> T:
            return make()

        return self._wait(made())

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        come_behind()
        try:
            return self._waits.for_(asyncio.run_coroutine_threadsafe(self._waits.made_here(call), self._loop))
        except StepError as exc:
            give(exc)
            raise


def _made(calls: tuple[object, ...]) -> list[Coroutine[Any, Any, Any]]:
    named = [call.made for call in calls if isinstance(call, Call)]
    for call in calls:
        if not isinstance(call, Call):
            for made in named:
                made.close()
            raise CallRefused(
                f"{type(call).__name__} is no call; no call of this gather or race began.",
                code="call.not_awaitable",
                hint="In a plain flow name the calls first: `run.gather(run.step_call(a), run.step_call(b))`.",
            )
    return named
