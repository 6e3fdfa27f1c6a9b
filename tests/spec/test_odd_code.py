"""Odd code: whatever users' code does, its journal verifies and its caller gets an error with a code."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import enum
import sys
import threading
from typing import Any

import pytest

import remit
from remit import Contract, Step
from remit.store.memory import MemoryStore
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")


def _textless() -> remit.RemitError:
    error = remit.RemitError("x")
    del error.message  # as a class does that does not call its parent's __init__
    return error


ODD: dict[str, Any] = {
    "a code that is a number": remit.RemitError("x", code=404),  # type: ignore[arg-type]
    "a code that can't be encoded": remit.RemitError("x", code="\ud800\n"),
    "a text that is a number": remit.RemitError(42),  # type: ignore[arg-type]
    "no text": _textless(),
}


@pytest.mark.parametrize("odd", ODD)
async def test_an_error_with_an_odd_code_or_text_never_spoils_the_journal(  # proves: RUN-6, C29
    storage: Storage, odd: str
):
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        raise ODD[odd]

    async with storage.open() as rt:
        for _ in range(2):
            with pytest.raises(remit.StepError) as raised:
                await rt.run(flow, id="r")
            assert raised.value.error_type == "remit.errors.RemitError"
        assert await rt.verify("r") is None
        assert (await rt.show("r")).view.code == "step.failed"


class OddDenial(remit.Denied):
    code = 5  # type: ignore[assignment]


def _textless_denial() -> remit.Denied:
    error = remit.Denied("x")
    del error.message
    return error


@pytest.mark.parametrize("denial", [OddDenial("no"), _textless_denial()], ids=["code", "text"])
async def test_a_denial_with_an_odd_code_or_text_ends_the_run_like_any_other(  # proves: RUN-15, C29
    storage: Storage, denial: remit.Denied
):
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.step(fine)
        raise denial

    async with storage.open() as rt:
        for _ in range(2):
            outcome = await rt.run(flow, id="r")
            assert (outcome.status, outcome.code) == ("failed", "denied")
        assert await rt.verify("r") is None


@remit.step
async def fine() -> None:
    pass


class FractionalClock:
    def now(self) -> float:
        return 1_700_000_000_000_000.5


async def test_a_clock_that_gives_no_whole_microseconds_is_refused_before_anything_is_written():  # proves: LOG-1
    with pytest.raises(remit.Refused) as refused:
        async with remit.open("memory:", clock=FractionalClock()):  # type: ignore[arg-type]
            pass
    assert refused.value.code == "clock.reading"


async def _cancels_what_it_waits_for() -> None:
    task = asyncio.ensure_future(asyncio.Event().wait())
    task.cancel()
    await task


async def test_a_step_in_which_something_was_cancelled_has_failed(storage: Storage):  # proves: RUN-6
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.step(_cancels_what_it_waits_for)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            await rt.run(flow, id="r")
        assert raised.value.name == "_cancels_what_it_waits_for"
        assert (await rt.show("r")).view.status == "waiting"


async def test_a_flow_in_which_something_was_cancelled_waits_for_repair(storage: Storage):  # proves: RUN-6, RUN-7
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await _cancels_what_it_waits_for()

    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            await rt.run(flow, id="r")
        assert raised.value.name == "flow"
        assert (await rt.show("r")).view.status == "waiting"


async def test_a_failure_that_was_caught_stays_when_another_run_s_step_of_that_name_fails(
    storage: Storage,
):  # proves: RUN-6
    ran: list[str] = []
    is_broken = True

    async def fetch(whose: str) -> None:
        ran.append(whose)
        if whose == "own" or is_broken:
            raise ValueError(whose)

    @remit.flow(contract=OPEN)
    async def other(run: remit.Run) -> None:
        await run.step(fetch, "other's")

    async with storage.open() as rt:

        @remit.flow(contract=OPEN)
        async def flow(run: remit.Run) -> None:
            try:
                await run.step(fetch, "own")
            except remit.StepError:
                pass
            await rt.run(other, id="other")

        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        is_broken = False
        await rt.run(flow, id="r")

    assert ran == ["own", "other's", "other's"]


async def test_all_that_failed_in_one_gather_runs_again_at_the_next_call(storage: Storage):  # proves: RUN-6, RUN-8
    ran: list[int] = []
    is_broken = True

    async def fetch(number: int) -> int:
        ran.append(number)
        if is_broken and number:
            raise ValueError(number)
        return number

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[int]:
        return await run.gather(*[run.step(fetch, number) for number in range(4)])

    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            await rt.run(flow, id="r")
        assert (raised.value.name, len(raised.value.beside)) == ("fetch#2", 2)
        is_broken = False
        assert (await rt.run(flow, id="r")).value == [0, 1, 2, 3]

    assert ran == [0, 1, 2, 3, 1, 2, 3]


def test_a_flow_that_yields_is_refused_when_it_is_declared():  # proves: RUN-10
    def yielding(run: remit.SyncRun) -> Any:
        yield run.id

    async def yielding_too(run: remit.Run) -> Any:
        yield run.id

    for fn in (yielding, yielding_too):
        with pytest.raises(remit.DeclarationRefused) as refused:
            remit.flow(contract=OPEN)(fn)
        assert refused.value.code == "flow.function"


class Fetching:
    async def __call__(self) -> int:
        return 1


def wrapped() -> Any:
    return Fetching()()


async def test_what_gives_a_coroutine_is_awaited_however_it_is_written():  # proves: RUN-10
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[int]:
        return [await run.step(Step("object", Fetching())), await run.step(wrapped)]

    async with remit.open("memory:") as rt:
        assert (await rt.run(flow, id="r")).value == [1, 1]


class Supplier(enum.StrEnum):
    BOLTS = "bolts"


class Label(str):
    pass


async def test_an_id_of_a_class_that_derives_from_text_is_its_text(storage: Storage):  # proves: RUN-11, C32
    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        return run.id

    async with storage.open() as rt:
        for id_, plain in ((Supplier.BOLTS, "bolts"), (Label("nuts"), "nuts")):
            outcome = await rt.run(flow, id=id_, by=Label("user:dana"), behalf=Label("user:eve"))
            assert (type(outcome.run), outcome.run, outcome.value) == (str, plain, plain)
            assert (await rt.run(flow, id=plain, by="user:dana", behalf="user:eve")).value == plain


async def test_threads_of_a_plain_flow_may_draw_while_others_call_steps():  # proves: RUN-9, RUN-10
    def fetch(number: int) -> int:
        return number

    @remit.flow(contract=OPEN)
    def flow(run: remit.SyncRun) -> None:
        def work(branch: remit.SyncRun) -> None:
            for number in range(20):
                branch.step(fetch, number)
                branch.uuid()
                branch.now()

        with concurrent.futures.ThreadPoolExecutor(6) as threads:
            branches = [run.branch(str(number)) for number in range(6)]
            for call in [threads.submit(contextvars.copy_context().run, work, branch) for branch in branches]:
                call.result()

    async with remit.open(MemoryStore()) as rt:
        assert (await rt.run(flow, id="r")).status == "completed"
        assert await rt.verify("r") is None


def test_a_plain_step_that_exits_has_failed(storage: Storage):  # proves: RUN-6, RUN-10
    def leaves() -> None:
        sys.exit(3)

    @remit.flow(contract=OPEN)
    def flow(run: remit.SyncRun) -> None:
        run.step(leaves)

    with storage.open() as rt:
        with pytest.raises(remit.StepError, match="it raised SystemExit 3"):
            rt.run_sync(flow, id="r")
        assert rt.show_sync("r").view.status == "waiting"


def test_what_exits_in_an_asyncio_task_of_a_flow_s_own_ends_no_loop_of_plain_code(storage: Storage):  # proves: RUN-10
    async def leaves() -> None:
        sys.exit(3)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await asyncio.ensure_future(leaves())

    before = set(threading.enumerate())
    with storage.open() as rt:
        with pytest.raises(remit.StepError, match="SystemExit 3"):
            rt.run_sync(flow, id="r")
        assert [row.run for row in rt.list_sync()] == ["r"]
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert [name for name in left if name.startswith("remit-l")] == []


def test_a_caller_whose_runtime_is_closed_under_it_is_told_so(storage: Storage):  # proves: RUN-10
    has_begun, told = threading.Event(), []

    async def waits() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.step(waits)

    def call(rt: remit.Runtime) -> None:
        try:
            rt.run_sync(flow, id="r")
        except remit.RemitError as error:
            told.append(error.code)

    with storage.open() as rt:
        caller = threading.Thread(target=call, args=(rt,))
        caller.start()
        assert has_begun.wait(10)
    caller.join(10)
    assert told == ["store.closed"]


async def test_what_is_no_call_is_refused_before_any_call_beside_it_begins(storage: Storage):  # proves: RUN-8
    ran: list[str] = []

    async def fetch() -> None:
        ran.append("fetch")

    @remit.flow(contract=OPEN)
    async def listed(run: remit.Run) -> None:
        await run.gather(run.step(fetch), [7])  # type: ignore[arg-type]

    @remit.flow(contract=OPEN)
    async def raced(run: remit.Run) -> None:
        await run.first(run.step(fetch), 7)  # type: ignore[arg-type]

    @remit.flow(contract=OPEN)
    def plain(run: remit.SyncRun) -> None:
        run.gather(run.step_call(fetch), 5)  # type: ignore[arg-type]

    async with storage.open() as rt:
        for flow in (listed, raced, plain):
            with pytest.raises(remit.CallRefused) as refused:
                await rt.run(flow, id=flow.name)
            assert refused.value.code == "call.not_awaitable"
            assert (await rt.show(flow.name)).view.status == "waiting"

    assert ran == []
