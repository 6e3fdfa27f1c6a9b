"""Failures that came out of tasks and threads of the flow's own: what may have been called in their stead stays so.

And a failure beside which nobody could know of it runs again, whoever else went on meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order

Together = Callable[..., Awaitable[list[Any]]]


class Bank:
    """Two rails and a mail server. What is down does nothing; what was done is counted by invoice."""

    def __init__(self) -> None:
        self.down = {"sepa", "advise"}
        self.arrived: Counter[str] = Counter()
        self.paid: Counter[str] = Counter()

        async def sepa(order: Order, *, key: str) -> str:
            return self.do("sepa", order)

        async def swift(order: Order, *, key: str) -> str:
            return self.do("swift", order)

        async def advise(order: Order, *, key: str) -> str:
            self.arrived["advise"] += 1
            if "advise" in self.down:
                raise remit.DidNotHappen("no mail")
            return "advised"

        self.sepa: remit.Effect[str] = remit.effect(name="sepa")(sepa)
        self.swift: remit.Effect[str] = remit.effect(name="swift")(swift)
        self.advise: remit.Effect[str] = remit.effect(name="advise")(advise)

    def do(self, rail: str, order: Order) -> str:
        self.arrived[rail] += 1
        if rail in self.down:
            raise remit.DidNotHappen(f"{rail} is down")
        self.paid[order.invoice] += 1
        return rail

    async def by_sepa(self, run: remit.Run, invoice: str) -> str:
        return await run.branch(invoice).effect(self.sepa, Order(invoice=invoice))

    async def by_swift(self, run: remit.Run, invoice: str) -> str:
        branch = run.branch(f"{invoice}-swift")
        await branch.effect(self.swift, Order(invoice=invoice))
        return await branch.effect(self.advise, Order(invoice=invoice))


async def in_line(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    rest = list(calls)
    try:
        return [await rest.pop(0) for _ in calls]
    finally:
        for call in rest:
            call.close()


async def gathered(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    return list(await run.gather(*calls))


async def raced(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    return [await run.first(*calls)]


async def by_asyncio(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    return list(await asyncio.gather(*calls))


async def in_tasks(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    tasks = [asyncio.create_task(call) for call in calls]
    return [await task for task in tasks]


async def in_a_group(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


async def in_time(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    return [await asyncio.wait_for(asyncio.shield(call), 0.4) for call in calls]


async def looked_at(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """By a flow that waits for its tasks, and asks each of them."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.wait(tasks, timeout=0.4)
    return [task.result() for task in tasks]


WAYS: list[Together] = [in_line, gathered, raced, by_asyncio, in_tasks, in_a_group, in_time, looked_at]


async def pays_once(rt: remit.Runtime, bank: Bank, flow: remit.Flow[Any]) -> None:
    """The mail failed behind the second rail: it alone runs again, and so the first rail is not asked again."""
    with pytest.raises(remit.RemitError):
        await rt.run(flow, id="r")
    assert [failure.call.rpartition("/")[2] for failure in (await rt.why("r")).failures] == ["advise"]
    asked = bank.arrived["sepa"]
    bank.down = set()
    assert (await rt.run(flow, id="r")).status == "completed"
    assert (set(bank.paid.values()), bank.arrived["sepa"], bank.arrived["advise"]) == ({1}, asked, 2)


@pytest.mark.parametrize("instead", WAYS, ids=lambda way: f"instead_{way.__name__}")
@pytest.mark.parametrize("tried", WAYS, ids=lambda way: f"tried_{way.__name__}")
async def test_what_was_paid_in_the_stead_of_a_failure_stays_paid_whoever_failed_and_whoever_paid(
    tried: Together, instead: Together
):  # proves: RUN-6, FX-2
    bank = Bank()

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> list[Any]:
        try:
            return await tried(run, bank.by_sepa(run, "i-1"))
        except (remit.EffectFailed, TimeoutError, ExceptionGroup):
            return await instead(run, bank.by_swift(run, "i-1"))

    async with remit.open("memory:") as rt:
        await pays_once(rt, bank, paying)


