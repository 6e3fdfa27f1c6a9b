"""Questions that code no longer asks: nothing begins outside past one, what did not happen before as little as new."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import apsw
import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.office import BUYER, answer, staffed
from tests.support.till import OPEN, Order, Till, find_out

Called = Callable[[remit.Run], Any]


def releases(call: Called, manner: str) -> tuple[remit.Flow[Any], remit.Flow[Any]]:
    """The code that asks a question before, or beside, it makes that call again; and the code that does not ask."""

    async def ask(run: remit.Run) -> Any:
        return await run.approve("again", {"amount": 1}, roles={"director"}, within=timedelta(hours=4))

    @remit.flow(contract=OPEN, name="f")
    async def asking(run: remit.Run) -> Any:
        if manner == "beside":
            return await run.gather(ask(run.branch("a")), call(run.branch("b")))
        try:
            return await call(run)
        except remit.EffectDidNotHappen:
            await ask(run)
            return await call(run)

    @remit.flow(contract=OPEN, name="f")
    async def dropped(run: remit.Run) -> Any:
        return await call(run.branch("b") if manner == "beside" else run)

    return asking, dropped


async def assert_refused(rt: remit.Runtime, dropped: remit.Flow[Any], call: str, question: str) -> None:
    """It is said before, and each time that it is tried."""
    told = await rt.check("r", dropped)
    assert (told.fit, told.recorded) == ("incompatible", (question,))
    with pytest.raises(remit.DefinitionIncompatible):
        await rt.judge("r", dropped)
    for _ in range(2):
        with pytest.raises(remit.DefinitionIncompatible) as refused:
            await rt.resume("r", dropped)
        assert refused.value.recorded == (question,) and call in (*refused.value.asked, *refused.value.behind)


@pytest.mark.parametrize("choice", ["", "deny"])
@pytest.mark.parametrize(("manner", "call", "question"), [("before", "pay", "again"), ("beside", "b/pay", "a/again")])
async def test_what_did_not_happen_is_not_called_again_past_a_question_that_waits(
    choice: Literal["", "deny"], manner: str, call: str, question: str, storage: Storage
):  # proves: RUN-4, GATE-1
    till = Till()
    till.next(remit.DidNotHappen("the line is down"))
    pay = till.effect()
    asking, dropped = releases(lambda run: run.effect(pay, Order()), manner)
    async with storage.open() as rt:
        await staffed(rt)
        assert (await rt.run(asking, id="r", by=BUYER)).waits_for == "approval"
        if choice:
            await answer(rt, choice)
        with pytest.raises((remit.EffectDidNotHappen, remit.DefinitionIncompatible)):
            await rt.resume("r", dropped)  # that it did not happen is recorded
        await assert_refused(rt, dropped, call, question)
    assert len(till.arrived) == 1 and not till.paid


async def test_a_transaction_that_rolled_back_is_not_made_past_a_question_that_waits(
    tmp_path: Path,
):  # proves: RUN-4, GATE-1
    is_down = [True]

    @remit.transaction(name="book")
    def book(connection: apsw.Connection, order: Order) -> None:
        if is_down:
            raise OSError("not now")
        connection.execute("CREATE TABLE booked (sku TEXT)")

    asking, dropped = releases(lambda run: run.transact(book, Order()), "before")
    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await staffed(rt)
        assert (await rt.run(asking, id="r", by=BUYER)).waits_for == "approval"
        await answer(rt, "deny")
        is_down.clear()
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.resume("r", dropped)
        await assert_refused(rt, dropped, "book", "again")
    connection = apsw.Connection(f"{tmp_path}/a.db")
    assert not list(connection.execute("SELECT name FROM sqlite_master WHERE name = 'booked'"))
    connection.close()


@pytest.mark.parametrize("who", ["a person", "the other side"])
async def test_a_doubt_is_ended_past_a_question_that_waits_and_its_call_not_made_again(
    who: str, storage: Storage
):  # proves: RUN-4, FX-2
    sent = list[int]()

    async def pay(order: Order, *, key: str, epoch: int) -> None:
        sent.append(epoch)
        if len(sent) == 1:
            raise ConnectionError("no answer")

    async def probe(order: Order, *, key: str, epoch: int) -> remit.NotLanded:
        return remit.NotLanded()

    options: dict[str, Any] = {"doubt": "probe", "probe": probe, "sink": "fences"} if who == "the other side" else {}
    declared: remit.Effect[None] = remit.effect(name="pay", **options)(pay)
    asking, dropped = releases(lambda run: run.effect(declared, Order()), "beside")
    async with storage.open() as rt:
        await staffed(rt)
        await rt.run(asking, id="r", by=BUYER)
        assert (await rt.show("r")).view.boundary.in_doubt == ["b/pay"]
        await answer(rt, "deny")
        if who == "a person":
            await find_out(rt, "r", "did_not_happen", call="b/pay")
        else:
            with pytest.raises(remit.DefinitionIncompatible):
                await rt.resume("r", dropped)
        await assert_refused(rt, dropped, "b/pay", "a/again")
        assert [effect.state for effect in await rt.effects("r")] == ["did_not_happen"]
    assert len(sent) == 1
