"""What people said and may not say any more: whoever looks is not told that the next turn takes it up."""

from __future__ import annotations

from typing import Any

import pytest

import remit
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.office import DEREK, DORA, ROOT, RUN, Office, answer, staffed


def spoke(told: remit.Why) -> list[tuple[str, bool]]:
    return [(one.by, one.counts) for one in told.spoken]


async def lose(rt: remit.Runtime, how: str) -> None:
    if how == "disabled":
        await rt.disable(DORA, by=ROOT)
    else:
        await rt.revoke(DORA, "director", by=ROOT)
    if how == "given back":
        await rt.grant(DORA, "director", by=ROOT)


@pytest.mark.parametrize("how", ["disabled", "revoked", "given back"])
async def test_a_yes_whose_decider_lost_the_right_to_it_is_not_taken_up(storage: Storage, how: str):  # proves: APR-3
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        told = await rt.why(RUN)
        assert (told.is_answered, spoke(told)) == (True, [(DORA, True)])
        await lose(rt, how)
        told = await rt.why(RUN)
        assert (told.is_answered, spoke(told)) == (False, [(DORA, False)])
        assert (await office.go(rt)).waits_for == "approval"  # as it said
        await answer(rt, by=DEREK)
        assert (await office.go(rt)).value == "paid 82000"
        assert spoke(await rt.why(RUN)) == [(DORA, False), (DEREK, True)], "whose yes it was done by, told afterwards"
    assert len(office.sent) == 1


async def test_a_yes_that_became_void_does_not_count_and_one_that_was_used_does(storage: Storage):  # proves: APR-1
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        office.order["amount"] = 83_000
        await office.go(rt)
        told = await rt.why(RUN)
        assert (told.is_answered, spoke(told)) == (False, [(DORA, False)])
        await answer(rt, by=DEREK)
        assert (await office.go(rt)).value == "paid 83000"
        assert spoke(await rt.why(RUN)) == [(DORA, False), (DEREK, True)]


async def test_a_no_counts_also_where_the_turn_that_heard_it_closed_its_question(storage: Storage):  # proves: APR-6
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt, "deny")
        assert (await office.go(rt)).code == "denied"
        assert spoke(await rt.why(RUN)) == [(DORA, True)]


async def test_a_yes_that_was_used_counts_whatever_its_giver_lost_since(storage: Storage):  # proves: APR-3
    office = Office()

    def breaks(order: dict[str, Any], key: str) -> Any:
        raise OSError("the line broke")

    office.body = breaks
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        assert (await office.go(rt)).status == "in_doubt"
        await lose(rt, "revoked")
        assert spoke(await rt.why(RUN)) == [(DORA, True)]


@pytest.mark.parametrize("how", ["disabled", "revoked", "given back"])
async def test_a_word_about_a_doubt_is_taken_up_only_while_it_counts(storage: Storage, how: str):  # proves: FX-13
    office = Office()

    def breaks(order: dict[str, Any], key: str) -> Any:
        raise OSError("the line broke")

    office.body = breaks
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        assert (await office.go(rt)).status == "in_doubt"
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="the bank")
        told = await rt.why(RUN)
        assert (told.is_answered, told.doubts[0].told_by, spoke(told)[-1]) == (True, DORA, (DORA, True))
        assert next_step(told).sentence == f"`remit resume {RUN} MODULE:FLOW`."
        await lose(rt, how)
        told = await rt.why(RUN)
        assert (told.is_answered, told.doubts[0].told_by, spoke(told)[-1]) == (False, "", (DORA, False))
        assert "remit resolve" in next_step(told).sentence
        assert (await office.go(rt)).status == "in_doubt"
