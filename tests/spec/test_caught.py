"""Failures that a flow caught: what came after one is kept, and so is it, whatever then leaves the flow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import remit
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till


class Shop:
    """A card network that is down, a till that is not, and a flow with a mistake behind its payment."""

    def __init__(self) -> None:
        self.till = Till()
        self.wire = self.till.effect("wire")
        self.ran: Counter[str] = Counter()
        self.broken = {"card", "fee"}

    async def card(self) -> int:
        return self.do("card")

    async def fallback(self) -> int:
        return self.do("fallback")

    def fee(self) -> int:
        return self.do("fee")

    def do(self, what: str) -> int:
        self.ran[what] += 1
        if what in self.broken:
            raise ValueError(what)
        return len(what)


async def in_the_handler(run: remit.Run, shop: Shop) -> int:
    try:
        return int(await run.step(shop.card))
    except remit.StepError:
        await run.effect(shop.wire, Order())
        return shop.fee()


async def behind_the_handler(run: remit.Run, shop: Shop) -> int:
    try:
        return int(await run.step(shop.card))
    except remit.StepError as exc:
        caught = exc
    await run.effect(shop.wire, Order())
    try:
        return shop.fee()
    except ValueError:
        raise caught from None


async def out_of_a_gather(run: remit.Run, shop: Shop) -> int:
    try:
        return int((await run.gather(run.step(shop.card)))[0])
    except remit.StepError as exc:
        caught = exc
    await run.effect(shop.wire, Order())
    try:
        return shop.fee()
    except ValueError:
        raise KeyError("fee") from caught


async def in_a_branch(run: remit.Run, shop: Shop) -> int:
    return int((await run.gather(behind_the_handler(run, shop)))[0])


async def out_of_a_task_group(run: remit.Run, shop: Shop) -> int:
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run.step(shop.card))
    except* remit.StepError:
        await run.effect(shop.wire, Order())
        shop.fee()
    return int(task.result()) if task.exception() is None else len("fee")


@pytest.mark.parametrize(
    "way",
    [in_the_handler, behind_the_handler, out_of_a_gather, in_a_branch, out_of_a_task_group],
    ids=lambda f: f.__name__,
)
async def test_a_failure_behind_which_something_was_paid_stays_caught(
    way: Callable[[remit.Run, Shop], Any], storage: Storage
):  # proves: RUN-6, FX-2
    shop = Shop()

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> int:
        return int(await way(run, shop))

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(buying, id="r")
        shop.broken = set()
        assert (await rt.run(buying, id="r")).value == len("fee")
    assert (shop.ran["card"], shop.till.calls) == (1, {"i-1": 1})


async def test_a_plain_flow_keeps_what_it_caught_before_it_paid(storage: Storage):  # proves: RUN-6, RUN-10
    shop = Shop()

    @remit.flow(contract=OPEN)
    def buying(run: remit.SyncRun) -> int:
        try:
            return int(run.step(shop.card))
        except remit.StepError as exc:
            caught = exc
        run.effect(shop.wire, Order())
        try:
            return shop.fee()
        except ValueError:
            raise caught from None

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(buying, id="r")
        shop.broken = set()
        assert (await rt.run(buying, id="r")).value == len("fee")
    assert (shop.ran["card"], shop.till.calls) == (1, {"i-1": 1})


@pytest.mark.parametrize("instead", ["fallback", "fee"], ids=["in a task", "in a thread"])
async def test_a_failure_and_what_failed_in_its_stead_run_again_together(
    instead: str, storage: Storage
):  # proves: RUN-6
    shop = Shop()
    shop.broken = {"card", instead}

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> int:
        try:
            return int(await run.step(shop.card))
        except remit.StepError:
            return int(await run.step(getattr(shop, instead)))

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match=instead):
            await rt.run(buying, id="r")
        shop.broken = set()
        assert (await rt.run(buying, id="r")).value == len("card")
    assert shop.ran == {"card": 2, instead: 1}


@pytest.mark.parametrize("of", ["a step", "an effect"])
async def test_a_failure_that_stays_because_of_what_followed_it_is_not_said_to_run_again(
    of: str, storage: Storage
):  # proves: RUN-6, FX-11
    shop, tidied = Shop(), list[bool]()
    shop.till.next(remit.DidNotHappen("no line"))

    def tidy() -> None:
        tidied.append(True)

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        try:
            await (run.step(shop.card) if of == "a step" else run.effect(shop.wire, Order()))
        finally:
            await run.step(tidy)

    async with storage.open() as rt:
        for _ in range(2):
            with pytest.raises(remit.StepError) as failed:
                await rt.run(buying, id="r")
            assert failed.value.hint.startswith("Let the flow catch this and go another way")
            told = await rt.why("r")
            assert told.failures == ()
            assert next_step(told).sentence.startswith("mend the flow, then `remit resume r MODULE:FLOW`")
    assert (tidied, shop.ran["card"] + len(shop.till.arrived)) == ([True], 1)


async def test_why_says_how_an_effect_failed_that_runs_again(storage: Storage):  # proves: RUN-6, FX-11
    shop = Shop()
    shop.till.next(remit.DidNotHappen("no line"))

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        await run.effect(shop.wire, Order())

    async with storage.open() as rt:
        with pytest.raises(remit.EffectDidNotHappen):
            await rt.run(buying, id="r")
        told = await rt.why("r")
        assert [(f.call, f.error, f.detail) for f in told.failures] == [("wire", "remit.DidNotHappen", "no line")]
        assert next_step(told).sentence == "mend what failed, then `remit resume r MODULE:FLOW`."
