"""Answers to calls that their flow gave up before it heard them: nothing new begins outside, be it a yes or a no."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import apsw
import pytest

import remit
from remit.store.memory import MemoryStore
from tests.spec.conftest import Storage
from tests.support.office import BUYER, DORA, answer, asked, staffed
from tests.support.till import Order, Till

HOURS = timedelta(hours=4)
ASKED = remit.Rule(approval=remit.Approval({"director"}, HOURS))
CONTRACT = remit.Contract(version="1", resume="anyone", effects={"pay": ASKED}, others="free")

Wait = Callable[[remit.Run, Any], Coroutine[Any, Any, Any]]


@remit.step
async def never() -> None:
    await asyncio.Event().wait()


@remit.transaction(name="pay")
def book(connection: apsw.Connection, order: Order) -> None:
    raise AssertionError("nobody may")


async def alone(run: remit.Run, call: Any) -> Any:
    return await call


async def two_deep(run: remit.Run, call: Any) -> Any:
    return (await asyncio.gather(alone(run, call)))[0]


WAITS: dict[str, Wait] = {
    "alone": alone,
    "in a task of the flow's own": two_deep,
    "gather": lambda run, call: run.gather(call),
    "gather in gather": lambda run, call: run.gather(run.gather(call)),
    "first": lambda run, call: run.first(call, run.step(never)),
    "gather in first": lambda run, call: run.first(run.gather(call), run.step(never)),
}


class Impatient:
    """Waits for a person's answer while `is_patient`; else gives that up when it was looked at, and pays elsewhere."""

    def __init__(self, of: str = "an effect", wait: Wait = alone) -> None:
        self.till, self.amount, self.is_patient, self.quick = Till(), 100, [True], ""
        self.of, self.wait, self.is_looked_at = of, wait, asyncio.Event()
        self.pay, self.elsewhere = self.till.effect(), self.till.effect("elsewhere")

        @remit.flow(contract=CONTRACT)
        async def flow(run: remit.Run) -> str:
            run.evidence("quote", 5, as_of=run.now(), fresh_for=HOURS, again=self.quote)
            call = self.call(run.branch("a"))
            waiting = asyncio.ensure_future(call if self.quick == "not begun" else self.wait(run, call))
            if not self.is_patient:
                if self.quick != "not begun":
                    await self.is_looked_at.wait()
                if self.quick == "waiting":
                    for _ in range(30):
                        await asyncio.sleep(0)
                waiting.cancel()
                if self.quick not in ("waiting", "not awaited"):
                    await asyncio.wait([waiting])
                await run.effect(self.elsewhere, Order(invoice="elsewhere"))
                return "elsewhere"
            try:
                await waiting
            except remit.Denied:
                return "no"
            return "yes"

        self.flow = flow

    async def quote(self) -> int:
        self.is_looked_at.set()
        if not self.is_patient:
            if self.quick == "waiting":
                raise OSError("nobody can say")
            await asyncio.Event().wait()
        return 5

    def call(self, run: remit.Run) -> Coroutine[Any, Any, Any]:
        if self.of == "an effect":
            return run.effect(self.pay, Order(amount=self.amount), rests_on=["quote"])
        if self.of == "a transaction":
            return run.transact(book, Order(amount=self.amount), rests_on=["quote"])
        return run.approve("pay", {"amount": self.amount}, roles={"director"}, within=HOURS, rests_on=["quote"])

    async def assert_held(self, rt: remit.Runtime) -> None:
        """Each turn of the impatient code waits for mended code, and nothing begins."""
        for _ in range(2):
            outcome = await rt.run(self.flow, id="r", by=BUYER)
            assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "effect.unheard")
            assert outcome.reason.startswith("The flow gave up a/pay, of which there is an outcome or an answer, ")
            self.is_looked_at.clear()
        assert self.till.arrived == []


@pytest.mark.parametrize("choice", ["approve", "deny"])
@pytest.mark.parametrize("way", WAITS)
@pytest.mark.parametrize("of", ["an effect", "a question"])
async def test_an_answer_that_was_posted_before_the_turn_began_is_heard_before_anything_begins(
    of: str, way: str, choice: Literal["approve", "deny"]
):  # proves: FX-10, APR-6, APR-10
    impatient = Impatient(of, WAITS[way])
    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        await staffed(rt)
        impatient.wait = alone  # beside a step that goes on the run would not wait
        assert (await rt.run(impatient.flow, id="r", by=BUYER)).waits_for == "approval"
        await answer(rt, choice)
        impatient.wait, impatient.is_patient[:] = WAITS[way], []
        await impatient.assert_held(rt)
        impatient.wait, impatient.is_patient[:] = alone, [True]
        assert (await rt.run(impatient.flow, id="r", by=BUYER)).value == {"approve": "yes", "deny": "no"}[choice]


