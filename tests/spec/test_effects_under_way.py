"""Effects under way when their turn ends: whatever ended it, the run is held until their calls have come back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import remit
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from remit.store.sqlite.store import SqliteStore
from remit.store.units import Unit
from tests.spec.conftest import Storage
from tests.support.moving import Moving
from tests.support.till import OPEN, Order, Till, find_out, kinds_of

HOUR = timedelta(hours=1)
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Full:
    """A store whose disk is full for as long as something of one kind wants to be written."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.refused = b'"kind":"StepDone"'

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, unit: Unit) -> None:
        if any(self.refused in entry.header for entry in unit.entries):
            raise remit.StoreUnavailable("Nothing was written: the disk is full.")
        await self._inner.append(unit)


class Beside:
    """A payment, and beside it a branch that fits the first turn, and not a second one."""

    def __init__(self) -> None:
        self.till, self.goes_wrong = Till(), asyncio.Event()
        self.turns, pay = 0, self.till.effect()
        self.till.next(remit.DidNotHappen("closed"), self.till.hold)

        @remit.flow(contract=OPEN)
        async def paying(run: remit.Run) -> int:
            self.turns += 1
            async with asyncio.TaskGroup() as tasks:
                paid = tasks.create_task(run.effect(pay, Order()))
                tasks.create_task(self.beside(run))
            return paid.result().number

        self.flow = paying

    async def beside(self, run: remit.Run) -> None:
        if self.turns > 1:
            await self.goes_wrong.wait()
        run.evidence("rate", self.turns, as_of=AT, fresh_for=HOUR)

    async def fail_once(self, rt: remit.Runtime) -> None:
        with pytest.raises(remit.StepError):
            await rt.run(self.flow, id="r")


async def _settle_down() -> None:
    for _ in range(20):
        await asyncio.sleep(0.005)


async def _is_held(rt: remit.Runtime) -> bool:
    await _settle_down()
    (row,) = await rt.list()
    return row.worker is not None


async def test_a_run_is_held_while_its_call_is_on_the_wire_though_its_store_refuses_to_write(
    tmp_path: Path,
):  # proves: FX-2, FX-12
    till, is_refused = Till(), asyncio.Event()
    till.next(till.hold)
    pay = till.effect()

    async def other() -> None:
        await till.is_held.wait()
        is_refused.set()

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run.effect(pay, Order()))
            tasks.create_task(run.step(other))

    file = tmp_path / "runs.db"
    async with remit.open(SqliteStore(file)) as looking, asyncio.timeout(30):
        async with remit.open(cast(Store, Full(SqliteStore(file)))) as rt:
            running = asyncio.create_task(rt.run(paying, id="r"))
            await is_refused.wait()
            assert await _is_held(looking) and not running.done()
            with pytest.raises(remit.Refused, match="A worker is at 'pay'"):
                await find_out(looking, "r", "did_not_happen")
            till.let_go.set()
            with pytest.raises(remit.StoreUnavailable):
                await running
        assert not await _is_held(looking)
        assert [effect.state for effect in await looking.effects(in_doubt=True)] == ["in_doubt"]
    assert till.calls == {"i-1": 1}


async def test_a_run_is_held_while_its_call_is_on_the_wire_though_its_code_does_not_fit(
    storage: Storage,
):  # proves: FX-2, FX-12
    beside = Beside()
    async with storage.open() as rt, asyncio.timeout(30):
        await beside.fail_once(rt)
        running = asyncio.create_task(rt.run(beside.flow, id="r"))
        await beside.till.is_held.wait()
        beside.goes_wrong.set()
        assert await _is_held(rt) and not running.done()
        with pytest.raises(remit.Refused, match="A worker is at 'pay'"):
            await find_out(rt, "r", "did_not_happen")
        beside.till.let_go.set()
        with pytest.raises(remit.DefinitionIncompatible, match="another value"):
            await running
        assert not await _is_held(rt)
        assert ((await rt.why("r")).waits_for, await rt.effects(in_doubt=True)) == ("repair", [])
        assert [effect.state for effect in await rt.effects("r")] == ["ok"], "an answer is one, whatever the code"
        assert (await kinds_of(rt, "r"))[-1] == "RunParked" and await rt.verify("r") is None
        assert (await kinds_of(rt, "r")).count("EvidenceTaken") == 1
    assert beside.till.times == [1]


async def test_what_its_store_refuses_to_write_of_an_effect_is_in_doubt_though_its_code_does_not_fit():  # proves: FX-2
    beside, store = Beside(), Full(MemoryStore())
    async with remit.open(cast(Store, store)) as rt, asyncio.timeout(30):
        await beside.fail_once(rt)
        running = asyncio.create_task(rt.run(beside.flow, id="r"))
        await beside.till.is_held.wait()
        beside.goes_wrong.set()
        await _settle_down()
        store.refused = b'"kind":"EffectSettled"'
        beside.till.let_go.set()
        with pytest.raises(remit.StoreUnavailable):
            await running
        assert [effect.call for effect in await rt.effects(in_doubt=True)] == ["pay"]
        assert not await _is_held(rt)


async def test_code_that_does_not_fit_while_an_intention_is_being_written_calls_nothing():  # proves: FX-2, FX-12
    beside, store = Beside(), Moving(MemoryStore())
    async with remit.open(cast(Store, store)) as rt, asyncio.timeout(30):
        await beside.fail_once(rt)

        async def go_wrong() -> None:
            beside.goes_wrong.set()
            await _settle_down()

        store.meanwhile = go_wrong
        with pytest.raises(remit.DefinitionIncompatible, match="another value"):
            await rt.run(beside.flow, id="r")
        await _settle_down()
        assert (await rt.why("r")).waits_for == "doubt"
        assert [effect.call for effect in await rt.effects(in_doubt=True)] == ["pay"]
    assert len(beside.till.arrived) == 1, "as closed, in the first turn"
