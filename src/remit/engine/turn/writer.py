"""The writer of one attempt: entries are sealed into the chain and made durable.

    ride         the entry waits for the next append, and nothing that depends on it can be durable before it
    append       everything that rides and this entry, under the attempt's epoch
    append_if    the same under conditions beside the lease; where one fails nothing is written and the attempt goes on

An entry's place is fixed when it is sealed, so a unit that loses its lease makes every later
one lose too. A unit with conditions may be refused and yet the chain goes on: while one is
under way nobody else seals, and its pen is believed only when it was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from remit.engine.process.hours import Hours
from remit.engine.process.lease import Lease
from remit.engine.process.salt import draw_salt
from remit.engine.turn.closing import until_done
from remit.errors import Moved
from remit.facts import kinds
from remit.facts.boundary import Boundary
from remit.facts.chain import Read
from remit.facts.entry import HEADER, Entry, Pen
from remit.facts.fact import Fact
from remit.facts.machine import BOUNDARY_KINDS, FINAL_KINDS, Status
from remit.store.marks import Fence, FreeKey, Mark, Unreserve
from remit.store.protocol import Store
from remit.store.units import Move, Unit

RUNNING = Move(Status.RUNNING)


class Draft(NamedTuple):
    """An entry that has no place in the chain yet. salt: of the value; drawn where it is None. fact: what body says."""

    kind: str
    body: bytes
    name: str | None
    value: bytes | None
    salt: bytes | None
    at: int
    fact: Fact | None = None


class Conditions(NamedTuple):
    """What must still be true, besides the lease, when a unit is written.

    until: microseconds UTC, until when what was judged holds; None for ever. Whoever begins something looks at it.
    """

    fence: Fence | None = None
    post_head: bytes | None = None
    marks: tuple[Mark, ...] = ()
    until: int | None = None


_NO_CONDITIONS = Conditions()

Seal = Callable[[Sequence[Draft], Conditions], Unit]

# What entries under conditions are of: a call that has nothing outside yet, which must not stand behind a race that its
# side has lost, or no replay would find it there; or the answer of the outside, which code that misfits leaves true.
Of = Literal["", "beginning", "answer"]


class JournalWriter:
    """Belongs to one event loop. boundary: is told what was written.

    given_back: of what runs share, where that is only pretended: the store does not know of it.
    """

    __slots__ = (
        "_all_written",
        "_clock",
        "_handed",
        "_lease",
        "_move",
        "_pen",
        "_riding",
        "_store",
        "_until_free",
        "alone",
        "boundary",
        "given_back",
        "has_written",
        "last_at",
        "rides",
    )

    def __init__(self, store: Store, clock: Hours, pen: Pen, lease: Lease, boundary: Boundary, last_at: int) -> None:
        self._store, self._clock, self._pen, self._lease, self.boundary = store, clock, pen, lease, boundary
        self._riding: list[Draft] = []
        self._move: Move | None = None  # of the first append
        self._handed = 0  # units without conditions that the store was given and has not written yet
        self._all_written: asyncio.Future[None] | None = None  # done when there are none, for whoever waits for that
        self.alone = False  # a unit with conditions is under way
        self._until_free: list[asyncio.Future[None]] = []  # of those who wait until it is over
        self.given_back: tuple[FreeKey | Unreserve, ...] = ()
        self.has_written = False
        self.rides = 0  # entries so far that the flow itself makes, beside the boundary: steps, draws, races
        self.last_at = last_at  # the latest time that an entry states, microseconds UTC

    @property
    def place(self) -> tuple[str, int]:
        """Hash and seq of the last entry."""
        return self._pen.head.hex(), self._pen.seq

    def now(self) -> int:
        """The latest of all clocks and entries, microseconds UTC: setting a clock back revives nothing."""
        return max(self._clock.latest(), self.last_at)

    def earliest(self) -> int:
        """A time that surely has come, microseconds UTC."""
        return self._clock.earliest()

    def between(self) -> tuple[int, int]:
        """The earliest time that it may be, and the latest, microseconds UTC."""
        earliest = self.earliest()
        return earliest, self.now()

    def begin(self, span: int) -> int:
        """Since when a span of time counts that begins now, microseconds UTC."""
        return self._clock.begin(span, self.last_at)

    def apart(self, until: int) -> str:
        """By which clocks what held until then is over, where another one says that it is not."""
        return self._clock.apart(until, self.last_at)

    def wall(self) -> int:
        """Wall time, microseconds UTC."""
        return self._clock.now()

    def draft(
        self, fact: Fact, *, name: str | None = None, value: bytes | None = None, salt: bytes | None = None
    ) -> Draft:
        """An entry of this time. Raises ClockJumped."""
        kind = type(fact).__name__
        return Draft(kind, kinds.write(fact), name, value, salt, self._date(kind), fact)

    def start(self, fact: kinds.AttemptStarted) -> int:
        """Begin the turn; its time. Nothing is written until there is something to write.

        One that tells of a death states the latest time, because what the dead one sent may land for a while from then.
        """
        draft = self.draft(fact)
        if fact.dead:
            draft = draft._replace(at=self.now())
        self._riding.append(draft)
        self._move = RUNNING
        return draft.at

    def ride(
        self,
        kind: str,
        body: bytes,
        *,
        name: str | None = None,
        value: bytes | None = None,
        salt: bytes | None = None,
    ) -> None:
        """Let an entry wait for the next append; of a kind that the boundary need not hear of. Raises ClockJumped."""
        self._riding.append(Draft(kind, body, name, value, salt, self._date(kind)))
        self.rides += 1

    def ride_draft(self, draft: Draft) -> None:
        """The same for one that was drafted."""
        self._riding.append(draft)

    def drop_riding(self) -> None:
        """Forget what rides, but for the beginning of a turn that has written nothing."""
        self._riding = [draft for draft in self._riding if draft.kind == "AttemptStarted"]

    async def until_free(self) -> None:
        """Wait for a unit with conditions that is under way: until it is over, nobody knows where the chain ends."""
        while self.alone:
            over = asyncio.get_running_loop().create_future()
            self._until_free.append(over)
            await over

    def _free(self) -> None:
        self.alone = False
        waiting, self._until_free = self._until_free, []
        for over in waiting:
            if not over.done():
                over.set_result(None)

    async def append(self) -> None:
        """Write all that rides. The caller saw to it that no unit with conditions is under way. Raises as the store.

        Whoever is cancelled meanwhile hears it when that is known, and where it was not written, that instead. What was
        written the boundary is not told of then: nothing that it must know may ride.
        """
        sealed, pen = self._riding, self._pen
        self._riding = []
        unit = self._unit(pen, sealed, self._move, _NO_CONDITIONS)
        self.has_written = True  # as far as anybody knows who stops waiting
        self._handed += 1
        try:
            await self._store.append(unit)
        finally:
            self._handed -= 1
            if not self._handed and self._all_written is not None:
                self._all_written.set_result(None)
                self._all_written = None
        self._written(sealed, unit.entries)  # where the store let a later unit ride on this one, its entries follow

    async def append_if(
        self, drafts: Sequence[Draft], conditions: Conditions, move: Move | None = None, *, is_stoppable: bool = True
    ) -> None:
        """Write all that rides and these, if the conditions hold. Raises Moved, and as the store does.

        The caller saw to it that no other unit with conditions is under way, as for `append`.
        is_stoppable: whether somebody may cancel the caller, who goes on after that; where not, it costs no task.
        """
        assert not self.alone, "the caller saw to it"
        self.alone = True
        riding, self._riding = self._riding, []
        pen, first_move, drafts = self._pen.copy(), self._move, [*riding, *drafts]
        try:
            unit = self._unit(pen, drafts, move or first_move, conditions)
            if is_stoppable:
                writing = asyncio.ensure_future(self._store.append(unit))
                try:
                    await asyncio.shield(writing)
                except asyncio.CancelledError:
                    # A unit that was handed over is written or not, whoever stopped waiting: the chain has to know.
                    await until_done(writing)
                    failed = writing.exception()
                    if failed is None:
                        self._pen = pen
                        self._written(drafts, unit.entries)
                        riding, first_move, drafts = [], None, []
                    elif not isinstance(failed, Moved):
                        raise failed from None
                    raise
            else:
                await self._store.append(unit)
            self._pen = pen
            self._written(drafts, unit.entries)
        except BaseException:
            self._move, self._riding = first_move, [*riding, *self._riding]
            raise
        finally:
            self._free()

    def pretend(self, drafts: Sequence[Draft], conditions: Conditions) -> None:
        """Let the boundary hear of entries as if they were written. Only where nothing is."""
        self.given_back += tuple([mark for mark in conditions.marks if isinstance(mark, FreeKey | Unreserve)])
        self._written(drafts, self._unit(self._pen.copy(), drafts, None, _NO_CONDITIONS).entries)

    async def append_within(self, build: Callable[[Any, Seal], Any], *, limit_ms: int) -> None:
        """Write all that rides, and what `build` drafts, in a transaction that the caller's own rows are part of.

        build: is given the connection and `seal`, and returns what `seal` gave for its drafts;
        awaited by a store whose connection is. Where anything fails nothing was written and the turn goes on.
        """
        assert not self.alone, "the caller saw to it"
        self.alone = True
        try:
            while self._handed:  # a transaction does not stand in line with units: it would come before them
                self._all_written = self._all_written or asyncio.get_running_loop().create_future()
                await asyncio.shield(self._all_written)
        except BaseException:
            self._free()
            raise
        riding, self._riding = self._riding, []
        pen, first_move = self._pen, self._move
        whole: list[Draft] = []
        entries: tuple[Entry, ...] = ()

        def seal(drafts: Sequence[Draft], conditions: Conditions) -> Unit:
            nonlocal pen, whole, entries
            pen, whole = self._pen.copy(), [*riding, *drafts]
            unit = self._unit(pen, whole, first_move, conditions)
            entries = tuple(unit.entries)
            return unit

        try:
            await self._store.transact(lambda connection: build(connection, seal), limit_ms=limit_ms)
            self._pen = pen
            self._written(whole, entries)
        except BaseException:
            self._move, self._riding = first_move, [*riding, *self._riding]
            raise
        finally:
            self._free()

    def _unit(self, pen: Pen, drafts: Sequence[Draft], move: Move | None, conditions: Conditions) -> Unit:
        before, self._move = pen.head, None
        entries = []
        for kind, body, name, value, salt, at, _ in drafts:
            salted = None if value is None else (salt or draw_salt(), value)
            entries.append(pen.seal(kind, body, at=at, name=name, value=salted))
        lease, c = self._lease, conditions
        unit = Unit(lease.run_key, "main", before, pen.head, pen.seq, entries, lease.epoch, move)
        if c is not _NO_CONDITIONS:
            unit.fence, unit.post_head, unit.marks = c.fence, c.post_head, c.marks
        return unit

    def _date(self, kind: str) -> int:
        """An intention states the latest time, because what it sent may land for a while from then on."""
        return self.now() if kind == "EffectIntended" else self._clock.date(is_final=kind in FINAL_KINDS)

    def _written(self, drafts: Sequence[Draft], entries: Sequence[Entry]) -> None:
        """entries: those of the drafts, and maybe more."""
        self.has_written = True
        for draft, entry in zip(drafts, entries, strict=False):
            if draft.at > self.last_at:
                self.last_at = draft.at
            if draft.fact is not None and draft.kind in BOUNDARY_KINDS:
                header = HEADER.read_own(entry.header)
                self.boundary.take(Read(header, draft.fact, entry))
        self._clock.note(self.last_at)
