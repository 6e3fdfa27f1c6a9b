"""Doubts that are sent again: each sending may be the one that landed, so none of them loses what it holds, and each is
judged: what it rests on is compared where it is written, also where it takes nothing more.

What holds for a call is what any of its sendings took and was let pass under: business keys, room under ceilings, and
who may say that it did not happen. Rules and code that are others for one turn change nothing of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, cast

import pytest

import remit
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from tests.spec.conftest import Storage
from tests.support.moving import Moving
from tests.support.office import DORA, ROOT, answer
from tests.support.till import OPEN, Order, Till, find_out, paying

LOST = ConnectionError("no answer")
RESENT = {"doubt": "resend", "sink": "dedupes"}
DAY = {"version": "1", "ceilings": {"pay.amount": {"max": 100, "per": "day"}}}
MONTH = {"version": "2", "ceilings": {"pay.amount": {"max": 3_000, "per": "month"}}}
TWO_A_DAY = {"version": "3", "ceilings": {"pay.amount": {"max": 200, "per": "day"}}}
NOTHING = {"version": "4"}
DIRECTORS = {"version": "5", "approvals": {"pay": {"roles": ["director"], "within": "20m"}}}
APPROVED = remit.Approval({"director"}, timedelta(minutes=20))


async def begin(rt: remit.Runtime, till: Till, flow: remit.Flow[Any], *, lands: bool = False, **by: Any) -> None:
    """A turn that sends it, and once more, and hears nothing."""
    till.next(till.pay_and_raise(LOST) if lands else LOST, LOST)
    assert (await rt.run(flow, id="r", **by)).status == "in_doubt"


async def send_again(rt: remit.Runtime, till: Till, flow: remit.Flow[Any], **by: Any) -> None:
    """A later turn, which sends it once more and hears nothing."""
    before = len(till.arrived)
    till.next(LOST)
    assert (await rt.run(flow, id="r", **by)).status == "in_doubt"
    assert (len(till.arrived), till.told) == (before + 1, [])


async def doctored(rt: remit.Runtime, name: str) -> str:
    """What the doctor sees who counts by the journals; the table has that."""
    (check,) = [check for check in await rt.doctor() if check.name == name]
    assert check.ok
    return check.seen


@pytest.mark.parametrize("field", [None, "payee"], ids=["by none", "by another"])
@pytest.mark.parametrize("end", ["in doubt", "paid", "declined"])
async def test_code_with_another_business_key_does_not_free_the_one_of_the_first_sending(
    storage: Storage, field: str | None, end: str
):  # proves: FX-8, FX-12
    """A rolling deploy, or one that is rolled back: the business key is another field of the request, for one turn."""
    till = Till()

    def flow(business_key: str | None, order: Order = Order()) -> remit.Flow[Any]:  # noqa: B008
        return paying(till.effect(business_key=business_key, **RESENT), order)

    async with storage.open() as rt:
        await begin(rt, till, flow("invoice"), lands=end == "paid")
        if end == "in doubt":
            await send_again(rt, till, flow(field))
        if end == "paid":
            assert (await rt.run(flow(field), id="r")).status == "completed"
        if end == "declined":
            till.next(remit.Declined("no such payee"))
            assert (await rt.run(flow(field), id="r")).status == "in_doubt"
        seen = await doctored(rt, "business keys")
        assert seen.startswith(f"{1 if field is None else 2} held")
        assert (await rt.run(flow("invoice", Order(payee="other")), id="s")).code == "idempotency_conflict"
        if field is not None:
            assert (await rt.run(flow(field, Order(invoice="i-2")), id="t")).code == "idempotency_conflict"


async def test_each_business_key_is_given_back_by_a_word_that_it_did_not_happen(
    storage: Storage,
):  # proves: FX-8, FX-12
    till = Till()

    def flow(business_key: str) -> remit.Flow[Any]:
        return paying(till.effect(business_key=business_key, **RESENT))

    async with storage.open() as rt:
        await begin(rt, till, flow("invoice"))
        for field in ("payee", "invoice", "payee"):
            await send_again(rt, till, flow(field))
        await find_out(rt, "r", "did_not_happen")
        await rt.cancel("r", by=ROOT)
        assert (await rt.run(flow("payee"), id="r")).status == "cancelled"
        for run, field in (("s", "invoice"), ("t", "payee")):
            assert (await rt.run(flow(field), id=run)).status == "completed"


@pytest.mark.parametrize("between", [MONTH, NOTHING, TWO_A_DAY], ids=["per month", "none", "of more"])
@pytest.mark.parametrize("end", ["in doubt", "paid", "declined"])
async def test_a_policy_of_one_turn_gives_no_room_back_that_an_earlier_sending_took(
    storage: Storage, between: Mapping[str, Any], end: str
):  # proves: FX-12
    till = Till()
    flow = paying(till.effect(**RESENT))
    async with storage.open() as rt:
        await rt.set_policy(DAY, by=ROOT)
        await begin(rt, till, flow, lands=end == "paid")
        await rt.set_policy(between, by=ROOT)
        if end == "in doubt":
            await send_again(rt, till, flow)
        if end == "paid":
            assert (await rt.run(flow, id="r")).status == "completed"
        if end == "declined":
            till.next(remit.Declined("no such payee"))
            assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert {each.used for each in await rt.used()} <= {100}, "of one scope it counts once"
        await rt.set_policy(DAY, by=ROOT)
        assert [each.used for each in await rt.used()] == [100]
        seen = await doctored(rt, "ceilings")
        assert seen.startswith(f"{2 if between is MONTH else 1} counted")
        assert (await rt.run(flow, id="s")).code == "ceiling_exceeded"


@pytest.mark.parametrize("more", [40, 41], ids=["to the brim", "over it"])
async def test_no_other_flow_comes_in_between_where_it_is_sent_again_under_a_ceiling(more: int):  # proves: FX-12, FX-2
    """The same day, so it takes nothing more; another flow, with a larger maximum of the same, is paid meanwhile."""
    store, till = Moving(MemoryStore()), Till()

    def flow(name: str, most: int, order: Order) -> remit.Flow[Any]:
        rule = remit.Rule(ceiling=remit.Ceiling("amount", max=most, per="day"))
        contract = remit.Contract(version="1", resume="anyone", effects={"pay": rule})
        return paying(till.effect(**RESENT), order, contract=contract, name=name)

    small = flow("small", 100, Order(invoice="small", amount=60))
    large = flow("large", 1_000, Order(invoice="large", amount=more))
    async with remit.open(cast(Store, store)) as rt, remit.open(cast(Store, store)) as beside:
        await rt.grant(DORA, "director", by=ROOT)
        await begin(rt, till, small)

        async def meanwhile() -> None:
            assert (await beside.run(large, id="s")).value == [more]

        store.meanwhile = meanwhile
        outcome = await rt.run(small, id="r")
        is_over = more > 40
        assert outcome.status == ("in_doubt" if is_over else "completed")
        assert till.calls == {"small": 2 if is_over else 3, "large": 1}
        assert (await doctored(rt, "ceilings")).startswith("1 counted")


async def test_sending_it_again_makes_nobody_a_witness_who_came_after_the_first(
    storage: Storage,
):  # proves: FX-9, APR-3
    till = Till()
    rule = remit.Rule(approval=APPROVED)
    contract = remit.Contract(version="1", resume="anyone", risk="high", effects={"pay": rule})
    flow = paying(till.effect(**RESENT), contract=contract)
    async with storage.open() as rt:
        await rt.grant(DORA, "director", by=ROOT)
        assert (await rt.run(flow, id="r")).waits_for == "approval"
        await answer(rt)
        await begin(rt, till, flow)
        await rt.grant("user:new", "director", by=ROOT)
        for _ in range(2):
            await send_again(rt, till, flow)
            assert await code_of(rt, "user:new") == "doubt.role"
        await find_out(rt, "r", "did_not_happen", by=DORA)


async def test_what_the_first_sending_was_judged_by_holds_for_a_witness_whatever_is_loosened(
    storage: Storage,
):  # proves: FX-9, APR-3
    till = Till()

    def flow(risk: Literal["medium", "high"]) -> remit.Flow[Any]:
        return paying(till.effect(**RESENT), contract=remit.Contract(version="1", resume="anyone", risk=risk))

    async with storage.open() as rt:
        await rt.grant(DORA, "director", by=ROOT)
        await rt.grant("user:carl", "clerk", by=ROOT)
        await rt.set_policy(DIRECTORS, by=ROOT)
        assert (await rt.run(flow("medium"), id="r")).waits_for == "approval"
        assert (await rt.run(flow("high"), id="r")).waits_for == "approval"
        await answer(rt)
        await begin(rt, till, flow("high"))
        await rt.set_policy(NOTHING, by=ROOT)
        await rt.grant("user:new", "director", by=ROOT)
        for _ in range(2):
            await send_again(rt, till, flow("medium"))
            assert [await code_of(rt, by) for by in ("user:carl", "user:new")] == ["doubt.role"] * 2
        await rt.set_policy(DIRECTORS, by=ROOT)
        assert [await code_of(rt, by) for by in ("user:carl", "user:new")] == ["doubt.role"] * 2
        await find_out(rt, "r", "did_not_happen", by=DORA)


async def test_who_may_approve_themselves_by_a_later_rule_is_no_witness_of_their_own_first_sending(
    storage: Storage,
):  # proves: FX-9, APR-3
    till = Till()
    lax = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=8), alone=True))

    def flow(rule: remit.Rule, version: str) -> remit.Flow[Any]:
        contract = remit.Contract(version=version, resume="anyone", effects={"pay": rule})
        return paying(till.effect(**RESENT), contract=contract)

    async with storage.open() as rt:
        await rt.grant(DORA, "director", by=ROOT)
        await begin(rt, till, flow(remit.Rule(), "1"), by=DORA)
        assert await code_of(rt, DORA) == "doubt.self"
        assert (await rt.run(flow(lax, "2"), id="r", by=DORA)).waits_for == "doubt"
        await answer(rt)
        await send_again(rt, till, flow(lax, "2"), by=DORA)
        assert await code_of(rt, DORA) == "doubt.self"


async def code_of(rt: remit.Runtime, by: str) -> str:
    """Why this one may not say so."""
    with pytest.raises(remit.Refused) as refused:
        await rt.resolve("r", "pay", "did_not_happen", by=by, evidence="I looked")
    return refused.value.code


@pytest.mark.parametrize("lands", [True, False], ids=["and lands", "and is lost once more"])
@pytest.mark.parametrize("by", ["resend", "probe"])
async def test_nothing_new_begins_beside_a_call_that_is_being_sent_again(
    storage: Storage, by: Literal["resend", "probe"], lands: bool
):  # proves: FX-2, GATE-2
    """It is in doubt until it is known what became of it, also while its second sending is on the wire."""
    till, other = Till(), Till()
    till.probe_says = remit.NotLanded()
    refund, wire = till.effect("refund", doubt=by, sink="dedupes"), other.effect("wire")
    till.next(LOST, till.hold if lands else till.hold_and_fail)

    @remit.step
    async def look_up() -> None:
        await till.is_held.wait()

    @remit.flow(contract=OPEN)
    async def side(run: remit.Run) -> None:
        async def beside() -> None:
            await run.step(look_up)
            await run.effect(wire, Order())

        await asyncio.gather(run.effect(refund, Order()), beside())

    async with storage.open() as rt:
        turn = asyncio.ensure_future(rt.run(side, id="r"))
        await till.is_held.wait()
        for _ in range(40):
            await asyncio.sleep(0.005)
        assert other.arrived == []
        till.let_go.set()
        outcome = await turn
        assert (outcome.status, len(other.arrived)) == (("completed", 1) if lands else ("in_doubt", 0))


@pytest.mark.parametrize("said", ["", "approve", "deny"], ids=["open", "approved", "denied"])
@pytest.mark.parametrize("end", ["a word", "a probe", "no payment"])
async def test_the_question_whether_it_may_be_sent_again_ends_with_its_doubt(
    said: Literal["", "approve", "deny"], end: str, storage: Storage
):  # proves: APR-1, FX-9
    """Nobody is asked any more about what happened; what did not happen is still to be sent, and they are asked."""
    till = Till()
    till.probe_says = remit.NotLanded()
    pay = till.effect(**RESENT | {"doubt": "probe" if end == "a probe" else "resend"})

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="paying")
    async def flow(run: remit.Run) -> None:
        await run.effect(pay, Order())
        await run.approve("later", 1, roles={"director"}, within=timedelta(minutes=20))

    async with storage.open() as rt:
        await rt.grant(DORA, "director", by=ROOT)
        await begin(rt, till, flow, lands=end != "no payment")
        await rt.set_policy(DIRECTORS, by=ROOT)
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        (ask,) = await rt.inbox()
        if said:
            await rt.decide(ask.id, said, by=DORA, seen=ask.version)
        if end == "a probe":
            till.probe_says = None
        else:
            state: Literal["ok", "did_not_happen"] = "ok" if end == "a word" else "did_not_happen"
            given: Any = {"number": 1, "amount": 100} if end == "a word" else ...
            await find_out(rt, "r", state, given, by=DORA)
        if end == "no payment":
            await check_still_asked(rt, till, flow, ask, said)
            return
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.waits_for, len(till.arrived)) == ("waiting", "approval", 2)
        assert [each.call for each in await rt.inbox()] == ["later"]
        asked = (await rt.show("r")).view.boundary.asks[ask.id]
        assert (asked.state, asked.voided) == ("void", ["approval.not_needed"])
        row = await rt._store.read_ask("default", ask.id)
        assert row is not None and not row.is_open
        with pytest.raises(remit.Refused) as refused:
            await rt.decide(ask.id, "approve", by=DORA, seen=ask.version)
        assert refused.value.code == ("approval.decided" if said else "approval.void")


async def check_still_asked(rt: remit.Runtime, till: Till, flow: remit.Flow[Any], ask: remit.Ask, said: str) -> None:
    """The same question stands, and the same answer."""
    if said == "deny":
        assert (await rt.run(flow, id="r")).code == "denied"
        return
    outcome = await rt.run(flow, id="r")
    assert (outcome.waits_for, len(till.arrived)) == ("approval", 3 if said else 2)
    assert [each.id == ask.id for each in await rt.inbox()] == [not said]