async def test_so_it_does_where_one_failed_among_several_whom_nobody_names(storage: Storage):  # proves: RUN-6, FX-2
    bank = Bank()

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        try:
            return await asyncio.gather(*[bank.by_sepa(run, invoice) for invoice in ("i-1", "i-2")])
        except remit.EffectFailed:
            return await asyncio.create_task(bank.by_swift(run, "both"))

    async with storage.open() as rt:
        await pays_once(rt, bank, paying)


@pytest.mark.parametrize("limit", [None, 1.0], ids=["however long", "in time"])
async def test_so_it_does_where_threads_of_a_plain_flow_pay(
    limit: float | None, storage: Storage
):  # proves: RUN-6, RUN-10, FX-2
    bank = Bank()

    @remit.flow(contract=OPEN)
    def paying(run: remit.SyncRun) -> Any:
        with ThreadPoolExecutor(4) as pool:

            def begin(effect: remit.Effect[str]) -> Any:
                return pool.submit(copy_context().run, run.branch(effect.name).effect, effect, Order())

            try:
                return begin(bank.sepa).result(timeout=limit)
            except (remit.EffectFailed, TimeoutError):
                begin(bank.swift).result()
                return begin(bank.advise).result()

    async with storage.open() as rt:
        await pays_once(rt, bank, paying)


@pytest.mark.parametrize("tried", [by_asyncio, in_tasks, in_a_group, in_time, looked_at, gathered, in_line])
async def test_what_was_paid_before_the_failure_itself_leaves_the_flow_stays_too(
    tried: Together, storage: Storage
):  # proves: RUN-6, FX-2
    """Behind the `except`, where nothing is being handled any more."""
    bank = Bank()

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        try:
            return await tried(run, bank.by_sepa(run, "i-1"))
        except (remit.EffectFailed, TimeoutError, ExceptionGroup) as exc:
            caught = exc
        with suppress(remit.EffectFailed):
            await asyncio.create_task(bank.by_swift(run, "i-1"))
        raise caught

    async with storage.open() as rt:
        for _ in range(3):
            with pytest.raises(remit.StepError):
                await rt.run(paying, id="r")
            bank.down = set()
    assert (bank.paid, bank.arrived["sepa"]) == ({"i-1": 1}, 1)


@pytest.mark.parametrize("together", [gathered, by_asyncio])
async def test_a_failure_that_was_handed_on_as_a_value_is_followed_by_what_was_called_since(
    together: Together, storage: Storage
):  # proves: RUN-6, FX-2
    bank = Bank()
    bank.down = {"i-2"}
    catches = False

    def fetch(invoice: str) -> str:
        bank.arrived[invoice] += 1
        if invoice in bank.down:
            raise OSError("no answer")
        return invoice

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> list[str]:
        async def one(invoice: str) -> str | remit.StepError:
            try:
                return str(await run.branch(invoice).step(fetch, invoice))
            except remit.StepError as exc:
                return exc

        found = await together(run, *[one(invoice) for invoice in ("i-1", "i-2", "i-3")])
        good = [invoice for invoice in found if isinstance(invoice, str)]
        for invoice in good:
            await run.branch(f"pay-{invoice}").effect(bank.swift, Order(invoice=invoice))
        for error in found:
            if isinstance(error, remit.StepError) and not catches:
                raise error
        return good

    async with storage.open() as rt:
        for _ in range(3):
            with pytest.raises(remit.StepError, match="no answer") as failed:
                await rt.run(paying, id="r")
            assert failed.value.hint.startswith("Let the flow catch this and go another way")
            bank.down = set()
        catches = True
        assert (await rt.run(paying, id="r")).value == ["i-1", "i-3"]
    assert (bank.paid, bank.arrived["i-2"]) == ({"i-1": 1, "i-3": 1}, 1)


# -- and what runs again -------------------------------------------------------------------------------------------


class Sides:
    """Branches of two steps each. What is down fails; each step may wait for others to be so far."""

    def __init__(self, *down: str) -> None:
        self.down = set(down)
        self.ran: Counter[str] = Counter()
        self.failed = asyncio.Event()

    async def quick(self, what: str) -> str:
        self.ran[what] += 1
        if what in self.down:
            self.failed.set()
            raise OSError(what)
        return what

    async def slow(self, what: str) -> str:
        await asyncio.wait_for(self.failed.wait(), 5)
        await asyncio.sleep(0.05)  # and whoever waits for what failed has been told
        return await self.quick(what)

    async def side(self, run: remit.Run, name: str) -> list[str]:
        branch = run.branch(name)
        return [await branch.step(self.slow, f"{name}-1"), await branch.step(self.quick, f"{name}-2")]

    async def failing(self, run: remit.Run) -> list[str]:
        return [await run.branch("down").step(self.quick, "down")]


