"""Words about doubts: only what was said last may count, and it is taken only while nobody said more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest

import remit
from remit.facts.entry import HEADER
from remit.store.memory import MemoryStore
from remit.store.rows import RunRow
from remit.store.units import Claim, Unit
from tests.spec.conftest import Storage
from tests.spec.test_doubt_people import code_of, in_doubt
from tests.support.office import DEREK, DORA, HOURS_72, ROOT, RUN
from tests.support.till import OPEN, Order, Receipt, Till, kinds_of, paying

LOST = ConnectionError("no answer")


async def _disable(rt: remit.Runtime) -> None:
    await rt.disable(DORA, by=ROOT)


async def _enable(rt: remit.Runtime) -> None:
    await rt.enable(DORA, by=ROOT)


async def _revoke(rt: remit.Runtime) -> None:
    await rt.revoke(DORA, "director", by=ROOT)


async def _grant(rt: remit.Runtime) -> None:
    await rt.grant(DORA, "director", by=ROOT)


Act = Callable[[remit.Runtime], Awaitable[None]]


@pytest.mark.parametrize(("lapse", "back"), [(_disable, _enable), (_revoke, _grant)])
async def test_a_word_that_another_stands_in_place_of_does_not_come_back(
    storage: Storage, lapse: Act, back: Act
):  # proves: FX-9, FX-11
    """Dora's word was void when Derek's was taken. That she may speak again takes nothing back of his."""
    async with storage.open() as rt:
        office = await in_doubt(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="nothing on Friday's statement")
        await lapse(rt)
        await rt.resolve(RUN, "pay", "ok", by=DEREK, evidence="it is on Monday's statement", outcome="receipt 5")
        await back(rt)
        assert await code_of(rt, DORA) == "doubt.resolved"
        assert (await office.go(rt)).value == "receipt 5"
        (effect,) = await rt.effects(RUN)
        assert (effect.told_by, effect.calls, len(office.sent)) == (DEREK, 1, 1)


async def test_a_word_that_does_not_count_lets_no_earlier_one_count(storage: Storage):  # proves: FX-9, FX-11
    async with storage.open() as rt:
        office = await in_doubt(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="nothing on Friday's statement")
        await _disable(rt)
        await rt.resolve(RUN, "pay", "ok", by=DEREK, evidence="it is on Monday's statement", outcome="receipt 5")
        await _enable(rt)
        await rt.disable(DEREK, by=ROOT)
        outcome = await office.go(rt)
        assert outcome.status == "in_doubt" and f"{DEREK} said what became of it" in outcome.reason
        await rt.resolve(RUN, "pay", "ok", by=DORA, evidence="now I see it", outcome="receipt 5")
        assert (await office.go(rt)).value == "receipt 5"
    assert len(office.sent) == 1


@pytest.mark.parametrize("is_told", [False, True], ids=["in silence", "told in a turn"])
@pytest.mark.parametrize(("lapse", "back"), [(_disable, _enable), (_revoke, _grant)])
async def test_a_word_whose_speaker_lost_the_right_is_lost_whatever_they_are_given_back(
    storage: Storage, lapse: Act, back: Act, is_told: bool
):  # proves: FX-9, APR-3
    """The account may have been stolen when it was said; a yes is lost by that, and so is a word as good as a yes."""
    async with storage.open() as rt:
        office = await in_doubt(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="nothing on Friday's statement")
        await lapse(rt)
        if is_told:
            assert (await office.go(rt)).status == "in_doubt"
        await back(rt)
        told = await rt.judge(RUN, office.flow)
        assert told.verdict.decision != "resume" and not told.first
        outcome = await office.go(rt)
        assert (outcome.status, len(office.sent)) == ("in_doubt", 1)
        assert f"{DORA} said what became of it, and lost the right to say so since" in outcome.reason
        await rt.resolve(RUN, "pay", "ok", by=DORA, evidence="it is on Monday's statement", outcome="receipt 5")
        assert (await office.go(rt)).value == "receipt 5", "who is trusted again says it anew"
    assert len(office.sent) == 1


async def test_a_word_is_lost_with_any_account_that_speaks_for_the_person(storage: Storage):  # proves: FX-9, APR-3
    home = "user:dora-at-home"
    async with storage.open() as rt:
        office = await in_doubt(rt)
        await rt.grant(home, "director", by=ROOT)
        await rt.link(home, person=DORA, by=ROOT)
        await rt.resolve(RUN, "pay", "did_not_happen", by=home, evidence="nothing on Friday's statement")
        await _disable(rt)
        await _enable(rt)
        assert (await office.go(rt)).status == "in_doubt"
        await rt.resolve(RUN, "pay", "ok", by=DEREK, evidence="it is on Monday's statement", outcome="receipt 5")
        assert (await office.go(rt)).value == "receipt 5"
    assert len(office.sent) == 1


async def test_a_word_stands_while_one_role_that_serves_was_never_lost(storage: Storage):  # proves: FX-9, APR-3
    rule = remit.Rule(approval=remit.Approval({"director", "cfo"}, HOURS_72))
    async with storage.open() as rt:
        await rt.grant(DORA, "cfo", by=ROOT)
        office = await in_doubt(rt, rule)
        await rt.resolve(RUN, "pay", "ok", by=DORA, evidence="on the statement", outcome="receipt 5")
        await _revoke(rt)
        await _grant(rt)
        await rt.link("user:dora-at-home", person=DORA, by=ROOT)
        await rt.disable("user:dora-at-home", by=ROOT)  # which speaks for nobody but itself
        await rt.enable("user:dora-at-home", by=ROOT)
        assert (await office.go(rt)).value == "receipt 5"


class Slow(MemoryStore):
    """A post waits on its way until somebody took the run over, and something more happens before that one looks.

    before: what happens once before an entry of this kind is written.
    """

    is_slow = False
    meanwhile: Callable[[], Awaitable[None]] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.on_its_way, self.arrives = asyncio.Event(), asyncio.Event()
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}

    async def append(self, unit: Unit) -> None:
        if self.is_slow and unit.lane == "post":
            self.is_slow = False
            self.on_its_way.set()
            await self.arrives.wait()
        for entry in unit.entries:
            meanwhile = self.before.pop(HEADER.read(entry.header).kind, None) if self.before else None
            if meanwhile is not None:
                await meanwhile()
        await super().append(unit)

    async def claim(self, claim: Claim) -> RunRow | None:
        held, meanwhile = await super().claim(claim), self.meanwhile
        if meanwhile is not None:
            self.meanwhile = None
            await meanwhile()
        return held


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["gone on with", "cancelled"])
async def test_a_word_that_came_while_another_was_looked_at_is_the_one(is_cancelled: bool):  # proves: FX-9, FX-11
    """What was read when the turn began is not the last any more, although it may count once again."""
    store = Slow()
    async with remit.open(store) as rt, remit.open(store) as beside:
        office = await in_doubt(rt)
        await rt.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="nothing on Friday's statement")
        await _disable(rt)
        if is_cancelled:
            assert (await rt.cancel(RUN, by=ROOT)).status == "in_doubt"
        store.is_slow = True
        told: dict[str, Any] = {"by": DEREK, "evidence": "it is on Monday's statement", "outcome": "receipt 5"}
        saying = asyncio.create_task(beside.resolve(RUN, "pay", "ok", **told))
        await store.on_its_way.wait()

        async def arrive() -> None:
            store.arrives.set()
            await saying
            await _enable(beside)

        store.meanwhile = arrive
        outcome = await office.go(rt)
        assert outcome.status == ("cancelled" if is_cancelled else "completed")
        (effect,) = await rt.effects(RUN)
        assert (effect.told_by, effect.outcome, len(office.sent)) == (DEREK, "receipt 5", 1)


async def test_a_word_that_came_too_late_is_not_called_heard():  # proves: FX-9
    """The other side said what became of it, while the word was on its way; the run waits for something else."""
    store, till = Slow(), Till()
    till.next(ConnectionError("no answer"))
    till.probe_says = ConnectionError("the bank's query is down")
    pay, tell = till.effect(doubt="probe"), till.effect("tell")

    @remit.flow(contract=OPEN)
    async def both(run: remit.Run) -> None:
        await run.effect(pay, Order())
        await run.effect(tell, Order())

    async with remit.open(store) as rt, remit.open(store) as beside:
        await rt.grant(DORA, "clerk", by=ROOT)
        assert (await rt.run(both, id=RUN)).status == "in_doubt"
        store.is_slow = True
        saying = asyncio.create_task(beside.resolve(RUN, "pay", "did_not_happen", by=DORA, evidence="not on Friday"))
        await store.on_its_way.wait()
        till.probe_says = remit.Landed(Receipt(number=1, amount=100))
        till.next(ConnectionError("no answer"))
        assert (await rt.run(both, id=RUN)).status == "in_doubt"
        store.arrives.set()
        with pytest.raises(remit.Refused, match="was settled: ok, while this was posted") as refused:
            await saying
        assert refused.value.code == "doubt.absent"


@pytest.mark.parametrize("state", ["ok", "did_not_happen"])
async def test_a_word_that_comes_before_it_is_sent_again_settles_it(
    state: Literal["ok", "did_not_happen"],
):  # proves: FX-9, FX-2
    """The turn had read lane post, and found nobody's word; its commit says that there is one by now."""
    store, till = Slow(), Till()
    flow = paying(till.effect(doubt="resend", sink="dedupes"))
    till.next(LOST, LOST)
    async with remit.open(store) as rt, remit.open(store) as beside:
        await rt.grant(DORA, "clerk", by=ROOT)
        assert (await rt.run(flow, id=RUN)).status == "in_doubt"
        saying = await on_its_way(store, beside, state)
        store.meanwhile = arriving(store, saying)
        assert (await rt.run(flow, id=RUN)).value == [7 if state == "ok" else 100]
        (effect,) = await rt.effects(RUN)
        assert (effect.state, effect.found) == ("ok", "person" if state == "ok" else "")
        assert (await kinds_of(rt, RUN)).count("EffectSettled") == (1 if state == "ok" else 2)
    assert len(till.arrived) == (2 if state == "ok" else 3)


