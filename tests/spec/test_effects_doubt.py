"""Doubts: an effect that raised may have happened. It is found out as declared, or a person says; never guessed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.faces.next_step import next_step
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.till import OPEN, Order, Receipt, Till, find_out, kinds_of, paying

LOST = ConnectionError("no answer")
DEDUPES = {"doubt": "probe", "sink": "dedupes"}
PAID = {"number": 1, "amount": 100}


# -- what leaves a doubt, and what does not -----------------------------------------------------------------------


@pytest.mark.parametrize("error", [LOST, ValueError("in the body"), TimeoutError(), asyncio.CancelledError()], ids=repr)
async def test_a_body_that_raises_leaves_a_doubt_that_no_call_ends(
    storage: Storage, error: BaseException
):  # proves: FX-2, FX-11, FX-13
    till = Till()
    till.next(till.pay_and_raise(error))
    flow = paying(till.effect())
    async with storage.open() as rt:
        for _ in range(3):
            outcome = await rt.run(flow, id="r")
            assert (outcome.status, outcome.waits_for, outcome.code) == ("in_doubt", "doubt", "effect.in_doubt")
            with pytest.raises(remit.RunUnfinished):
                _ = outcome.value
        (effect,) = await rt.effects(in_doubt=True)
        assert (effect.run, effect.call, effect.state, effect.key) == ("r", "pay", "in_doubt", till.keys[0])
    assert till.calls == {"i-1": 1}


async def test_a_body_that_is_over_its_time_leaves_a_doubt(storage: Storage):  # proves: FX-13
    till = Till()
    till.next(till.hold)
    flow = paying(till.effect(timeout=timedelta(milliseconds=20)))
    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, "TimeoutError" in outcome.reason) == ("in_doubt", True)
    assert len(till.arrived) == 1


async def test_a_flow_that_swallows_everything_does_not_get_past_a_doubt(storage: Storage):  # proves: FX-11, C44
    till = Till()
    till.next(LOST)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def greedy(run: remit.Run) -> str:
        for _ in range(3):
            try:
                await run.effect(pay, Order())
            except Exception:
                continue
        return "done"

    async with storage.open() as rt:
        assert (await rt.run(greedy, id="r")).status == "in_doubt"
        assert (await rt.run(greedy, id="r")).status == "in_doubt"
    assert len(till.arrived) == 1


async def test_what_did_not_happen_is_called_again_at_the_next_call(storage: Storage):  # proves: FX-11, FX-13
    till = Till()
    till.next(remit.DidNotHappen("no connection"))
    flow = paying(till.effect())
    async with storage.open() as rt:
        with pytest.raises(remit.EffectDidNotHappen) as failed:
            await rt.run(flow, id="r")
        assert (failed.value.code, failed.value.name) == ("effect.did_not_happen", "pay")
        assert [e.state for e in await rt.effects("r")] == ["did_not_happen"]
        assert (await rt.wait("r")).waits_for == "repair"
        assert (await rt.run(flow, id="r")).value == [100]
    assert len(set(till.keys)) == 1 and till.times == [1]


async def test_a_flow_that_dealt_with_what_did_not_happen_is_told_the_same_on_replay(storage: Storage):  # proves: FX-11
    till, is_broken = Till(), True
    till.next(remit.DidNotHappen("no connection"))
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> list[Any]:
        try:
            await run.effect(pay, Order())
        except remit.EffectFailed as exc:
            caught = (exc.code, exc.detail)
        if is_broken:
            raise ValueError("later")
        return [*caught, (await run.effect(pay, Order(payee="other"))).amount]

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="later"):
            await rt.run(flow, id="r")
        is_broken = False
        assert (await rt.run(flow, id="r")).value == ["effect.did_not_happen", "no connection", 100]
    assert [order.payee for _, order in till.arrived] == ["acme", "other"]


async def test_what_was_declined_is_over_and_never_called_again(storage: Storage):  # proves: FX-11, FX-13
    till = Till()
    till.next(remit.Declined("account closed"))
    flow = paying(till.effect())
    async with storage.open() as rt:
        for _ in range(2):
            with pytest.raises(remit.EffectDeclined) as failed:
                await rt.run(flow, id="r")
            assert (failed.value.code, failed.value.detail) == ("effect.declined", "account closed")
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.detail) == ("failed", "account closed")
    assert len(till.arrived) == 1


# -- probe --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [{"doubt": "probe"}, DEDUPES], ids=["plain", "dedupes"])
async def test_what_a_probe_finds_is_the_outcome(storage: Storage, declared: dict[str, Any]):  # proves: FX-2, FX-13
    till = Till()
    till.next(till.pay_and_raise(LOST))
    flow = paying(till.effect(**declared))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == [100]
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.found, effect.outcome) == ("ok", "probe", PAID)
    assert (till.probed, len(till.arrived)) == (till.keys, 1)


async def test_a_probe_that_finds_nothing_is_leave_to_send_again_where_the_sink_dedupes(
    storage: Storage,
):  # proves: FX-2, FX-11
    till = Till()
    till.next(LOST)
    flow = paying(till.effect(**DEDUPES))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == [100]
        kinds = (await kinds_of(rt, "r"))[2:]
    assert kinds == ["GateJudged", "EffectIntended"] * 2 + ["EffectSettled", "RunEnded"]
    assert len(till.keys) == 2 and len(set(till.keys)) == 1


async def test_a_probe_that_finds_nothing_proves_nothing_where_the_sink_promises_nothing(
    storage: Storage,
):  # proves: FX-2
    till = Till()
    till.next(LOST)
    flow = paying(till.effect(doubt="probe"))
    async with storage.open() as rt:
        for number in (1, 2):
            outcome = await rt.run(flow, id="r")
            assert outcome.status == "in_doubt" and "may still land" in outcome.reason
            assert len(till.probed) == number
        till.pay(till.keys[0], Order())  # it lands late
        assert (await rt.run(flow, id="r")).value == [100]
    assert (len(till.arrived), till.times) == (1, [1])


async def test_the_time_to_land_proves_nothing_while_the_sender_lives(
    storage: Storage, clock: MovedClock
):  # proves: FX-5
    till = Till()
    till.next(LOST)
    flow = paying(till.effect(doubt="probe", lands_within=timedelta(minutes=1)))
    async with storage.open(clock=clock) as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        clock.move(timedelta(minutes=2))
        assert (await rt.run(flow, id="r")).status == "in_doubt"
    assert len(till.arrived) == 1


def _fencing(till: Till, epochs: list[int] | None) -> remit.Flow[Any]:
    """epochs: those that the probe told the other side; None for a probe that tells none."""

    async def find(order: Order, *, key: str, epoch: int) -> Any:
        assert epochs is not None
        epochs.append(epoch)
        return await till.probe(order, key=key)

    async def pay(order: Order, *, key: str, epoch: int) -> Receipt:
        return await till._answer(order, key)

    probe: Callable[..., Any] = till.probe if epochs is None else find
    return paying(remit.effect(doubt="probe", probe=probe, sink="fences")(pay))


async def test_a_fence_is_believed_once_the_probe_raised_it(storage: Storage):  # proves: FX-2, FX-5
    """In the attempt that sent it there is no newer epoch: the first request would pass the fence as well."""
    till = Till()
    epochs: list[int] = []
    till.next(LOST)
    async with storage.open() as rt:
        assert (await rt.run(_fencing(till, epochs), id="r")).status == "in_doubt"
        assert (await rt.run(_fencing(till, epochs), id="r")).value == [100]
    assert (epochs, len(till.arrived)) == ([1, 2], 2)


async def test_a_fence_that_no_probe_raised_keeps_nothing_out(storage: Storage):  # proves: FX-2, FX-5
    """The first request may land between the probe's answer and the second call."""
    till = Till()
    till.next(LOST)
    async with storage.open() as rt:
        for _ in range(3):
            assert (await rt.run(_fencing(till, None), id="r")).status == "in_doubt"
    assert len(till.arrived) == 1


