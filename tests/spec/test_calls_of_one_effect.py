"""Inside one attempt an effect is called again only where it is known not to have happened, and not for ever."""

from __future__ import annotations

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
        assert (parked.status, parked.code, len(calls)) == ("waiting", "effect.did_not_happen", 3)
        assert [told.state for told in await rt.effects("r")] == ["did_not_happen"]
        works_from[0] = 5
        assert (await rt.resume(flow, "r")).value == "paid"
        assert len(calls) == 5 and len(set(calls)) == 1  # one key, whichever attempt calls
        assert await rt.verify("r") is None
