"""`still_wanted` that the code of a run no longer has: which one it is, and what to do, is said to whoever asks."""

from __future__ import annotations

from typing import Any

import pytest

import remit
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.office import DANA, DORA, Office, staffed


def wanted(order: dict[str, Any]) -> bool:
    return True


def renamed(order: dict[str, Any]) -> bool:
    return True


NAME = f"{wanted.__module__}.wanted"


@pytest.mark.parametrize("now", [remit.Rule(), remit.Rule(still_wanted=renamed)], ids=["dropped", "renamed"])
async def test_a_predicate_that_the_code_no_longer_has_is_named_with_what_to_do(
    now: remit.Rule, storage: Storage
):  # proves: GATE-2, GATE-9
    office = Office(remit.Rule(still_wanted=wanted))
    then = office.rule
    async with storage.open() as rt:
        await staffed(rt)
        await rt.start(office.flow, id="r", by="agent:buyer", behalf=DANA)
        office.rule = now
        judged = await rt.judge("r", office.flow)
        outcome = await office.go(rt, "r")
        told = await rt.why("r")
        seen = f"nobody can say whether it is wanted: the code no longer has {NAME}, which the run was opened with"
        required = f"still wanted, as {NAME} says: bring that back into the code under this name, or cancel this run"
        assert (outcome.waits_for, outcome.code) == ("gate", "objective_unknown")
        assert seen in outcome.reason and required in outcome.reason
        [(finding, *words)] = [each for each in judged.told() if not each[0].ok]
        assert finding.detail == NAME and words[0] == seen and required in words[1]
        assert [objection.seen for objection in told.objections] == [seen]
        assert next_step(told).sentence == (
            "let `still_wanted` say yes or no, under the name that the run was opened with, "
            "then `remit resume r MODULE:FLOW`; or `remit cancel r --by user:YOU`."
        )
        office.rule = then
        assert (await office.go(rt, "r")).status == "completed"
        assert len(office.sent) == 1


async def test_a_run_whose_predicate_is_gone_is_cancelled(storage: Storage):  # proves: GATE-2
    office = Office(remit.Rule(still_wanted=wanted))
    async with storage.open() as rt:
        await staffed(rt)
        await rt.start(office.flow, id="r", by="agent:buyer", behalf=DANA)
        office.rule = remit.Rule()
        await office.go(rt, "r")
        await rt.cancel("r", by=DORA, reason="nobody can say whether it is wanted")
        assert (await rt.show("r")).view.status == "cancelled" and not office.sent
