"""Cancelling: one caller of a process takes the run, whoever comes beside it or in between is heard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import remit
from remit.engine.people.post import Letter, post
from remit.engine.process.admit import Found
from remit.engine.process.outcome import detail
from remit.engine.process.taking import Taken, Taker, alone
from remit.facts.entry import HEADER
from remit.facts.kinds import CancelAsked, DoubtResolved
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from remit.store.rows import RunRow
from remit.store.units import Claim, Unit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till
from tests.support.till import paying as paying_at_till

Act = Callable[[], Awaitable[object]]

ANN, BEN = "user:ann", "user:ben"


@remit.step
async def broken() -> None:
    raise ValueError("not yet")


@remit.flow(contract=OPEN)
async def waiting(run: remit.Run) -> None:
    await run.step(broken)


@remit.effect
async def pay(request: int, *, key: str) -> str:
    raise ConnectionError("no answer")


@remit.flow(contract=OPEN)
async def paying(run: remit.Run) -> None:
    await run.effect(pay, 1)


@remit.flow(contract=OPEN)
async def asking(run: remit.Run) -> None:
    await run.approve("ok", {}, roles={"director"}, within=timedelta(hours=1))


@remit.step
async def fine() -> None:
    pass


class Watched:
    """A store that lets somebody act once, just before a claim or the last entry of a turn, or refuses to write."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.before_claim: Act | None = None
        self.before_end: Act | None = None
        self.before_release: Act | None = None
        self.refuses = ""  # a kind of entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def claim(self, claim: Claim) -> RunRow | None:
        act, self.before_claim = self.before_claim, None
        if act is not None:
            await act()
        return await self.inner.claim(claim)

    async def release(self, run_key: int, epoch: int) -> bool:
        act, self.before_release = self.before_release, None
        if act is not None:
            await act()
        return await self.inner.release(run_key, epoch)

    async def append(self, unit: Unit) -> None:
        if self.refuses in {HEADER.read(entry.header).kind for entry in unit.entries}:
            raise remit.StoreUnavailable("The disk is full; nothing was written.")
        if unit.move is not None and unit.move.release:
            act, self.before_end = self.before_end, None
            if act is not None:
                await act()
        await self.inner.append(unit)


async def parked(rt: remit.Runtime, run: str) -> None:
    with pytest.raises(remit.StepError):
        await rt.run(waiting, id=run)


async def doubtful(rt: remit.Runtime, run: str) -> None:
    await rt.grant(BEN, "clerk", by=ANN)  # whose word will count
    assert (await rt.run(paying, id=run)).status == "in_doubt"


async def elsewhere(rt: remit.Runtime, run: str) -> None:
    """Somebody else's wish, as it arrives from another process."""
    await post(rt._ready(), run, by=BEN, write=lambda _: Letter(CancelAsked(), detail("")), is_fenced=False)


async def found_out(rt: remit.Runtime, run: str) -> None:
    """Somebody's word about the payment, as it arrives from another process."""

    def word(found: Found) -> Letter:
        intention = found.view.boundary.effects["pay"].intention
        return Letter(
            DoubtResolved(authority=1, call="pay", intended=intention, state="ok"),
            b'{"evidence":"seen","outcome":"paid"}',
        )

    await post(rt._ready(), run, by=BEN, write=word, is_fenced=False)


async def test_a_second_cancelling_takes_the_run_from_no_other_of_its_process():  # proves: RUN-14, OWN-1
    store, told = Watched(MemoryStore()), list[remit.Outcome]()

    async def second() -> None:
        told.append(await rt.cancel("r", by=BEN))

    async with remit.open(store) as rt:
        await parked(rt, "r")
        store.before_end = second
        told.append(await rt.cancel("r", by=ANN))
        assert [outcome.status for outcome in told] == ["waiting", "cancelled"]  # the second came while it was ended
        assert (await rt.show("r")).row.worker is None


async def test_a_run_that_somebody_posted_to_while_it_was_claimed_is_ended_all_the_same():  # proves: RUN-14
    store = Watched(MemoryStore())
    async with remit.open(store) as rt:
        await parked(rt, "r")
        store.before_claim = partial(elsewhere, rt, "r")
        assert (await rt.cancel("r", by=ANN)).status == "cancelled"


async def test_a_run_that_moved_since_it_was_found_is_given_back_untouched(storage: Storage):  # proves: OWN-1, LOG-4
    async with storage.open() as rt:
        host = rt._ready()
        await parked(rt, "r")
        found = await rt.show("r")
        with alone(host, "r"):
            await rt.cancel("r", by=ANN)  # it is posted, and whoever has the turn is to take it up
        moved = await rt.read("r")

        with alone(host, "r") as taker:
            assert isinstance(taker, Taker)
            assert await taker.take(found) is None

        after = await rt.read("r")
        assert (after.main, after.post, after.row.worker) == (moved.main, moved.post, None)


