"""Races whose loser asked a person, or left a doubt: unchanged code comes to that again, by whatever way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.errors import StoreUnavailable
from remit.store.memory import MemoryStore
from remit.store.units import Unit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till, find_out

HOUR = timedelta(hours=1)
LOST = ConnectionError("no answer")
DIRECTOR = {"director"}


async def _by_gather(run: remit.Run) -> None:
    await run.gather(run.branch("x").step(_one), run.branch("y").step(_one))


async def _by_turns_of_the_loop(run: remit.Run) -> None:
    await _by_gather(run)
    for _ in range(40):
        await asyncio.sleep(0)


async def _one() -> int:
    return 1


class Race:
    """A loser that comes to `begin` by calls of its own, a winner that waits for it, and a step that is down at first.

    Afterwards the flow asks a person, so that the run waits in each turn.
    """

    def __init__(
        self,
        begin: Callable[[remit.Run], Any],
        *,
        until: asyncio.Event,
        way: Callable[[remit.Run], Any] = _by_gather,
        asks: bool = True,
    ) -> None:
        async def wins() -> str:
            await until.wait()
            return "won"

        async def loses(run: remit.Run) -> str:
            await way(run)
            await begin(run)
            return "lost"

        @remit.flow(contract=OPEN, name="race")
        async def race(run: remit.Run) -> str:
            won = await run.first(loses(run.branch("l")), run.branch("m").step(wins))
            if asks:
                await run.approve("go", {"won": won}, roles=DIRECTOR, within=HOUR)
            return str(won)

        self.flow = race


async def _answer(rt: remit.Runtime, call: str) -> None:
    (ask,) = [ask for ask in await rt.inbox() if ask.call == call]
    await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)


class Asked:
    """Says of a question that it is asked: the winner waits for that."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def __call__(self, run: remit.Run) -> None:
        asyncio.get_running_loop().call_later(0.05, self.event.set)
        await run.approve("ok", {"n": 1}, roles=DIRECTOR, within=HOUR)


@pytest.mark.parametrize("way", [_by_gather, _by_turns_of_the_loop])
async def test_a_loser_that_asked_a_person_is_come_to_again(way: Any, storage: Storage):  # proves: RUN-8, RUN-4
    asked = Asked()
    race = Race(asked, until=asked.event, way=way)
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        for _ in range(3):
            assert (await rt.run(race.flow, id="r")).waits_for == "approval"
            assert [ask.call for ask in await rt.inbox()] == ["go"], "who lost hears no answer any more"
        await _answer(rt, "go")
        assert (await rt.run(race.flow, id="r")).value == "won"


async def _leave_in_doubt(rt: remit.Runtime, race: Race) -> None:
    await rt.grant("user:dana", "director", by="user:root")
    assert (await rt.run(race.flow, id="r")).status == "in_doubt"


def _racing(till: Till, **declared: Any) -> Race:
    """A loser whose payment is under way when the race ends, and whose answer is lost."""
    till.next(till.hold_and_raise)
    pay = till.effect(**declared)

    async def begin(run: remit.Run) -> None:
        asyncio.get_running_loop().call_later(0.05, till.let_go.set)
        await run.effect(pay, Order())

    return Race(begin, until=till.is_held, asks=False)


async def test_a_doubt_that_lost_a_race_is_asked_about_in_each_turn(storage: Storage):  # proves: FX-2, RUN-8
    till = Till()
    till.probe_says = ConnectionError("the bank's query is down")
    race = _racing(till, doubt="probe", sink="dedupes")
    async with storage.open() as rt:
        await _leave_in_doubt(rt, race)
        assert (await rt.run(race.flow, id="r")).status == "in_doubt"
        till.probe_says = None
        assert (await rt.run(race.flow, id="r")).value == "won"
        assert [effect.state for effect in await rt.effects("r")] == ["ok"]
    assert (len(till.probed), len(till.arrived)) == (3, 1)


async def test_a_doubt_that_lost_a_race_is_ended_by_a_person(storage: Storage):  # proves: FX-9, RUN-8
    till = Till()
    race = _racing(till)
    async with storage.open() as rt:
        await _leave_in_doubt(rt, race)
        await find_out(rt, "r", "ok", {"number": 1, "amount": 100}, call="l/pay")
        assert (await rt.run(race.flow, id="r")).value == "won"
    assert len(till.arrived) == 1


async def test_one_that_was_sent_again_after_its_race_began_before_its_end(storage: Storage):  # proves: FX-2, RUN-8
    till = Till()
    till.next(till.hold_and_raise, LOST, LOST)
    pay = till.effect(doubt="resend", sink="dedupes")

    async def begin(run: remit.Run) -> None:
        asyncio.get_running_loop().call_later(0.05, till.let_go.set)
        await run.effect(pay, Order())

    race = Race(begin, until=till.is_held)
    async with storage.open() as rt:
        await _leave_in_doubt(rt, race)
        assert (await rt.run(race.flow, id="r")).status == "in_doubt", "sent again in this turn, and lost again"
        assert (await rt.run(race.flow, id="r")).waits_for == "approval"
        assert [effect.state for effect in await rt.effects("r")] == ["ok"]
        await _answer(rt, "go")
        assert (await rt.run(race.flow, id="r")).value == "won"
    assert len(till.arrived) == 4


class Lossy(MemoryStore):
    """It does not answer when the end of a race is to be written, once."""

    is_down = True

    async def append(self, unit: Unit) -> None:
        if self.is_down and any(b"RaceWon" in entry.header for entry in unit.entries):
            self.is_down = False
            raise StoreUnavailable("no answer")
        await super().append(unit)


@pytest.mark.parametrize("way", [_by_gather, _by_turns_of_the_loop])
async def test_a_race_that_the_crash_left_undecided_waits_for_what_its_loser_asked(way: Any):  # proves: RUN-8
    asked = Asked()
    race = Race(asked, until=asked.event, way=way)
    async with remit.open(Lossy()) as rt:
        with pytest.raises(StoreUnavailable):
            await rt.run(race.flow, id="r")
        for _ in range(2):
            assert (await rt.run(race.flow, id="r")).waits_for == "approval"
        assert [ask.call for ask in await rt.inbox()] == ["go"], "the race is decided, and who lost it hears no answer"


async def test_code_that_asks_no_more_is_refused_and_waits_for_nobody():  # proves: RUN-4
    asked = Asked()
    race = Race(asked, until=asked.event)

    async def nothing(run: remit.Run) -> None:
        await asyncio.Event().wait()

    async with remit.open(Lossy()) as rt, asyncio.timeout(30):
        with pytest.raises(StoreUnavailable):
            await rt.run(race.flow, id="r")
        with pytest.raises(remit.DefinitionIncompatible, match="l/ok"):
            await rt.run(Race(nothing, until=asked.event).flow, id="r")
        assert (await rt.run(race.flow, id="r")).waits_for == "approval"