@pytest.mark.parametrize("is_read", [False, True], ids=["before the turn looks", "before it takes the word"])
async def test_a_word_that_does_not_count_keeps_nothing_from_being_sent_again(is_read: bool):  # proves: FX-9, FX-2
    """Whoever said it is disabled when it is looked at, or just after that."""
    store, till = Slow(), Till()
    flow = paying(till.effect(doubt="resend", sink="dedupes"))
    till.next(LOST, LOST)
    async with remit.open(store) as rt, remit.open(store) as beside:
        await rt.grant(DORA, "clerk", by=ROOT)
        assert (await rt.run(flow, id=RUN)).status == "in_doubt"
        saying = await on_its_way(store, beside, "ok")
        arrive = arriving(store, saying)

        async def arrive_in_vain() -> None:
            await arrive()
            if is_read:
                store.before["EffectSettled"] = lambda: _disable(beside)
            else:
                await _disable(beside)

        store.meanwhile = arrive_in_vain
        assert (await rt.run(flow, id=RUN)).value == [100]
    assert (len(till.arrived), till.times, store.before) == (3, [1], {})


@pytest.mark.parametrize("is_beside", [True, False], ids=["by another runtime", "by this one"])
async def test_a_probe_that_finds_nothing_does_not_go_before_a_word_of_that_moment(
    is_beside: bool,
):  # proves: FX-9, FX-2
    """What it is told settles nothing when a person said meanwhile that it happened: it would be sent again."""
    store, till = Slow(), Till()
    saying: list[asyncio.Task[None]] = []

    async def probe(order: Order, *, key: str, epoch: int) -> remit.NotLanded:
        if saying:
            await arriving(store, saying.pop())()
        return remit.NotLanded()

    @remit.effect(doubt="probe", sink="fences", probe=probe)
    async def pay(order: Order, *, key: str, epoch: int) -> Receipt:
        return await till._answer(order, key)

    flow = paying(pay)
    till.next(LOST)
    async with remit.open(store) as rt, remit.open(store) as beside:
        await rt.grant(DORA, "clerk", by=ROOT)
        assert (await rt.run(flow, id=RUN)).status == "in_doubt"
        saying.append(await on_its_way(store, beside if is_beside else rt, "ok"))
        assert (await rt.run(flow, id=RUN)).value == [7]
    assert len(till.arrived) == 1


async def on_its_way(store: Slow, rt: remit.Runtime, state: Literal["ok", "did_not_happen"]) -> asyncio.Task[None]:
    """Somebody says what became of it, and the word is not there yet."""
    (effect,) = await rt.effects(RUN)
    store.is_slow = True
    told: dict[str, Any] = {"outcome": {"number": 7, "amount": 7}} if state == "ok" else {"calls": effect.calls}
    saying = asyncio.create_task(rt.resolve(RUN, "pay", state, by=DORA, evidence="bank statement", **told))
    await store.on_its_way.wait()
    return saying


def arriving(store: Slow, saying: asyncio.Task[None]) -> Callable[[], Awaitable[None]]:
    async def arrive() -> None:
        store.arrives.set()
        await saying

    return arrive
