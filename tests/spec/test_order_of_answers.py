"""Order of answers: what a person said is given to a flow in its place among the outcomes beside it, in each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.office import DORA, answer, staffed
from tests.support.till import OPEN

MANY = 24
DEPTH = 12  # tasks within tasks: the turns of the loop that an outcome takes on its way up


async def deep(call: Awaitable[int], depth: int = DEPTH) -> int:
    return await (asyncio.create_task(deep(call, depth - 1)) if depth else call)


@pytest.mark.parametrize("said", ["approve", "deny"])
async def test_an_answer_overtakes_no_outcome_that_is_on_its_way_up(said: str, storage: Storage):
    # proves: RUN-8, APR-6
    """It is taken up while many steps end, each heard deep in the flow, and itself is waited for at the top."""
    turns: list[list[str]] = []
    is_down, amid = [True], asyncio.Event()

    @remit.step
    async def fetch(number: int) -> int:
        for _ in range(number):
            await asyncio.sleep(0)
        if number == MANY // 3:
            amid.set()
        return number

    @remit.step
    async def book() -> None:
        if is_down:
            raise OSError("the books are busy")

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        heard: list[str] = []
        turns.append(heard)

        async def asking() -> None:
            if len(turns) > 1:
                await amid.wait()
            try:
                await run.approve("terms", 1, roles={"director"}, within=timedelta(hours=1))
            except remit.Denied:
                heard.append("no")
            heard.append("answered")

        async def fetching(number: int) -> None:
            if len(turns) > 1:  # the first turn only asks
                heard.append(str(await deep(run.branch(str(number)).step(fetch, number))))

        await asyncio.gather(asking(), *[fetching(number) for number in range(MANY)])
        await run.step(book)

    async with storage.open() as rt, asyncio.timeout(60):
        await staffed(rt)
        assert (await rt.run(flow, id="r")).waits_for == "approval"
        await answer(rt, "approve" if said == "approve" else "deny", by=DORA)
        with pytest.raises(remit.StepError, match="busy"):
            await rt.run(flow, id="r")
        is_down.clear()
        await rt.run(flow, id="r")
    print(turns)
    assert turns[-1] == turns[-2] and len(turns[-1]) == MANY + (1 if said == "approve" else 2)
