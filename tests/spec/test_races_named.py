"""Races that the journal has the end of: the winner is known by the name of its side, wherever that stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.engine.turn import replay
from remit.facts.kinds import RaceWon
from remit.store.memory import MemoryStore
from tests.spec.conftest import Storage
from tests.support.till import OPEN

HOUR = timedelta(hours=1)
Side = Callable[[remit.Run], Awaitable[Any]]


class Bank:
    """Two ways to pay, of which one is slow; and books that fail the first time, behind the race."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.begun: list[str] = []
        self.books: list[BaseException] = [OSError("the books are closed")]
        self.never = asyncio.Event()

        @remit.effect
        async def pay(rail: str, *, key: str) -> str:
            self.paid.append(rail)
            return rail

        @remit.step
        async def book(what: str) -> str:
            if self.books:
                raise self.books.pop()
            return f"booked {what}"

        @remit.step
        async def quote(rail: str) -> str:
            self.begun.append(rail)
            if rail == "slow":
                await self.never.wait()
            return rail

        self.pay, self.book, self.quote = pay, book, quote

    def racing(self, *sides: Side) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="racing")
        async def racing(run: remit.Run) -> Any:
            try:
                won = await run.first(*(side(run) for side in sides))
            except remit.Denied:
                won = "refused"
            return await run.step(self.book, won)

        return racing

    async def by(self, run: remit.Run, rail: str) -> str:
        await run.step(self.quote, rail)
        return await run.effect(self.pay, rail)

    async def play(self, rt: remit.Runtime, *sides: Side) -> RaceWon:
        """Up to where the books fail; how the race ended."""
        with pytest.raises(remit.StepError, match="the books are closed"):
            await rt.run(self.racing(*sides), id="r")
        (end,) = [c.fact for c in (await rt.show("r")).view.calls.values() if c.name == "run.first"]
        assert isinstance(end, RaceWon)
        return end

    async def go_on(self, rt: remit.Runtime, *sides: Side) -> Any:
        """What the flow gives, which a rehearsal says before."""
        flow = self.racing(*sides)
        said = await rt.check("r", flow)
        assert (said.fit, said.call) == ("compatible", "book")
        return (await rt.run(flow, id="r")).value

    async def refused(self, rt: remit.Runtime, *sides: Side) -> None:
        flow, before = self.racing(*sides), (list(self.paid), list(self.begun))
        assert (await rt.check("r", flow)).fit == "incompatible"
        with pytest.raises(remit.DefinitionIncompatible, match=r"run\.first"):
            await rt.run(flow, id="r")
        assert (self.paid, self.begun) == before


def _slow(bank: Bank) -> Side:
    async def slow(run: remit.Run) -> str:
        return await bank.by(run.branch("slow"), "slow")

    return slow


def _itself(bank: Bank) -> Side:
    return lambda run: run.effect(bank.pay, "fast")


def _in_a_branch(bank: Bank) -> Side:
    return lambda run: bank.by(run.branch("fast"), "fast")


def _in_a_gather(bank: Bank) -> Side:
    return lambda run: run.gather(run.effect(bank.pay, "fast"), bank.by(run.branch("fast"), "fast"))


def _in_a_race(bank: Bank) -> Side:
    return lambda run: (fast := run.branch("fast")).first(fast.effect(bank.pay, "fast"), fast.step(bank.quote, "slow"))


def _impatient(bank: Bank) -> Side:
    """It gives up a step that takes too long."""

    async def side(run: remit.Run) -> str:
        try:
            async with asyncio.timeout(0.01):
                await run.step(bank.quote, "slow")
        except TimeoutError:
            return "late"
        return "in time"

    return lambda run: side(run.branch("impatient"))


WINNERS = [_itself, _in_a_branch, _in_a_gather, _in_a_race, _impatient]
GIVES: dict[Any, Any] = {_in_a_gather: ["fast", "fast"], _impatient: "late"}


@pytest.mark.parametrize("winner", WINNERS)
async def test_a_release_that_writes_the_sides_the_other_way_round_pays_nothing_again(
    winner: Callable[[Bank], Side], storage: Storage
):  # proves: RUN-4, RUN-8, FX-2
    bank = Bank()
    async with storage.open() as rt, asyncio.timeout(30):
        end = await bank.play(rt, winner(bank), _slow(bank))
        assert end.winner == 0 and end.calls and not any(call.startswith("slow/") for call in end.calls)
        paid, begun = list(bank.paid), list(bank.begun)
        assert await bank.go_on(rt, _slow(bank), winner(bank)) == f"booked {GIVES.get(winner, 'fast')}"
        assert bank.paid == paid
        assert winner is _impatient or bank.begun == begun  # what it gave up is not recorded, and begins again
        assert await rt.verify("r") is None


