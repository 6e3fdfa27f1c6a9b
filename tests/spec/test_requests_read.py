"""A request that its type reads as something else by now: it is not what was judged, so nothing is called with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.store.memory import MemoryStore
from tests.spec.conftest import Storage
from tests.support.moving import Moving

FEE = {"GB": 5}
YES = remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=1)))


@dataclass
class Order:
    """Its amount is the fee of the day, whatever it was stored with."""

    country: str = "GB"
    amount: int = 0

    def __post_init__(self) -> None:
        self.amount = FEE[self.country]


@pytest.fixture(autouse=True)
def fee() -> None:
    FEE["GB"] = 5


def paying(sent: list[int], rule: remit.Rule | None = None, **declared: Any) -> remit.Flow[Any]:
    @remit.effect(**declared)
    async def pay(order: Order, *, key: str) -> str:
        sent.append(order.amount)
        return "paid"

    @remit.step
    async def wait() -> None:
        while FEE["GB"] == 5:
            await asyncio.sleep(0.01)

    contract = remit.Contract(version="1", resume="anyone", effects={} if rule is None else {"pay": rule})

    @remit.flow(contract=contract, name="paying")
    async def flow(run: remit.Run) -> Any:
        if rule is YES:
            return (await run.gather(run.effect(pay, Order()), run.step(wait)))[0]
        return await run.effect(pay, Order())

    return flow


async def test_a_yes_is_not_used_for_what_the_type_makes_of_the_request_by_then():  # proves: FX-4, APR-1
    sent: list[int] = []
    async with remit.open("memory:") as rt:
        await rt.grant("user:lee", "lead", by="user:ops")
        turn = asyncio.create_task(rt.run(paying(sent, YES), id="r", by="agent:a"))
        while not (asks := await rt.inbox()):
            await asyncio.sleep(0.01)
        await rt.decide(asks[0].id, "approve", by="user:lee", seen=asks[0].version)
        FEE["GB"] = 500
        with pytest.raises(remit.ValueUnreadable) as unreadable:
            await turn
        assert "5 would come back as 500 at $.amount" in unreadable.value.message
        assert "same bytes as the same value" in unreadable.value.hint
        waiting = await rt.wait("r")
        assert (waiting.status, waiting.code, waiting.waits_for) == ("waiting", "value.unreadable", "repair")
        assert not sent and not await rt.effects("r")
        # The next turn asks for what the request is by now, and the yes to the other one is void.
        assert (await rt.run(paying(sent, YES), id="r", by="agent:a")).code == "approval_payload"
        (ask,) = await rt.inbox()
        assert (ask.payload, ask.id != asks[0].id) == ({"amount": 500, "country": "GB"}, True)
        await rt.decide(ask.id, "approve", by="user:lee", seen=ask.version)
        assert (await rt.run(paying(sent, YES), id="r", by="agent:a")).value == "paid"
    assert sent == [500]


@pytest.mark.parametrize("declared", [{}, {"doubt": "resend", "sink": "dedupes"}])
async def test_one_that_changes_while_the_intention_is_written_is_not_called(declared: dict[str, Any]):  # proves: FX-4
    sent: list[int] = []
    store = Moving(MemoryStore())

    async def at_noon() -> None:
        FEE["GB"] = 500

    async with remit.open(store) as rt:
        store.meanwhile = at_noon
        with pytest.raises(remit.ValueUnreadable):
            await rt.run(paying(sent, **declared), id="r")
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.found, sent) == ("did_not_happen", "unsent", [])
        FEE["GB"] = 5
        assert (await rt.run(paying(sent, **declared), id="r")).value == "paid"
    assert sent == [5]


async def test_a_predicate_says_nothing_of_another_request_than_is_judged():  # proves: FX-4, GATE-1
    asked: list[int] = []
    sent: list[int] = []

    async def is_large(order: Order) -> bool:
        asked.append(order.amount)
        FEE["GB"] = 500
        return False

    def still_wanted(order: Order) -> bool:
        asked.append(order.amount)
        return True

    rule = remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=1), when=is_large), still_wanted=still_wanted)
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.ValueUnreadable):
            await rt.run(paying(sent, rule), id="r")
        assert not await rt.effects("r")
    assert (asked, sent) == ([5], [])


@pytest.mark.parametrize("readings", range(1, 7))
@pytest.mark.parametrize("is_transaction", [False, True])
async def test_no_other_amount_is_let_out_whenever_it_changes(
    tmp_path: Any, is_transaction: bool, readings: int
):  # proves: FX-4, FX-6
    left = [5] * readings
    sent: list[int] = []

    @dataclass
    class Fickle:
        amount: int = 0

        def __post_init__(self) -> None:
            self.amount = left.pop() if left else 500

    @remit.effect(name="pay")
    async def pay(order: Any, *, key: str) -> str:
        sent.append(order.amount)
        return "paid"

    def book(connection: Any, order: Any) -> str:
        sent.append(order.amount)
        return "paid"

    pay.fn.__annotations__["order"] = book.__annotations__["order"] = Fickle
    effect, transaction = remit.effect(name="pay")(pay.fn), remit.transaction(name="pay")(book)

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> str:
        order = Fickle()
        made.append(order.amount)
        return await (run.transact(transaction, order) if is_transaction else run.effect(effect, order))

    made: list[int] = []
    async with remit.open(f"sqlite:///{tmp_path}/r.db") as rt:
        for _ in range(2):
            try:
                await rt.run(flow, id="r")
                break
            except remit.RemitError as refused:
                assert refused.code in ("value.unreadable", "value.refused", "definition_incompatible")
        assert await rt.verify("r") is None
    assert set(sent) <= {made[-1]} and len(sent) <= 1


async def test_a_probe_is_not_asked_about_another_request_than_was_sent(storage: Storage):  # proves: FX-4, FX-2
    probed: list[int] = []

    async def find(order: Order, *, key: str) -> Any:
        probed.append(order.amount)
        return remit.Landed("paid")

    @remit.effect(doubt="probe", probe=find)
    async def pay(order: Order, *, key: str) -> str:
        FEE["GB"] = 500
        raise ConnectionError

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> str:
        return await run.effect(pay, Order())

    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.code, probed) == ("in_doubt", "effect.in_doubt", [])
        FEE["GB"] = 5
        assert (await rt.run(flow, id="r")).value == "paid"
    assert probed == [5]