async def all_of_them(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    found = await asyncio.gather(*calls, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return found


async def one_beside_the_flow(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    first, *others = calls
    waiting = asyncio.create_task(first)
    found = [await call for call in others]
    return [await waiting, *found]


async def two_at_a_time(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    slots = asyncio.Semaphore(2)

    async def in_a_slot(call: Coroutine[Any, Any, Any]) -> Any:
        async with slots:
            return await call

    return await all_of_them(run, *map(in_a_slot, calls))


async def as_they_come(run: remit.Run, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """By workers of which some have no slot yet when the flow is told that one failed."""
    slots, failed = asyncio.Semaphore(2), list[remit.StepError]()

    async def in_a_slot(call: Coroutine[Any, Any, Any]) -> Any:
        async with slots:
            return await call

    tasks = [asyncio.create_task(in_a_slot(call)) for call in calls]
    for each in asyncio.as_completed(tasks):
        try:
            await each
        except remit.StepError as exc:
            failed.append(exc)
    for error in failed:
        raise error
    return [task.result() for task in tasks]


@pytest.mark.parametrize("together", [gathered, all_of_them, one_beside_the_flow, two_at_a_time, as_they_come])
async def test_a_failure_beside_which_others_went_on_runs_again(
    together: Together, storage: Storage
):  # proves: RUN-6, RUN-8
    sides = Sides("down")

    @remit.flow(contract=OPEN)
    async def all_sides(run: remit.Run) -> list[Any]:
        return await together(run, sides.failing(run), *[sides.side(run, name) for name in "abc"])

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="down"):
            await rt.run(all_sides, id="r")
        sides.down = set()
        assert (await rt.run(all_sides, id="r")).value == [["down"], *([f"{n}-1", f"{n}-2"] for n in "abc")]
    assert sides.ran == {"down": 2} | {f"{name}-{step}": 1 for name in "abc" for step in (1, 2)}


async def test_so_does_one_beside_which_other_threads_of_a_plain_flow_went_on(
    storage: Storage,
):  # proves: RUN-6, RUN-10
    down, ran = {"down"}, Counter[str]()

    def step(what: str) -> str:
        ran[what] += 1
        if what in down:
            raise OSError(what)
        return what

    @remit.flow(contract=OPEN)
    def both(run: remit.SyncRun) -> list[str]:
        def side(name: str) -> list[str]:
            branch = run.branch(name)
            return [branch.step(step, f"{name}-1"), branch.step(step, f"{name}-2")]

        def failing() -> str:
            branch = run.branch("down")
            return f"{branch.step(step, 'up')}{branch.step(step, 'down')}"

        with ThreadPoolExecutor(2) as pool:
            beside, waiting = pool.submit(copy_context().run, side, "a"), pool.submit(copy_context().run, failing)
            return [*beside.result(), waiting.result()]

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="down"):
            await rt.run(both, id="r")
        down.clear()
        assert (await rt.run(both, id="r")).value == ["a-1", "a-2", "updown"]
    assert ran == {"a-1": 1, "a-2": 1, "up": 1, "down": 2}


FAIL_ALONE = [way for way in WAYS if way is not raced]  # a race is a call of its own, which did not fail
SAY_WHY = [way for way in FAIL_ALONE if way is not in_a_group]  # what a task group raises is from nothing


@pytest.mark.parametrize("instead", SAY_WHY, ids=lambda way: f"instead_{way.__name__}")
@pytest.mark.parametrize("tried", FAIL_ALONE, ids=lambda way: f"tried_{way.__name__}")
async def test_both_ways_run_again_where_both_failed_in_whatever_task(
    tried: Together, instead: Together
):  # proves: RUN-6, FX-2
    bank = Bank()
    bank.down = {"sepa", "swift"}

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        try:
            return await tried(run, bank.by_sepa(run, "i-1"))
        except (remit.EffectFailed, ExceptionGroup):
            return await instead(run, bank.by_swift(run, "i-1"))

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.StepError):
            await rt.run(paying, id="r")
        bank.down = set()
        assert (await rt.run(paying, id="r")).value == ["sepa"]
    assert (bank.paid, bank.arrived) == ({"i-1": 1}, {"sepa": 2, "swift": 1})


async def test_where_both_failed_and_a_task_that_was_told_of_the_first_paid_the_first_stays(
    storage: Storage,
):  # proves: RUN-6, FX-2
    """That the first was being handled when the second failed is no proof that nobody paid in its stead."""
    bank, told = Bank(), [asyncio.Event()]

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        told[0] = asyncio.Event()

        async def pays_when_told() -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(told[0].wait(), 0.5)
            await run.branch("other").effect(bank.swift, Order())

        other = asyncio.create_task(pays_when_told())
        await asyncio.sleep(0)
        try:
            return await bank.by_sepa(run, "i-1")
        except remit.EffectFailed:
            told[0].set()
            await other
            return await run.effect(bank.advise, Order())

    async with storage.open() as rt:
        await pays_once(rt, bank, paying)


async def test_on_a_branch_of_a_gather_both_run_again_whatever_its_other_branches_called(
    storage: Storage,
):  # proves: RUN-6, RUN-8
    sides = Sides("down", "instead")

    @remit.flow(contract=OPEN)
    async def all_sides(run: remit.Run) -> list[Any]:
        async def either() -> list[str]:
            try:
                return await sides.failing(run)
            except remit.StepError:
                return [await run.branch("down").step(sides.slow, "instead")]

        return await run.gather(either(), sides.side(run, "a"))

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="instead"):
            await rt.run(all_sides, id="r")
        sides.down = set()
        assert (await rt.run(all_sides, id="r")).value == [["down"], ["a-1", "a-2"]]
    assert sides.ran == {"down": 2, "instead": 1, "a-1": 1, "a-2": 1}


async def test_all_that_failed_in_a_gather_beside_the_flow_runs_again_at_once(storage: Storage):  # proves: RUN-6, RUN-8
    sides = Sides("down", "too")

    @remit.flow(contract=OPEN)
    async def all_sides(run: remit.Run) -> list[Any]:
        waiting = asyncio.create_task(
            run.gather(run.branch("down").step(sides.quick, "down"), run.branch("too").step(sides.quick, "too"))
        )
        return [*await sides.side(run, "a"), *await waiting]

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="down"):
            await rt.run(all_sides, id="r")
        sides.down = set()
        assert (await rt.run(all_sides, id="r")).value == ["a-1", "a-2", "down", "too"]
    assert sides.ran == {"down": 2, "too": 2, "a-1": 1, "a-2": 1}