async def test_sides_of_one_function_that_stand_in_another_order_are_refused():  # proves: RUN-4, RUN-8
    """Their calls have names; but which side makes a call may be chance, so they say no more than that it is not so."""
    bank, rails = Bank(), ["slow", "fast", "dear"]

    def sides(order: list[str]) -> list[Side]:
        return [lambda run, rail=rail: bank.by(run.branch(rail), rail) for rail in order]  # type: ignore[misc]

    async def dear(rail: str) -> str:
        if rail != "fast":
            await bank.never.wait()
        return rail

    bank.quote = remit.step(name="quote")(dear)
    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        assert (await bank.play(rt, *sides(rails))).calls == ["fast/pay", "fast/quote"]
        await bank.refused(rt, *sides(["fast", "dear", "slow"]))
        assert await bank.go_on(rt, *sides(rails)) == "booked fast"
    assert bank.paid == ["fast"]


async def test_a_no_that_won_stays_a_no_wherever_its_side_stands(storage: Storage):  # proves: RUN-4, APR-1
    bank = Bank()

    def asked(run: remit.Run) -> Awaitable[Any]:
        return run.approve("objections", {"amount": 900}, roles={"lead"}, within=HOUR)

    def silence(run: remit.Run) -> Awaitable[Any]:
        return run.step(bank.quote, "slow")

    async with storage.open() as rt, asyncio.timeout(30):
        await rt.grant("user:lee", "lead", by="user:ops")
        playing = asyncio.create_task(bank.play(rt, asked, silence))
        while not (asks := await rt.inbox()):
            await asyncio.sleep(0.01)
        await rt.decide(asks[0].id, "deny", by="user:lee", seen=asks[0].version)
        assert (await playing).calls == ["objections"]
        assert await bank.go_on(rt, silence, asked) == "booked refused"


@pytest.mark.parametrize("loser", ["asked", "not begun"])
async def test_a_side_that_won_without_a_call_is_the_one_that_makes_none(loser: str):  # proves: RUN-4, RUN-8
    """A time-out that was written as a side of the race."""
    bank = Bank()

    async def late() -> str:
        await asyncio.sleep(0.05)
        return "late"

    def other(run: remit.Run) -> Awaitable[Any]:
        if loser == "not begun":
            return bank.by(run.branch("slow"), "slow")
        return run.approve("go", {}, roles={"lead"}, within=HOUR)

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        end = await bank.play(rt, lambda run: late(), other)
        assert (end.winner, end.calls) == (0, [])
        assert await bank.go_on(rt, other, lambda run: late()) == "booked late"
    assert bank.paid == []


async def test_a_side_that_is_busy_before_its_recorded_call_is_waited_for():  # proves: RUN-4, RUN-8
    bank = Bank()

    async def late() -> str:
        await asyncio.sleep(0.4)
        return "late"

    async def busy(run: remit.Run) -> Any:
        await asyncio.to_thread(time.sleep, 0.2)
        await run.step(bank.quote, "fast")
        return await run.branch("then").step(bank.quote, "slow")

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        assert (await bank.play(rt, lambda run: late(), busy)).calls == []
        assert await bank.go_on(rt, busy, lambda run: late()) == "booked late"
    assert bank.begun == ["fast", "slow"]


async def test_a_race_within_a_race_is_a_call_too():  # proves: RUN-4, RUN-8
    bank = Bank()

    def inner(run: remit.Run) -> Awaitable[Any]:
        return run.branch("inner").first(asyncio.sleep(0, "inner"), asyncio.sleep(60))

    def outer(run: remit.Run) -> Awaitable[Any]:
        return asyncio.sleep(60)

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        assert (await bank.play(rt, inner, outer)).calls == ["inner/run.first"]
        assert await bank.go_on(rt, outer, inner) == "booked inner"


