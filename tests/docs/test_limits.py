"""Limits that the documentation states, shown: when one of these fails, a page has to be corrected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

import remit
from remit.store.rows import Peek
from remit.store.sqlite import SqliteStore
from tests.support.clock import MovedClock
from tests.support.office import Office, answer, staffed
from tests.support.till import Order, Till

OPEN = remit.Contract(version="1", resume="anyone")


async def test_a_flow_that_waits_for_more_than_its_calls_is_refused_although_it_did_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """docs/adr/0004-standing-still.md, with its 5 s shortened."""
    monkeypatch.setattr("remit.engine.turn.replay.STILL_SECONDS_OF_TASKS", 0.1)
    ran: list[str] = []

    @remit.step
    async def fetch() -> None:
        ran.append("fetch")

    @remit.step
    async def send() -> None:
        ran.append("send")
        raise OSError("the line is down")

    @remit.flow(contract=OPEN)
    async def two_branches(run: remit.Run) -> None:
        async def late() -> None:
            await asyncio.sleep(0.5)
            await run.branch("late").step(fetch)

        await run.gather(late(), run.branch("early").step(send))

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        with pytest.raises(remit.StepError):
            await rt.run(two_branches, id="r")
        for _ in range(2):
            with pytest.raises(remit.DefinitionIncompatible) as refused:
                await rt.run(two_branches, id="r")
            assert (refused.value.recorded, refused.value.asked) == (("late/fetch",), ("early/send",))
    assert ran == ["send", "fetch"]


async def test_a_step_whose_outcome_was_not_saved_runs_again_with_whatever_it_does_outside(tmp_path: Path):
    """docs/start.md, docs/guarantees.md RUN-3"""
    sent: list[str] = []

    @dataclass
    class Odd:
        """A type that the step's annotation does not name."""

    @remit.step
    def send() -> int:
        sent.append("sent")
        return 1 if len(sent) > 1 else Odd()  # type: ignore[return-value]

    @remit.flow(contract=OPEN)
    def once(run: remit.SyncRun) -> int:
        outcome: int = run.step(send)
        return outcome

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        with pytest.raises(remit.StepError):
            await rt.run(once, id="r")
        assert (await rt.run(once, id="r")).value == 1
    assert sent == ["sent", "sent"]


async def test_a_recorded_outcome_stands_although_the_step_was_rewritten(tmp_path: Path):
    """docs/guarantees.md RUN-4, docs/concepts.md"""

    @remit.step(name="price")
    def price() -> int:
        return 120

    @remit.step(name="price")
    def price_rewritten() -> int:
        raise AssertionError("it does not run")

    @remit.step
    def stop() -> None:
        raise OSError

    def ask(run: remit.SyncRun) -> int:
        outcome: int = run.step(price)
        run.step(stop)
        return outcome

    def ask_again(run: remit.SyncRun) -> int:
        outcome: int = run.step(price_rewritten)
        return outcome

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        with pytest.raises(remit.StepError):
            await rt.run(remit.flow(contract=OPEN, name="ask")(ask), id="r")
        assert (await rt.run(remit.flow(contract=OPEN, name="ask")(ask_again), id="r")).value == 120


async def test_the_first_run_sees_the_keys_of_a_dict_sorted_as_a_resumption_will(tmp_path: Path):  # proves: RUN-12
    """docs/adr/0006-keys-are-sorted.md, docs/one-effect.md: the flow goes on with what was read back."""
    seen: list[list[str]] = []

    @remit.step
    def fetch() -> dict[str, int]:
        return {"b": 1, "a": 2}

    @remit.step
    def stop() -> None:
        if len(seen) == 1:
            raise OSError

    @remit.flow(contract=OPEN)
    def order(run: remit.SyncRun) -> None:
        seen.append(list(run.step(fetch)))
        run.step(stop)

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        with pytest.raises(remit.StepError):
            await rt.run(order, id="r")
        await rt.run(order, id="r")
    assert seen == [["a", "b"], ["a", "b"]]


