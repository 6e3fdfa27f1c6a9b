"""What people said and may not say any more: whoever looks is not told that the next turn takes it up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.office import BUYER, DEREK, DORA, HOURS_72, ROOT, RUN, Office, answer, staffed


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


async def test_a_yes_is_not_taken_up_once_its_time_is_over(storage: Storage):  # proves: APR-2
    office, clock = Office(), MovedClock()
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        clock.move(HOURS_72)
        told = await rt.why(RUN)
        assert (told.is_answered, spoke(told)) == (True, [(DORA, True)]), "to its last microsecond"
        clock.move(timedelta(minutes=1))
        told = await rt.why(RUN)
        assert (told.is_answered, spoke(told)) == (False, [(DORA, False)])
        assert next_step(told).sentence == f"`remit resume {RUN} MODULE:FLOW`."
        assert (await office.go(rt)).code == "approval_expired"  # as it said
    assert office.sent == []


@pytest.mark.parametrize("policy", [{"version": "2"}, {"version": "1"}])
async def test_a_yes_is_not_taken_up_under_another_policy_nor_under_the_same_one_set_again(
    storage: Storage, policy: dict[str, Any]
):  # proves: APR-1
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await rt.set_policy({"version": "1"}, by=ROOT)
        await office.go(rt)
        await answer(rt)
        assert (await rt.why(RUN)).is_answered
        await rt.set_policy({"version": "3"}, by=ROOT)
        await rt.set_policy(policy, by=ROOT)
        told = await rt.why(RUN)
        assert (told.is_answered, spoke(told)) == (False, [(DORA, False)])
        assert next_step(told).sentence == f"`remit resume {RUN} MODULE:FLOW`."
        assert (await office.go(rt)).code == "approval_policy"  # as it said
    assert office.sent == []


async def test_a_yes_is_not_taken_up_of_whom_the_run_was_linked_to_since(storage: Storage):  # proves: APR-4
    office = Office()
    async with storage.open() as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt)
        await rt.link(BUYER, person=DORA, by=ROOT)
        told = await rt.why(RUN)
        assert (told.is_answered, spoke(told)) == (False, [(DORA, False)])
        assert (await office.go(rt)).waits_for == "approval"  # as it said
    assert office.sent == []


async def test_a_no_counts_also_when_its_time_is_over_and_the_policy_another(storage: Storage):  # proves: APR-6
    office, clock = Office(), MovedClock()
    async with storage.open(clock=clock) as rt:
        await staffed(rt)
        await office.go(rt)
        await answer(rt, "deny")
        clock.move(HOURS_72 + timedelta(hours=1))
        await rt.set_policy({"version": "1"}, by=ROOT)
        told = await rt.why(RUN)
        assert (told.is_answered, spoke(told)) == (True, [(DORA, True)])
        assert (await office.go(rt)).code == "denied"  # as it said
    assert office.sent == []
