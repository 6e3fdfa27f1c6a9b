"""Who works at a run, among real processes: one at a time, a living one undisturbed, a dead one replaced by one.

Each worker is a process of `tests.crash.owner`; bodies are counted in a file outside Remit. Where
a death is to be noticed at once, the lease is ten minutes long and the test has no such time.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

import remit
from remit.clock import monotonic_ms
from remit.engine.process.liveness import ProcessLock
from remit.errors import StoreUnavailable
from remit.facts.entry import HEADER, Header
from remit.store.protocol import LEASE_MS_MAX, LEASE_MS_MIN, Renewer, Store
from remit.store.rows import RunRow, Stored
from remit.store.units import Renewal
from remit.store.url import store_for
from tests.crash.owner import OPEN, RUN
from tests.support.journal import TENANT, read_stored, read_view

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60  # far below LONG_MS: what needs a lease to run out comes too late
SHORT_MS, LONG_MS = 1_000, 600_000
VALUE = [1, 2, 3]
LOST = {"append": "lease.lost", "renewed": [[], []], "released": False}


class Worker:
    """A process of `tests.crash.owner`, as its parent sees it."""

    def __init__(self, plan: dict[str, Any], complaints: Path) -> None:
        with complaints.open("ab") as err:
            command = [sys.executable, "-m", "tests.crash.owner", json.dumps(plan)]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=err, cwd=ROOT, bufsize=0)
        self.pid, self._complaints, self._read = self.process.pid, complaints, b""

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")

    def heard(self, *words: str) -> tuple[str, Any]:
        """Read on until it says one of these words: that word, and what it says with it."""
        while True:
            word, more = json.loads(self._line())
            if word in words:
                return word, more
            assert word not in ("raised", "ended"), f"{word} {more}, and not one of {words}"

    def until(self, word: str) -> Any:
        """What it says with this word."""
        return self.heard(word)[1]

    def value(self) -> Any:
        return self.until("ended")["value"]

    def until_stopped(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is None:
            assert time.monotonic() < deadline, "it did not stop"
            select.select([], [], [], 0.005)

    def kill(self) -> None:
        self.process.kill()
        assert self.process.wait(PATIENCE_S) == -signal.SIGKILL

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        while b"\n" not in self._read:
            left = max(0.0, deadline - time.monotonic())
            assert select.select([self.process.stdout], [], [], left)[0], "it says nothing"
            more = os.read(self.process.stdout.fileno(), 65_536)
            assert more, f"it ended: {self._complaints.read_text()}"
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line


@dataclass(frozen=True)
class Floor:
    """Where workers of one run work."""

    url: str
    bodies: Path
    hire: Callable[..., Worker]

    def start(self, **plan: Any) -> Worker:
        """A worker that opened the store and began."""
        worker = self.hire(**plan)
        worker.until("ready")
        worker.go()
        return worker

    def start_at_once(self, count: int, **plan: Any) -> list[Worker]:
        """Workers that all opened the store before any of them begins."""
        workers = [self.hire(**plan) for _ in range(count)]
        for worker in workers:
            worker.until("ready")
        for worker in workers:
            worker.go()
        return workers

    def executed(self) -> list[tuple[str, int]]:
        """Bodies in the order in which they began, with the process of each."""
        lines = self.bodies.read_text().splitlines()
        return [(line.split()[0], int(line.split()[1])) for line in lines]

    def times(self) -> dict[str, int]:
        return dict(Counter(name for name, _ in self.executed()))

    async def row(self) -> RunRow:
        store = store_for(self.url, clock=None)
        await store.open()
        row = await store.read_row(TENANT, RUN)
        await store.close()
        assert row is not None
        return row

    async def stored(self) -> Stored:
        """The run as it is stored; its journal verifies."""
        store = store_for(self.url, clock=None)
        await store.open()
        row = await store.read_row(TENANT, RUN)
        assert row is not None
        stored = await read_stored(store, row.run_key)
        await read_view(store, row.run_key)
        await store.close()
        return stored

    async def lock_of(self, worker: str | None) -> Path:
        store = store_for(self.url, clock=None)
        await store.open()
        known = await store.read_worker(worker or "")
        await store.close()
        assert known is not None
        return ProcessLock.own().path.with_name(f"{known.worker.rpartition('-')[0]}.lock")


def headers(stored: Stored) -> list[Header]:
    return [HEADER.read(entry.header) for entry in stored.main]


def attempts(stored: Stored) -> list[int]:
    """The epoch of each attempt that wrote something, once it is seen that none wrote after the next one's first."""
    epochs = [header.epoch for header in headers(stored)]
    assert epochs == sorted(epochs)
    assert stored.row.worker is None, "a lease is stuck"
    return [header.epoch for header in headers(stored) if header.kind == "AttemptStarted"]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    given: str = request.getfixturevalue("postgres_database")
    return given


