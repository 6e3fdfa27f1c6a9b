"""Looking for runs and effects: what could find nothing by its very words is refused, not answered with nothing."""

from __future__ import annotations

import pytest

import remit
from remit import Contract
from remit.store.memory import MemoryStore


@remit.flow(contract=Contract(version="1", resume="anyone"))
async def nothing(run: remit.Run) -> None: ...


async def test_runs_that_were_set_aside_are_found_by_the_status_that_they_are_shown_with():  # proves: LOG-3
    store = MemoryStore()
    async with remit.open(store) as rt:
        for name in ("good", "bad"):
            await rt.run(nothing, id=name)
        store._state.runs[(await rt.show("bad")).row.run_key].main.pop()
        with pytest.raises(remit.Tampered):
            await rt.resume("bad", nothing)

        async def found(status: str, quarantined: bool | None = None) -> list[str]:
            return [row.run for row in await rt.list(status=status, quarantined=quarantined)]

        assert await found("quarantined") == ["bad"]
        assert await found("quarantined", quarantined=True) == ["bad"]
        assert await found("quarantined", quarantined=False) == []
        assert await found("completed", quarantined=False) == ["good"]


async def test_a_status_that_no_run_has_is_refused():
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.Refused, match="waiting") as refused:
            await rt.list(status="waitng")
        assert refused.value.code == "status.unknown"


async def test_effects_are_those_of_a_run_or_the_doubts_of_all():  # proves: FX-9
    async with remit.open("memory:") as rt:
        assert await rt.effects(in_doubt=True) == []
        with pytest.raises(remit.Refused, match="in_doubt=True") as refused:
            await rt.effects()
        assert refused.value.code == "effects.which"
