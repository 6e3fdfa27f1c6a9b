"""Going on with a run opens none, and where a run stands is told by its whole name."""

from __future__ import annotations

import pytest

import remit
from remit import Contract
from remit.store.memory import MemoryStore
from remit.store.rows import RunRow
from remit.store.units import Opening


class Counting(MemoryStore):
    """A memory store that counts the runs that it is asked to open."""

    def __init__(self) -> None:
        super().__init__()
        self.openings: list[str] = []

    async def open_run(self, opening: Opening) -> RunRow | None:
        self.openings.append(opening.run)
        return await super().open_run(opening)


@remit.flow(contract=Contract(version="1", resume="anyone"))
async def flow(run: remit.Run) -> str:
    return run.id


async def test_resume_never_asks_for_a_run_to_be_opened():  # proves: RPL-2
    store = Counting()
    async with remit.open(store) as rt:
        await rt.start(flow, id="r")
        opened = list(store.openings)
        assert (await rt.resume("r", flow)).value == "r"
        assert store.openings == opened
        with pytest.raises(remit.RunAbsent):
            await rt.resume("never", flow)
        assert store.openings == opened


async def test_an_outcome_gives_its_value_in_one_way_and_prints_none_of_it():  # proves: RUN-1
    async with remit.open("memory:") as rt:
        outcome = await rt.run(flow, id="r-secret")
        assert outcome.value == "r-secret"
        assert not hasattr(outcome, "result")
        assert repr(outcome).count("r-secret") == 1


async def test_the_id_comes_before_the_flow_and_what_is_no_flow_is_refused():  # proves: RPL-2
    async with remit.open("memory:") as rt:
        await rt.start(flow, id="r")
        for call in (rt.resume, rt.check, rt.judge):
            with pytest.raises(remit.Refused, match=r"`rt.resume\(id, flow\)`") as refused:
                await call(flow, "r")  # type: ignore[arg-type]
            assert refused.value.code == "flow.unknown"


async def test_a_run_may_wait_for_one_of_the_same_id_in_another_ledger_or_tenant():  # proves: RUN-8
    kept = MemoryStore()
    async with remit.open("memory:") as elsewhere, remit.open(kept, tenant="b") as neighbour:

        @remit.step
        async def ask_elsewhere() -> str:
            return str((await elsewhere.run(flow, id="r")).value) + str((await neighbour.run(flow, id="r")).value)

        @remit.flow(contract=Contract(version="1", resume="anyone"))
        async def asking(run: remit.Run) -> str:
            return str(await run.step(ask_elsewhere))

        async with remit.open(MemoryStore()) as rt:
            assert (await rt.run(asking, id="r")).value == "rr"