async def test_a_probe_has_its_own_time_and_not_that_of_the_call(storage: Storage):  # proves: FX-2
    till = Till()
    till.next(LOST)

    async def find(order: Order, *, key: str) -> Any:
        for _ in range(20):  # turns of the loop, in the first of which the time of a call would be over
            await asyncio.sleep(0)
        return remit.Landed(Receipt(number=1, amount=order.amount))

    flow = paying(till.effect(doubt="probe", probe=find, timeout=timedelta(microseconds=1)))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == [100]


@pytest.mark.parametrize(
    "answer", [OSError("the bank is shut"), SystemExit("shut"), True, [], "landed", remit.Landed], ids=str
)
async def test_a_probe_that_does_not_answer_ends_no_doubt(storage: Storage, answer: Any):  # proves: FX-2
    till = Till()
    till.next(LOST)
    till.probe_says = answer
    flow = paying(till.effect(**DEDUPES))
    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert outcome.status == "in_doubt" and "the probe" in outcome.reason
        till.probe_says = None
        assert (await rt.run(flow, id="r")).value == [100]
    assert till.times == [1]


async def test_what_a_probe_found_and_cannot_be_kept_is_done_and_lost(storage: Storage):  # proves: FX-13
    till = Till()
    till.next(till.pay_and_raise(LOST))
    till.probe_says = remit.Landed(object())
    flow = paying(till.effect(**DEDUPES))
    async with storage.open() as rt:
        outcome = await rt.run(flow, id="r")
        assert (outcome.status, outcome.code) == ("waiting", "effect.value_lost")
        assert "cancel the run" in outcome.reason
        assert [e.state for e in await rt.effects("r")] == ["ok"]
    assert len(till.arrived) == 1


