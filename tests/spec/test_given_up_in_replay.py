"""Calls that their flow gave up while the journal was replayed: nothing new begins outside before it heard of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.office import BUYER, answer, staffed
from tests.support.till import OPEN, Order, Till, find_out, paying


def quote() -> int:
    return 120


class Impatient:
    """A flow that waits for what it calls first while `is_patient`, and else gives it up and calls something new."""

    def __init__(self) -> None:
        self.till, self.is_patient, self.is_broken = Till(), [True], [True]
        self.elsewhere = self.till.effect("elsewhere")

    def report(self) -> str:
        if self.is_broken:
            raise OSError("mail down")
        return "told"

    async def give_up(self, call: asyncio.Future[Any]) -> None:
        for _ in range(5):  # it waits for its place in the replay
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()


async def test_an_outcome_that_is_handed_out_in_the_moment_in_which_its_call_is_given_up_was_not_heard(
    storage: Storage,
):  # proves: FX-2, FX-10
    till = Till()
    till.next(till.hold)
    pay, elsewhere = till.effect(), till.effect("elsewhere")

    async def patience() -> str:
        await till.is_held.wait()
        return "over"

    @remit.flow(contract=OPEN)
    async def impatient(run: remit.Run) -> str:
        call = asyncio.ensure_future(run.effect(pay, Order()))

        async def watch() -> None:
            await run.step(patience)
            call.cancel()
            till.let_go.set()

        watching = asyncio.ensure_future(watch())
        await asyncio.wait([call])
        await watching
        if not call.cancelled():
            return "heard"
        await run.effect(elsewhere, Order(invoice="elsewhere"))
        return "elsewhere"

    async with storage.open() as rt, asyncio.timeout(30):
        outcome = await rt.run(impatient, id="r")
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "effect.unheard")
        assert [(effect.call, effect.state) for effect in await rt.effects("r")] == [("pay", "ok")]
    assert [order.invoice for _, order in till.arrived] == ["i-1"]


async def test_a_doubt_that_is_given_up_while_it_waits_for_its_place_is_ended_before_anything_new(
    storage: Storage,
):  # proves: FX-2, FX-10
    impatient = Impatient()
    till, is_patient = impatient.till, impatient.is_patient
    till.next(till.pay_and_raise(ConnectionError("no answer")))
    till.probe_says = ConnectionError("the bank's query is down")
    pay = till.effect(doubt="probe")

    @remit.flow(contract=OPEN)
    async def paying(run: remit.Run) -> Any:
        beside = run.branch("beside")
        if is_patient:
            await beside.step(quote)
            return (await run.effect(pay, Order())).number
        await impatient.give_up(asyncio.ensure_future(run.effect(pay, Order())))  # its place is behind the quote's
        going_elsewhere = asyncio.ensure_future(run.effect(impatient.elsewhere, Order(invoice="elsewhere")))
        await beside.step(quote)
        return (await going_elsewhere).number

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(paying, id="r")).status == "in_doubt"
        is_patient.clear()
        till.probe_says = None
        outcome = await rt.run(paying, id="r")
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "effect.unheard")
        assert [(effect.call, effect.found) for effect in await rt.effects("r")] == [("pay", "probe")]
        is_patient.append(True)
        assert (await rt.run(paying, id="r")).value == 1
    assert [order.invoice for _, order in till.arrived] == ["i-1"]


async def test_a_payment_that_a_person_found_is_heard_before_the_flow_goes_elsewhere(
    storage: Storage,
):  # proves: FX-2, FX-9, FX-10
    impatient = Impatient()
    till, is_patient = impatient.till, impatient.is_patient
    till.next(till.pay_and_raise(ConnectionError("no answer")))
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def paying_by(run: remit.Run) -> Any:
        beside = run.branch("beside")
        if is_patient:
            await beside.step(quote)
            return (await run.effect(pay, Order())).number
        await impatient.give_up(asyncio.ensure_future(run.effect(pay, Order())))  # its place is behind the quote's
        await beside.step(quote)
        return (await run.effect(impatient.elsewhere, Order(invoice="elsewhere"))).number

    async with storage.open() as rt, asyncio.timeout(30):
        assert (await rt.run(paying_by, id="r")).status == "in_doubt"
        await find_out(rt, "r", "ok", {"number": 1, "amount": 100})
        is_patient.clear()
        told = await rt.check("r", paying_by)
        assert told.reason.startswith("it would wait: The flow gave up pay, of which there is an outcome")
        outcome = await rt.run(paying_by, id="r")
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "effect.unheard")
        is_patient.append(True)
        assert (await rt.run(paying_by, id="r")).value == 1
    assert [order.invoice for _, order in till.arrived] == ["i-1"]


@pytest.mark.parametrize("of", ["a question", "an effect"])
async def test_a_recorded_no_is_heard_before_the_flow_goes_elsewhere(
    of: str, storage: Storage
):  # proves: FX-10, APR-10
    impatient = Impatient()
    is_patient, is_broken, till = impatient.is_patient, impatient.is_broken, impatient.till
    pay = till.effect(business_key="invoice")

    @remit.flow(contract=OPEN)
    async def told_no(run: remit.Run) -> Any:
        beside = run.branch("beside")
        asking: Coroutine[Any, Any, Any]
        if of == "a question":
            asking = run.approve("terms", {"amount": 1}, roles={"director"}, within=timedelta(hours=1))
        else:
            asking = run.effect(pay, Order())
        if is_patient:
            await beside.step(quote)
            with suppress(remit.Denied):
                await asking
        else:
            await impatient.give_up(asyncio.ensure_future(asking))
            await beside.step(quote)
            await run.effect(impatient.elsewhere, Order(invoice="elsewhere"))
        return await run.step(impatient.report)

    async with storage.open() as rt, asyncio.timeout(30):
        if of == "a question":
            await staffed(rt)
            assert (await rt.run(told_no, id="r", by=BUYER)).status == "waiting"
            await answer(rt, "deny")
        else:
            await rt.run(paying(pay), id="the first")
        arrived = list(till.arrived)
        with pytest.raises(remit.StepError, match="mail down"):
            await (rt.resume("r", told_no) if of == "a question" else rt.run(told_no, id="r"))
        is_patient.clear()
        is_broken.clear()
        checked, judged = await rt.check("r", told_no), await rt.judge("r", told_no)
        for _ in range(2):
            outcome = await rt.resume("r", told_no)
            assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "effect.unheard")
        assert (checked.call, checked.reason) == ("", f"it would wait: {outcome.reason}")
        assert (judged.call, judged.verdict.decision, judged.waits) == ("", "resume", outcome.reason)
        is_patient.append(True)
        assert (await rt.resume("r", told_no)).value == "told"
    assert till.arrived == arrived


@pytest.mark.parametrize("goes_on", [True, False], ids=["to another effect", "to its end"])
async def test_unchanged_code_that_gives_up_a_payment_goes_to_its_end_and_to_nothing_else_outside(
    goes_on: bool, storage: Storage
):  # proves: FX-10, RUN-8
    impatient = Impatient()
    till, is_broken = impatient.till, impatient.is_broken
    till.next(till.hold)
    pay = till.effect()

    async def patience() -> None:
        await till.is_held.wait()

    def failing() -> None:
        if is_broken:
            raise OSError("mail down")

    @remit.flow(contract=OPEN)
    async def unchanged(run: remit.Run) -> str:
        call = asyncio.ensure_future(run.effect(pay, Order()))
        await run.step(patience)
        call.cancel()
        till.let_go.set()
        await asyncio.wait([call])
        if goes_on:
            await run.effect(impatient.elsewhere, Order(invoice="elsewhere"))
        await run.step(failing)
        return "gone on"

    async with storage.open() as rt, asyncio.timeout(30):
        if not goes_on:
            with pytest.raises(remit.StepError):
                await rt.run(unchanged, id="r")
            is_broken.clear()
            assert (await rt.run(unchanged, id="r")).value == "gone on"
        else:
            for _ in range(2):
                outcome = await rt.run(unchanged, id="r")
                assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "effect.unheard")
            assert (await rt.check("r", unchanged)).reason == f"it would wait: {outcome.reason}"
            assert (await rt.judge("r", unchanged)).waits == outcome.reason
    assert [order.invoice for _, order in till.arrived] == ["i-1"]


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_new_run_is_advised_only_where_it_pays_nothing_twice(
    is_done: bool, storage: Storage
):  # proves: RUN-4, FX-10
    till, is_new = Till(), list[bool]()
    pay = till.effect()

    def report() -> None:
        raise OSError("mail down")

    @remit.flow(contract=OPEN)
    async def changed(run: remit.Run) -> None:
        if is_done:
            await run.effect(pay, Order())
        if not is_new:
            await run.step(quote)
        await run.step(report)

    async with storage.open() as rt, asyncio.timeout(30):
        with pytest.raises(remit.StepError):
            await rt.run(changed, id="r")
        is_new.append(True)
        for _ in range(2):
            with pytest.raises(remit.DefinitionIncompatible) as refused:
                await rt.run(changed, id="r")
            assert refused.value.done == (("pay",) if is_done else ())
            assert ("or open a new run" in refused.value.hint) is not is_done
            assert ("would do again what happened or may have: 'pay'." in refused.value.hint) is is_done
    assert till.times == [1] * is_done