@pytest.fixture
def floor(url: str, tmp_path: Path) -> Iterator[Floor]:
    hired: list[Worker] = []

    def hire(**plan: Any) -> Worker:
        plan = {"url": url, "bodies": str(tmp_path / "bodies"), **plan}
        hired.append(Worker(plan, tmp_path / f"complaints-{len(hired)}"))
        return hired[-1]

    yield Floor(url, tmp_path / "bodies", hire)
    for worker in hired:
        worker.process.kill()
        worker.process.communicate()


# -- a living worker ------------------------------------------------------------------------------------------------


async def test_a_worker_that_computes_for_three_leases_is_not_taken_over(floor):  # proves: OWN-1, OWN-2
    rival = floor.hire()
    rival.until("ready")
    busy = floor.start(lease_ms=SHORT_MS, busy_s=3 * SHORT_MS / 1_000)
    busy.until("begun")
    rival.go()
    rival.until("not mine")

    assert (busy.value(), rival.value()) == (VALUE, VALUE)
    assert floor.executed() == [("first", busy.pid), ("long", busy.pid), ("last", busy.pid)]
    assert attempts(await floor.stored()) == [1]


async def test_a_second_process_waits_for_the_first_and_runs_no_step(floor):  # proves: OWN-1, RUN-1
    first = floor.start(is_held=True)
    first.until("begun")
    second = floor.start()
    second.until("not mine")
    first.go()

    assert (first.value(), second.value()) == (VALUE, VALUE)
    assert {pid for _, pid in floor.executed()} == {first.pid}
    assert attempts(stored := await floor.stored()) == [1]
    assert stored.row.epoch == 1


async def test_who_will_not_wait_is_told_that_the_run_is_held(floor):  # proves: OWN-1
    first = floor.start(is_held=True)
    first.until("begun")
    before = await floor.stored()

    assert floor.start(is_waiting=False).until("raised") == {"code": "lease.held"}
    after = await floor.stored()
    assert replace(after.row, lease_until=0) == replace(before.row, lease_until=0)
    assert after.main == before.main
    first.go()
    assert first.value() == VALUE
    assert floor.times() == {"first": 1, "long": 1, "last": 1}


async def test_eight_processes_that_start_one_run_at_once_run_each_step_once(floor):  # proves: OWN-1, RUN-11
    workers = floor.start_at_once(8, is_held=True)
    owners = [worker for worker in workers if worker.heard("begun", "not mine")[0] == "begun"]
    assert len(owners) == 1
    owners[0].go()

    assert [worker.value() for worker in workers] == [VALUE] * 8
    assert floor.times() == {"first": 1, "long": 1, "last": 1}
    assert attempts(stored := await floor.stored()) == [1]
    assert [header.kind for header in headers(stored)].count("RunOpened") == 1


# -- a dead worker --------------------------------------------------------------------------------------------------


async def test_a_dead_worker_is_replaced_at_once_by_exactly_one_of_eight(floor):  # proves: OWN-2, FX-12, RUN-5
    dead = floor.start(is_held=True, lease_ms=LONG_MS)
    dead.until("begun")
    rivals = [floor.hire(is_held=True) for _ in range(8)]
    for rival in rivals:
        rival.until("ready")
    dead.kill()
    for rival in rivals:
        rival.go()
    heirs = [rival for rival in rivals if rival.heard("begun", "not mine")[0] == "begun"]
    assert len(heirs) == 1
    heirs[0].go()

    assert [rival.value() for rival in rivals] == [VALUE] * 8
    assert floor.executed() == [("first", dead.pid), ("long", dead.pid), ("long", heirs[0].pid), ("last", heirs[0].pid)]
    assert attempts(await floor.stored()) == [1, 2]


