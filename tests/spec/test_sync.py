"""Plain synchronous code: the same names, the same journal, and no blocked loop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

import remit
from remit import Contract, Step
from remit.engine.runs.plain import Waits
from remit.engine.turn.closing import AttemptClosed
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")


def test_a_plain_flow_resumes_like_any_other(storage: Storage):  # proves: RUN-10, RUN-1
    ran: list[str] = []
    is_broken = True

    @remit.step
    def fetch(name: str) -> str:
        ran.append(name)
        return name.upper()

    @remit.flow(contract=OPEN)
    def plain(run: remit.SyncRun, names: list[str]) -> list[str]:
        got = [run.step(fetch, name) for name in names]
        got += run.gather(run.step_call(fetch, "x"), run.step_call(fetch, "y"))
        got.append(run.first(run.step_call(fetch, "z")))
        got.append(run.branch("b").step(fetch, "in b"))
        assert run.now() == run.now() or run.random() != run.random() or run.uuid() != run.uuid()
        if is_broken:
            raise RuntimeError("stop here")
        return got

    with storage.open() as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(plain, ["a", "b"], id="r")
    is_broken = False
    with storage.open() as rt:
        assert rt.run_sync(plain, ["a", "b"], id="r").value == ["A", "B", "X", "Y", "Z", "IN B"]
        assert sorted(rt.show_sync("r").view.calls)[:3] == ["b/fetch", "fetch", "fetch#2"]
    assert sorted(ran) == ["a", "b", "in b", "x", "y", "z"]


async def test_a_named_call_that_nothing_waits_for_is_refused(storage: Storage):  # proves: RUN-10
    ran: list[str] = []
    is_mended = False

    def pay() -> None:
        ran.append("pay")

    @remit.flow(contract=OPEN)
    def forgetful(run: remit.SyncRun) -> None:
        call = run.step_call(pay)
        if is_mended:
            run.gather(call)

    async with storage.open() as rt:
        with pytest.raises(remit.CallRefused) as refused:
            await rt.run(forgetful, id="r")
        assert (refused.value.code, ran) == ("call.unawaited", [])
        is_mended = True
        assert (await rt.run(forgetful, id="r")).status == "completed"
    assert ran == ["pay"]


@pytest.mark.parametrize("is_plain", [True, False])
async def test_a_flow_that_stops_between_a_call_and_its_wait_warns_of_nothing(is_plain: bool):  # proves: RUN-10
    def stop() -> None:
        raise RuntimeError("here")

    @remit.flow(contract=OPEN, name="flow")
    def plain(run: remit.SyncRun) -> None:
        call = run.step_call(print)
        run.step(stop)
        run.gather(call)

    @remit.flow(contract=OPEN, name="flow")
    async def on_loop(run: remit.Run) -> None:
        call = run.step(print)
        await run.step(stop)
        await call

    flow = plain if is_plain else on_loop
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        async with remit.open("memory:") as rt:
            with pytest.raises(remit.StepError):
                await rt.run(flow, id="r")
            assert (await rt.check("r", flow)).fit == "compatible"
        gc.collect()
    assert [str(each.message) for each in told] == []


async def test_a_sync_call_inside_a_running_loop_names_its_async_twin(storage: Storage):  # proves: RUN-10
    @remit.flow(contract=OPEN)
    async def nothing(run: remit.Run) -> None: ...

    async with storage.open() as rt:
        with pytest.raises(remit.SyncInLoop, match=r"await rt\.run\("):
            rt.run_sync(nothing, id="r")
    with pytest.raises(remit.SyncInLoop, match=r"remit\.open"):
        with storage.open():
            pass
    with pytest.raises(remit.SyncInLoop, match=r"await remit\.run_async\("):
        remit.run("r", [], "memory:")


async def test_plain_steps_and_flows_do_not_block_the_loop(storage: Storage):  # proves: RUN-10
    in_step, go = threading.Event(), threading.Event()

    def wait_for_the_loop() -> str:
        in_step.set()
        assert go.wait(20)
        return threading.current_thread().name

    @remit.flow(contract=OPEN)
    def plain(run: remit.SyncRun) -> Any:
        return run.step(wait_for_the_loop)

    @remit.flow(contract=OPEN)
    async def mixed(run: remit.Run) -> Any:
        return await run.step(wait_for_the_loop)

    async with storage.open() as rt:
        for flow in (plain, mixed):
            in_step.clear()
            go.clear()
            task = asyncio.create_task(rt.run(flow, id=flow.name))
            while not in_step.is_set():
                await asyncio.sleep(0)  # the loop turns while the step waits
            go.set()
            assert (await task).value != threading.current_thread().name


def test_a_plain_flow_is_refused_when_its_code_no_longer_fits(storage: Storage):  # proves: RUN-4, RUN-10
    def version(name: str, *, is_broken: bool) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="plain")
        def plain(run: remit.SyncRun) -> None:
            run.step(Step(name, str), 1)
            if is_broken:
                raise RuntimeError

        return plain

    with storage.open() as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(version("a", is_broken=True), id="r")
        with pytest.raises(remit.DefinitionIncompatible):
            rt.run_sync(version("b", is_broken=False), id="r")
        assert rt.run_sync(version("a", is_broken=False), id="r").status == "completed"


def test_a_runtime_that_is_not_open_says_so():
    @remit.flow(contract=OPEN)
    def plain(run: remit.SyncRun) -> None: ...

    rt = remit.open("memory:")
    with pytest.raises(remit.StoreClosed):
        rt.run_sync(plain, id="r")
    with rt:
        rt.run_sync(plain, id="r")
    with pytest.raises(remit.StoreClosed):
        rt.run_sync(plain, id="r")


def test_what_a_flow_left_behind_is_cancelled_when_the_runtime_closes():  # proves: RUN-10
    left: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("cancelled")

    @remit.flow(contract=OPEN)
    async def forgetful(run: remit.Run) -> None:
        tasks.append(asyncio.create_task(wait_for_ever()))
        await asyncio.sleep(0)

    tasks: list[Any] = []
    with remit.open("memory:") as rt:
        rt.run_sync(forgetful, id="r")
        assert left == []
    assert left == ["cancelled"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing but ask
def test_a_forked_child_is_refused_what_its_parent_opened(storage: Storage):  # proves: OWN-8, C36
    @remit.flow(contract=OPEN)
    def flow(run: remit.SyncRun) -> int:
        return 1

    with storage.open() as rt:
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # a child that waits for ever is a child that failed
            try:
                rt.run_sync(flow, id="r")
            except remit.StoreClosed as error:
                os._exit(0 if error.code == "store.forked" else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert rt.run_sync(flow, id="r").value == 1


async def test_a_cancelled_plain_flow_cancels_the_step_that_it_waits_for():  # proves: RUN-10
    begun, stopped = asyncio.Event(), asyncio.Event()

    @remit.step
    async def long() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    def flow(run: remit.SyncRun) -> None:
        run.step(long)

    async with remit.open("memory:") as rt:
        running = asyncio.create_task(rt.run(flow, id="r"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(stopped.wait(), 5)
        assert [kind for kind in (await rt.show("r")).view.calls] == []


def test_a_call_that_is_noted_after_its_flow_was_cancelled_is_cancelled_too():  # proves: RUN-10
    """The loop may have begun it, and heard of the cancellation, before the flow's thread says that it waits."""
    waits, call = Waits(), Future[None]()
    waits.cancel()
    with pytest.raises(AttemptClosed):
        waits.for_(call)
    assert call.cancelled()