@pytest.mark.parametrize("around", [gathered, raced])
async def test_a_branch_that_pays_itself_for_a_task_that_it_began_before_any_call_of_its_own_is_around_it(
    around: Together, storage: Storage
):  # proves: RUN-6, FX-2
    bank = Bank()

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        async def by_either() -> None:
            waiting = asyncio.create_task(bank.by_sepa(run, "i-1"))
            await asyncio.wait([waiting], timeout=0.4)
            if not waiting.done() or waiting.exception() is not None:
                await run.branch("other").effect(bank.swift, Order())
            await waiting

        return await around(run, by_either())

    async with storage.open() as rt:
        for _ in range(2):
            with pytest.raises(remit.EffectDidNotHappen):
                await rt.run(paying, id="r")
            bank.down = set()
    assert (bank.paid, bank.arrived["sepa"]) == ({"i-1": 1}, 1)


async def test_the_thread_of_a_plain_flow_is_around_those_that_it_began_before_any_call_of_its_own(
    storage: Storage,
):  # proves: RUN-6, RUN-10, FX-2
    bank = Bank()

    @remit.flow(contract=OPEN)
    def paying(run: remit.SyncRun) -> None:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(copy_context().run, run.branch("sepa").effect, bank.sepa, Order())
            run.now()
            wait([waiting], timeout=0.4)
            if not waiting.done() or waiting.exception() is not None:
                run.effect(bank.swift, Order())
            waiting.result()

    async with storage.open() as rt:
        for _ in range(2):
            with pytest.raises(remit.EffectDidNotHappen):
                await rt.run(paying, id="r")
            bank.down = set()
    assert (bank.paid, bank.arrived["sepa"]) == ({"i-1": 1}, 1)