async def test_a_side_of_which_the_journal_has_something_did_not_win_by_what_it_gave_up(
    monkeypatch: pytest.MonkeyPatch,
):  # proves: RUN-4
    """The release of today does not come to the call that the winner gave up."""
    monkeypatch.setattr(replay, "STILL_SECONDS_OF_TASKS", 0.2)
    bank = Bank()

    async def other(run: remit.Run) -> Any:
        await run.step(bank.quote, "fast")
        return await run.branch("then").step(bank.quote, "slow")

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        assert (await bank.play(rt, _impatient(bank), other)).calls == ["impatient/quote"]
        await bank.refused(rt, other, lambda run: asyncio.sleep(0, "late"))


async def test_sides_without_any_call_are_told_apart_by_their_places():  # proves: RUN-8
    bank = Bank()

    async def after(ms: int) -> int:
        await asyncio.sleep(ms / 1000)
        return ms

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        assert (await bank.play(rt, lambda run: after(500), lambda run: after(1))).winner == 1
        assert await bank.go_on(rt, lambda run: after(500), lambda run: after(1)) == "booked 1"


@pytest.mark.parametrize("seconds", [0.0, 0.2])
async def test_code_of_which_no_side_or_more_than_one_came_to_what_won_is_refused(seconds: float):  # proves: RUN-4
    """seconds: for which one of them is busy before it does."""
    bank = Bank()

    async def nothing() -> str:
        return "nothing"

    async def before(run: remit.Run) -> Any:
        return await run.gather(bank.by(run.branch("fast"), "fast"), run.first(nothing(), run.step(bank.quote, "slow")))

    async def quoting(run: remit.Run) -> Any:
        await run.step(bank.quote, "fast")
        return await run.branch("then").effect(bank.pay, "then")

    async def paying(run: remit.Run) -> Any:
        await asyncio.to_thread(time.sleep, seconds)
        await run.effect(bank.pay, "fast")
        return await run.branch("then").effect(bank.pay, "then")

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(60):
        await bank.play(rt, _in_a_branch(bank), _slow(bank))
        fast: list[remit.Run] = []

        def first(run: remit.Run) -> Awaitable[Any]:
            fast.append(run.branch("fast"))
            return quoting(fast[-1])

        await bank.refused(rt, first, lambda run: paying(fast[-1]))

        @remit.flow(contract=OPEN, name="racing")
        async def moved(run: remit.Run) -> Any:
            await before(run)

        assert (await rt.check("r", moved)).fit == "incompatible"
        with pytest.raises(remit.DefinitionIncompatible, match="no side that won it"):
            await rt.run(moved, id="r")
        assert await bank.go_on(rt, _in_a_branch(bank), _slow(bank)) == "booked fast"
    assert bank.paid == ["fast"]


async def test_nothing_new_begins_before_it_is_known_who_won():  # proves: RUN-4, RUN-8
    """The winner failed and runs again, so nothing of it is recorded; and it is busy before it comes to that."""
    bank, fails, seconds = Bank(), [OSError("no line")], [0, 1]
    bank.books.clear()

    @remit.step
    async def ask() -> str:
        if fails:
            raise fails.pop()
        return "asked"

    async def busy(run: remit.Run) -> Any:
        await asyncio.to_thread(time.sleep, 0.2)
        return await run.step(ask)

    async def late(run: remit.Run) -> Any:
        await asyncio.sleep(seconds[-1])
        return await run.effect(bank.pay, "late")

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        with pytest.raises(remit.StepError):
            await rt.run(bank.racing(busy, late), id="r")
        seconds.pop()
        flow = bank.racing(late, busy)
        assert (await rt.check("r", flow)).call == "ask"
        assert (await rt.run(flow, id="r")).value == "booked asked"
    assert bank.paid == []


