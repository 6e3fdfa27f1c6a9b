"""Incidents: every run that does not verify is set aside, and its caller is told why, whatever else happens."""

from __future__ import annotations

import asyncio

import pytest

import remit
from remit.engine.process import incidents
from remit.facts.kinds import RunQuarantined
from remit.facts.names import INCIDENTS
from remit.store.memory import MemoryStore

NAMES = [f"r{number}" for number in range(12)]


@remit.flow(contract=remit.Contract(version="1", resume="anyone"))
async def nothing(run: remit.Run) -> None: ...


async def test_runs_that_fail_to_verify_at_once_are_each_set_aside():  # proves: LOG-2
    store = MemoryStore()
    async with remit.open(store) as rt:
        for name in NAMES:
            await rt.run(nothing, id=name)
        for kept in store._state.runs.values():
            kept.main.pop()

        told = await asyncio.gather(*(rt.run(nothing, id=name) for name in NAMES), return_exceptions=True)

        assert [type(error) for error in told] == [remit.Tampered] * len(NAMES)
        assert len(await rt.list(quarantined=True)) == len(NAMES)
        noted = incidents.verify(store.ledger.origin, await rt.read(INCIDENTS))
        assert sorted(e.fact.run for e in noted if isinstance(e.fact, RunQuarantined)) == sorted(NAMES)
        with pytest.raises(remit.RunQuarantined):
            await rt.run(nothing, id=NAMES[0])