@pytest.mark.parametrize("leaves", ["both", "the second"])
async def test_a_thread_that_fails_twice_is_followed_by_what_was_called_in_between(
    leaves: str, storage: Storage
):  # proves: RUN-6, RUN-10, FX-2
    bank, ran = Bank(), list[bool]()

    def broken() -> None:
        ran.append(True)
        raise OSError("no answer")

    @remit.flow(contract=OPEN)
    def paying(run: remit.SyncRun) -> None:
        failed: list[remit.StepError] = []
        has_failed, has_paid = threading.Event(), threading.Event()

        def twice() -> None:
            branch = run.branch("sepa")
            try:
                branch.effect(bank.sepa, Order())
            except remit.EffectFailed as exc:
                failed.append(exc)
            has_failed.set()
            has_paid.wait(5)
            try:
                branch.step(broken)
            except remit.StepError as exc:
                failed.append(exc)

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(copy_context().run, twice)
            has_failed.wait(0.4)
            if failed or not has_failed.is_set():
                run.effect(bank.swift, Order())
            has_paid.set()
            waiting.result()
        raise failed[1] if leaves == "the second" else ExceptionGroup("both", failed)

    async with storage.open() as rt:
        for _ in range(2):
            with pytest.raises(remit.StepError):
                await rt.run(paying, id="r")
            bank.down = set()
    assert (bank.paid, bank.arrived["sepa"], len(ran)) == ({"i-1": 1}, 1, 2)


async def test_a_failure_stays_where_another_that_stays_leads_to_what_failed_in_its_stead(
    storage: Storage,
):  # proves: RUN-6, FX-2
    """Both orders failed, of which the flow is told of one, and then the bureau. The other one leads there again."""
    bank = Bank()
    bank.down = {"sepa", "swift"}

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        try:
            return await asyncio.gather(*[bank.by_sepa(run, invoice) for invoice in ("i-1", "i-2")])
        except remit.EffectFailed:
            await run.effect(bank.swift, Order(invoice="i-1"))
            return await run.branch("other").effect(bank.swift, Order(invoice="i-2"))

    async with storage.open() as rt:
        with pytest.raises(remit.EffectDidNotHappen, match="swift"):
            await rt.run(paying, id="r")
        bank.down = set()
        assert (await rt.run(paying, id="r")).status == "completed"
    assert (bank.paid, bank.arrived["sepa"]) == ({"i-1": 1, "i-2": 1}, 2)


async def test_a_gather_that_began_behind_the_failure_has_no_branch_beside_it(storage: Storage):  # proves: RUN-6, FX-2
    bank = Bank()

    async def instead(run: remit.Run) -> None:
        await run.effect(bank.swift, Order())

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        waiting = asyncio.create_task(bank.by_sepa(run, "i-1"))
        await asyncio.wait([waiting], timeout=0.4)
        if not waiting.done() or waiting.exception() is not None:
            await run.gather(instead(run))
        try:
            return await waiting
        except remit.EffectFailed:
            return await run.effect(bank.advise, Order())

    async with storage.open() as rt:
        await pays_once(rt, bank, paying)


async def test_a_failure_that_stays_and_that_both_ways_come_behind_keeps_neither(storage: Storage):  # proves: RUN-6
    bank = Bank()
    bank.down = {"sepa", "swift", "advise"}

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        with suppress(remit.EffectFailed):
            await asyncio.create_task(run.effect(bank.advise, Order()))
        try:
            return await bank.by_sepa(run, "i-1")
        except remit.EffectFailed:
            return await run.effect(bank.swift, Order())

    async with storage.open() as rt:
        with pytest.raises(remit.EffectDidNotHappen, match="swift"):
            await rt.run(paying, id="r")
        bank.down = set()
        assert (await rt.run(paying, id="r")).value == "sepa"
    assert (bank.paid, bank.arrived) == ({"i-1": 1}, {"advise": 1, "sepa": 2, "swift": 1})
