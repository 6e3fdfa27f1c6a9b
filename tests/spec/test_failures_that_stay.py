"""Failures that are to run again, and behind which another branch of the flow, who knew of them, went on."""

from __future__ import annotations

import asyncio

import pytest

import remit
from remit.engine.turn import replay
from tests.spec.conftest import Storage
from tests.support.till import OPEN


async def test_whoever_is_to_bring_a_call_back_is_told_what_failed_before_it_and_would_be_called_as_well(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-6, RUN-4
    monkeypatch.setattr(replay, "STILL_SECONDS_OF_TASKS", 0.3)
    paid = list[str]()

    @remit.effect
    async def card(order: dict[str, int], *, key: str) -> str:
        if not paid:
            raise remit.DidNotHappen("down")
        paid.append("card")
        return "card"

    @remit.effect
    async def wire(order: dict[str, int], *, key: str) -> str:
        paid.append("wire")
        return "wire"

    @remit.flow(contract=OPEN)
    async def settle(run: remit.Run) -> None:
        pay = asyncio.create_task(run.effect(card, {"o": 1}))

        async def receipt() -> None:
            await pay

        async def ensure(branch: remit.Run) -> None:
            await asyncio.wait([pay])
            if pay.exception() is not None:
                await branch.effect(wire, {"o": 1})

        await run.gather(receipt(), ensure(run.branch("e")))

    async with storage.open() as rt:
        with pytest.raises(remit.EffectDidNotHappen):
            await rt.run(settle, id="r")
        with pytest.raises(remit.DefinitionIncompatible) as told:
            await rt.run(settle, id="r")
    assert told.value.recorded == ("e/wire",)
    assert "'card' failed before them and is called once more" in told.value.hint
    assert paid == ["wire"]
