"""Words about a doubt: whoever says that it did not happen looked after it was sent last.

Two people look at the bank and find nothing. By the word of one it is sent again, and its answer is lost. What the
other saw is older than that payment: their word would be the second one.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

import remit
from remit.store.protocol import Store
from tests.spec.conftest import Storage
from tests.spec.test_doubt_words import Slow
from tests.support.office import DORA, ROOT
from tests.support.till import Till, find_out, paying

BEN = "user:ben"
LOST = ConnectionError("no answer")
SAW_NOTHING: dict[str, Any] = {"by": BEN, "evidence": "nothing at the bank at 9:59"}


async def sent_again(rt: remit.Runtime, till: Till, flow: remit.Flow[Any]) -> None:
    """It is lost; somebody says that it did not happen; it is sent again and paid, and the answer is lost."""
    await rt.grant(BEN, "clerk", by=ROOT)
    till.next(LOST, till.pay_and_raise(LOST))
    assert (await rt.run(flow, id="r")).status == "in_doubt"
    await find_out(rt, "r", "did_not_happen")
    assert (await rt.run(flow, id="r")).status == "in_doubt"
    assert [effect.calls for effect in await rt.effects("r")] == [2]


async def refused(rt: remit.Runtime, state: Any, **told: Any) -> remit.Refused:
    """Why this is no word about it. Nothing is written."""
    before = await rt.read("r")
    with pytest.raises(remit.Refused) as error:
        await rt.resolve("r", "pay", state, **SAW_NOTHING, **told)
    assert await rt.read("r") == before
    return error.value


async def test_who_looked_before_it_was_sent_again_permits_no_second_payment(storage: Storage):  # proves: FX-9, FX-2
    till = Till()
    flow = paying(till.effect())
    async with storage.open() as rt:
        await sent_again(rt, till, flow)
        asked = await refused(rt, "did_not_happen")
        assert asked.code == "doubt.calls" and "is at call 2" in str(asked) and "--calls 2" in asked.hint
        for seen in (1, 3):
            assert (await refused(rt, "did_not_happen", calls=seen)).code == "doubt.sent_again"
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert len(till.arrived) == 2
        await find_out(rt, "r", "ok", {"number": 1, "amount": 100})  # as they see who look again
        assert (await rt.run(flow, id="r")).value == [100]
    assert till.times == [1]


async def test_who_looked_since_is_believed(storage: Storage):  # proves: FX-9
    till = Till()
    flow = paying(till.effect())
    async with storage.open() as rt:
        await sent_again(rt, till, flow)
        await rt.resolve("r", "pay", "did_not_happen", calls=2, **SAW_NOTHING)
        assert (await rt.run(flow, id="r")).status == "completed"


async def test_what_happened_once_happened_and_is_compared_only_where_it_is_said(storage: Storage):  # proves: FX-9
    till = Till()
    flow = paying(till.effect())
    receipt = {"number": 1, "amount": 100}
    async with storage.open() as rt:
        await sent_again(rt, till, flow)
        assert (await refused(rt, "ok", outcome=receipt, calls=1)).code == "doubt.sent_again"
        await rt.resolve("r", "pay", "ok", outcome=receipt, **SAW_NOTHING)
        assert (await rt.run(flow, id="r")).value == [100]


@pytest.mark.parametrize("calls", [None, 1, 2])
async def test_while_it_is_being_sent_again_nobody_says_anything(storage: Storage, calls: int | None):  # proves: FX-9
    till = Till()
    flow = paying(till.effect())
    async with storage.open() as rt:
        await rt.grant(BEN, "clerk", by=ROOT)
        till.next(LOST, till.hold)
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        await find_out(rt, "r", "did_not_happen")
        turn = asyncio.ensure_future(rt.run(flow, id="r"))
        await till.is_held.wait()
        with pytest.raises(remit.Refused) as error:
            await rt.resolve("r", "pay", "did_not_happen", calls=calls, **SAW_NOTHING)
        assert error.value.code == "doubt.under_way"
        till.let_go.set()
        assert (await turn).status == "completed"


async def test_a_word_that_it_was_sent_again_beside_is_told_to_be_none():  # proves: FX-9
    """It was posted, and names the sending before: it settles nothing, and whoever said it hears that."""
    store, till = Slow(), Till()
    flow = paying(till.effect(doubt="resend", sink="dedupes"))
    async with remit.open(cast(Store, store)) as rt, remit.open(cast(Store, store)) as beside:
        await rt.grant(DORA, "clerk", by=ROOT)
        till.next(LOST, LOST)
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        (effect,) = await rt.effects("r")
        store.is_slow = True
        word = beside.resolve("r", "pay", "did_not_happen", by=DORA, evidence="nothing", calls=effect.calls)
        saying = asyncio.create_task(word)
        await store.on_its_way.wait()
        till.next(till.pay_and_raise(LOST))
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        store.arrives.set()
        with pytest.raises(remit.Refused, match="was sent again, while this was posted") as late:
            await saying
        assert late.value.code == "doubt.sent_again"
        assert (await rt.run(flow, id="r")).value == [100]
