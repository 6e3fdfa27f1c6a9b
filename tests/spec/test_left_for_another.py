"""A run that is to be left for another one: whoever is told to is told what it did outside as well."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.till import Order, Till

HOUR = timedelta(hours=1)
AGAIN = "A new run would do again what happened or may have: 'pay'."
RULES = {"pay": remit.Rule(), "rest": remit.Rule(evidence={"quote"})}


class Desk:
    """A flow that pays a deposit, states evidence, computes, and pays the rest."""

    def __init__(self, *, is_paid: bool = True, is_known: bool = True) -> None:
        self.is_paid, self.is_known = is_paid, is_known
        self.is_up = False
        self.fresh_for, self.again = 12 * HOUR, list[int]()

    def flow(self, name: str = "settle") -> remit.Flow[Any]:
        @remit.effect(name="pay")
        async def pay(order: str, *, key: str) -> str:
            if not self.is_known:
                raise ConnectionError("no answer")
            return "paid"

        @remit.effect(name="rest")
        async def rest(order: str, *, key: str) -> str:
            return "paid"

        @remit.step(name="compute")
        async def compute() -> None:
            if not self.is_up:
                raise OSError("busy")

        @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects=RULES, window=48 * HOUR), name=name)
        async def settle(run: remit.Run, invoice: str) -> str:
            if self.is_paid:
                await run.effect(pay, invoice)
            again = (lambda: self.again[0]) if self.again else None
            run.evidence("quote", 1, as_of=run.now(), fresh_for=self.fresh_for, again=again)
            await run.step(compute)
            return await run.effect(rest, invoice)

        return settle

    async def stop(self, rt: remit.Runtime) -> None:
        """A run that paid the deposit, if it did, and waits for repair."""
        with pytest.raises(remit.StepError):
            await rt.run(self.flow(), "I-1", id="r")
        self.is_up = True


async def refused(rt: remit.Runtime, desk: Desk, name: str, invoice: str) -> str:
    with pytest.raises((remit.InputMismatch, remit.FlowMismatch)) as error:
        await rt.run(desk.flow(name), invoice, id="r")
    return error.value.hint


@pytest.mark.parametrize("is_paid", [True, False], ids=["paid", "nothing done"])
@pytest.mark.parametrize(("name", "invoice"), [("settle", "I-2"), ("other", "I-1")], ids=["input", "flow"])
async def test_who_is_refused_and_told_to_use_another_id_hears_what_was_done(
    storage: Storage, is_paid: bool, name: str, invoice: str
):
    # proves: FX-10
    desk = Desk(is_paid=is_paid)
    async with storage.open() as rt:
        await desk.stop(rt)
        hint = await refused(rt, desk, name, invoice)
        assert "run id" in hint and hint.endswith(AGAIN) is is_paid
        assert "first `remit cancel r --by user:YOU`" in hint
        await rt.cancel("r", by="user:root")
        hint = await refused(rt, desk, name, invoice)
        assert "run id" in hint and hint.endswith(AGAIN) is is_paid and "cancel" not in hint


def expired(desk: Desk, clock: MovedClock) -> None:
    clock.move(13 * HOUR)


def changed(desk: Desk, clock: MovedClock) -> None:
    desk.again[:] = [2]


@pytest.mark.parametrize("is_paid", [True, False], ids=["paid", "nothing done"])
@pytest.mark.parametrize(("befalls", "code"), [(expired, "evidence_expired"), (changed, "evidence_changed")])
async def test_where_evidence_holds_a_run_for_good_the_way_out_names_what_was_done(
    storage: Storage, befalls: Callable[[Desk, MovedClock], None], code: str, is_paid: bool
):
    # proves: GATE-2, FX-10
    desk, clock = Desk(is_paid=is_paid), MovedClock()
    desk.again = [1] if befalls is changed else []
    async with storage.open(clock=clock) as rt:
        await desk.stop(rt)
        befalls(desk, clock)
        outcome = await rt.run(desk.flow(), "I-1", id="r")
        why = await rt.why("r")
        step, (objection,) = next_step(why).sentence, why.objections
        assert outcome.code == code
        assert outcome.reason.endswith(AGAIN) is is_paid and step.endswith(AGAIN) is is_paid
        assert "open a new run" in step and "`remit effects RUN` lists it" in objection.required
        assert why.may_have_happened == (("pay",) if is_paid else ())


async def test_where_the_window_is_over_the_next_step_names_what_was_done(storage: Storage):  # proves: FX-10
    desk, clock = Desk(), MovedClock()
    async with storage.open(clock=clock) as rt:
        await desk.stop(rt)
        clock.move(49 * HOUR)
        step = next_step(await rt.why("r")).sentence
        assert step.endswith(f"Where it is still wanted, open a new run. {AGAIN}")


async def test_what_is_in_doubt_may_have_happened():  # proves: FX-10
    desk = Desk(is_known=False)
    async with remit.open("memory:") as rt:
        assert (await rt.run(desk.flow(), "I-1", id="r")).status == "in_doubt"
        assert (await refused(rt, desk, "settle", "I-2")).endswith(AGAIN)


async def test_a_run_that_was_left_as_its_refusal_says_pays_nothing_beside_the_other(storage: Storage):  # proves: FX-10
    till, rules = Till(), {"pay": remit.Rule(approval=remit.Approval({"director"}, 8 * HOUR))}
    pay = till.effect()

    def release(name: str) -> remit.Flow[Any]:
        @remit.step(name=name)
        async def prepare() -> int:
            return 150

        @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects=rules), name="supplier")
        async def supplier(run: remit.Run) -> int:
            return (await run.effect(pay, Order(amount=await run.step(prepare)))).amount

        return supplier

    async def say_yes(rt: remit.Runtime) -> None:
        (ask,) = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:ann", seen=ask.version)

    before, after = release("prepare"), release("look_up")
    async with storage.open() as rt:
        await rt.grant("user:ann", "director", by="user:root")
        await rt.run(before, id="r-1")
        await say_yes(rt)
        with pytest.raises(remit.DefinitionIncompatible) as refused:
            await rt.run(after, id="r-1")
        assert "or open a new run" in refused.value.hint and "first `remit cancel RUN" in refused.value.hint
        await rt.cancel("r-1", by="user:root")
        await rt.run(after, id="r-2")
        await say_yes(rt)
        assert (await rt.run(after, id="r-2")).value == 150
        assert (await rt.resume("r-1", before)).status == "cancelled"
    assert till.times == [1]


SOURCE = Path(remit.__file__).parent
PAGES = SOURCE.parent.parent / "docs"
CANCELS = re.compile(r"[Cc]ancel|_CANCEL|_left\(|ends it as expired")
LEAVES = re.compile(r"open a new (?:run|one)|[Uu]se another (?:run )?id|another run id", re.IGNORECASE)
STAYS = re.compile(r"stays done|_STAYS|again what|done_anew|_leaving|_left\(|_ways_out|\.done` is empty")


def test_no_text_tells_anybody_to_open_another_run_without_what_this_one_did():  # proves: FX-10
    """Where somebody is told to leave a run, the lines around say what it did outside, and that it is ended first."""
    bare = []
    for path in [*SOURCE.rglob("*.py"), *PAGES.glob("*.md"), *(PAGES / "reference").glob("*.md")]:
        lines = path.read_text(encoding="utf-8").splitlines()
        for place, text in enumerate(lines):
            around = "\n".join(lines[max(0, place - 6) : place + 7])
            if LEAVES.search(text) and not (STAYS.search(around) and CANCELS.search(around)):
                bare.append(f"{path.name}:{place + 1}: {text.strip()}")
    assert bare == []
