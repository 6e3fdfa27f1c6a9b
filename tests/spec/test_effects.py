"""Effects: intended before, settled after, called once, with the bytes that were judged, and never without a permit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

import remit
from remit.engine.boundary import port
from remit.engine.turn.wish import Permit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Receipt, Till, kinds_of, paying

CROSSED = ["GateJudged", "EffectIntended", "EffectSettled"]


async def test_an_effect_is_intended_before_its_body_and_settled_after_it(
    storage: Storage,
):  # proves: FX-1, FX-2, GATE-1
    till, seen = Till(), []

    async with storage.open() as rt:

        async def look(key: str, order: Order) -> Receipt:
            (effect,) = await rt.effects("r")
            seen.append((effect.state, effect.key, effect.request, (await kinds_of(rt, "r"))[2:]))
            return till.pay(key, order)

        till.next(look)
        outcome = await rt.run(paying(till.effect()), id="r")
        (effect,) = await rt.effects("r")
        assert await kinds_of(rt, "r") == ["RunOpened", "AttemptStarted", *CROSSED, "RunEnded"]

    (key,) = till.keys
    request = {"amount": 100, "invoice": "i-1", "payee": "acme"}
    assert seen == [("under_way", key, request, CROSSED[:2])]
    assert outcome.value == [100]
    assert (effect.state, effect.key, effect.calls, effect.outcome) == ("ok", key, 1, {"amount": 100, "number": 1})


async def test_a_settled_effect_is_not_called_again_and_gives_the_same_outcome(storage: Storage):  # proves: FX-1, RUN-8
    till, seen, is_broken = Till(), [], True
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        receipt = await run.effect(pay, Order())
        seen.append(receipt)
        if is_broken:
            raise ValueError("after the effect")
        return receipt.number

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
    is_broken = False
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == 1
        assert (await rt.run(flow, id="r")).value == 1

    assert seen == [Receipt(number=1, amount=100)] * 2
    assert till.calls == {"i-1": 1}


async def test_the_key_is_of_this_call_of_this_run_with_this_request(storage: Storage):  # proves: FX-1
    till = Till()
    flow = paying(till.effect(), Order(), Order(), Order(amount=200))
    async with storage.open() as rt:
        await rt.run(flow, id="r")
        await rt.run(flow, id="s")
    async with storage.open(tenant="other") as rt:
        await rt.run(flow, id="r")
    assert len(set(till.keys)) == 9
    assert all(len(key) == 64 and set(key) <= set("0123456789abcdef") for key in till.keys)


async def test_every_call_of_one_effect_has_the_same_key(storage: Storage):  # proves: FX-1, FX-11
    till = Till()
    till.next(remit.DidNotHappen("no connection"), remit.DidNotHappen("no connection"))
    flow = paying(till.effect())
    async with storage.open() as rt:
        for _ in range(2):
            with pytest.raises(remit.EffectFailed):
                await rt.run(flow, id="r")
        assert (await rt.run(flow, id="r")).value == [100]
    assert len(till.keys) == 3 and len(set(till.keys)) == 1


async def test_what_is_executed_is_what_was_written_down(storage: Storage):  # proves: FX-4
    """Neither a predicate nor the body itself can change it, not even for a second call of the same effect."""
    seen: list[dict[str, Any]] = []

    def meddle(order: dict[str, Any]) -> bool:
        order["amount"] = 999
        return False

    async def pay(order: dict[str, Any], *, key: str) -> int:
        seen.append(dict(order))
        order["amount"] = 0
        if len(seen) == 1:
            raise remit.DidNotHappen("no connection")
        return 1

    rule = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1), when=meddle))
    contract = remit.Contract(version="1", resume="anyone", effects={"pay": rule})
    effect = remit.effect(pay)

    @remit.flow(contract=contract)
    async def flow(run: remit.Run) -> int:
        order = {"amount": 100}
        number = await run.effect(effect, order)
        assert order == {"amount": 100}
        return number

    async with storage.open() as rt:
        with pytest.raises(remit.EffectFailed):
            await rt.run(flow, id="r")
        assert (await rt.run(flow, id="r")).value == 1
        (told,) = await rt.effects("r")
    assert seen == [{"amount": 100}] * 2
    assert told.request == {"amount": 100}


async def test_the_order_of_keys_makes_no_other_request(storage: Storage):  # proves: FX-4
    till, order = Till(), {"payee": "acme", "amount": 100}
    till.next(ConnectionError("no answer"))

    async def pay(order: dict[str, Any], *, key: str) -> int:
        return cast(int, (await till.effect().fn(Order(amount=order["amount"]), key=key)).number)

    effect = remit.effect(doubt="resend", sink="dedupes")(pay)
    contract = remit.Contract(version="1", resume="anyone")

    @remit.flow(contract=contract)
    async def flow(run: remit.Run) -> int:
        return await run.effect(effect, order)

    till.next(ConnectionError("no answer"))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        order = {"amount": 100, "payee": "acme"}
        assert (await rt.run(flow, id="r")).value == 1
    assert len(set(till.keys)) == 1


async def test_code_that_would_send_something_else_after_an_intention_is_other_code(storage: Storage):  # proves: FX-4
    till = Till()
    till.next(ConnectionError("no answer"))
    pay = till.effect(doubt="resend", sink="dedupes")
    till.next(ConnectionError("no answer"))
    async with storage.open() as rt:
        assert (await rt.run(paying(pay), id="r")).status == "in_doubt"
        with pytest.raises(remit.DefinitionIncompatible, match="pay with another request"):
            await rt.run(paying(pay, Order(amount=200)), id="r")
        assert (await rt.run(paying(pay), id="r")).value == [100]
    assert {order.amount for _, order in till.arrived} == {100}


async def test_a_crossing_is_made_by_the_flow_and_never_from_inside_a_body(storage: Storage):  # proves: FX-1, GATE-1
    till, codes = Till(), []
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        async def step() -> None:
            for call in (lambda: run.effect(pay, Order()), lambda: pay(Order(), key="k")):
                with pytest.raises(remit.CallRefused) as refused:
                    await call()
                codes.append(refused.value.code)

        async def nested(order: Order, *, key: str) -> None:
            await step()

        await run.step(step)
        await run.effect(remit.effect(nested), Order())
        with pytest.raises(remit.CallRefused) as refused:
            await pay(Order(), key="k")
        codes.append(refused.value.code)

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "completed"
    assert codes == ["call.nested", "call.direct"] * 2 + ["call.direct"]
    assert till.arrived == []


async def test_no_function_is_called_without_a_permit_of_this_judgement_once():  # proves: GATE-1, FX-5
    """What a new path to a body would have to forge: a permit that the crossing gave, for this intention and epoch."""
    till, refused = Till(), []
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        turn = run._turn

        async def try_with(permit: Permit) -> None:
            with pytest.raises(remit.PermitRefused) as raised:
                await port.touch(turn, pay, permit)
            refused.append(raised.value.code)

        async def inside(order: Order, *, key: str) -> int:
            view = turn.attempt.boundary.effects["inside"]
            given = Permit("inside", view.intention, view.attempt, key, 2**53)
            await try_with(given)  # used up by the very call that we are in
            for forged in (
                given._replace(epoch=given.epoch + 1),
                given._replace(intention="0" * 64),
                given._replace(name="pay"),
            ):
                turn.permits.add(forged)
                await try_with(forged)
            return 1

        await try_with(Permit("pay", "0" * 64, 1, "k", 2**53))
        await run.effect(remit.effect(inside), Order())
        view = turn.attempt.boundary.effects["inside"]
        settled = Permit("inside", view.intention, view.attempt, view.intended.key, 2**53)
        turn.permits.add(settled)
        await try_with(settled)

    async with remit.open("memory:") as rt:
        assert (await rt.run(flow, id="r")).status == "completed"
    assert refused == ["permit.refused"] * 6
    assert till.arrived == []


async def test_the_epoch_is_given_to_a_function_that_asks_for_it(storage: Storage):  # proves: FX-5
    epochs: list[int] = []

    async def pay(order: Order, *, key: str, epoch: int) -> int:
        epochs.append(epoch)
        if len(epochs) == 1:
            raise remit.DidNotHappen("no connection")
        return epoch

    effect = remit.effect(sink="fences")(pay)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        return await run.effect(effect, Order())

    async with storage.open() as rt:
        with pytest.raises(remit.EffectFailed):
            await rt.run(flow, id="r")
        assert (await rt.run(flow, id="r")).value == 2
        assert (await rt.show("r")).view.boundary.effects["pay"].attempt == 2
    assert epochs == [1, 2]


def test_effects_of_a_plain_flow_go_the_same_way(storage: Storage):  # proves: FX-1, RUN-17
    seen: list[str] = []

    @remit.effect
    def pay(order: Order, *, key: str) -> int:
        seen.append(order.invoice)
        if order.invoice == "bad":
            raise remit.Declined("no such payee")
        return len(seen)

    @remit.flow(contract=OPEN)
    def plain(run: remit.SyncRun) -> list[int]:
        first = run.effect(pay, Order())
        with pytest.raises(remit.EffectFailed) as failed:
            run.effect(pay, Order(invoice="bad"))
        assert (failed.value.code, failed.value.error_type) == ("effect.declined", "remit.Declined")
        both = run.gather(run.effect_call(pay, Order()), run.effect_call(pay, Order()))
        return [first, *sorted(both)]

    with storage.open() as rt:
        assert rt.run_sync(plain, id="r").value == [1, 3, 4]
        assert [e.state for e in rt.effects_sync("r")] == ["ok", "failed", "ok", "ok"]
        assert rt.run_sync(plain, id="r").value == [1, 3, 4]
    assert len(seen) == 4


async def test_a_request_that_is_too_large_is_refused_before_anything_is_asked(storage: Storage):  # proves: C31, FX-13
    till, refused = Till(), []
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        with pytest.raises(remit.ValueRefused) as raised:
            await run.effect(pay, Order(payee="x" * 300_000_000))
        refused.append(str(raised.value))

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "completed"
        assert await kinds_of(rt, "r") == ["RunOpened", "AttemptStarted", "RunEnded"]
    assert "300,000,0" in refused[0] and "16,777,216" in refused[0] and "request of pay" in refused[0]
    assert till.arrived == []


@pytest.mark.slow
async def test_a_large_outcome_is_kept_whole(database: Storage):  # proves: C31
    async def scan(order: Order, *, key: str) -> str:
        return "x" * 50_000_000

    effect = remit.effect(scan)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> int:
        text: str = await run.effect(effect, Order())
        return len(text)

    async with database.open() as rt:
        assert (await rt.run(flow, id="r")).value == 50_000_000
        assert len((await rt.effects("r"))[0].outcome) == 50_000_000


@pytest.mark.slow
async def test_an_outcome_over_every_limit_settles_its_effect_and_is_lost():  # proves: C31, FX-13
    calls: list[str] = []

    async def scan(order: Order, *, key: str) -> str:
        calls.append(key)
        return "x" * 300_000_000

    effect = remit.effect(scan)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> str:
        return await run.effect(effect, Order())

    async with remit.open("memory:") as rt:
        for _ in range(2):
            outcome = await rt.run(flow, id="r")
            assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "repair", "effect.value_lost")
        settled = (await rt.show("r")).view.boundary.effects["scan"].settled
    assert settled is not None and settled.lost is not None
    assert (settled.state, settled.lost.code, settled.lost.size) == ("ok", "value.size", 300_000_002)
    assert len(calls) == 1


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("it says nothing")


class Locked:
    """Raises whatever is asked of it, and so do its errors."""

    def __getattribute__(self, name: str) -> object:
        raise Mute


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
@pytest.mark.parametrize(
    "outcome",
    [float("nan"), "\ud800", object(), 1, None, Locked],
    ids=["nan", "half a letter", "an object", "one", "None", "Locked"],
)
async def test_an_outcome_that_cannot_be_kept_settles_its_effect_and_is_lost(
    storage: Storage, outcome: object, is_async: bool
):  # proves: FX-13
    calls: list[str] = []

    def plain(order: Order, *, key: str) -> Receipt:
        calls.append(key)
        return cast(Receipt, Locked() if outcome is Locked else outcome)

    async def pay(order: Order, *, key: str) -> Receipt:
        return plain(order, key=key)

    effect = remit.effect(name="pay")(pay if is_async else plain)

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.effect(effect, Order())

    async with storage.open() as rt:
        for _ in range(2):
            waiting = await rt.run(flow, id="r")
            assert (waiting.status, waiting.waits_for, waiting.code) == ("waiting", "repair", "effect.value_lost")
            assert "nothing is called again" in waiting.reason
        (effected,) = await rt.effects("r")
        assert (effected.state, effected.outcome) == ("ok", None)
        entries = [msgspec.json.decode(e.body) for e in (await rt.read("r")).main if b'"lost"' in e.body]
    assert [entry["state"] for entry in entries] == ["ok"]
    assert len(calls) == 1