async def test_a_plain_flow_whose_caller_went_away_takes_that_for_no_failure(
    storage: Storage,
):  # proves: RUN-10, RUN-15
    begun, is_over = asyncio.Event(), threading.Event()
    heard: list[BaseException] = []

    @remit.step
    async def price() -> int:
        begun.set()
        await asyncio.Event().wait()
        return 1

    @remit.flow(contract=OPEN)
    def flow(run: remit.SyncRun) -> int:
        try:
            return int(run.step(price))
        except Exception as error:
            heard.append(error)
            return 0
        finally:
            is_over.set()

    async with storage.open() as rt:
        running = asyncio.ensure_future(rt.run(flow, id="r"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await asyncio.to_thread(is_over.wait, 10)
    assert heard == []


class Interrupted:
    """A payment in the middle of which somebody presses Ctrl-C; the flow hears of that before it pays.

    is_left: set when nobody waits for it any more; where they do, it pays at once.
    """

    def __init__(self, *, times: int) -> None:
        self.paid, self.is_left = list[str](), threading.Event()
        self._heard = threading.Event()

        @remit.effect
        def pay(invoice: str, *, key: str) -> str:
            for _ in range(times):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                assert self._heard.wait(10)
            assert times == 1 or self.is_left.wait(10)
            self.paid.append(invoice)
            return "paid"

        self.pay: remit.Effect[str] = pay

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Around what a flow calls."""
        try:
            yield
        finally:
            self._heard.set()


def plain_flow(payment: Interrupted) -> remit.Flow[Any]:
    @remit.flow(contract=OPEN, name="flow")
    def flow(run: remit.SyncRun) -> str:
        with payment.hearing():
            return run.effect(payment.pay, "i-1")

    return flow


def async_flow(payment: Interrupted) -> remit.Flow[Any]:
    @remit.flow(contract=OPEN, name="flow")
    async def flow(run: remit.Run) -> str:
        with payment.hearing():
            return await run.effect(payment.pay, "i-1")

    return flow


@pytest.mark.parametrize("flow_of", [plain_flow, async_flow])
def test_ctrl_c_in_plain_code_sees_a_payment_through(
    flow_of: Callable[[Interrupted], remit.Flow[Any]], storage: Storage
):  # proves: RUN-10, RUN-15, FX-10
    payment = Interrupted(times=1)
    flow = flow_of(payment)
    with storage.open() as rt:
        with pytest.raises(KeyboardInterrupt):
            rt.run_sync(flow, id="r")
        assert payment.paid == ["i-1"]
        assert [effect.state for effect in rt.effects_sync("r")] == ["ok"]
        assert rt.run_sync(flow, id="r").value == "paid"
    assert payment.paid == ["i-1"]


def test_ctrl_c_a_second_time_does_not_wait(database: Storage):  # proves: RUN-10, FX-2
    payment = Interrupted(times=2)
    with database.open() as rt:
        with pytest.raises(KeyboardInterrupt):
            rt.run_sync(async_flow(payment), id="r")
        assert payment.paid == []
    payment.is_left.set()
    with database.open() as rt:
        assert [effect.state for effect in rt.effects_sync("r")] == ["in_doubt"]
