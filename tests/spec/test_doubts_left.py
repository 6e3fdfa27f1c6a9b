"""Doubts that a worker left who may have died: found by whoever looks, and ended by whoever found out."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import remit
from remit.engine.people import effected
from remit.errors import StoreClosed
from remit.store.memory import MemoryStore
from remit.store.units import Claim
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.till import Till, find_out, paying

ELSEWHERE = "4711-0123456789ab-1"  # a worker of another machine, of whom nothing is ever proven


class Left:
    """A run whose effect was under way in a worker of another machine, which was not heard of since."""

    def __init__(self, store: MemoryStore, till: Till) -> None:
        self.store, self.till = store, till
        self.flow = paying(till.effect())

    async def leave(self, rt: remit.Runtime, *, lease_ms: int) -> None:
        self.till.next(ConnectionError("no answer"))
        assert (await rt.run(self.flow, id="r")).status == "in_doubt"
        row = (await rt.read("r")).row
        assert await self.store.claim(Claim(row.run_key, row.epoch, ELSEWHERE, lease_ms))


async def test_who_holds_it_is_waited_for_and_whose_lease_is_over_is_not(clock: MovedClock):  # proves: FX-9, OWN-1
    store = MemoryStore()
    store._clock = clock
    left = Left(store, Till())
    async with remit.open(store, clock=clock) as rt:
        await left.leave(rt, lease_ms=60_000)
        assert await rt.effects(in_doubt=True) == []
        assert [effect.state for effect in await rt.effects("r")] == ["under_way"]
        with pytest.raises(remit.Refused) as refused:
            await find_out(rt, "r", "did_not_happen")
        assert refused.value.code == "doubt.under_way" and "until 2026-01-05 09:01:00 UTC" in refused.value.hint
        clock.move(timedelta(minutes=2))
        assert [(one.call, one.state) for one in await rt.effects(in_doubt=True)] == [("pay", "in_doubt")]
        await find_out(rt, "r", "ok", {"number": 1, "amount": 100})
        assert (await rt.run(left.flow, id="r")).value == [100]
    assert len(left.till.arrived) == 1


async def test_doubts_are_found_behind_however_many_runs_that_are_worked_at(
    database: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-9
    monkeypatch.setattr(effected, "PAGE", 3)
    till = Till()
    flow = paying(till.effect())
    till.next(till.hold_and_fail)
    gone = database.open()
    await gone.open()
    lost = asyncio.create_task(gone.run(flow, id="left"))
    await till.is_held.wait()
    await gone.close()
    till.let_go.set()
    with pytest.raises(StoreClosed):
        await lost
    till.let_go.clear()
    till.next(*[till.hold] * 7)
    async with database.open() as rt, database.open() as beside:
        running = [asyncio.create_task(rt.run(flow, id=f"live-{number}")) for number in range(7)]
        while len(till.arrived) < 8:
            await asyncio.sleep(0)
        assert [effect.run for effect in await beside.effects(in_doubt=True, limit=1)] == ["left"]
        till.let_go.set()
        await asyncio.gather(*running)
