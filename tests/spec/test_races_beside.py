"""Payments that were under way when a race ended: its end names those of its losers, and no other is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import remit
from remit import Contract
from remit.engine.turn import race, replay
from remit.facts.kinds import RaceWon
from tests.spec.conftest import Storage
from tests.spec.test_races_outside import Timed
from tests.support.till import find_out

OPEN = Contract(version="1", resume="anyone")


@pytest.fixture(autouse=True)
def _(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is busy with anything but its calls, so one that stands still is refused soon."""
    monkeypatch.setattr(replay, "STILL_SECONDS_OF_TASKS", 0.3)


Part = Callable[["Bank", remit.Run], Awaitable[Any]]


class Bank:
    """It pays when it is told to go. enough: set once so many payments have begun."""

    def __init__(self, payments: int, *, is_heard: bool = True) -> None:
        self.paid: list[str] = []
        self.begun = 0
        self.enough, self.go, self.may_win = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.may_win.set()
        self.pay = remit.effect(name="pay")(self._body)
        self.pay_elsewhere = remit.effect(name="pay_elsewhere")(self._body)
        self.fails = [True]
        self._payments, self._is_heard = payments, is_heard

    async def _body(self, request: str, *, key: str) -> str:
        self.begun += 1
        if self.begun == self._payments:
            self.enough.set()
        await self.go.wait()
        self.paid.append(request)
        if not self._is_heard:
            raise ConnectionError("no answer")
        return "paid"

    async def wins(self) -> str:
        """A step that is over once they all are under way; they go on when its race has ended."""
        await self.enough.wait()
        await self.may_win.wait()
        asyncio.get_running_loop().call_later(0.2, self.go.set)
        return "won"

    async def after(self) -> str:
        """A step that fails in the first turn."""
        if self.fails:
            self.fails.pop()
            raise OSError("the mail server is down")
        return "told"


async def never() -> None:
    await asyncio.Event().wait()


async def quick() -> int:
    return 1


async def _itself(bank: Bank, run: remit.Run) -> Any:
    return await run.effect(bank.pay, "loser")


async def _in_a_gather(bank: Bank, run: remit.Run) -> Any:
    return await run.gather(run.step(quick), run.effect(bank.pay, "loser"))


async def _in_a_race(bank: Bank, run: remit.Run) -> Any:
    return await run.first(run.step(never), run.effect(bank.pay, "loser"))


async def _in_a_race_that_ended(bank: Bank, run: remit.Run) -> Any:
    async def wins_inside() -> None:
        await bank.enough.wait()

    bank.may_win.clear()
    await run.first(run.step(wins_inside), run.effect(bank.pay, "loser"))
    bank.may_win.set()
    await run.step(never)


async def _in_a_thread(bank: Bank, run: remit.Run) -> Any:
    loop = asyncio.get_running_loop()

    async def pays() -> str:
        return await run.effect(bank.pay, "loser")

    return await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(pays(), loop).result())


def _purchase(bank: Bank, loser: Part) -> remit.Flow[Any]:
    @remit.flow(contract=OPEN)
    async def purchase(run: remit.Run) -> tuple[str, str]:
        other = asyncio.ensure_future(run.branch("other").effect(bank.pay, "other"))
        won = await run.first(loser(bank, run.branch("l")), run.branch("m").step(bank.wins))
        paid = await other
        await run.step(bank.after)
        return won, paid

    return purchase


@pytest.mark.parametrize("loser", [_itself, _in_a_gather, _in_a_race, _in_a_race_that_ended, _in_a_thread])
async def test_the_end_of_a_race_names_what_was_under_way_for_who_lost(loser: Part, storage: Storage):
    # proves: RUN-8, FX-2
    bank = Bank(payments=2)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(_purchase(bank, loser), id="r")
        ends = {name: call.fact for name, call in (await rt.show("r")).view.calls.items() if call.kind == "RaceWon"}
        assert {"run.first"} <= ends.keys() <= {"run.first", "l/run.first"}
        for end in ends.values():
            assert isinstance(end, RaceWon) and end.beside == ["l/pay"]
        assert ("l/run.first" in ends) == (loser is _in_a_race_that_ended)
        assert (await rt.run(_purchase(bank, loser), id="r")).value == ("won", "paid")
        assert await rt.verify("r") is None
    assert sorted(bank.paid) == ["loser", "other"]


