"""Questions in a race: who lost it hears no answer any more, so nobody is asked for one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.till import kinds_of

HOURS = timedelta(hours=8)


@pytest.mark.parametrize("kind", ["question", "effect"])
async def test_the_question_of_who_lost_a_race_is_void(kind: str, storage: Storage):  # proves: APR-1, RUN-9
    paid: list[str] = []

    @remit.effect
    async def pay(request: str, *, key: str) -> str:
        paid.append(request)
        return request

    asks = remit.Rule(approval=remit.Approval({"lead"}, HOURS))

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": asks}), name="race")
    async def race(run: remit.Run) -> Any:
        def call(name: str) -> Any:
            if kind == "effect":
                return run.branch(name).effect(pay, name)
            return run.branch(name).approve("ask", name, roles={"lead"}, within=HOURS)

        await run.first(call("a"), call("b"))
        await run.approve("last", 1, roles={"lead"}, within=HOURS)
        return "done"

    async with storage.open() as rt:
        await rt.grant("user:lee", "lead", by="user:root")
        assert (await rt.run(race, id="r")).waits_for == "approval"
        first, second = await rt.inbox()
        await rt.decide(first.id, "approve", by="user:lee", seen=first.version)
        assert (await rt.run(race, id="r")).waits_for == "approval"
        (last,) = await rt.inbox()
        assert last.call == "last"
        assert (await rt.ask(second.id)).state == "void"
        assert [ask.call for ask in await rt.voided_by({"version": "9"})] == ["last"]
        with pytest.raises(remit.ApprovalRefused, match=r"approval\.void"):
            await rt.decide(second.id, "approve", by="user:lee", seen=second.version)
        await rt.decide(last.id, "approve", by="user:lee", seen=last.version)
        assert (await rt.run(race, id="r")).value == "done"
        assert await rt.verify("r") is None
        assert (await kinds_of(rt, "r")).count("ApprovalVoided") == 1
    assert paid == (["a"] if kind == "effect" else [])