async def test_a_business_key_that_was_freed_by_hand_lets_a_second_run_do_the_same_business(tmp_path: Path):
    """docs/guarantees.md: tables beside the journals are covered by no chain."""
    paid: list[str] = []

    @remit.effect(business_key="invoice")
    async def pay(order: dict[str, str], *, key: str) -> None:
        paid.append(order["invoice"])

    @remit.flow(contract=OPEN)
    async def settle(run: remit.Run) -> None:
        await run.effect(pay, {"invoice": "I-7"})

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await rt.run(settle, id="a")
        assert (await rt.run(settle, id="b")).code == "idempotency_conflict"
    connection = apsw.Connection(f"{tmp_path}/a.db")
    connection.execute("DELETE FROM remit_business_key")
    connection.close()
    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        assert (await rt.run(settle, id="c")).status == "completed"
        assert [await rt.verify(id) for id in "abc"] == [None, None, None]
    assert paid == ["I-7", "I-7"]


async def test_steps_may_run_under_an_authority_that_has_just_changed_and_effects_may_not(tmp_path: Path):
    """docs/guarantees.md GATE-4, docs/adr: a plain resume reads the authority and does not lock it."""
    done: list[str] = []

    @remit.step
    async def look() -> None:
        done.append("look")

    @remit.effect
    async def pay(amount: int, *, key: str) -> None:
        done.append("pay")

    @remit.flow(contract=remit.Contract(version="1", resume={"buyer"}))
    async def purchase(run: remit.Run) -> None:
        await rt.revoke("agent:buyer", "buyer", by="user:root")
        await run.step(look)
        await run.effect(pay, 1)

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await rt.grant("agent:buyer", "buyer", by="user:root")
        outcome = await rt.run(purchase, id="r", by="agent:buyer")
        assert (outcome.status, outcome.code, done) == ("failed", "resume_denied", ["look"])


async def test_a_clock_that_is_set_back_before_a_new_process_revives_a_yes_and_the_rest_of_a_day(tmp_path: Path):
    """docs/guarantees.md, Clocks: within one process neither happens, as `tests/spec/test_hours.py` shows."""
    clock, office, till = MovedClock(), Office(), Till()
    rule = remit.Rule(ceiling=remit.Ceiling("amount", max=100, per="day"))
    pay = till.effect()

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": rule}))
    async def daily(run: remit.Run) -> int:
        return (await run.effect(pay, Order(amount=90))).amount

    async with remit.open(f"sqlite:///{tmp_path}/a.db", clock=clock) as rt:
        await office.go(await staffed(rt))
        await answer(rt)
        clock.move(timedelta(days=4))  # the yes is over
        assert (await rt.run(daily, id="other")).value == 90
    clock.move(timedelta(days=-4))
    async with remit.open(f"sqlite:///{tmp_path}/a.db", clock=clock) as rt:
        assert (await office.go(rt)).status == "completed" and len(office.sent) == 1
        assert (await rt.run(daily, id="again")).value == 90


@pytest.mark.parametrize("way", ["an event", "a task of its own"])
async def test_what_a_task_that_was_there_before_did_for_a_failure_is_not_seen_to_follow_it(
    way: str, tmp_path: Path
):  # proves: RUN-6
    """docs/guarantees.md RUN-6, docs/concepts.md "Failures"."""
    ours, theirs = Till(), Till()
    ours.next(remit.DidNotHappen("closed"))
    pay, elsewhere = ours.effect(), theirs.effect("elsewhere")

    @remit.flow(contract=OPEN)
    async def buying(run: remit.Run) -> None:
        failed = asyncio.Event()

        async def told() -> None:
            await failed.wait()
            await run.effect(elsewhere, Order())

        async def paid() -> None:
            await run.effect(pay, Order())

        async def itself() -> None:
            waiting = asyncio.create_task(paid())
            await asyncio.wait([waiting])
            if waiting.exception() is not None:
                await run.effect(elsewhere, Order())
            await waiting

        if way == "a task of its own":
            await asyncio.create_task(itself())
        beside = asyncio.create_task(told())
        await asyncio.sleep(0)
        try:
            await run.effect(pay, Order())
        except remit.EffectFailed:
            failed.set()
            await beside
            raise

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        with pytest.raises(remit.StepError, match="closed"):
            await rt.run(buying, id="r")
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(buying, id="r")
    assert (len(ours.arrived), theirs.calls) == (1, {"i-1": 1}), "nothing is paid twice"


