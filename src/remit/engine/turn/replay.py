"""Replay: recorded completions are delivered in the order in which they happened.

Only names decide. A call whose name the journal has gets what is recorded, in its turn.
A call that the journal does not have waits until every recorded one has been asked for:
it may then begin, because from there on nothing recorded can contradict it.

Code may have been reordered since. When the flow stands still although something
recorded is left, the oldest recorded call that was asked for is delivered out of turn;
when none was asked for, code and journal disagree, and the attempt is refused before
anything is run or written.

A race ends where it ended: not before the flow came to each question and each doubt that began before that. A loser
that was let go earlier would never come to them, and code that did not change would be refused.

An effect that was under way for a loser when its race ended is named by that end. The journal has what became of
it, and code that did not change may come to it or not, so nobody waits for it to be asked for. Every other one has
to be asked for: a flow that goes another way now, and pays there, would pay twice.

What the last recorded completion leads to has its turn before anything new begins: where
it wins a race that the crash left undecided, the losers are let go and not begun again.

A flow whose own task or thread waits in a call can't go on by itself, so a moment decides. While
only tasks and threads that it made wait, another one may be busy with something that is no call of
ours; they are given seconds before something is delivered out of turn for the first time, or refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

from remit.engine.turn.aside import is_aside
from remit.engine.turn.race import has_lost
from remit.engine.turn.rest import Rest
from remit.facts.kinds import RaceWon
from remit.facts.view import Recorded

STILL_SECONDS = 0.05  # a flow waits only for its calls, so a moment without a call is standing still
STILL_SECONDS_OF_TASKS = 5.0  # before a refusal, where only tasks that the flow made wait in calls
NO_NAMES: frozenset[str] = frozenset()  # a turn's sets are mostly empty, and one that is a value costs it nothing

T = TypeVar("T")

Mismatch = Callable[[tuple[str, ...], tuple[str, ...]], None]


class Replay:
    """The recorded calls that were not delivered yet, given in order of seq. Belongs to the attempt's event loop.

    unasked: calls that are not over, by the seq at which they began; each is taken out when the flow comes to it.
    on_mismatch: told the recorded names left over and the new names asked for; must then `stop` this replay.
    main: the task that runs the flow; None for a plain flow, which has a thread.
    """

    __slots__ = (
        "__weakref__",
        "_asked",
        "_at",
        "_blocked",
        "_given",
        "_held",
        "_is_armed",
        "_is_ending",
        "_left",
        "_main",
        "_moves",
        "_on_mismatch",
        "_optional",
        "_order",
        "_passed",
        "_rest",
        "_signal",
        "_still_from",
        "_unasked",
        "_waiting",
        "is_over",
        "out_of_turn",
        "unheard",
    )

    def __init__(
        self,
        recorded: Iterable[Recorded],
        unasked: dict[str, int],
        on_mismatch: Mismatch,
        rest: Rest,
        *,
        main: asyncio.Task[Any] | None = None,
    ) -> None:
        self._order, self._unasked = tuple(recorded), unasked
        self._left = {r.name: r for r in self._order}
        self._at = 0  # the oldest that was not delivered
        self._optional = NO_NAMES  # may be asked for, and need not be
        self._passed = NO_NAMES  # of these, whose turn is over: delivered as soon as they are asked for
        self._asked: dict[str, asyncio.Future[Recorded]] = {}
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._main = main
        self._blocked = 0  # calls that wait here and keep the whole flow waiting
        self._given = NO_NAMES  # handed out to calls that did not have their turn of the loop since
        self._held = 0  # by whom nothing new may begin yet
        self._moves = 0
        self._is_armed, self._still_from = False, 0.0
        self._is_ending = False
        self.out_of_turn = 0  # seq of the newest that was delivered before its turn; 0 where none was
        self._on_mismatch, self._rest = on_mismatch, rest
        self._signal: BaseException | None = None  # what every call that waits is told, once this was stopped
        self.is_over = not self._order
        self.unheard: tuple[str, ...] = ()  # recorded calls that were given up, and not for a race, before they heard

    @property
    def is_plain(self) -> bool:
        """Whether the flow has a thread, and no task."""
        return self._main is None

    @property
    def left(self) -> tuple[str, ...]:
        """Names of recorded calls that were not asked for and had to be, oldest first."""
        return tuple(name for name in self._left if name not in self._optional)

    @property
    def unasked(self) -> tuple[str, ...]:
        """Of these, names of those that no call of the flow waits for."""
        return tuple(name for name in self.left if name not in self._asked)

    @property
    def moving(self) -> int:
        """How much of what is recorded the flow may still be given, or is on its way with; 0 once that is over."""
        if self.is_over:
            return 0
        waiting = self._asked if self.unasked else self._left  # what is asked for by nobody holds up the new
        return len(waiting) + (not self._rest.is_over or not self.unasked)

    async def take(self, name: str) -> Recorded | None:
        """What is recorded for this call, in its turn; None, once it may begin, where nothing is."""
        self._moves += 1
        recorded = self._left.get(name)
        if recorded is None:
            if not self.is_over:
                await self._wait(self._waiting, name, is_whole=self.is_whole())
            return None
        if name in self._passed or self._is_free(recorded):
            self._deliver(recorded)
            return recorded
        if self._is_next(recorded):
            self._rest.watch()  # it is given once what the flow began before has come to its calls
        try:
            return await self._wait(self._asked, name, is_whole=self.is_whole())
        except asyncio.CancelledError:
            if not has_lost():
                self.unheard += (name,)  # also where it was handed out in this very moment
            raise
        finally:
            if name in self._left:
                self._deliver(recorded)  # it was cancelled while it waited, so the code did ask for it
            self._given -= {name}
            self._end_when_all_received()

    def add(self, recorded: Recorded) -> None:
        """It was recorded as this turn began, before its flow came to anything: behind all that was there."""
        self._order, self._left[recorded.name], self.is_over = (*self._order, recorded), recorded, False

    def come_to(self, name: str) -> None:
        """The flow came to this call, which is not over."""
        del self._unasked[name]
        if not self.is_over:
            self._moves += 1
            self.go_on()

    async def until_over(self, name: str) -> None:
        """Wait until everything recorded was delivered; `name` is a new call, beside which the flow's tasks go on."""
        if not self.is_over:
            self._moves += 1
            await self._wait(self._waiting, name, is_whole=False)

    def has(self, name: str) -> bool:
        """Whether a completion of this name is still to be delivered."""
        return name in self._left

    def left_before(self, seq: int) -> set[str]:
        """Names of recorded calls that are older than this and were not delivered yet."""
        names, at = set(), self._at
        while at < len(self._order) and (recorded := self._order[at]).seq < seq:
            if recorded.name in self._left and recorded.name not in self._optional:
                names.add(recorded.name)
            at += 1
        return names

    @contextmanager
    def held(self) -> Iterator[None]:
        """In here nothing new begins, although everything recorded may be delivered meanwhile."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._end_when_all_received()

    def stop(self, signal: BaseException) -> None:
        """Raise `signal` in every call that waits here, and in each that comes later: nobody would wake it."""
        self._signal = signal
        for futures in (self._asked, self._waiting):
            for future in futures.values():
                if not future.done():
                    future.set_exception(signal)
                    future.exception()  # a call that was given up is not a warning
            futures.clear()

    def is_whole(self) -> bool:
        """Whether the whole flow waits when the calling task does."""
        return not is_aside() if self._main is None else asyncio.current_task() is self._main

    async def _wait(self, futures: dict[str, asyncio.Future[T]], name: str, *, is_whole: bool) -> T:
        if self._signal is not None:
            raise self._signal
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        futures[name] = future
        self._blocked += is_whole
        self._arm(loop)
        try:
            return await future
        finally:
            self._blocked -= is_whole
            futures.pop(name, None)

    def _deliver(self, recorded: Recorded) -> None:
        """Count a completion as delivered, and hand out those that follow it and were asked for already."""
        self._moves += 1
        self._count(recorded)
        self._rest.begin()
        self.go_on()

    def go_on(self) -> None:
        """Hand out what is next and was asked for, one at a time where several calls stand beside each other."""
        left, order = self._left, self._order
        while self._at < len(order):
            following = order[self._at]
            if following.name in left:
                asked = self._asked.get(following.name)
                if asked is not None and not asked.done() and self._is_next(following):
                    if not self._rest.is_over:
                        return
                    self._give(asked, following)
                    self._count(following)
                    self._rest.begin()
                elif following.name in self._optional:
                    self._passed |= {following.name}
                else:
                    return
            self._at += 1
        if self._is_ending:
            self._end()
        else:
            self._end_when_all_received()

    def _is_next(self, recorded: Recorded) -> bool:
        """Whether it is the oldest that was not delivered; and no race that would end before what began before that."""
        is_early = recorded.kind == "RaceWon" and any(begun < recorded.seq for begun in self._unasked.values())
        return self._order[self._at] is recorded and not is_early

    def _is_free(self, recorded: Recorded) -> bool:
        """Whether it may be given at once: it is next, and the flow is at rest."""
        rest = self._rest
        return self._is_next(recorded) and rest.is_over and not rest.is_at_work(asyncio.get_running_loop())

    def _count(self, recorded: Recorded) -> None:
        del self._left[recorded.name]
        if isinstance(recorded.fact, RaceWon):
            for name in recorded.fact.beside:
                if name in self._left and self._left[name].seq > recorded.seq:
                    self._optional |= {name}

    def _give(self, asked: asyncio.Future[Recorded], recorded: Recorded) -> None:
        self._given |= {recorded.name}
        asked.set_result(recorded)

    def _is_asked(self) -> bool:
        """Whether nothing is left that was not asked for and had to be."""
        return all(name in self._optional for name in self._left)

    def _end_when_all_received(self) -> None:
        """New calls may begin once the last outcome is where it was asked for, and what it cancels is cancelled."""
        if self._is_asked() and not (self._given or self._held or self._is_ending):
            self._is_ending = True
            self._rest.watch()

    def _end(self) -> None:
        """All is received: the flow was at rest since."""
        if not self._rest.is_over:
            return
        self.is_over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_armed:
            self._is_armed, self._still_from = True, loop.time()
            loop.call_later(STILL_SECONDS, self._look, loop, self._moves, context=Context())

    def _look(self, loop: asyncio.AbstractEventLoop, moves: int) -> None:
        """Has the flow moved since?"""
        if self._is_asked():  # all is delivered; new calls are about to begin
            return
        still_seconds = loop.time() - self._still_from
        if self._moves != moves:
            self._still_from = loop.time()
        elif still_seconds >= STILL_SECONDS_OF_TASKS or not (self._rest.is_at_work(loop) or self._rest.threads):
            self._move_on(still_seconds)
        self._is_armed = bool(self._asked or self._waiting)
        if self._is_armed:
            loop.call_later(STILL_SECONDS, self._look, loop, self._moves, context=Context())

    def _move_on(self, still_seconds: float) -> None:
        """The flow stands still: deliver out of turn, or say that code and journal disagree."""
        is_blocked = self._blocked and not self._rest.is_several
        asked = [self._left[name] for name, future in self._asked.items() if not future.done()]
        if not asked:
            if self.left and self._waiting and (is_blocked or still_seconds >= STILL_SECONDS_OF_TASKS):
                self._on_mismatch(self.left, tuple(self._waiting))
            return
        if not (is_blocked or self.out_of_turn or still_seconds >= STILL_SECONDS_OF_TASKS):
            return
        oldest = min(asked, key=lambda r: r.seq)
        self.out_of_turn = max(self.out_of_turn, oldest.seq)
        self._give(self._asked[oldest.name], oldest)
        self._deliver(oldest)
