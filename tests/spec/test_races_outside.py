"""Races whose loser had an effect under way: its outcome is in the journal, and unchanged code goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

import remit
from remit import Contract
from remit.engine.turn import race
from remit.store.memory import MemoryStore
from remit.store.units import Unit
from tests.spec.conftest import Storage


class Desk:
    """An effect that is held until somebody lets it go, and one that is quick."""

    def __init__(self, trouble: Callable[[], BaseException | None] = lambda: None) -> None:
        self.paid: list[int] = []
        self.begun, self.go = asyncio.Event(), asyncio.Event()

        @remit.effect
        async def pay(request: int, *, key: str) -> str:
            self.begun.set()
            await self.go.wait()
            if (exc := trouble()) is not None:
                raise exc
            self.paid.append(request)
            return "paid"

        self.pay = pay

    def let_go(self) -> None:
        """When the race is over."""
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, self.go.set)


def flow_of(body: Callable[..., Any]) -> remit.Flow[Any]:
    return remit.flow(contract=Contract(version="1", resume="anyone"), name="flow")(body)


@pytest.mark.parametrize("loses", ["paid", "did not happen"])
async def test_a_winner_that_failed_runs_again_beside_what_the_loser_did(loses: str, storage: Storage):
    # proves: RUN-6, RUN-8
    desk = Desk(lambda: remit.DidNotHappen("no line") if loses != "paid" else None)
    works: list[bool] = []

    @remit.step
    async def quote() -> int:
        await desk.begun.wait()
        desk.let_go()
        if not works:
            raise ConnectionError("the quote server is down")
        return 1

    async def body(run: remit.Run) -> int:
        won: int = await run.first(run.branch("l").step(quote), run.branch("m").effect(desk.pay, 2))
        return won

    flow = flow_of(body)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        works.append(True)
        assert (await rt.run(flow, id="r")).value == 1
        assert desk.paid == ([2] if loses == "paid" else [])
        assert await rt.verify("r") is None


@pytest.mark.parametrize("inner", ["first", "gather"])
async def test_a_loser_that_came_to_its_effect_by_calls_of_its_own(inner: str, storage: Storage):  # proves: RUN-8
    desk = Desk()

    @remit.step
    async def quick() -> int:
        return 1

    @remit.step
    async def later() -> int:
        await desk.begun.wait()
        desk.let_go()
        return 2

    async def left(run: remit.Run) -> str:
        calls = run.branch("x").step(quick), run.branch("y").step(quick)
        await (run.first(*calls) if inner == "first" else run.gather(*calls))
        return await run.effect(desk.pay, 3)

    async def body(run: remit.Run) -> tuple[int, str]:
        won: int = await run.first(left(run.branch("l")), run.branch("m").step(later))
        yes = await run.approve("go", {"won": won}, roles={"director"}, within=timedelta(hours=1))
        return won, yes.by

    flow = flow_of(body)
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:ops")
        assert (await rt.run(flow, id="r")).code == "approval_needed"
        assert desk.paid == [3]
        [ask] = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        assert (await rt.run(flow, id="r")).value == (2, "user:dana")
        assert desk.paid == [3]


async def test_one_beside_the_race_is_given_what_became_of_it(storage: Storage):  # proves: RUN-8, FX-2
    """It was under way as the race ended, and is no loser's: the flow comes to it, and it is not done again."""
    desk, fails = Desk(), [True]

    @remit.step
    async def quick() -> int:
        await desk.begun.wait()
        desk.let_go()
        return 1

    @remit.step
    async def slow() -> int:
        await asyncio.Event().wait()
        return 2

    @remit.step
    async def after() -> None:
        if fails.pop():
            raise ConnectionError

    async def body(run: remit.Run) -> tuple[int, str]:
        beside = asyncio.ensure_future(run.branch("beside").effect(desk.pay, 4))
        won: int = await run.first(run.branch("l").step(quick), run.branch("m").step(slow))
        paid = await beside
        await run.step(after)
        return won, paid

    flow = flow_of(body)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        fails.append(False)
        assert (await rt.run(flow, id="r")).value == (1, "paid")
        assert desk.paid == [4]


class Timed(MemoryStore):
    """An intention is written while the race ends, and what won was written just before."""

    def __init__(self) -> None:
        super().__init__()
        self.has_won, self.intends, self.is_decided = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def append(self, unit: Unit) -> None:
        kinds = [msgspec.json.decode(entry.header)["kind"] for entry in unit.entries]
        await super().append(unit)
        if "EffectIntended" in kinds and not self.intends.is_set():
            self.intends.set()
            await self.is_decided.wait()
        if "StepDone" in kinds and not self.has_won.is_set():
            self.has_won.set()
            await self.intends.wait()
            for _ in range(30):  # the other side comes to the gate, where one at a time is judged
                await asyncio.sleep(0)


@pytest.mark.parametrize("asks", ["a question", "an effect that needs a yes"])
async def test_nobody_is_asked_for_a_side_that_has_lost_its_race(
    asks: str, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-4, RUN-8
    """It was next to be judged when the race ended. Behind that end no replay would come to its question."""
    desk, store, fails = Desk(), Timed(), [True]
    desk.go.set()
    decide = race.decide

    def decided(*given: Any) -> None:
        store.is_decided.set()
        decide(*given)

    monkeypatch.setattr(race, "decide", decided)

    @remit.effect
    async def send(request: int, *, key: str) -> str:
        raise AssertionError("nobody said yes")

    @remit.step
    async def quick() -> int:
        return 1

    @remit.step
    async def after() -> None:
        if fails.pop():
            raise ConnectionError

    async def paying(run: remit.Run) -> str:
        await store.has_won.wait()
        return await run.effect(desk.pay, 5)

    async def asking(run: remit.Run, depth: int = 20) -> Any:
        if depth:  # it takes a cancellation some turns of the loop to come down there
            async with asyncio.TaskGroup() as group:
                group.create_task(asking(run, depth - 1))
            return
        await store.intends.wait()
        if asks == "a question":
            await run.approve("go", 1, roles={"director"}, within=timedelta(hours=1))
        else:
            await run.effect(send, 1)

    approval = remit.Approval({"director"}, timedelta(hours=1))
    rules = {"send": remit.Rule(approval=approval), "pay": remit.Rule()}

    @remit.flow(contract=Contract(version="1", resume="anyone", effects=rules))
    async def flow(run: remit.Run) -> int:
        sides = paying(run.branch("l")), run.branch("m").step(quick), asking(run.branch("n"))
        won: int = await run.first(*sides)
        await run.step(after)
        return won

    async with remit.open(store) as rt, asyncio.timeout(30):
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        assert await rt.inbox() == []
        fails.append(False)
        assert (await rt.run(flow, id="r")).value == 1
        assert desk.paid == [5]