@pytest.mark.parametrize("is_one_function", [False, True], ids=["two functions", "one function"])
@pytest.mark.parametrize("is_slow_early", [False, True], ids=["", "the loser comes to more"])
async def test_which_side_makes_a_call_that_both_share_says_nothing(is_one_function: bool, is_slow_early: bool):
    # proves: RUN-4, RUN-8
    """Both log in under one lock; in a replay nothing holds up the side that had been late."""
    bank = Bank()

    def sides(lock: asyncio.Lock, known: dict[str, str]) -> list[Side]:
        async def paying(run: remit.Run, rail: str) -> str:
            if rail == "slow" and "slow" not in bank.begun:
                bank.begun.append("slow")
                await asyncio.sleep(0.2)
            async with lock:
                if "token" not in known:
                    known["token"] = await run.branch("session").step(bank.quote, "fast")
            if rail == "slow" and not is_slow_early:
                await bank.never.wait()
            return await run.branch(rail).effect(bank.pay, rail)

        async def fast(run: remit.Run) -> str:
            return await paying(run, "fast")

        async def slow(run: remit.Run) -> str:
            return await paying(run, "slow")

        if is_one_function:
            return [lambda run: paying(run, "slow"), lambda run: paying(run, "fast")]
        return [slow, fast]

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(60):
        won = await bank.play(rt, *sides(asyncio.Lock(), {}))
        assert (won.winner, won.calls) == (1, ["fast/pay", "session/quote"])
        flow = bank.racing(*sides(asyncio.Lock(), {}))
        if is_one_function:  # nothing tells the two apart
            with pytest.raises(remit.DefinitionIncompatible, match=r"run\.first"):
                await rt.run(flow, id="r")
        else:
            assert (await rt.run(flow, id="r")).value == "booked fast"
    assert bank.paid == ["fast"]


async def test_a_winner_that_makes_the_call_that_a_loser_had_made_stays_the_winner():  # proves: RUN-4, RUN-8
    """Both are one function; of which of them comes first to what they share, the next turn has another."""
    bank, seconds = Bank(), {"slow": 0.0, "fast": 0.1}

    def sides(lock: asyncio.Lock, known: list[str]) -> list[Side]:
        async def side(run: remit.Run, rail: str) -> str:
            await asyncio.sleep(seconds[rail])
            async with lock:
                if not known:
                    known.append(await run.branch("session").step(bank.quote, "fast"))
            if rail == "slow":
                await asyncio.sleep(0.2)
                return await run.branch(rail).effect(bank.pay, rail)
            quoted: str = await run.branch(rail).step(bank.quote, "fast")
            return quoted

        return [lambda run: side(run, "slow"), lambda run: side(run, "fast")]

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        assert (await bank.play(rt, *sides(asyncio.Lock(), []))).calls == ["fast/quote"]
        seconds.update(slow=0.3, fast=0.0)
        flow = bank.racing(*sides(asyncio.Lock(), []))
        assert (await rt.run(flow, id="r")).value == "booked fast"
    assert bank.paid == []


async def test_a_race_in_front_of_another_one_is_not_given_its_end():  # proves: RUN-4
    bank = Bank()

    def slow(run: remit.Run) -> Awaitable[Any]:
        return bank.by(run.branch("slow"), "slow")

    async def late() -> str:
        await asyncio.sleep(0.05)
        return "late"

    @remit.flow(contract=OPEN, name="racing")
    async def release(run: remit.Run) -> Any:
        await run.first(run.step(bank.book, "rate"), late())
        return await run.first(slow(run), late())

    async with remit.open(MemoryStore()) as rt, asyncio.timeout(30):
        assert (await bank.play(rt, slow, lambda run: late())).calls == []
        assert (await rt.check("r", release)).fit == "incompatible"
        with pytest.raises(remit.DefinitionIncompatible, match=r"run\.first"):
            await rt.run(release, id="r")
    assert bank.paid == []


def test_in_a_plain_flow_the_sides_have_names_too():  # proves: RUN-4, RUN-10
    paid, books = list[str](), [OSError("the books are closed")]
    never = asyncio.Event()

    @remit.effect
    async def pay(rail: str, *, key: str) -> str:
        paid.append(rail)
        return rail

    @remit.step
    async def wait() -> str:
        await never.wait()
        return "waited"

    @remit.step
    def book(what: str) -> str:
        if books:
            raise books.pop()
        return f"booked {what}"

    def flow_of(*, is_turned: bool) -> remit.Flow[Any]:
        @remit.flow(contract=OPEN, name="plain")
        def plain(run: remit.SyncRun) -> str:
            calls = [run.effect_call(pay, "fast"), run.step_call(wait)]
            return str(run.step(book, run.first(*(reversed(calls) if is_turned else calls))))

        return plain

    with remit.open(MemoryStore()) as rt:
        with pytest.raises(remit.StepError):
            rt.run_sync(flow_of(is_turned=False), id="r")
        assert rt.run_sync(flow_of(is_turned=True), id="r").value == "booked fast"
    assert paid == ["fast"]