async def test_the_answer_to_a_transaction_is_heard_before_anything_begins(tmp_path: Path):  # proves: FX-10, APR-6
    impatient = Impatient("a transaction")
    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt, asyncio.timeout(30):
        await staffed(rt)
        assert (await rt.run(impatient.flow, id="r", by=BUYER)).waits_for == "approval"
        await answer(rt, "deny")
        impatient.is_patient.clear()
        await impatient.assert_held(rt)
        impatient.is_patient.append(True)
        assert (await rt.run(impatient.flow, id="r", by=BUYER)).value == "no"


@pytest.mark.parametrize("quick", ["not begun", "not awaited", "waiting"])
@pytest.mark.parametrize("way", ["alone", "in a task of the flow's own", "gather", "gather in gather"])
@pytest.mark.parametrize("of", ["an effect", "a question"])
async def test_whoever_was_cancelled_just_now_says_first_what_it_gave_up(
    of: str, way: str, quick: str
):  # proves: FX-10, APR-6
    impatient = Impatient(of, WAITS[way])
    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        await staffed(rt)
        await rt.run(impatient.flow, id="r", by=BUYER)
        choice: Literal["approve", "deny"] = "approve" if quick == "waiting" else "deny"  # a no waits for nothing
        await answer(rt, choice)
        impatient.is_patient.clear()
        impatient.quick = quick
        await impatient.assert_held(rt)
        impatient.is_patient.append(True)
        assert (await rt.run(impatient.flow, id="r", by=BUYER)).value == {"approve": "yes", "deny": "no"}[choice]


@pytest.mark.parametrize("is_changed_back", [True, False])
async def test_a_no_to_what_is_given_up_is_heard_though_something_else_was_asked_since(
    is_changed_back: bool, storage: Storage
):  # proves: FX-10, APR-6
    impatient = Impatient()
    async with storage.open() as rt, asyncio.timeout(30):
        await staffed(rt)
        await rt.run(impatient.flow, id="r", by=BUYER)
        await answer(rt, "deny")
        impatient.amount = 200
        assert (await rt.run(impatient.flow, id="r", by=BUYER)).code == "approval_payload"
        impatient.amount = 100 if is_changed_back else 200
        impatient.is_patient.clear()
        impatient.is_looked_at.clear()
        if is_changed_back:
            await impatient.assert_held(rt)
            return
        assert (await rt.run(impatient.flow, id="r", by=BUYER)).value == "elsewhere"  # nobody answered that one yet


@pytest.mark.parametrize("when", ["never", "before it is given up", "afterwards", "from another process"])
async def test_a_question_may_be_given_up_while_nobody_answered_it(when: str, tmp_path: Path):  # proves: FX-10, APR-6
    till = Till()
    elsewhere, said = till.effect("elsewhere"), list[str]()
    url = f"sqlite:///{tmp_path}/a.db"

    async def say_no(rt: remit.Runtime) -> None:
        if not said:
            said.append("no")
            ask = await asked(rt)
            await rt.decide(ask.id, "deny", by=DORA, seen=ask.version)

    @remit.step
    async def later() -> None:
        if when == "afterwards":
            await say_no(rt)

    @remit.flow(contract=CONTRACT)
    async def impatient(run: remit.Run) -> str:
        asking = asyncio.ensure_future(
            run.gather(run.approve("terms", 1, roles={"director"}, within=HOURS), run.step(never))
        )
        while not await rt.inbox():
            await asyncio.sleep(0.01)
        if when == "before it is given up":
            await say_no(other)
        asking.cancel()
        await asyncio.wait([asking])
        await run.step(later)
        if when == "from another process":
            await say_no(other)
        await run.effect(elsewhere, Order(invoice="elsewhere"))
        return "elsewhere"

    async with remit.open(url) as rt, remit.open(url) as other, asyncio.timeout(30):
        await staffed(rt)
        outcome = await rt.run(impatient, id="r", by=BUYER)
        if when == "never":
            assert outcome.value == "elsewhere"
        else:
            assert outcome.code == "effect.unheard" and till.arrived == []