async def test_a_death_that_can_not_be_proven_is_waited_out_and_replaced_by_one(floor):  # proves: OWN-1, OWN-2
    dead = floor.start(is_held=True, lease_ms=SHORT_MS)
    dead.until("begun")
    rivals = [floor.hire() for _ in range(4)]
    for rival in rivals:
        rival.until("ready")
    dead.kill()
    row = await floor.row()
    (await floor.lock_of(row.worker)).unlink()  # as if it had died on another machine
    for rival in rivals:
        rival.go()

    assert [rival.value() for rival in rivals] == [VALUE] * 4
    assert floor.times() == {"first": 1, "long": 2, "last": 1}
    assert attempts(stored := await floor.stored()) == [1, 2]
    assert started(stored, epoch=2).at >= row.lease_until


async def test_who_waits_for_a_worker_that_dies_takes_over_at_once(floor):  # proves: OWN-2, FX-12
    dead = floor.start(is_held=True, lease_ms=LONG_MS)
    dead.until("begun")
    heir = floor.start()
    heir.until("not mine")
    dead.kill()

    assert heir.value() == VALUE
    assert floor.executed() == [("first", dead.pid), ("long", dead.pid), ("long", heir.pid), ("last", heir.pid)]
    assert attempts(await floor.stored()) == [1, 2]


# -- a worker that was stopped and wakes ----------------------------------------------------------------------------


async def test_a_stopped_worker_is_no_dead_one(floor):  # proves: OWN-1, OWN-2
    stopped = floor.start(is_held=True, lease_ms=LONG_MS)
    stopped.until("begun")
    stopped.process.send_signal(signal.SIGSTOP)
    stopped.until_stopped()

    assert floor.start(is_waiting=False).until("raised") == {"code": "lease.held"}
    stopped.go()
    stopped.process.send_signal(signal.SIGCONT)
    assert stopped.value() == VALUE
    assert floor.times() == {"first": 1, "long": 1, "last": 1}


async def test_a_worker_that_wakes_after_its_heir_ended_writes_nothing(floor):  # proves: OWN-1, OWN-2, OWN-3
    zombie, lease_until = await stopped_past_its_lease(floor)
    heir = floor.start()
    assert heir.value() == VALUE
    before = await floor.stored()
    assert started(before, epoch=2).at >= lease_until

    wake(zombie)
    assert zombie.until("raised") == {"code": "lease.lost"}
    assert zombie.until("tried") == LOST
    assert await floor.stored() == before
    assert attempts(before) == [1, 2]
    assert floor.executed() == [("first", zombie.pid), ("long", zombie.pid), ("long", heir.pid), ("last", heir.pid)]


async def test_a_worker_that_wakes_before_its_heir_wrote_writes_nothing(floor):  # proves: OWN-1, OWN-2, OWN-3
    """The journal stands where the zombie left it, so nothing but the epoch tells the two apart."""
    zombie, _ = await stopped_past_its_lease(floor)
    heir = floor.start(is_held=True)
    heir.until("begun")
    before = await floor.stored()
    assert (before.row.epoch, {header.epoch for header in headers(before)}) == (2, {0, 1})

    wake(zombie)
    assert zombie.until("raised") == {"code": "lease.lost"}
    assert zombie.until("tried") == LOST
    after = await floor.stored()
    assert replace(after.row, lease_until=0) == replace(before.row, lease_until=0)  # its heir renews
    assert after.main == before.main

    heir.go()
    assert heir.value() == VALUE
    assert attempts(await floor.stored()) == [1, 2]
    assert floor.executed() == [("first", zombie.pid), ("long", zombie.pid), ("long", heir.pid), ("last", heir.pid)]


async def stopped_past_its_lease(floor: Floor) -> tuple[Worker, int]:
    """A worker that was stopped in its long step, and when its lease ends: whoever begins now has to wait for that."""
    zombie = floor.start(is_held=True, is_stopped=True, lease_ms=SHORT_MS)
    zombie.until("begun")
    zombie.until_stopped()
    return zombie, (await floor.row()).lease_until


def wake(zombie: Worker) -> None:
    """It goes on, and its long step is over at once: the next thing it does is to write."""
    zombie.go()
    zombie.process.send_signal(signal.SIGCONT)


def started(stored: Stored, *, epoch: int) -> Header:
    (header,) = [header for header in headers(stored) if (header.kind, header.epoch) == ("AttemptStarted", epoch)]
    return header


# -- a worker whose renewals go wrong, and others in one process ------------------------------------------------------