# -- resend -------------------------------------------------------------------------------------------------------


async def test_a_request_is_sent_again_under_the_same_key(storage: Storage):  # proves: FX-1, FX-2, FX-11
    till = Till()
    till.next(LOST)
    flow = paying(till.effect(doubt="resend", sink="dedupes"))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).value == [100]
        kinds = (await kinds_of(rt, "r"))[2:]
        assert (await rt.effects("r"))[0].calls == 2
    # Every call has its own judgement and intention.
    assert kinds == ["GateJudged", "EffectIntended"] * 2 + ["EffectSettled", "RunEnded"]
    assert len(till.keys) == 2 and len(set(till.keys)) == 1


async def test_a_sink_that_never_answers_is_sent_to_once_more_in_each_attempt(storage: Storage):  # proves: FX-11
    till = Till()
    till.next(*[LOST] * 3)
    flow = paying(till.effect(doubt="resend", sink="dedupes"))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert len(till.arrived) == 2
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        assert len(till.arrived) == 3
        assert (await rt.run(flow, id="r")).value == [100]
    assert len(set(till.keys)) == 1


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ({"doubt": "resend"}, "effect.doubt"),
        ({"doubt": "resend", "sink": "fences"}, "effect.doubt"),
        ({"doubt": "probe"}, "effect.probe"),
        ({"doubt": "ask", "probe": len}, "effect.probe"),
        ({"doubt": "probe", "probe": len}, "effect.probe"),
        ({"doubt": "probe", "probe": 7}, "effect.probe"),
        ({"doubt": "probe", "probe": lambda key: None}, "effect.probe"),
        ({"doubt": "probe", "probe": lambda order, *, key, bank: None}, "effect.probe"),
        ({"doubt": "guess"}, "effect.doubt"),
        ({"sink": "hopes"}, "effect.sink"),
        ({"sink": "fences"}, "effect.sink"),
        ({"lands_within": timedelta(0)}, "effect.lands_within"),
        ({"timeout": timedelta(-1)}, "effect.timeout"),
    ],
    ids=lambda item: str(item).partition(" at 0x")[0],
)
def test_a_rule_that_promises_what_nobody_keeps_is_not_declared(declared: dict[str, Any], code: str):  # proves: FX-2
    async def pay(order: Order, *, key: str) -> int:
        return 1

    with pytest.raises(remit.DeclarationRefused) as refused:
        remit.effect(**declared)(pay)
    assert refused.value.code == code


# -- a person -----------------------------------------------------------------------------------------------------


async def test_a_person_says_that_it_happened_and_nothing_is_called(storage: Storage):  # proves: FX-9
    till = Till()
    till.next(LOST)
    flow = paying(till.effect())
    async with storage.open() as rt:
        await rt.run(flow, id="r")
        await find_out(rt, "r", "ok", {"number": 7, "amount": 100})
        with pytest.raises(remit.Refused) as refused:
            await find_out(rt, "r", "did_not_happen", by="user:bob")
        assert refused.value.code == "doubt.resolved" and "user:ann" in str(refused.value)
        assert (await rt.run(flow, id="r")).value == [100]
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.found, effect.outcome) == ("ok", "person", {"number": 7, "amount": 100})
        with pytest.raises(remit.Refused) as refused:
            await find_out(rt, "r", "ok", PAID)
        assert refused.value.code == "run.ended"
    assert len(till.arrived) == 1


