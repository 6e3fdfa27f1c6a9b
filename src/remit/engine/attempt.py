"""An attempt: one worker's turn at a run, and the journal of that turn.

    look up    what the journal has for a call, in its turn
    append     seal entries and make them durable, under this attempt's epoch
    close      from here on every call raises, and nothing more is written

`AttemptStarted` rides on the first append, as recorded draws do, so a turn that writes
nothing leaves no trace. Place in the chain is fixed when an entry is sealed; a unit that
loses therefore closes its attempt, because everything sealed after it would lose as well.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Coroutine
from typing import Any

from remit.clock import Clock
from remit.engine.lease import Lease
from remit.engine.race import check_not_lost
from remit.engine.replay import Replay
from remit.engine.signals import AttemptClosed
from remit.errors import CallRefused, DefinitionIncompatible, LeaseLost
from remit.facts import kinds
from remit.facts.entry import SALT_BYTES, Entry, Pen
from remit.facts.kinds import AttemptStarted, RunEnded, RunParked
from remit.facts.machine import Status, move
from remit.facts.view import Recorded, RunView
from remit.store.protocol import Move, Store, Unit

RUNNING = Move(Status.RUNNING)


class Attempt:
    """Journal and replay of one turn. Belongs to one event loop."""

    __slots__ = (
        "_before",
        "_clock",
        "_first_move",
        "_pen",
        "_riding",
        "_store",
        "closed_by",
        "draws",
        "failed",
        "has_ended",
        "lease",
        "replay",
        "run_id",
        "unbegun",
    )

    def __init__(
        self, store: Store, clock: Clock, view: RunView, pen: Pen, lease: Lease, *, main: asyncio.Task[Any] | None
    ) -> None:
        self._store, self._clock, self._pen = store, clock, pen
        self.lease, self.run_id = lease, view.identity.run
        self.closed_by: BaseException | None = None
        self._riding: list[Entry] = []
        self._before = pen.head  # where the chain stood when the oldest riding entry was sealed
        self._first_move: Move | None = None
        calls = view.calls.values()
        self.unbegun: dict[str, Coroutine[Any, Any, Any]] = {}  # calls that were made and not awaited yet
        self.has_ended = False  # the lease was given back by this turn's last entry
        self.failed = {c.name for c in calls if c.kind == "StepFailed"}
        self.draws = {c.name: c for c in calls if c.kind == "ValueDrawn"}
        self.replay = Replay([c for c in calls if c.kind != "ValueDrawn"], self._refuse, main=main)

    def start(self, fact: AttemptStarted) -> None:
        """Begin the turn. Nothing is written until there is something to write."""
        self.ride("AttemptStarted", kinds.write(fact))
        self._first_move = RUNNING

    async def recall(self, name: str) -> Recorded | None:
        """What the journal has for this call; None once its body may begin. Raises AttemptClosed."""
        self.check_open()
        if not self.replay.has(name):
            check_not_lost()  # at once: a loser that waited here would hold up the race that waits for it
        if self.replay.is_over:
            return None
        recorded = await self.replay.take(name)
        if recorded is None:
            self.check_open()
            check_not_lost()
        return recorded

    def check_open(self) -> None:
        """Raises AttemptClosed where this turn is over, or its lease can't be relied on."""
        if self.closed_by is None and not self.lease.is_good:
            why = f" ({self.lease.trouble})" if self.lease.trouble else ""
            self.close(LeaseLost(f"Run {self.run_id!r} could not be renewed in time{why}; nothing more was written."))
        if self.closed_by is not None:
            raise AttemptClosed from self.closed_by

    def check_awaited(self) -> None:
        """Raises CallRefused where the flow returned and a call that it made was never awaited."""
        left = [name for name, call in self.unbegun.items() if inspect.getcoroutinestate(call) == inspect.CORO_CREATED]
        for name in left:
            self.unbegun[name].close()
        if left:
            raise CallRefused(
                f"{', '.join(left)} of run {self.run_id!r} was called and never awaited, so it never ran.",
                code="call.unawaited",
                hint="Await it, `await run.step(...)`, and call again with the same id.",
            )

    def ride(self, kind: str, body: bytes, *, name: str | None = None, value: bytes | None = None) -> None:
        """Seal an entry that becomes durable with the next append."""
        if not self._riding:
            self._before = self._pen.head
        self._riding.append(self._seal(kind, body, name, value))

    async def append(self, kind: str, body: bytes, *, name: str | None = None, value: bytes | None = None) -> None:
        """Seal an entry and make it durable, with all that rides. Raises AttemptClosed where it was not written."""
        if self.closed_by is not None:
            raise AttemptClosed from self.closed_by
        check_not_lost()
        self.ride(kind, body, name=name, value=value)
        try:
            await self._store.append(self._unit(None))
        except Exception as exc:
            self.close(exc)
            raise AttemptClosed from exc

    async def end(self, fact: RunEnded | RunParked, value: bytes | None) -> None:
        """Write the last entry of this turn and give the lease back in the same commit. Raises what stopped it."""
        if self.closed_by is not None:
            raise self.closed_by
        kind = type(fact).__name__
        self.ride(kind, kinds.write(fact), value=value)
        status = move(Status.RUNNING, kind, fact)
        assert status is not None, "a run that is worked at may end and park"
        unit = self._unit(Move(status, fact.code, release=True))
        # From here on nothing may be sealed: a call that the flow left behind would follow the last entry.
        self.close(CallRefused("The attempt had ended when this call came; nothing was written.", code="attempt.ended"))
        await self._store.append(unit)
        self.has_ended = True

    def close(self, why: BaseException) -> None:
        """End this turn: calls that wait raise, later ones too, and nothing more is written. The first reason stays."""
        if self.closed_by is None:
            self.closed_by = why
            self.replay.stop(AttemptClosed())

    def _unit(self, last: Move | None) -> Unit:
        """All that was sealed and not yet handed to the store."""
        entries, self._riding = self._riding, []
        change, self._first_move = last or self._first_move, None
        return Unit(
            self.lease.run_key, "main", self._before, self._pen.head, self._pen.seq, entries, self.lease.epoch, change
        )

    def _seal(self, kind: str, body: bytes, name: str | None, value: bytes | None) -> Entry:
        salted = None if value is None else (os.urandom(SALT_BYTES), value)
        return self._pen.seal(kind, body, at=self._clock.now(), name=name, value=salted)

    def _refuse(self, recorded: tuple[str, ...], asked: tuple[str, ...]) -> None:
        self.close(DefinitionIncompatible(recorded, asked))
