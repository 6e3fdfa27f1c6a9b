"""Failures that a flow collects, and raises wrapped at its end: what runs again, and what is said of what stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.office import DORA, answer, staffed
from tests.support.till import OPEN, Order, Till

INVOICES = ("i-1", "i-2", "i-3")

One = Callable[[str], Awaitable[None]]


async def in_a_loop(run: remit.Run, one: One) -> list[BaseException]:
    errors: list[BaseException] = []
    for invoice in INVOICES:
        try:
            await one(invoice)
        except remit.StepError as exc:
            errors.append(exc)
    return errors


async def by_workers(run: remit.Run, one: One) -> list[BaseException]:
    errors: list[BaseException] = []
    orders = list(reversed(INVOICES))

    async def work() -> None:
        while orders:
            try:
                await one(orders.pop())
            except remit.StepError as exc:
                errors.append(exc)

    await run.gather(work(), work())
    return errors


async def side_by_side(run: remit.Run, one: One) -> list[BaseException]:
    found = await asyncio.gather(*map(one, INVOICES), return_exceptions=True)
    return [each for each in found if isinstance(each, BaseException)]


async def in_a_gather(run: remit.Run, one: One) -> list[BaseException]:
    async def kept(invoice: str) -> BaseException | None:
        try:
            await one(invoice)
        except remit.StepError as exc:
            return exc
        return None

    return [each for each in await run.gather(*map(kept, INVOICES)) if each is not None]


def as_a_group(errors: list[BaseException]) -> None:
    raise BaseExceptionGroup("some were not paid", errors)


def from_the_first(errors: list[BaseException]) -> None:
    raise RuntimeError("some were not paid") from errors[0]


def in_the_context(errors: list[BaseException]) -> None:
    try:
        raise errors[0]
    except remit.StepError:
        raise RuntimeError("some were not paid")  # noqa: B904


def deep_within(errors: list[BaseException]) -> None:
    try:
        in_the_context(errors)
    except RuntimeError as exc:
        raise ExceptionGroup("some were not paid", [KeyError("x"), exc]) from None


RAISES = [as_a_group, from_the_first, in_the_context, deep_within]


class Batch:
    """Pays three invoices, of which those that are down are not. at: which call fails. once_more: how it was mended."""

    def __init__(self, together: Any, raises: Any, at: str, *down: str) -> None:
        self.till, self.down, self.at, self.once_more = Till(), set(down), at, False
        self.checked: list[str] = []
        self.pay = self.till.effect()

        async def check(invoice: str) -> str:
            self.checked.append(invoice)
            await asyncio.sleep(0)
            if at == "step" and invoice in self.down:
                raise OSError("no line")
            return invoice

        async def one(run: remit.Run, invoice: str) -> None:
            await run.branch(invoice).step(check, invoice)
            if at == "effect" and invoice in self.down:
                self.till.next(remit.DidNotHappen("no line"))
            await run.branch(invoice).effect(self.pay, Order(invoice=invoice))

        @remit.flow(contract=OPEN, name="batch")
        async def batch(run: remit.Run) -> int:
            errors = await together(run, lambda invoice: one(run, invoice))
            if errors and self.once_more:
                await one(run.branch("again"), "i-1")
            elif errors:
                raises(errors)
            return len(INVOICES)

        self.flow = batch


@pytest.mark.parametrize("raises", RAISES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("at", ["step", "effect"])
@pytest.mark.parametrize("together", [in_a_loop, by_workers], ids=lambda way: way.__name__)
async def test_a_collected_failure_behind_which_others_were_paid_stays_and_the_error_says_which_and_the_way_out(
    together: Any, at: str, raises: Any
):  # proves: RUN-6
    batch = Batch(together, raises, at, "i-1")
    call = {"step": "i-1/check", "effect": "i-1#2/pay"}[at]
    async with remit.open("memory:") as rt:
        for _ in range(3):
            with pytest.raises(remit.StepError, match="batch of run 'r' raised") as failed:
                await rt.run(batch.flow, id="r")
            assert failed.value.hint.startswith(f"Let the flow catch {call} and go another way, which may be the same")
            assert "it goes on from the failed call" not in failed.value.hint
            told = await rt.why("r")
            assert told.failures == ()
            assert "which may be the same call once more" in next_step(told).sentence
            batch.down.clear()
        assert batch.checked.count("i-1") == 1
        batch.once_more = True
        assert (await rt.run(batch.flow, id="r")).value == len(INVOICES)
    assert batch.till.times == [1, 1, 1]


@pytest.mark.parametrize("raises", RAISES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("at", ["step", "effect"])
@pytest.mark.parametrize("together", [side_by_side, in_a_gather], ids=lambda way: way.__name__)
async def test_a_collected_failure_that_nothing_followed_runs_again_however_it_is_wrapped(
    together: Any, at: str, raises: Any, storage: Storage
):  # proves: RUN-6
    batch = Batch(together, raises, at, "i-1")
    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="batch of run 'r' raised") as failed:
            await rt.run(batch.flow, id="r")
        assert failed.value.hint.endswith("it goes on from the failed call.")
        assert [failure.call.rpartition("/")[2] for failure in (await rt.why("r")).failures] == [
            {"step": "check", "effect": "pay"}[at]
        ]
        batch.down.clear()
        assert (await rt.run(batch.flow, id="r")).value == len(INVOICES)
    assert batch.till.times == [1, 1, 1]


async def test_where_one_stays_and_another_runs_again_the_error_names_both(storage: Storage):  # proves: RUN-6
    batch = Batch(in_a_loop, as_a_group, "step", "i-1", "i-3")
    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as failed:
            await rt.run(batch.flow, id="r")
        assert failed.value.hint.startswith("Let the flow catch i-1/check and go another way")
        assert failed.value.hint.endswith("What runs again at the next call is i-3/check.")
        batch.down.clear()
        with pytest.raises(remit.StepError) as failed:
            await rt.run(batch.flow, id="r")
        assert "i-3" not in failed.value.hint
        batch.once_more = True
        assert (await rt.run(batch.flow, id="r")).value == len(INVOICES)
    assert (batch.till.times, batch.checked.count("i-3")) == ([1, 1, 1], 2)


async def test_of_many_that_stay_the_first_are_named():  # proves: RUN-6
    async def fails() -> None:
        raise OSError("no line")

    async def tidy() -> None: ...

    @remit.flow(contract=OPEN)
    async def many(run: remit.Run) -> None:
        errors = []
        for place in range(5):
            try:
                await run.branch(str(place)).step(fails)
            except remit.StepError as exc:
                errors.append(exc)
        await run.step(tidy)
        raise ExceptionGroup("five", errors)

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.StepError) as failed:
            await rt.run(many, id="r")
    assert failed.value.hint.startswith("Let the flow catch 0/fails, 1/fails, 2/fails and 2 more and go another way")


@pytest.mark.parametrize("raises", RAISES, ids=lambda way: way.__name__)
async def test_a_no_that_is_raised_wrapped_is_not_said_to_be_called_again(raises: Any):  # proves: RUN-6, FX-11
    till = Till()
    till.next(remit.Declined("no"))
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        try:
            await run.effect(pay, Order())
        except remit.EffectDeclined as exc:
            declined = exc
        raises([declined])

    async with remit.open("memory:") as rt:
        for _ in range(2):
            with pytest.raises(remit.StepError) as failed:
                await rt.run(buying, id="r")
            assert failed.value.hint.startswith("It was a no, which stays: let the flow catch pay and go another way")
    assert till.calls == {"i-1": 1}


async def test_what_a_flow_raises_behind_a_no_of_a_person_says_that_it_stays():  # proves: RUN-6
    @remit.flow(contract=OPEN)
    async def asking(run: remit.Run) -> None:
        try:
            await run.approve("terms", 1, roles={"director"}, within=timedelta(hours=1))
        except remit.Denied as exc:
            raise RuntimeError("not allowed") from exc

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(asking, id="r")
        await answer(rt, "deny", by=DORA)
        for _ in range(2):
            with pytest.raises(remit.StepError) as failed:
                await rt.run(asking, id="r")
            assert failed.value.hint.endswith("call again with the same id: what is recorded stays.")


async def test_a_failure_that_is_not_behind_what_leaves_the_flow_runs_again_once_it_is():  # proves: RUN-6
    """Kept in an attribute, nothing of it is seen; so the error says how it has to be raised."""
    is_down, ran, is_mended = [True], list[str](), False

    class NotPaid(Exception):
        def __init__(self, errors: list[Any]) -> None:
            super().__init__(f"{len(errors)} failed")
            self.errors = errors

    async def check(invoice: str) -> str:
        ran.append(invoice)
        if is_down and invoice == "i-1":
            raise OSError("no line")
        return invoice

    @remit.flow(contract=OPEN)
    async def checking(run: remit.Run) -> int:
        errors = await side_by_side(run, lambda invoice: run.branch(invoice).step(check, invoice))
        if errors and is_mended:
            as_a_group(errors)
        if errors:
            raise NotPaid(errors)
        return len(INVOICES)

    async with remit.open("memory:") as rt:
        for _ in range(2):
            with pytest.raises(remit.StepError, match="1 failed") as failed:
                await rt.run(checking, id="r")
            assert "what is recorded stays. A failed call stays failed too; it may run again only" in failed.value.hint
            is_down.clear()
        is_mended = True
        with pytest.raises(remit.StepError) as failed:
            await rt.run(checking, id="r")
        assert failed.value.hint.endswith("it goes on from the failed call.")
        assert (await rt.run(checking, id="r")).value == len(INVOICES)
    assert ran.count("i-1") == 2


async def test_a_flow_that_fails_by_itself_is_not_said_to_have_a_failed_call():  # proves: RUN-6
    is_set = False

    async def fetch() -> int:
        return 1

    @remit.flow(contract=OPEN)
    async def pricing(run: remit.Run) -> int:
        price = int(await run.step(fetch))
        if not is_set:
            raise KeyError("RATE")
        return price

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.StepError, match="pricing of run 'r' raised KeyError") as failed:
            await rt.run(pricing, id="r")
        assert failed.value.hint.startswith("Mend the code or its surroundings and call again with the same id")
        assert failed.value.hint.endswith("what is recorded stays.")
        is_set = True
        assert (await rt.run(pricing, id="r")).value == 1


async def test_a_call_of_another_run_that_failed_is_no_call_of_this_one():  # proves: RUN-6
    is_down = [True]

    async def fetch() -> int:
        if is_down:
            raise OSError("no line")
        return 1

    @remit.flow(contract=OPEN)
    async def inner(run: remit.Run) -> int:
        return int(await run.step(fetch))

    async def ask_another() -> int:
        return int((await rt.run(inner, id="inner")).value)

    @remit.flow(contract=OPEN)
    async def outer(run: remit.Run) -> int:
        try:
            return int(await run.step(ask_another))
        except remit.StepError as exc:
            raise RuntimeError("not asked") from exc

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.StepError, match="outer of run 'outer' raised RuntimeError") as failed:
            await rt.run(outer, id="outer")
        assert failed.value.hint.endswith("it goes on from the failed call.")
        is_down.clear()
        assert (await rt.run(outer, id="outer")).value == 1
