"""Branches that a flow left behind, as `asyncio.gather` does: they hear what is recorded, and begin nothing new."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Literal

import pytest

import remit
from remit.engine.turn import replay
from tests.spec.conftest import Storage

HOUR = timedelta(hours=1)
OPEN = remit.Contract(version="1", resume="anyone")
ASKING = remit.Contract(
    version="1",
    resume="anyone",
    effects={"card": remit.Rule(approval=remit.Approval({"director"}, HOUR)), "pay": remit.Rule()},
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "STILL_SECONDS_OF_TASKS", 0.3)


async def answer(rt: remit.Runtime, *, denied: str) -> None:
    """Each question is approved, but for that call's."""
    for ask in await rt.inbox():
        said: Literal["approve", "deny"] = "deny" if ask.call == denied else "approve"
        await rt.decide(ask.id, said, by="user:dana", seen=ask.version)


async def test_when_a_no_left_the_flow_nothing_new_begins_and_what_is_under_way_is_settled(storage: Storage):
    # proves: RUN-6
    begun: list[str] = []
    is_slow, may_end = asyncio.Event(), asyncio.Event()

    @remit.effect
    async def card(order: dict[str, str], *, key: str) -> str:
        return "card"

    @remit.effect
    async def pay(order: dict[str, str], *, key: str) -> str:
        begun.append(order["o"])
        if order["o"] == "slow":
            is_slow.set()
            await may_end.wait()
        return "paid"

    async def denied(run: remit.Run) -> None:
        try:
            await run.effect(card, {"o": "a"})
        except remit.Denied:
            await is_slow.wait()
            raise

    async def slow(run: remit.Run) -> None:
        await run.effect(card, {"o": "s"})
        await run.effect(pay, {"o": "slow"})

    async def many(run: remit.Run) -> None:
        await run.effect(card, {"o": "c"})
        await is_slow.wait()
        await asyncio.sleep(0.05)  # the no is out by then
        for number in range(5):
            await run.effect(pay, {"o": f"c{number}"})

    @remit.flow(contract=ASKING, name="flow")
    async def flow(run: remit.Run) -> None:
        try:
            await asyncio.gather(denied(run.branch("a")), slow(run.branch("s")), many(run.branch("c")))
        finally:
            asyncio.get_running_loop().call_later(0.2, may_end.set)

    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="service:local")
        assert (await rt.run(flow, id="r")).status == "waiting"
        await answer(rt, denied="a/card")
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, begun) == ("failed", ["slow"])
        assert {each.call: each.state for each in await rt.effects("r")}["s/pay"] == "ok"


async def test_code_that_lets_a_caught_no_out_is_refused_although_another_branch_is_on_its_way(storage: Storage):
    # proves: RUN-4
    paid: list[int] = []
    is_open = False

    @remit.effect
    async def card(order: dict[str, int], *, key: str) -> str:
        return "card"

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        paid.append(order["o"])
        return "paid"

    @remit.step
    async def quote(number: int) -> int:
        await asyncio.sleep(0.02)
        return number

    @remit.step
    async def book() -> str:
        if not is_open:
            raise OSError("books closed")
        return "booked"

    def flow_of(*, catches: bool) -> Any:
        async def ordering(run: remit.Run) -> None:
            try:
                await run.effect(card, {"o": 1})
            except remit.Denied:
                if not catches:
                    raise
                await run.effect(pay, {"o": 1})

        async def quoting(run: remit.Run) -> None:
            await run.effect(card, {"o": 2})
            for number in range(3):
                await run.step(quote, number)

        @remit.flow(contract=ASKING, name="flow")
        async def flow(run: remit.Run) -> str:
            await asyncio.gather(ordering(run.branch("a")), quoting(run.branch("c")))
            return str(await run.step(book))

        return flow

    good, bad = flow_of(catches=True), flow_of(catches=False)
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="service:local")
        await rt.run(good, id="r")
        await answer(rt, denied="a/card")
        with pytest.raises(remit.StepError):
            await rt.run(good, id="r")
        assert paid == [1]
        assert (await rt.check("r", bad)).fit == "incompatible"
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(bad, id="r")
        is_open = True
        assert (await rt.run(good, id="r")).value == "booked"
    assert paid == [1]


