"""Runs: one call starts or goes on, what is recorded never runs again, what raised is saved up to there."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit import Contract, Step
from remit.store.memory import MemoryStore
from remit.store.rows import RunRow
from remit.store.units import Opening
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")


class Counted:
    """Counts how often each body ran, and fails where it is told to."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.broken: set[str] = set()

    def __call__(self, name: str) -> str:
        self.ran.append(name)
        if name in self.broken:
            raise ValueError(f"{name} is broken")
        return name.upper()


def letters(counted: Counted, *names: str, contract: Contract = OPEN) -> remit.Flow[Any]:
    @remit.flow(contract=contract, name="letters")
    async def flow(run: remit.Run, given: Any) -> list[str]:
        return [await run.step(Step(name, counted), name) for name in names]

    return flow


async def test_the_same_call_starts_a_run_and_returns_its_outcome_again(storage: Storage):  # proves: RUN-1
    counted = Counted()
    async with storage.open() as rt:
        first = await rt.run(letters(counted, "a", "b"), id="r")
        again = await rt.run(letters(counted, "a", "b"), id="r")

    assert first.value == again.value == ["A", "B"]
    assert (first.status, again.status) == ("completed", "completed")
    assert counted.ran == ["a", "b"]


async def test_an_ended_run_is_still_there_when_the_store_is_opened_again(storage: Storage):  # proves: RUN-1, RUN-3
    counted = Counted()
    async with storage.open() as rt:
        await rt.run(letters(counted, "a", "b"), id="r")
    async with storage.open() as rt:
        again = await rt.run(letters(counted, "a", "b"), id="r")

    assert again.value == ["A", "B"]
    assert counted.ran == ["a", "b"]


async def test_a_step_that_raises_leaves_all_before_it_saved_and_runs_again(storage: Storage):  # proves: RUN-6
    counted = Counted()
    counted.broken = {"b"}
    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            await rt.run(letters(counted, "a", "b", "c"), id="r")
        assert (raised.value.name, raised.value.occurrence, raised.value.run) == ("b", 1, "r")
        assert raised.value.error_type == "ValueError"
        assert isinstance(raised.value.__cause__, ValueError)
        waiting = await rt.wait("r")
        assert (waiting.status, waiting.code, waiting.waits_for) == ("waiting", "step.failed", "repair")
        assert "b is broken" in waiting.reason

    counted.broken = set()
    async with storage.open() as rt:
        outcome = await rt.run(letters(counted, "a", "b", "c"), id="r")

    assert outcome.value == ["A", "B", "C"]
    assert counted.ran == ["a", "b", "b", "c"]


async def test_the_error_tells_which_occurrence_failed(storage: Storage):  # proves: RUN-6
    calls = 0

    async def tick() -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyError("third")
        return calls

    @remit.flow(contract=OPEN)
    async def ticking(run: remit.Run) -> None:
        for _ in range(3):
            await run.step(tick)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            await rt.run(ticking, id="r")
    assert (raised.value.name, raised.value.occurrence) == ("tick#3", 3)


async def test_a_failure_that_the_flow_caught_is_caught_again_on_replay(storage: Storage):  # proves: RUN-6
    counted = Counted()
    counted.broken = {"a", "b"}

    @remit.flow(contract=OPEN)
    async def careful(run: remit.Run) -> list[str]:
        try:
            await run.step(Step("a", counted), "a")
        except remit.StepError as exc:
            caught = f"{exc.error_type}: {exc.detail}"
        return [caught, await run.step(Step("b", counted), "b")]

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="b of run"):
            await rt.run(careful, id="r")
        counted.broken = set()
        outcome = await rt.run(careful, id="r")

    assert outcome.value == ["ValueError: a is broken", "B"]
    assert counted.ran == ["a", "b", "b"]  # a stays failed, because the flow dealt with it


async def test_a_failure_in_the_flow_itself_parks_the_run_for_repair(storage: Storage):  # proves: RUN-6, RUN-7
    counted, is_mended = Counted(), False

    @remit.flow(contract=OPEN)
    async def clumsy(run: remit.Run) -> str:
        done: str = await run.step(Step("a", counted), "a")
        if not is_mended:
            raise ZeroDivisionError("in the flow")
        return done

    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            await rt.run(clumsy, id="r")
        assert (raised.value.name, raised.value.error_type) == ("clumsy", "ZeroDivisionError")
        is_mended = True
        assert (await rt.run(clumsy, id="r")).value == "A"
    assert counted.ran == ["a"]


