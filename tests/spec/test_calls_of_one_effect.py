"""Inside one attempt an effect is called again only where it is known not to have happened, and not for ever."""

from __future__ import annotations

import asyncio

import remit
from remit import Contract
from tests.spec.conftest import Storage


async def test_a_probe_that_finds_nothing_lets_the_call_go_on_under_its_key_and_not_without_end(
    storage: Storage,
):  # proves: FX-2, FX-11
    calls: list[str] = []
    works_from = [99]

    async def found(request: int, *, key: str) -> remit.NotLanded:
        return remit.NotLanded()

    @remit.effect(doubt="probe", probe=found, sink="dedupes")
    async def pay(request: int, *, key: str) -> str:
        calls.append(key)
        if len(calls) < works_from[0]:
            raise ConnectionError("the line dropped")
        return "paid"

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> str:
        return await run.effect(pay, 1)

    async with storage.open() as rt:
        parked = await rt.run(flow, id="r")
        assert (parked.status, parked.code, len(calls)) == ("in_doubt", "effect.in_doubt", 2)
        works_from[0] = 4
        assert (await rt.resume("r", flow)).code == "effect.in_doubt" and len(calls) == 3  # once in each turn
        assert (await rt.resume("r", flow)).value == "paid"
        assert len(calls) == 4 and len(set(calls)) == 1  # one key, whichever attempt calls
        assert await rt.verify("r") is None


async def test_effects_side_by_side_are_under_way_together_and_not_in_doubt_of_each_other(
    storage: Storage,
):  # proves: GATE-2
    begun: list[int] = []
    both = asyncio.Event()

    @remit.effect
    async def pay(request: int, *, key: str) -> int:
        begun.append(request)
        if len(begun) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 10)
        return request

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> list[int]:
        paid: list[int] = await run.gather(run.branch("a").effect(pay, 1), run.branch("b").effect(pay, 2))
        return paid

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == [1, 2]
        kinds = [line.kind for line in (await rt.explain("r")).timeline.lines]
        assert kinds.count("GateJudged") == 2
        assert await rt.verify("r") is None


async def test_while_an_effect_is_in_doubt_no_other_one_of_its_run_begins(storage: Storage):  # proves: GATE-2, FX-2
    begun: list[int] = []

    @remit.effect
    async def pay(request: int, *, key: str) -> int:
        begun.append(request)
        if request == 1:
            raise ConnectionError("the line dropped")
        return request

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> list[int]:
        paid: list[int] = await run.gather(run.branch("a").effect(pay, 1), _after(begun, run.branch("b"), pay))
        return paid

    async with storage.open() as rt:
        await rt.grant("user:ops", "operator", by="user:dana")
        parked = await rt.run(flow, id="r")
        assert (parked.status, parked.waits_for, begun) == ("in_doubt", "doubt", [1])
        await rt.resolve("r", "a/pay", "ok", by="user:ops", evidence="the statement of the bank", outcome=1)
        assert (await rt.resume("r", flow)).value == [1, 2]
        assert begun == [1, 2]


async def _after(begun: list[int], run: remit.Run, pay: remit.Effect[int]) -> int:
    while not begun:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    return await run.effect(pay, 2)


async def test_effects_side_by_side_never_take_more_of_a_ceiling_than_there_is(storage: Storage):  # proves: FX-12
    paid: list[int] = []

    @remit.effect
    async def pay(request: dict[str, int], *, key: str) -> None:
        paid.append(request["amount"])

    rule = remit.Rule(ceiling=remit.Ceiling("amount", max=100, per="run"))

    @remit.flow(contract=Contract(version="1", resume="anyone", effects={"pay": rule}))
    async def flow(run: remit.Run) -> None:
        await run.gather(*[run.branch(str(i)).effect(pay, {"amount": 60}) for i in range(5)])

    async with storage.open() as rt:
        ended = await rt.run(flow, id="r")
        assert (ended.status, ended.code, paid) == ("failed", "ceiling_exceeded", [60])
        assert await rt.verify("r") is None