async def test_a_doubt_that_the_flow_left_behind_ends_by_a_person_s_word(storage: Storage):  # proves: RUN-4
    calls: list[str] = []

    @remit.effect
    async def card(order: dict[str, int], *, key: str) -> str:
        calls.append(key)
        raise OSError("no answer")

    @remit.step
    async def notify() -> None:
        raise OSError("the mail is down")

    @remit.flow(contract=OPEN, name="flow")
    async def flow(run: remit.Run) -> str:
        try:
            await asyncio.gather(run.step(notify), run.branch("p").effect(card, {"o": 1}))
        except remit.StepError:
            return "done"
        return "all"

    async with storage.open() as rt:
        await rt.grant("user:dana", "payer", by="service:local")
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        await rt.resolve("r", "p/card", "ok", by="user:dana", evidence="their statement", outcome="paid")
        assert (await rt.run(flow, id="r")).value == "done"
        assert [each.state for each in await rt.effects("r")] == ["ok"]
    assert len(calls) == 1


async def test_a_rehearsal_says_of_a_group_of_recorded_failures_what_it_says_of_one(storage: Storage):  # proves: RUN-4
    @remit.step
    async def quote(number: int) -> int:
        raise OSError("no answer")

    @remit.step
    async def note() -> None:
        return None

    def flow_of(*, is_group: bool) -> Any:
        @remit.flow(contract=OPEN, name="flow")
        async def flow(run: remit.Run) -> None:
            failed = []
            for number in range(2):
                try:
                    await run.step(quote, number)
                except remit.StepError as exc:
                    failed.append(exc)
            await run.step(note)
            raise ExceptionGroup("both", failed) if is_group else failed[0]

        return flow

    async with storage.open() as rt:
        for is_group in (False, True):
            flow = flow_of(is_group=is_group)
            with pytest.raises(remit.StepError):
                await rt.run(flow, id=f"r{is_group}")
            assert (await rt.check(f"r{is_group}", flow)).fit == "compatible"


async def test_when_a_failure_left_the_flow_nobody_waits_for_a_rule_that_does_not_answer(storage: Storage):
    # proves: RUN-6
    paid: list[str] = []
    given_up: list[str] = []
    is_asked = asyncio.Event()

    async def when(order: dict[str, int]) -> bool:
        is_asked.set()
        await asyncio.Event().wait()
        return False

    @remit.effect
    async def card(order: dict[str, int], *, key: str) -> str:
        paid.append(key)
        return "paid"

    @remit.step
    async def quote() -> None:
        await is_asked.wait()
        raise OSError("no answer")

    async def paying(run: remit.Run) -> None:
        try:
            await run.effect(card, {"o": 1})
        except asyncio.CancelledError:
            given_up.append("card")
            raise

    asking = remit.Rule(approval=remit.Approval({"director"}, HOUR, when=when))

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"card": asking}), name="flow")
    async def flow(run: remit.Run) -> None:
        await asyncio.gather(run.branch("a").step(quote), paying(run.branch("b")))

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await asyncio.wait_for(rt.run(flow, id="r"), 30)
        assert (await rt.show("r")).view.status == "waiting"
        assert (paid, given_up) == ([], []), "it was not the flow that gave it up"


async def test_when_the_flow_returned_no_effect_begins_that_a_rule_was_still_asked_about(storage: Storage):
    # proves: RUN-6
    paid: list[str] = []
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def when(order: dict[str, int]) -> bool:
        is_asked.set()
        await may_answer.wait()
        return False

    @remit.effect
    async def card(order: dict[str, int], *, key: str) -> str:
        paid.append(key)
        return "paid"

    @remit.step
    async def quote() -> None:
        await is_asked.wait()
        raise OSError("no answer")

    asking = remit.Rule(approval=remit.Approval({"director"}, HOUR, when=when))

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"card": asking}), name="flow")
    async def flow(run: remit.Run) -> str:
        try:
            await asyncio.gather(run.branch("a").step(quote), run.branch("b").effect(card, {"o": 1}))
        except remit.StepError:
            asyncio.get_running_loop().call_later(0.2, may_answer.set)
            return "done"
        return "all"

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == "done"
        assert (paid, list(await rt.effects("r"))) == ([], [])