@pytest.mark.parametrize("way", ["run.gather", "a pool"])
async def test_a_failure_stays_beside_which_threads_of_a_pool_began(way: str, tmp_path: Path):  # proves: RUN-6
    """docs/guarantees.md RUN-6, docs/concepts.md "Failures"."""
    ran: list[str] = []

    def fetch(what: str) -> str:
        ran.append(what)
        if what == "a" and len(ran) == 1:
            raise OSError("no answer")
        return what

    @remit.flow(contract=OPEN)
    def fetching(run: remit.SyncRun) -> list[str]:
        if way == "run.gather":
            return list(run.gather(*[run.step_call(fetch, what) for what in "ab"]))
        with ThreadPoolExecutor(1) as pool:
            calls = [pool.submit(copy_context().run, lambda w=what: run.branch(w).step(fetch, w)) for what in "ab"]
            return [call.result() for call in calls]

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        with pytest.raises(remit.StepError):
            await rt.run(fetching, id="r")
        if way == "run.gather":
            assert (await rt.run(fetching, id="r")).value == ["a", "b"]
        else:
            with pytest.raises(remit.StepError) as failed:
                await rt.run(fetching, id="r")
            assert failed.value.hint.startswith("Let the flow catch this and go another way")
    assert sorted(ran) == (["a", "a", "b"] if way == "run.gather" else ["a", "b"])


async def test_a_task_that_makes_no_call_may_be_overtaken_by_a_recorded_one(tmp_path: Path):
    """docs/guarantees.md RUN-8"""
    first: list[str] = []

    @remit.step
    async def quote() -> int:
        await asyncio.sleep(0.01)
        return 120

    @remit.step
    async def report() -> None:
        raise OSError("mail down")

    @remit.flow(contract=OPEN)
    async def asking(run: remit.Run) -> None:
        async def known() -> float:
            await asyncio.sleep(0.002)
            return run.random()

        quoted, drawn = asyncio.create_task(run.step(quote)), asyncio.create_task(known())
        done, _ = await asyncio.wait([quoted, drawn], return_when=asyncio.FIRST_COMPLETED)
        first.append("quoted" if quoted in done else "drawn")
        await quoted
        await run.step(report)

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        for _ in range(2):
            with pytest.raises(remit.StepError):
                await rt.run(asking, id="r")
    assert first == ["drawn", "quoted"]


class Slow(SqliteStore):
    """Somebody does `meanwhile` between the look at the directory and whatever rests on that."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def peek(self, run_key: int) -> Peek | None:
        seen = await super().peek(run_key)
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            await act()
        return seen


async def test_a_run_goes_on_and_its_steps_run_under_a_role_that_was_revoked_in_that_moment(tmp_path: Path):
    """docs/guarantees.md GATE-4: its effects are refused."""
    ran: list[str] = []

    @remit.step
    async def look() -> None:
        ran.append("look")

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        ran.append("pay")
        return "paid"

    contract = remit.Contract(version="1", resume={"buyer"}, effects={"pay": remit.Rule()})

    @remit.flow(contract=contract)
    async def flow(run: remit.Run) -> None:
        await run.step(look)
        await run.effect(pay, {"amount": 1})

    store = Slow(tmp_path / "a.db")
    async with remit.open(store) as rt, remit.open(f"sqlite:///{tmp_path}/a.db") as other:
        await rt.grant("agent:b", "buyer", by="user:root")
        await rt.start(flow, id="r", by="agent:b")
        store.meanwhile = lambda: other.revoke("agent:b", "buyer", by="user:root")
        outcome = await rt.resume("r", flow)
        assert (outcome.status, outcome.code, ran) == ("failed", "resume_denied", ["look"])