def _shop(bank: Bank, pay: Any, *, races: bool) -> remit.Flow[Any]:
    @remit.flow(contract=OPEN, name="shop")
    async def shop(run: remit.Run) -> str:
        async def ships(ship: remit.Run) -> None:
            await (ship.first(ship.step(bank.wins), ship.step(never)) if races else ship.step(bank.wins))

        paid, _ = await run.gather(run.branch("pay").effect(pay, "i-1"), ships(run.branch("ship")))
        await run.step(bank.after)
        return str(paid)

    return shop


@pytest.mark.parametrize("races", [True, False])
async def test_code_that_pays_elsewhere_is_refused_where_a_race_ended_beside_the_payment(races: bool, storage: Storage):
    # proves: FX-2, RUN-4
    bank = Bank(payments=1)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(_shop(bank, bank.pay, races=races), id="r")
        for _ in range(2):
            with pytest.raises(remit.DefinitionIncompatible, match="pay/pay"):
                await rt.run(_shop(bank, bank.pay_elsewhere, races=races), id="r")
        assert bank.paid == ["i-1"]
        assert (await rt.run(_shop(bank, bank.pay, races=races), id="r")).value == "paid"
    assert bank.paid == ["i-1"]


async def test_so_is_code_that_pays_elsewhere_what_a_person_said_was_paid(storage: Storage):  # proves: FX-9, RUN-4
    bank = Bank(payments=1, is_heard=False)
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(_shop(bank, bank.pay, races=True), id="r")).status == "in_doubt"
        await find_out(rt, "r", "ok", "paid", call="pay/pay")
        for _ in range(2):
            with pytest.raises(remit.DefinitionIncompatible, match="pay/pay"):
                await rt.run(_shop(bank, bank.pay_elsewhere, races=True), id="r")
    assert bank.paid == ["i-1"]


async def test_what_a_winner_left_under_way_is_no_loser_s(storage: Storage):  # proves: FX-2, RUN-8
    """It went on without its payment, so nothing new begins outside before it waits for that."""
    bank = Bank(payments=1)

    @remit.flow(contract=OPEN)
    async def hasty(run: remit.Run) -> str:
        async def wins(side: remit.Run) -> str:
            paying = asyncio.ensure_future(side.effect(bank.pay, "i-1"))
            await side.step(bank.wins)
            paying.cancel()
            return "won"

        await run.first(wins(run.branch("w")), run.branch("l").step(never))
        return await run.effect(bank.pay_elsewhere, "i-1")

    async with storage.open() as rt:
        outcome = await rt.run(hasty, id="r")
        assert outcome.code == "effect.unheard"
        (end,) = [c.fact for c in (await rt.show("r")).view.calls.values() if isinstance(c.fact, RaceWon)]
        assert end.beside == []
    assert bank.paid == ["i-1"]


async def test_an_intention_that_is_being_written_as_its_race_ends_stands_before_that(
    monkeypatch: pytest.MonkeyPatch,
):  # proves: RUN-8
    store, bank = Timed(), Bank(payments=1)
    decide = race.decide

    def decided(*given: Any) -> None:
        asyncio.get_running_loop().call_later(0.05, bank.go.set)
        store.is_decided.set()
        decide(*given)

    monkeypatch.setattr(race, "decide", decided)

    async def pays(run: remit.Run) -> str:
        await store.has_won.wait()
        return await run.effect(bank.pay, "loser")

    @remit.flow(contract=OPEN)
    async def purchase(run: remit.Run) -> str:
        await run.first(pays(run), run.step(quick))
        return str(await run.step(bank.after))

    async with remit.open(store) as rt:
        with pytest.raises(remit.StepError):
            await rt.run(purchase, id="r")
        view = (await rt.show("r")).view
        end = view.calls["run.first"]
        assert isinstance(end.fact, RaceWon) and end.fact.beside == ["pay"]
        assert view.boundary.effects["pay"].begun < end.seq < view.calls["pay"].seq
        assert (await rt.run(purchase, id="r")).value == "told"
        assert await rt.verify("r") is None
    assert bank.paid == ["loser"]