class Unheard:
    """A store that refuses so many renewals; wrapped from outside.

    passed: set in the loop of the test by a renewal that comes when the lease that was granted is over.
    """

    def __init__(self, url: str, *, refusals: int) -> None:
        self.inner, self.refusals, self.refused = store_for(url, clock=None), refusals, 0
        self.loop, self.passed = asyncio.get_running_loop(), asyncio.Event()
        self.over_ms = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def renewer(self) -> Renewer:
        return _Refusing(await self.inner.renewer(), self)

    def begin(self) -> None:
        """A lease that was granted before this is over, unless it is renewed, when `passed` is set."""
        self.over_ms = monotonic_ms() + SHORT_MS


class _Refusing:
    def __init__(self, renewer: Renewer, store: Unheard) -> None:
        self.inner, self.store = renewer, store

    async def renew(self, worker: str, leases: Sequence[Renewal], *, lease_ms: int) -> dict[int, bytes]:
        store = self.store
        if monotonic_ms() >= store.over_ms:
            store.loop.call_soon_threadsafe(store.passed.set)
        if store.refused < store.refusals:
            store.refused += 1
            raise StoreUnavailable("The line is dead.")
        return await self.inner.renew(worker, leases, lease_ms=lease_ms)

    async def close(self) -> None:
        await self.inner.close()


def slow_flow(store: Unheard) -> tuple[Any, list[str]]:
    """A flow that lasts longer than its first lease, between two steps; and which of them ran."""
    ran: list[str] = []

    async def first() -> None:
        ran.append("first")

    async def second() -> None:
        ran.append("second")

    @remit.flow(contract=OPEN)
    async def slow(run: remit.Run) -> None:
        await run.step(first)
        store.begin()
        async with asyncio.timeout(PATIENCE_S):
            await store.passed.wait()
        await run.step(second)

    return slow, ran


async def test_an_attempt_that_can_not_renew_begins_nothing_after_its_lease(url: str):  # proves: OWN-1, OWN-3
    store = Unheard(url, refusals=1_000)
    slow, ran = slow_flow(store)

    async with remit.open(cast(Store, store), lease_ms=SHORT_MS) as rt:
        with pytest.raises(
            remit.LeaseLost, match=r"could not be renewed in time \(StoreUnavailable: The line is dead\."
        ):
            await rt.run(slow, id=RUN)
        assert ran == ["first"]
        assert await rt.verify(RUN) is None
        assert [header.name for header in headers(await rt.read(RUN)) if header.kind == "StepDone"] == ["first"]

        store.refusals = 0  # nobody took the run: the same worker goes on with it, under an epoch of its own
        assert (await rt.run(slow, id=RUN)).status == "completed"
        assert ran == ["first", "second"]
        assert attempts(await rt.read(RUN)) == [1, 2]


async def test_an_attempt_outlives_renewals_that_went_unanswered_for_a_while(url: str):  # proves: OWN-1
    store = Unheard(url, refusals=2)
    slow, ran = slow_flow(store)

    async with remit.open(cast(Store, store), lease_ms=SHORT_MS) as rt:
        assert (await rt.run(slow, id=RUN)).status == "completed"
        assert (store.refused, ran) == (2, ["first", "second"])
        assert attempts(await rt.read(RUN)) == [1]


async def test_a_second_call_in_one_process_waits_for_the_first(url: str):  # proves: OWN-1, RUN-1
    begun, go, ran = asyncio.Event(), asyncio.Event(), []

    async def hold() -> int:
        ran.append("hold")
        begun.set()
        await go.wait()
        return 1

    @remit.flow(contract=OPEN)
    async def held(run: remit.Run) -> Any:
        return await run.step(hold)

    async with remit.open(url) as rt, asyncio.timeout(PATIENCE_S):
        first = asyncio.create_task(rt.run(held, id=RUN))
        await begun.wait()
        with pytest.raises(remit.LeaseHeld):
            await rt.run(held, id=RUN, wait=False)
        second = asyncio.create_task(rt.run(held, id=RUN))
        go.set()
        assert [(await first).value, (await second).value, ran] == [1, 1, ["hold"]]
        assert attempts(await rt.read(RUN)) == [1]


@pytest.mark.parametrize("lease_ms", [LEASE_MS_MIN - 1, LEASE_MS_MAX + 1, 0, -1])
def test_a_lease_that_is_too_short_or_too_long_is_refused(lease_ms: int):  # proves: OWN-1
    with pytest.raises(remit.Refused) as refused:
        remit.open("memory:", lease_ms=lease_ms)
    assert refused.value.code == "lease.length"