async def test_the_same_id_with_another_input_is_refused(storage: Storage):  # proves: RUN-11
    counted = Counted()
    flow = letters(counted, "a")
    async with storage.open() as rt:
        await rt.run(flow, {"n": 1}, id="r")
        with pytest.raises(remit.InputMismatch) as refused:
            await rt.run(flow, {"n": 2}, id="r")
        assert (await rt.run(flow, {"n": 1}, id="r")).status == "completed"
    assert refused.value.code == "input_mismatch"
    assert counted.ran == ["a"]


async def test_empty_inputs_are_different_inputs(storage: Storage):  # proves: RUN-11, RUN-12
    """Case C26."""
    flow = letters(Counted(), "a")
    async with storage.open() as rt:
        empty: tuple[Any, ...] = ("", 0, False, [], {}, None)
        for given in empty:
            await rt.run(flow, given, id=f"r-{given!r}")
            for other in empty:
                if type(other) is not type(given):
                    with pytest.raises(remit.InputMismatch):
                        await rt.run(flow, other, id=f"r-{given!r}")


async def test_another_executor_or_flow_is_refused_and_changes_nothing(storage: Storage):  # proves: RUN-11
    counted = Counted()
    async with storage.open() as rt:
        await rt.run(letters(counted, "a"), id="r", by="agent:buyer", behalf="user:dana")
        before = await rt.read("r")
        for by, behalf in (
            (None, None),
            ("agent:other", "user:dana"),
            ("agent:buyer", None),
            ("agent:buyer", "user:x"),
        ):
            with pytest.raises(remit.ExecutorMismatch):
                await rt.run(letters(counted, "a"), id="r", by=by, behalf=behalf)

        @remit.flow(contract=OPEN)
        async def other(run: remit.Run, given: Any) -> None: ...

        with pytest.raises(remit.FlowMismatch):
            await rt.run(other, id="r", by="agent:buyer", behalf="user:dana")
        assert await rt.read("r") == before


async def test_three_starts_at_once_make_one_run(storage: Storage):  # proves: RUN-11
    """Cases C4 and C8."""
    counted = Counted()
    flow = letters(counted, "a")
    async with storage.open() as rt:
        assert await asyncio.gather(*(rt.start(flow, 1, id="r") for _ in range(3))) == ["r", "r", "r"]
        with pytest.raises(remit.InputMismatch):
            await rt.start(flow, 2, id="r")
        assert (await rt.show("r")).view.status == "queued"
        assert counted.ran == []
    async with storage.open() as rt:
        outcomes = await asyncio.gather(*(rt.run(flow, 1, id="r") for _ in range(3)))
    assert [o.value for o in outcomes] == [["A"]] * 3
    assert counted.ran == ["a"]


async def test_a_caller_that_waited_for_an_opening_that_failed_opens_the_run():  # proves: RUN-11, RUN-1
    class OnceUnavailable(MemoryStore):
        async def open_run(self, opening: Opening) -> RunRow | None:
            if not failed:
                failed.append(opening.run)
                await asyncio.sleep(0)  # the other caller comes while this one opens the run
                raise remit.StoreUnavailable("Nothing was written.")
            return await super().open_run(opening)

    failed: list[str] = []
    counted = Counted()
    async with remit.open(OnceUnavailable()) as rt:
        calls = (rt.run(letters(counted, "a"), id="r") for _ in range(2))
        first, second = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(first, remit.StoreUnavailable)
    assert isinstance(second, remit.Outcome) and second.value == ["A"]


async def test_a_step_outcome_is_durable_before_the_next_step_begins(storage: Storage):  # proves: RUN-3
    async with storage.open() as rt:
        seen: list[int] = []

        async def look(n: int) -> int:
            seen.append(sum(1 for entry in (await rt.read("r")).main if b'"StepDone"' in entry.header))
            return n

        @remit.flow(contract=OPEN)
        async def looking(run: remit.Run) -> None:
            for n in range(4):
                await run.step(look, n)

        await rt.run(looking, id="r")
    assert seen == [0, 1, 2, 3]


async def test_resume_goes_on_with_the_recorded_input_and_executor(storage: Storage):  # proves: RUN-1, RPL-2
    counted = Counted()
    counted.broken = {"b"}
    flow = letters(counted, "a", "b")
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, {"n": 1}, id="r", by="agent:buyer")
        counted.broken = set()
        assert (await rt.resume("r", flow)).value == ["A", "B"]
        with pytest.raises(remit.RunAbsent):
            await rt.resume("absent", flow)


