"""Writes that nobody waits for any more: what was handed to the store is written or not, and the turn knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import remit
from remit.engine.turn.closing import AttemptClosed
from remit.errors import CommitUnknown, StoreUnavailable
from remit.store.batch import Answers
from remit.store.memory import MemoryStore
from remit.store.units import Opening, Unit
from tests.support.till import OPEN

HOUR = timedelta(hours=1)


class Slow(MemoryStore):
    """What it wrote is told when it is let go. `holds`: which units; `fails`: what they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held, self.let_go = asyncio.Event(), asyncio.Event()
        self.holds = b""
        self.fails: BaseException | None = None

    async def append(self, unit: Unit) -> None:
        await super().append(unit)
        if self.holds and any(self.holds in entry.header for entry in unit.entries):
            self.holds = b""
            self.is_held.set()
            await self.let_go.wait()
            if self.fails is not None:
                raise self.fails


async def _give_up(store: Slow, call: Coroutine[Any, Any, Any], times: int) -> bool:
    """Cancel a call while what it writes is under way, as often as that; whether it was given up and not ended."""
    waiting = asyncio.create_task(call)
    await store.is_held.wait()
    for _ in range(times):
        waiting.cancel()
        await asyncio.sleep(0)
    store.let_go.set()
    await asyncio.wait([waiting])
    return waiting.cancelled()


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_question_that_is_given_up_more_than_once_while_it_is_written_is_asked(
    times: int,
):  # proves: APR-6, LOG-2
    store = Slow()

    async def look() -> int:
        return 1

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> int:
        question = run.approve("ok", {}, roles={"director"}, within=HOUR)
        if store.holds:
            assert await _give_up(store, question, times)
        else:
            await question
        return int(await run.step(look))

    async with remit.open(store) as rt, asyncio.timeout(30):
        store.holds = b"ApprovalAsked"
        assert (await rt.run(impatient, id="r")).value == 1
        assert await rt.verify("r") is None


async def test_what_nobody_waits_for_and_may_or_may_not_be_written_ends_the_turn():  # proves: OWN-3
    store, went_on = Slow(), list[str]()
    store.fails = CommitUnknown("the line was cut")

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> None:
        assert not await _give_up(store, run.approve("ok", {}, roles={"director"}, within=HOUR), 1)
        await run.step(went_on.append, "on")

    async with remit.open(store) as rt, asyncio.timeout(30):
        store.holds = b"ApprovalAsked"
        with pytest.raises(CommitUnknown):
            await rt.run(impatient, id="r")
        assert len(await rt.inbox()) == 1
    assert went_on == []


async def test_a_turn_that_gave_up_a_step_while_it_was_written_says_that_the_run_waits():  # proves: RUN-14, APR-8
    store = Slow()

    async def look() -> int:
        return 1

    @remit.flow(contract=OPEN)
    async def asking(run: remit.Run) -> None:
        async def aside() -> None:
            if store.holds:
                assert await _give_up(store, run.branch("aside").step(look), 1)

        await run.gather(aside(), run.approve("ok", {}, roles={"director"}, within=HOUR))

    async with remit.open(store) as rt, asyncio.timeout(30):
        assert (await rt.run(asking, id="r")).waits_for == "approval"
        store.holds = b"StepDone"
        assert (await rt.run(asking, id="r")).waits_for == "approval"
        assert (await rt.wait("r")).waits_for == "approval"
        assert (await rt.show("r")).row.status == "waiting"


class Busy(MemoryStore):
    """A memory store whose file another process holds: `begun` when it writes StepDone, refused once `let_go` is."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.let_go, self.is_busy = asyncio.Event(), asyncio.Event(), True

    async def open(self) -> None:
        await super().open()
        self._group._committer = _BusyCommitter(self, self._group._committer)


class _BusyCommitter:
    inline_max = 0

    def __init__(self, store: Busy, inner: Any) -> None:
        self._store, self._inner = store, inner

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        store = self._store
        if store.is_busy and any(b"StepDone" in entry.header for unit in units for entry in unit.entries):
            store.begun.set()
            await store.let_go.wait()
            store.is_busy = False
            raise StoreUnavailable("Nothing was written: the file is busy.", code="store.busy")
        answers: Answers = self._inner.commit_now(units, openings)
        return answers

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        raise AssertionError("inline_max is 0")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_step_that_is_given_up_while_its_commit_fails_ends_the_turn_with_what_failed(
    when: str,
):  # proves: OWN-3, RUN-4
    store, ran = Busy(), list[str]()

    async def look(name: str) -> None:
        ran.append(name)

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> None:
        if store.is_busy:
            waiting = asyncio.create_task(run.step(look, "first"))
            await store.begun.wait()
            if when == "after":
                store.let_go.set()
            waiting.cancel()
            store.let_go.set()
            await asyncio.wait([waiting])
            assert isinstance(waiting.exception(), AttemptClosed), "what was not written is no answer to go on by"
        await run.step(look, "second")

    async with remit.open(store) as rt, asyncio.timeout(30):
        with pytest.raises(StoreUnavailable, match="the file is busy"):
            await rt.run(impatient, id="r")
        assert (await rt.show("r")).row.worker is None, "it was given back"
        assert ran == ["first"]
        assert (await rt.run(impatient, id="r")).status == "completed"
        assert await rt.verify("r") is None


async def test_a_step_that_is_given_up_while_the_loop_ends_does_not_keep_it():  # proves: OWN-3
    store = Busy()

    async def look() -> None:
        return

    @remit.flow(contract=OPEN)
    async def patient(run: remit.Run) -> None:
        await run.step(look)

    async def work() -> None:
        rt = remit.open(store)
        await rt.open()
        working = asyncio.create_task(rt.run(patient, id="r"))
        await store.begun.wait()
        assert not working.done()

    def ends() -> None:
        asyncio.run(work())

    await asyncio.wait_for(asyncio.to_thread(ends), 30)


async def test_a_transaction_behind_a_step_that_two_time_outs_gave_up_is_written_after_it(
    tmp_path: Path,
):  # proves: FX-6, OWN-3
    """The step's outcome stands in line behind another run's, on a disk that is busy."""
    path, go, rows = tmp_path / "app.db", asyncio.Event(), list[int]()

    @remit.step
    async def quick() -> int:
        return 1

    @remit.transaction
    def book(connection: apsw.Connection, number: int) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS booked (number INTEGER)")
        connection.execute("INSERT INTO booked VALUES (?)", (number,))

    @remit.flow(contract=OPEN)
    async def other(run: remit.Run) -> None:
        await run.step(quick)
        await go.wait()
        await run.step(quick)

    @remit.flow(contract=OPEN)
    async def settle(run: remit.Run) -> None:
        await run.transact(book, 1)
        busy.execute("BEGIN IMMEDIATE")
        asyncio.get_running_loop().call_later(0.3, busy.execute, "ROLLBACK")
        go.set()
        await asyncio.sleep(0.05)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1), asyncio.timeout(0.05):
                await run.step(quick)
        await run.transact(book, 2)

    async with remit.open(f"sqlite:///{path}") as rt, asyncio.timeout(30):
        busy = apsw.Connection(str(path))
        beside = asyncio.create_task(rt.run(other, id="other"))
        await asyncio.sleep(0.05)
        assert (await rt.run(settle, id="r")).status == "completed"
        await beside
        rows += [number for (number,) in busy.execute("SELECT number FROM booked")]
        busy.close()
        assert await rt.verify("r") is None
    assert rows == [1, 2]