async def test_one_caller_of_a_process_has_its_turn_at_a_run(storage: Storage):  # proves: OWN-1
    async with storage.open() as rt:
        host = rt._ready()
        await parked(rt, "r")
        found = await rt.show("r")
        with alone(host, "r") as taker, alone(host, "r") as second:
            assert isinstance(taker, Taker)
            hold = await taker.take(found)
            assert isinstance(hold, Taken)
            assert hold.row.epoch == found.row.epoch + 1
            assert isinstance(second, asyncio.Event)
            with pytest.raises(remit.LeaseHeld):
                await rt.resume("r", waiting, wait=False)
        with alone(host, "r") as late:
            assert isinstance(late, Taker)
            assert await late.take(found) == found.row  # somebody took it since


async def test_who_posts_while_a_cancelled_run_parks_in_doubt_is_heard():  # proves: RUN-14, FX-10
    store = Watched(MemoryStore())
    async with remit.open(store) as rt:
        await doubtful(rt, "r")
        store.before_end = partial(elsewhere, rt, "r")
        outcome = await rt.cancel("r", by=ANN)
        assert (outcome.status, outcome.waits_for) == ("in_doubt", "doubt")
        assert len((await rt.read("r")).post) == 2
        assert await rt.verify("r") is None


async def test_a_doubt_that_is_resolved_while_a_cancelled_run_parks_lets_it_end():  # proves: RUN-14, FX-9, FX-10
    store = Watched(MemoryStore())
    async with remit.open(store) as rt:
        await doubtful(rt, "r")
        store.before_end = partial(found_out, rt, "r")
        outcome = await rt.cancel("r", by=ANN)
        assert outcome.status == "cancelled" and "Done before: pay." in outcome.reason
        assert await rt.verify("r") is None


@pytest.mark.parametrize("act", ["resume", "cancel"])
async def test_a_store_that_fails_before_the_flow_begins_is_told_as_such(act: str):  # proves: RUN-15, FX-9
    store = Watched(MemoryStore())
    async with remit.open(store) as rt:
        await doubtful(rt, "r")
        await found_out(rt, "r")
        store.refuses = "EffectSettled"
        with pytest.raises(remit.StoreUnavailable, match="The disk is full"):
            await (rt.resume("r", paying) if act == "resume" else rt.cancel("r", by=ANN))
        assert (await rt.show("r")).row.worker is None
        store.refuses = ""
        assert (await rt.cancel("r", by=ANN)).status == "cancelled"


async def test_a_wish_that_comes_while_a_turn_finds_nothing_new_is_heard():  # proves: RUN-14
    store = Watched(MemoryStore())
    async with remit.open(store) as rt:
        assert (await rt.run(asking, id="r")).status == "waiting"
        entries = len((await rt.read("r")).main)
        assert (await rt.run(asking, id="r")).status == "waiting"
        assert len((await rt.read("r")).main) == entries, "which finds nothing new, and writes nothing"
        store.before_release = partial(elsewhere, rt, "r")
        assert (await rt.run(asking, id="r")).status == "cancelled"


async def test_a_wish_that_comes_while_a_cancelled_run_finds_nothing_new_is_heard():  # proves: RUN-14, FX-9
    store = Watched(MemoryStore())
    async with remit.open(store) as rt:
        await doubtful(rt, "r")
        assert (await rt.cancel("r", by=ANN)).status == "in_doubt"
        store.before_release = partial(found_out, rt, "r")
        assert (await rt.run(paying, id="r")).status == "cancelled"


async def test_a_wish_that_comes_while_a_step_fails_is_heard():  # proves: RUN-14
    store = Watched(MemoryStore())
    async with remit.open(store) as rt:
        store.before_end = partial(elsewhere, rt, "r")
        assert (await rt.run(waiting, id="r")).status == "cancelled"


@pytest.mark.parametrize("is_known", [False, True], ids=["for the first time", "once more"])
async def test_a_wish_that_comes_while_code_that_does_not_fit_is_refused_is_heard(is_known: bool):  # proves: RUN-14
    store = Watched(MemoryStore())

    @remit.flow(contract=OPEN)
    async def fitting(run: remit.Run) -> None:
        await run.step(fine)
        await run.step(broken)

    @remit.flow(contract=OPEN, name="fitting")
    async def other_code(run: remit.Run) -> None:
        pass

    async with remit.open(store) as rt:
        with pytest.raises(remit.StepError):
            await rt.run(fitting, id="r")
        if is_known:
            with pytest.raises(remit.DefinitionIncompatible):
                await rt.run(other_code, id="r")
            store.before_release = partial(elsewhere, rt, "r")
        else:
            store.before_end = partial(elsewhere, rt, "r")
        assert (await rt.run(other_code, id="r")).status == "cancelled"


