"""Calls that their flow gave up while the journal was replayed: nothing new begins outside before it heard of them."""

from __future__ import annotations

import asyncio
from typing import Any

import remit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till


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
