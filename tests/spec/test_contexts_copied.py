"""Workers that were first started inside a run: what held there is not so of what they do later."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import pkgutil
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import remit
import remit.engine
from remit import Contract, Rule
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")
HOUR = timedelta(hours=1)
BY_DIRECTOR = Contract(version="1", resume="anyone", effects={"pay": Rule(approval=remit.Approval({"director"}, HOUR))})


class Worker:
    """It works at what it is given, one after the other, in the asyncio task that it was first started in."""

    def __init__(self, rt: remit.Runtime, flow: remit.Flow[Any]) -> None:
        self.given: asyncio.Queue[tuple[str, asyncio.Future[Any]]] = asyncio.Queue()
        self._rt, self._flow = rt, flow
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._task or asyncio.create_task(self._work())

    async def _work(self) -> None:
        while True:
            run, told = await self.given.get()
            try:
                told.set_result(await self._rt.run(self._flow, id=run))
            except remit.RemitError as exc:
                told.set_exception(exc)

    async def work_at(self, run: str) -> Any:
        assert self._task is not None
        told = asyncio.get_running_loop().create_future()
        self.given.put_nowait((run, told))
        return await told


@pytest.fixture
def paid() -> list[str]:
    return []


def _paying(paid: list[str], contract: Contract = OPEN) -> remit.Flow[Any]:
    @remit.effect
    async def pay(invoice: str, *, key: str) -> str:
        paid.append(invoice)
        return "paid"

    @remit.flow(contract=contract)
    async def buy(run: remit.Run) -> str:
        return await run.effect(pay, run.id)

    return buy


async def _start_in_a_loser(rt: remit.Runtime, worker: Worker) -> None:
    """The race is over, and whoever was started for its loser goes on."""
    is_started = asyncio.Event()

    async def loses() -> None:
        worker.start()
        is_started.set()
        await asyncio.Event().wait()

    async def wins() -> None:
        await is_started.wait()

    @remit.flow(contract=OPEN)
    async def asks_two(run: remit.Run) -> None:
        await run.first(run.step(loses), run.step(wins))

    assert (await rt.run(asks_two, id="race")).status == "completed"


async def test_a_run_pays_for_a_worker_that_was_started_for_a_loser(storage: Storage, paid: list[str]):
    # proves: RUN-8
    async with storage.open() as rt:
        worker = Worker(rt, _paying(paid))
        await _start_in_a_loser(rt, worker)
        assert [(await worker.work_at(f"i-{n}")).value for n in (1, 2)] == ["paid", "paid"]
    assert paid == ["i-1", "i-2"]


async def test_a_yes_is_used_by_a_worker_that_was_started_for_a_loser(storage: Storage, paid: list[str]):
    # proves: APR-1
    buy = _paying(paid, BY_DIRECTOR)
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(buy, id="i-1")).waits_for == "approval"
        (ask,) = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        worker = Worker(rt, buy)
        await _start_in_a_loser(rt, worker)
        assert (await worker.work_at("i-1")).value == "paid"
    assert paid == ["i-1"]


async def test_a_run_is_gone_on_with_by_a_worker_that_was_started_in_it(storage: Storage):  # proves: RUN-1
    """It waits for itself only as long as the flow runs in which that began."""

    @remit.flow(contract=OPEN)
    async def asks(run: remit.Run) -> str:
        async def starts() -> None:
            worker.start()
            with pytest.raises(remit.CallRefused, match="waits for itself"):
                await worker.work_at("r")

        await run.step(starts)
        return (await run.approve("terms", 1, roles={"director"}, within=HOUR)).by

    async with storage.open() as rt:
        worker = Worker(rt, asks)
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(asks, id="r")).waits_for == "approval"
        (ask,) = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        assert (await worker.work_at("r")).value == "user:dana"


@remit.step
async def looks() -> str:
    return "seen"


async def test_a_step_is_called_past_every_run_once_its_flow_is_over():  # proves: RUN-2
    """A task that a step's body left behind calls it like any function, and not while the flow goes on."""
    told: list[str] = []
    is_over, asked = asyncio.Event(), asyncio.Event()

    async def look_twice() -> None:
        with pytest.raises(remit.CallRefused, match="directly inside a run"):
            await looks()
        asked.set()
        await is_over.wait()
        told.append(await looks())

    tasks: list[asyncio.Task[None]] = []

    async def starts() -> None:
        tasks.append(asyncio.create_task(look_twice()))

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.step(starts)
        await asked.wait()

    async with remit.open("memory:") as rt:
        await rt.run(flow, id="r")
        is_over.set()
        await tasks[0]
    assert told == ["seen"]


def _own_modules() -> Iterator[str]:
    for found in pkgutil.walk_packages(remit.engine.__path__, "remit.engine."):
        yield found.name


def test_a_flow_begins_with_nothing_of_the_context_that_called_it():  # proves: RUN-8
    """Whichever variable the engine has: what is set where the flow is called says nothing of this flow."""
    found: dict[str, contextvars.ContextVar[Any]] = {}
    for name in _own_modules():
        for each in vars(importlib.import_module(name)).values():
            if isinstance(each, contextvars.ContextVar):
                found[each.name] = each
    seen: list[dict[str, Any]] = []
    held: list[remit.Runtime] = []

    @remit.flow(contract=OPEN)
    async def looks_around(run: remit.Run) -> None:
        seen.append({name: variable.get() for name, variable in found.items()})

    @remit.flow(contract=OPEN)
    async def calls(run: remit.Run) -> None:
        async def asks() -> None:
            found["remit_is_aside"].set(True)  # as in another thread of a plain flow
            await held[-1].run(looks_around, id="inner")

        await run.first(run.step(asks))

    async def play(flow: remit.Flow[Any]) -> None:
        async with remit.open("memory:") as opened:
            held.append(opened)
            await opened.run(flow, id="r")

    for flow in (looks_around, calls):
        asyncio.run(play(flow))
    (alone, inside) = seen
    assert len(found) == 6
    for name, value in alone.items():
        if name == "remit_place":
            assert value.what == inside[name].what == "flow"
        elif name == "remit_strand":
            assert value.around is inside[name].around is None
        elif name == "remit_working_at":
            assert [work.run[-1] for work in inside[name]] == ["r", "inner"]
        else:
            assert inside[name] == value, name


@pytest.mark.parametrize("left_by", ["the flow", "a step"])
async def test_what_a_run_left_running_calls_no_effect_past_the_gate(left_by: str, storage: Storage):  # proves: GATE-1
    """It was begun inside of a run, and a run that is over asks the gate for nobody."""
    paid, left = list[str](), list[asyncio.Task[Any]]()
    is_over = asyncio.Event()

    @remit.effect
    async def pay(invoice: str, *, key: str) -> str:
        paid.append(invoice)
        return "paid"

    async def later() -> Any:
        await is_over.wait()
        return await pay("i-1", key="k")

    @remit.step
    async def leave() -> None:
        left.append(asyncio.create_task(later()))

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await (run.step(leave) if left_by == "a step" else leave.fn())

    async with storage.open() as rt:
        await rt.run(flow, id="r")
        is_over.set()
        with pytest.raises(remit.CallRefused) as refused:
            await left[0]
    assert (refused.value.code, paid) == ("call.direct", [])