async def test_a_cancelled_caller_hands_the_run_back(storage: Storage):  # proves: OWN-1, FX-12
    counted = Counted()
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    @remit.flow(contract=OPEN)
    async def hanging(run: remit.Run) -> None:
        await run.step(Step("a", counted), "a")
        await run.step(hang)

    async with storage.open() as rt:
        task = asyncio.create_task(rt.run(hanging, id="r"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        row = (await rt.read("r")).row
        assert (row.worker, row.status) == (None, "running")


async def test_except_exception_does_not_eat_the_end_of_an_attempt(storage: Storage):  # proves: RUN-15
    """Case C44: `try: ... except Exception: pass` around every await."""
    counted = Counted()

    @remit.flow(contract=OPEN, name="greedy")
    async def before(run: remit.Run) -> None:
        await run.step(Step("a", counted), "a")
        raise RuntimeError("stop here")

    @remit.flow(contract=OPEN, name="greedy")
    async def after(run: remit.Run) -> str:
        try:
            await run.step(Step("renamed", counted), "renamed")
        except Exception:
            pass
        try:
            await run.step(Step("another", counted), "another")
        except Exception:
            pass
        return "went on regardless"

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(before, id="r")
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(after, id="r")
        assert (await rt.wait("r")).status == "waiting"
    assert counted.ran == ["a"]


async def test_a_flow_that_asks_for_ever_takes_the_loop_from_nobody(storage: Storage):  # proves: RUN-15, C44
    done = asyncio.Event()

    @remit.flow(contract=OPEN)
    async def greedy(run: remit.Run) -> None:
        while not done.is_set():
            try:
                await run.approve("terms", {}, roles={"director"}, within=timedelta(hours=1))
            except BaseException:
                pass

    @remit.flow(contract=OPEN)
    async def modest(run: remit.Run) -> int:
        return len(await run.step(Step("count", Counted()), "a"))

    async with storage.open() as rt:
        asking = asyncio.ensure_future(rt.run(greedy, id="greedy"))
        while not await rt.inbox():
            await asyncio.sleep(0)
        await rt.run(modest, id="modest")
        done.set()
        assert (await asking).status == "waiting"


async def test_a_flow_that_swallows_even_base_exceptions_can_not_complete(storage: Storage):  # proves: RUN-15
    counted = Counted()

    @remit.flow(contract=OPEN, name="greedy")
    async def before(run: remit.Run) -> None:
        await run.step(Step("a", counted), "a")
        raise RuntimeError("stop here")

    @remit.flow(contract=OPEN, name="greedy")
    async def after(run: remit.Run) -> str:
        for name in ("x", "y"):
            try:
                await run.step(Step(name, counted), name)
            except BaseException:
                pass
        return "went on regardless"

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(before, id="r")
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(after, id="r")
    assert counted.ran == ["a"]


async def test_a_run_past_its_window_expires_before_any_step(storage: Storage, clock: Any):  # proves: GATE-8
    from datetime import timedelta

    counted = Counted()
    counted.broken = {"b"}
    flow = letters(counted, "a", "b", contract=Contract(version="1", resume="anyone", window=timedelta(hours=2)))
    async with storage.open(clock=clock) as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        clock.move(timedelta(hours=2, microseconds=1))
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.code) == ("expired", "window_over")
        clock.move(timedelta(hours=-2))
        assert (await rt.run(flow, id="r")).status == "expired"
    assert counted.ran == ["a", "b"]


async def test_the_window_is_pinned_when_the_run_is_opened(storage: Storage, clock: Any):  # proves: GATE-12
    from datetime import timedelta

    contract = Contract(version="7", resume="anyone", risk="medium")
    async with storage.open(clock=clock) as rt:
        await rt.run(letters(Counted(), "a", contract=contract), id="r", by="agent:buyer", behalf="user:dana")
        opened = (await rt.show("r")).view.opened
    assert opened.window_end == clock.now() + timedelta(hours=8) // timedelta(microseconds=1)
    assert (opened.flow, opened.by, opened.behalf) == ("letters", "agent:buyer", "user:dana")
    assert (opened.contract.version, opened.contract.risk, opened.contract.resume) == ("7", "medium", ["anyone"])


@pytest.mark.parametrize("is_raising", [True, False])
async def test_a_call_that_the_flow_left_behind_writes_nothing_after_the_end(
    storage: Storage, is_raising: bool
):  # proves: LOG-2
    release = asyncio.Event()

    async def slow() -> str:
        await release.wait()
        return "late"

    @remit.flow(contract=OPEN)
    async def leaving(run: remit.Run) -> None:
        left = asyncio.ensure_future(run.step(slow))
        left.add_done_callback(lambda task: task.exception())
        await run.step(Step("a", str), 1)
        release.set()  # the step that was left behind finishes while the last entry waits for its commit
        if is_raising:
            raise RuntimeError("gone")

    async with storage.open() as rt:
        if is_raising:
            with pytest.raises(remit.StepError):
                await rt.run(leaving, id="r")
        else:
            await rt.run(leaving, id="r")
        view = (await rt.show("r")).view  # the journal verifies
        assert (view.status, list(view.calls)) == ("waiting" if is_raising else "completed", ["a"])


async def test_many_callers_in_two_runtimes_make_each_step_run_once(database: Storage):  # proves: RUN-11, OWN-1
    counted = Counted()
    flow = letters(counted, "a", "b")
    ids = [f"r{n}" for n in range(10)]
    async with database.open() as one, database.open() as two:
        for id in ids[::2]:
            await one.start(flow, id=id)
        outcomes = await asyncio.gather(*(rt.run(flow, id=id) for id in ids for rt in (one, two) for _ in range(3)))
    assert [o.value for o in outcomes] == [["A", "B"]] * 60
    assert sorted(counted.ran) == ["a"] * 10 + ["b"] * 10


async def test_what_a_closed_runtime_still_held_is_taken_over_at_once(database: Storage):  # proves: OWN-1, FX-12
    begun, go = asyncio.Event(), asyncio.Event()

    async def hang(n: int) -> int:
        begun.set()
        await go.wait()
        return n

    @remit.flow(contract=OPEN)
    async def hanging(run: remit.Run) -> Any:
        return await run.step(hang, 1)

    rt = await database.open(lease_ms=600_000).open()
    task = asyncio.create_task(rt.run(hanging, id="r"))
    await begun.wait()
    await rt.close()
    go.set()
    with pytest.raises(remit.StoreClosed):
        await task
    async with database.open() as rt:
        assert (await rt.run(hanging, id="r")).value == 1


@pytest.mark.parametrize("how", ["run", "resume", "wait"])
async def test_a_run_that_waits_for_itself_is_refused(storage: Storage, how: str):
    @remit.flow(contract=OPEN)
    async def circle(run: remit.Run) -> Any:
        async def wait_for_it() -> Any:
            if how == "wait":
                return (await rt.wait("r")).value
            return (await (rt.run(circle, id="r") if how == "run" else rt.resume("r", circle))).value

        return await run.step(wait_for_it)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError) as raised:
            async with asyncio.timeout(30):
                await rt.run(circle, id="r")
    assert isinstance(raised.value.__cause__, remit.CallRefused)
    assert raised.value.__cause__.code == "call.own_run"


async def test_only_a_quarantined_run_is_lifted(storage: Storage):  # proves: LOG-3
    async with storage.open() as rt:
        await rt.run(letters(Counted(), "a"), id="r")
        with pytest.raises(remit.Refused) as refused:
            await rt.lift("r", by="user:dana", reason="to be sure")
        assert refused.value.code == "run.not_quarantined"


async def test_a_call_that_was_never_awaited_does_not_pass_for_done(storage: Storage):  # proves: RUN-6
    counted = Counted()
    is_mended = False

    @remit.flow(contract=OPEN, name="forgetful")
    async def forgetful(run: remit.Run) -> str:
        if is_mended:
            await run.step(Step("pay", counted), "pay")
        else:
            run.step(Step("pay", counted), "pay")  # type: ignore[unused-coroutine]  # that is the mistake
        return "paid"

    async with storage.open() as rt:
        with pytest.raises(remit.CallRefused) as refused:
            await rt.run(forgetful, id="r")
        assert refused.value.code == "call.unawaited"
        assert "pay of run 'r'" in refused.value.message
        assert (await rt.wait("r")).status == "waiting"
        is_mended = True
        assert (await rt.run(forgetful, id="r")).value == "paid"
    assert counted.ran == ["pay"]
