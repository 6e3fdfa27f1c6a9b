"""Effects side by side: in a gather, a race and branches each is one effect, with its own name, key and outcome."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Receipt, Till, find_out, kinds_of

LOST = ConnectionError("no answer")
PAID = {"number": 1, "amount": 100}


async def test_effects_side_by_side_keep_their_names_and_outcomes_on_replay(storage: Storage):  # proves: FX-1, C22
    till, is_broken = Till(), True
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[int]:
        calls = [run.effect(pay, Order(amount=amount)) for amount in (300, 100, 200)]
        receipts = await run.gather(*calls)
        if is_broken:
            raise ValueError("later")
        return [receipt.amount for receipt in receipts]

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="later"):
            await rt.run(flow, id="r")
        is_broken = False
        assert (await rt.run(flow, id="r")).value == [300, 100, 200]
        told = {e.call: e.request["amount"] for e in await rt.effects("r")}
    assert told == {"pay": 300, "pay#2": 100, "pay#3": 200}
    assert till.times == [1, 1, 1]


async def test_branches_name_their_effects_by_themselves(storage: Storage):  # proves: FX-1
    till = Till()
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        async def supplier(name: str) -> None:
            branch = run.branch(name)
            await branch.effect(pay, Order(payee=name))
            await branch.effect(pay, Order(payee=name))

        await asyncio.gather(supplier("a"), supplier("b"))

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "completed"
        assert sorted(e.call for e in await rt.effects("r")) == ["a/pay", "a/pay#2", "b/pay", "b/pay#2"]
    assert len(set(till.keys)) == 4


async def test_one_name_asked_for_by_two_tasks_reaches_nothing_twice(storage: Storage):  # proves: FX-1
    till = Till()
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        async def one() -> None:
            await run.effect(pay, Order())

        await asyncio.gather(one(), one())

    async with storage.open() as rt:
        with pytest.raises(remit.NameAmbiguous):
            await rt.run(flow, id="r")
    assert len(till.arrived) <= 1


async def test_a_doubt_beside_it_lets_an_effect_under_way_finish_and_no_other_begin(storage: Storage):  # proves: FX-2
    till = Till()
    pay = till.effect()

    async def lose(key: str, order: Order) -> None:
        await till.is_held.wait()
        raise LOST

    till.next(till.hold, lose)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[int]:
        async def third() -> Receipt:
            await till.is_held.wait()
            for _ in range(50):
                await asyncio.sleep(0)
            till.let_go.set()
            return await run.branch("late").effect(pay, Order(invoice="i-3"))

        both = run.effect(pay, Order(invoice="i-1")), run.effect(pay, Order(invoice="i-2"))
        return [receipt.amount for receipt in await run.gather(*both, third())]

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert {e.call: e.state for e in await rt.effects("r")} == {"pay": "ok", "pay#2": "in_doubt"}
        assert till.calls == {"i-1": 1, "i-2": 1}
        await find_out(rt, "r", "ok", PAID, call="pay#2")
        assert (await rt.run(flow, id="r")).value == [100, 100, 100]
    assert till.calls == {"i-1": 1, "i-2": 1, "i-3": 1}


async def test_an_effect_that_lost_a_race_under_way_is_settled_and_never_called_again(
    storage: Storage,
):  # proves: FX-10
    till, is_broken = Till(), True
    till.next(till.hold)
    pay = till.effect()

    async def quick() -> str:
        await till.is_held.wait()
        return "quick"

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        winner = await run.first(run.effect(pay, Order()), run.step(quick))
        till.let_go.set()
        if is_broken:
            raise ValueError("later")
        return str(winner)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="later"):
            await rt.run(flow, id="r")
        assert [(e.call, e.state) for e in await rt.effects("r")] == [("pay", "ok")]
        is_broken = False
        assert (await rt.run(flow, id="r")).value == "quick"
    assert till.times == [1]


async def test_an_effect_may_win_a_race(storage: Storage):  # proves: FX-1, RUN-8
    till = Till()
    pay = till.effect()

    async def never() -> None:
        await asyncio.Event().wait()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        receipt = await run.first(run.step(never), run.effect(pay, Order()))
        return int(receipt.amount)

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == 100
        assert (await rt.run(flow, id="r")).value == 100
        assert (await kinds_of(rt, "r")).count("EffectIntended") == 1
    assert till.times == [1]


async def test_a_race_of_two_effects_lets_both_happen_where_both_had_begun(storage: Storage):  # proves: FX-10
    """There is no taking back what reached the outside: a race of effects says so in the journal."""
    till = Till()
    till.next(till.hold)
    pay = till.effect()

    async def second(key: str, order: Order) -> object:
        await till.is_held.wait()
        return till.pay(key, order)

    till.next(second)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        receipt = await run.first(run.effect(pay, Order(amount=1)), run.effect(pay, Order(amount=2)))
        till.let_go.set()
        return int(receipt.amount)

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == 2
        assert {e.call: e.state for e in await rt.effects("r")} == {"pay": "ok", "pay#2": "ok"}
    assert till.times == [1, 1]


async def test_a_failure_beside_it_is_raised_when_all_effects_are_settled(storage: Storage):  # proves: FX-10, FX-11
    till = Till()
    till.next(remit.Declined("no"), till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        async def let_go() -> None:
            await till.is_held.wait()
            till.let_go.set()

        await run.gather(run.effect(pay, Order()), run.effect(pay, Order()), let_go())

    async with storage.open() as rt:
        with pytest.raises(remit.EffectFailed) as failed:
            await rt.run(flow, id="r")
        assert (failed.value.name, failed.value.code) == ("pay", "effect.declined")
        assert {e.call: e.state for e in await rt.effects("r")} == {"pay": "failed", "pay#2": "ok"}
        with pytest.raises(remit.EffectFailed):
            await rt.run(flow, id="r")
    assert len(till.arrived) == 2


async def test_a_question_that_cannot_be_answered_whether_it_is_asked_is_asked(storage: Storage):  # proves: C16, GATE-2
    """The function that decides whether a person is needed raises: that is a no, and never a free pass."""
    till = Till()

    def when(order: Order) -> bool:
        raise LookupError(order.payee)

    rule = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1), when=when))
    contract = remit.Contract(version="1", resume="anyone", effects={"pay": rule})
    pay = till.effect()

    @remit.flow(contract=contract)
    async def flow(run: remit.Run) -> int:
        return (await run.effect(pay, Order())).amount

    async with storage.open() as rt:
        await rt.grant("user:dora", "director", by="user:root")
        assert (await rt.run(flow, id="r")).waits_for == "approval"
        assert till.arrived == []
        (ask,) = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dora", seen=ask.version)
        assert (await rt.run(flow, id="r")).value == 100
    assert till.times == [1]


async def test_what_is_known_of_an_effect_is_written_before_others_begin_one_after_the_other(
    storage: Storage,
):  # proves: FX-2
    """Intentions stand in line, each in a commit of its own; a settlement waits for one of them and not for all."""
    many = 60

    @remit.effect
    async def pay(number: int, *, key: str) -> int:
        await asyncio.sleep(0.001)
        return number

    @remit.flow(contract=OPEN)
    async def wide(run: remit.Run) -> list[int]:
        return list(await run.gather(*(run.branch(str(number)).effect(pay, number) for number in range(many))))

    async with storage.open() as rt, asyncio.timeout(60):
        assert (await rt.run(wide, id="r")).value == [*range(many)]
        kinds = await kinds_of(rt, "r")
    in_doubt = [kinds[:n].count("EffectIntended") - kinds[:n].count("EffectSettled") for n in range(len(kinds))]
    assert max(in_doubt) <= many // 3