STEPS_MANY = 1_000  # they would take ten seconds; a lease of three seconds is renewed after a third of that


@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "plain"])
async def test_a_run_that_only_takes_steps_hears_of_a_cancellation_from_elsewhere(
    database: Storage, is_plain: bool
):  # proves: RUN-14
    begun, ran = asyncio.Event(), list[int]()

    @remit.step
    async def work(number: int) -> int:
        ran.append(number)
        begun.set()
        await asyncio.sleep(0.01)
        return number

    @remit.flow(contract=OPEN, name="long")
    async def long(run: remit.Run) -> None:
        for number in range(STEPS_MANY):
            await run.step(work, number)

    @remit.flow(contract=OPEN, name="long")
    def plain(run: remit.SyncRun) -> None:
        for number in range(STEPS_MANY):
            run.step(work, number)

    async with database.open(lease_ms=3_000) as worker, database.open() as other:
        working = asyncio.create_task(worker.run(plain if is_plain else long, id="r"))
        await begun.wait()
        assert (await other.cancel("r", by=ANN, reason="not needed")).status in ("queued", "running", "cancelled")
        outcome = await working
        assert (outcome.status, outcome.code) == ("cancelled", "cancelled")
        assert len(ran) < STEPS_MANY
        assert await other.verify("r") is None


@pytest.mark.parametrize("is_dead", [True, False], ids=["its worker died", "its lease ran out"])
async def test_who_waits_for_a_run_that_waits_hears_so_when_its_last_worker_is_gone(
    database: Storage, is_dead: bool
):  # proves: OWN-1
    async with database.open() as rt:
        await parked(rt, "r")
        before = await rt.wait("r", timeout=30)
        row = (await rt.show("r")).row
        async with database.open() as other:
            host = other._ready()
            await host.introduce()
            name, lease_ms = (host.worker, 600_000) if is_dead else ("on another machine", 1_000)
            assert await host.store.claim(Claim(row.run_key, row.epoch, name, lease_ms)) is not None
            hearing = asyncio.create_task(rt.wait("r", timeout=30))
            with pytest.raises(TimeoutError):
                await rt.wait("r", timeout=0.2)  # whoever holds it may still write
        assert await hearing == before


async def test_who_asks_for_the_end_and_goes_away_at_whatever_moment_holds_nothing(
    database: Storage,
):  # proves: RUN-14, OWN-1
    async with database.open() as rt, database.open() as other:
        for hops in range(0, 60, 3):
            run = f"r{hops}"
            await parked(rt, run)
            asked = asyncio.ensure_future(rt.cancel(run, by=ANN))
            for _ in range(hops):
                await asyncio.sleep(0)
            asked.cancel()
            with suppress(asyncio.CancelledError):
                await asked
            await rt.start(waiting, id=f"behind {run}")  # a claim that nobody waited for is before it
            assert (await other.read(run)).row.worker is None, hops


@pytest.mark.parametrize("is_twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_who_is_told_that_a_run_is_worked_at_is_heard_though_its_caller_went_away(
    is_elsewhere: bool, is_twice: bool, database: Storage
):  # proves: RUN-14, RUN-15
    """The turn only waits for its payment: it begins nothing any more, and nobody takes another one."""
    till = Till()
    till.next(till.hold)

    async with database.open() as rt, database.open() as other:
        flow = paying_at_till(till.effect(), Order(), Order(invoice="i-2"))
        task = asyncio.ensure_future(rt.run(flow, id="r"))
        await till.is_held.wait()
        for _ in range(1 + is_twice):
            task.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
        asked = other if is_elsewhere else rt
        assert (await asked.cancel("r", by=ANN, reason="wrong payee")).status == "running"

        till.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        if is_twice:
            await asyncio.wait(rt._ready().outlasting.values())
        told = await other.wait("r", timeout=5)
    assert (told.status, told.reason) == ("cancelled", "user:ann cancelled it: wrong payee. Done before: pay.")
    assert till.times == [1]


async def test_who_is_heard_by_a_turn_that_its_caller_left_is_heard(storage: Storage):  # proves: RUN-14, RUN-15
    """Its flow still tidies up, so the turn hears of the wish, and could stop nothing any more."""
    till, is_tidying, is_tidy = Till(), asyncio.Event(), asyncio.Event()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        try:
            await run.effect(pay, Order())
        finally:
            is_tidying.set()
            await is_tidy.wait()

    async with storage.open() as rt:
        task = asyncio.ensure_future(rt.run(flow, id="r"))
        await till.is_held.wait()
        task.cancel()
        await is_tidying.wait()
        assert (await rt.cancel("r", by=ANN)).status == "running"
        is_tidy.set()
        till.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await rt.show("r")).view.status == "cancelled"
    assert till.times == [1]
