"""Looking for runs and effects: what could find nothing by its very words is refused, not answered with nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

import remit
from remit import Contract
from remit.store.memory import MemoryStore
from tests.support.office import DORA, ORDER, RUN, Office, answer, staffed


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


async def test_a_question_and_a_doubt_are_told_alike_wherever_they_are_looked_at():  # proves: FX-9, APR-6
    async with remit.open("memory:") as rt:
        office = Office()
        await office.go(await staffed(rt))
        [ask] = (await rt.why(RUN)).asks
        assert ask == replace(await rt.ask(ask.id), number=0)
        assert (ask.call, ask.payload, ask.state, ask.decided_by) == ("pay", ORDER, "open", "")
        await answer(rt)
        [ask] = (await rt.why(RUN)).asks
        assert (ask.state, ask.decided_by) == ("approved", DORA)

        office.body = lose
        assert (await office.go(rt)).status == "in_doubt"
        why = await rt.why(RUN)
        assert list(why.doubts) == await rt.effects(RUN) == await rt.effects(in_doubt=True)
        assert (why.asks, why.doubts[0].told_by) == ((), "")
        await rt.resolve(RUN, "pay", "ok", by=DORA, evidence="statement", outcome="receipt 88")
        assert (await rt.why(RUN)).doubts[0].told_by == DORA
        assert (await office.go(rt)).value == "receipt 88"
        [effect] = await rt.effects(RUN)
        assert (effect.state, effect.told_by) == ("ok", DORA)


def lose(order: object, key: str) -> None:
    raise ConnectionError("no answer")
