"""Cancelled calls: what loses a race, or is cancelled with its group, begins and records nothing from then on.

How many turns of the loop a cancellation needs to reach the innermost task is chance, so nothing
that the journal says may depend on it: unchanged code always goes on.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import remit
from remit import Contract, Step
from remit.store.memory import MemoryStore
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")


class Bodies:
    """Steps that note that they ran. `broken` fails until it is mended, `quick` and `stuck` do what they are called."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.is_broken = True

    async def quick(self) -> str:
        self.ran.append("quick")
        return "quick"

    async def stuck(self) -> str:
        self.ran.append("stuck")
        await asyncio.Event().wait()
        return "stuck"

    async def stubborn(self) -> str:
        self.ran.append("stubborn")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    async def untidy(self) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("and the cleaning up failed")

    async def broken(self) -> str:
        self.ran.append("broken")
        if self.is_broken:
            raise ValueError("not yet")
        return "mended"


async def _park_and_mend(rt: remit.Runtime, flow: remit.Flow[Any], bodies: Bodies) -> remit.Outcome:
    with pytest.raises(remit.StepError):
        await rt.run(flow, id="r")
    bodies.is_broken = False
    return await rt.run(flow, id="r")


async def test_a_loser_that_had_no_turn_yet_does_not_begin_on_replay(storage: Storage):  # proves: RUN-8, C6
    bodies = Bodies()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        won = await run.first(run.step(bodies.quick), run.step(bodies.quick), run.step(bodies.stuck))
        await run.step(bodies.broken)
        return str(won)

    async with storage.open() as rt:
        assert (await _park_and_mend(rt, flow, bodies)).value == "quick"

    assert bodies.ran.count("stuck") == 1
    assert bodies.ran.count("quick") == 2


@pytest.mark.parametrize("loser", ["stubborn", "untidy"])
async def test_a_loser_that_finishes_all_the_same_is_not_recorded(storage: Storage, loser: str):  # proves: RUN-8, C6
    bodies = Bodies()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        won = await run.first(run.step(bodies.quick), run.step(getattr(bodies, loser)))
        await run.step(bodies.broken)
        return str(won)

    async with storage.open() as rt:
        assert (await _park_and_mend(rt, flow, bodies)).value == "quick"
        assert loser not in (await rt.show("r")).view.calls


async def test_a_loser_that_swallows_its_cancellation_begins_no_other_step(storage: Storage):  # proves: RUN-8, C6
    bodies = Bodies()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        async def stubborn_branch(branch: remit.Run) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await branch.step(bodies.stubborn)

        won = await run.first(run.step(bodies.quick), stubborn_branch(run.branch("b")))
        await run.step(bodies.broken)
        return str(won)

    async with storage.open() as rt:
        assert (await _park_and_mend(rt, flow, bodies)).value == "quick"

    assert "stubborn" not in bodies.ran


async def test_a_step_cancelled_by_a_timeout_is_not_recorded_whatever_it_returns(storage: Storage):  # proves: RUN-8
    bodies = Bodies()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        try:
            async with asyncio.timeout(0.01):
                return str(await run.step(bodies.stubborn))
        except TimeoutError:
            return "timed out"

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == "timed out"
        assert "stubborn" not in (await rt.show("r")).view.calls


async def test_a_race_that_the_crash_left_undecided_waits_for_all_that_is_recorded():  # proves: RUN-8
    bodies, both, arrived = Bodies(), asyncio.Event(), asyncio.Event()

    async def winner() -> str:
        await asyncio.sleep(0.01)
        both.set()
        return "winner"

    async def beside() -> str:
        bodies.ran.append("beside")
        await both.wait()
        return "beside"

    async def after() -> str:
        if not arrived.is_set():
            arrived.set()
            await asyncio.Event().wait()
        return "after"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[str]:
        async def deep(branch: remit.Run) -> Any:
            return await branch.gather(branch.gather(branch.gather(branch.step(beside))))

        return [await run.first(run.step(winner), deep(run.branch("b"))), await run.step(after)]

    async with remit.open(MemoryStore()) as rt:
        first = asyncio.create_task(rt.run(flow, id="r"))
        await arrived.wait()
        first.cancel()  # the race's end rode on an entry that never came
        await asyncio.wait([first])
        assert list((await rt.show("r")).view.calls) == ["winner", "b/beside"]

        assert (await rt.run(flow, id="r")).value == ["winner", "after"]

    assert bodies.ran == ["beside"]


async def test_a_call_cancelled_with_its_group_may_give_up_its_recorded_outcome():  # proves: RUN-8, RUN-4
    bodies, failing = Bodies(), asyncio.Event()

    async def fails() -> None:
        await asyncio.sleep(0.01)
        failing.set()
        raise ValueError("the group is cancelled")

    async def other() -> str:
        bodies.ran.append("other")
        await failing.wait()
        return "other"

    async def sibling() -> str:
        bodies.ran.append("sibling")
        await failing.wait()
        return "sibling"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        async def group() -> None:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(run.step(sibling))
                    tasks.create_task(run.step(fails))
            except* remit.StepError:
                pass

        async def deep() -> Any:
            return await run.gather(run.gather(run.gather(run.gather(run.step(other)))))

        await run.gather(group(), deep())
        return str(await run.step(bodies.broken))

    async with remit.open(MemoryStore()) as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        assert set((await rt.show("r")).view.calls) == {"fails", "sibling", "other"}
        bodies.is_broken = False
        assert (await rt.run(flow, id="r")).value == "mended"

    assert sorted(bodies.ran) == ["broken", "broken", "other", "sibling"]


async def test_a_mismatch_inside_a_task_group_is_told_as_one(storage: Storage):  # proves: RUN-4, RUN-15
    bodies = Bodies()

    def flow_with(*steps: Step[..., Any]) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="grouped")
        async def grouped(run: remit.Run) -> None:
            async with asyncio.TaskGroup() as tasks:
                for step in steps:
                    tasks.create_task(run.step(step))
            await run.step(bodies.broken)

        return grouped

    a, b, c = (Step(name, bodies.quick) for name in "abc")
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow_with(a, b), id="r")
        found = await rt.check("r", flow_with(a, b, c))
        assert (found.fit, found.call) == ("compatible", "c")
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(flow_with(a), id="r")
        assert (await rt.show("r")).view.code == "definition_incompatible"