async def test_a_person_says_that_it_did_not_and_it_is_judged_and_called_anew(storage: Storage):  # proves: FX-9, FX-11
    till = Till()
    till.next(LOST)
    flow = paying(till.effect())
    async with storage.open() as rt:
        await rt.run(flow, id="r")
        await find_out(rt, "r", "did_not_happen")
        assert (await rt.run(flow, id="r")).value == [100]
        kinds = (await kinds_of(rt, "r"))[4:]
    assert kinds == [
        "RunParked",
        "AttemptStarted",
        "EffectSettled",
        *["GateJudged", "EffectIntended", "EffectSettled"],
        "RunEnded",
    ]
    assert len(till.keys) == 2 and len(set(till.keys)) == 1


async def test_a_word_whose_outcome_does_not_fit_ends_the_doubt_and_waits_for_code_that_reads_it(
    storage: Storage,
):  # proves: FX-9, FX-13
    till = Till()
    till.next(LOST, LOST)
    flow = paying(till.effect(doubt="resend", sink="dedupes"))

    async def pay(order: Order, *, key: str) -> Any:
        raise AssertionError("it was called")

    @remit.flow(contract=OPEN, name="paying")
    async def mended(run: remit.Run) -> Any:
        return await run.effect(remit.effect(recorded_as="till.pay", doubt="resend", sink="dedupes")(pay), Order())

    async with storage.open() as rt:
        await rt.run(flow, id="r")
        await find_out(rt, "r", "ok", "P000001")
        for _ in range(2):
            with pytest.raises(remit.ValueUnreadable):
                await rt.run(flow, id="r")
        (effect,) = await rt.effects("r")
        assert (effect.state, effect.found, effect.outcome) == ("ok", "person", "P000001")
        assert (await rt.run(mended, id="r")).value == "P000001"
    assert len(till.arrived) == 2


async def test_a_word_of_a_person_goes_before_the_rule(storage: Storage):  # proves: FX-9
    till = Till()
    till.next(LOST, LOST)
    flow = paying(till.effect(doubt="resend", sink="dedupes"))
    async with storage.open() as rt:
        await rt.run(flow, id="r")
        await find_out(rt, "r", "ok", PAID)
        assert (await rt.run(flow, id="r")).value == [100]
    assert (len(till.arrived), till.paid) == (2, {})


async def test_who_may_end_a_doubt_and_with_what(storage: Storage):  # proves: FX-9
    till = Till()
    till.next(LOST)
    flow = paying(till.effect())

    async def code_of(call: str = "pay", by: str = "user:ann", evidence: str = "statement", run: str = "r") -> str:
        with pytest.raises(remit.RemitError) as refused:
            await rt.resolve(run, call, "did_not_happen", by=by, evidence=evidence)
        return refused.value.code

    async with storage.open() as rt:
        await rt.run(flow, id="r")
        for person in ("user:ann", "user:eve"):
            await rt.grant(person, "clerk", by="user:root")
        await rt.disable("user:eve", by="user:root")
        before = await kinds_of(rt, "r")
        assert await code_of(by="agent:buyer") == await code_of(by="service:x") == "doubt.decider"
        assert await code_of(by="user:eve") == "doubt.decider"
        assert await code_of(evidence=" ") == "doubt.evidence"
        assert await code_of(call="pay#2") == "doubt.absent"
        assert await code_of(run="s") == "run.absent"
        assert (await kinds_of(rt, "r"), (await rt.read("r")).post) == (before, [])


async def test_a_doubt_of_an_effect_that_is_under_way_is_nobodys_to_end(storage: Storage):  # proves: FX-9
    till = Till()
    till.next(till.hold)
    flow = paying(till.effect())
    async with storage.open() as rt:
        running = asyncio.create_task(rt.run(flow, id="r"))
        await till.is_held.wait()
        with pytest.raises(remit.Refused) as refused:
            await find_out(rt, "r", "did_not_happen")
        assert await rt.effects(in_doubt=True) == await rt.effects("r", in_doubt=True) == []
        why = await rt.why("r")
        assert [effect.state for effect in (*await rt.effects("r"), *why.doubts)] == ["under_way"] * 2
        assert next_step(why).sentence.startswith("nothing; somebody works at it.")
        till.let_go.set()
        assert (await running).value == [100]
        assert [effect.state for effect in await rt.effects("r")] == ["ok"]
    assert refused.value.code == "doubt.under_way" and "Then look again" in refused.value.hint
