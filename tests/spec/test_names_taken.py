"""A name that two functions share: called in another order, each would be given what the other did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage

OPEN = remit.Contract(version="1", resume="anyone")
sent: list[str] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


def sepa() -> SimpleNamespace:
    """What is declared in a module, of which another one has the same names."""

    @remit.effect
    def send(order: int, *, key: str) -> str:
        sent.append(f"sepa {order}")
        return "sepa"

    @remit.transaction
    def book(connection: Any, order: int) -> str:
        sent.append(f"debit {order}")
        return "debit"

    @remit.step
    def look() -> str:
        return "sepa"

    return SimpleNamespace(send=send, book=book, look=look)


def ledger() -> SimpleNamespace:
    @remit.effect
    def send(order: int, *, key: str) -> str:
        sent.append(f"ledger {order}")
        return "ledger"

    @remit.transaction
    def book(connection: Any, order: int) -> str:
        sent.append(f"credit {order}")
        return "credit"

    @remit.step
    def look() -> str:
        return "ledger"

    return SimpleNamespace(send=send, book=book, look=look)


SEPA, LEDGER = sepa(), ledger()


async def refused(rt: remit.Runtime, call: Callable[[remit.Run], Any]) -> remit.CallRefused:
    @remit.flow(contract=OPEN, name="settle")
    async def settle(run: remit.Run) -> None:
        await call(run)

    with pytest.raises(remit.CallRefused) as found:
        await rt.run(settle, id="r")
    assert found.value.code == "call.name_taken"
    return found.value


async def test_a_step_that_is_called_like_a_question_is_told_how_a_step_and_a_question_are_named():  # proves: FX-6
    @remit.step
    async def release(number: int) -> int:
        return number

    async def call(run: remit.Run) -> None:
        await asyncio.gather(
            run.approve("release", 1, roles={"director"}, within=timedelta(days=1)), run.step(release, 1)
        )

    async with remit.open("memory:") as rt:
        told = await refused(rt, call)
    assert '`@remit.step(name="...")`' in told.hint and "run.approve" in told.hint and "connector" not in told.hint


async def test_two_effects_of_one_name_called_in_another_order_pay_nothing_twice(storage: Storage):
    # proves: FX-6, FX-11
    order, is_up = [SEPA, LEDGER], False

    @remit.step
    def archive() -> None:
        assert is_up

    @remit.flow(contract=OPEN)
    async def settle(run: remit.Run) -> None:
        await run.effect(order[0].send, 5)
        await run.step(archive)
        await run.effect(order[1].send, 5)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(settle, id="r")
        order, is_up = [LEDGER, SEPA], True
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(settle, id="r")
    assert sent == ["sepa 5"]


async def test_the_refusal_names_both_and_what_to_do(storage: Storage):
    async def call(run: remit.Run) -> None:
        await run.effect(SEPA.send, 5)
        await run.effect(LEDGER.send, 5)

    async with storage.open() as rt:
        error = await refused(rt, call)
    assert "'send' is the name of effect tests.spec.test_names_taken.sepa.<locals>.send" in error.message
    assert "effect tests.spec.test_names_taken.ledger.<locals>.send is called by it too" in error.message
    assert '@remit.effect(name="...")' in error.hint


async def test_two_transactions_of_one_name(tmp_path: Path):  # proves: FX-6
    async def call(run: remit.Run) -> None:
        await run.transact(SEPA.book, 5)
        await run.transact(LEDGER.book, 5)

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await refused(rt, call)
    assert sent == ["debit 5"]


@pytest.mark.parametrize("other", ["effect", "question"])
async def test_two_steps_of_one_name_or_a_step_and_something_else(storage: Storage, other: str):  # proves: RUN-4
    @remit.effect
    def look(order: int, *, key: str) -> None:
        sent.append("look")

    async def call(run: remit.Run) -> None:
        await run.step(SEPA.look)
        if other == "effect":
            await run.effect(look, 5)
        await run.step(LEDGER.look)

    async with storage.open() as rt:
        await refused(rt, call)
    assert sent == []


async def test_one_connector_is_one_effect_and_another_is_another(storage: Storage):
    def rail(to: str) -> remit.Effect[None]:
        @remit.effect(name="wire", connector=to)
        def wire(order: int, *, key: str) -> None:
            sent.append(f"{to} {order}")

        return wire

    @remit.flow(contract=OPEN)
    async def both(run: remit.Run) -> None:
        await run.effect(rail("sepa"), 1)
        await run.effect(rail("sepa"), 2)
        await run.effect(rail("swift"), 3)

    async with storage.open() as rt:
        with pytest.raises(remit.CallRefused, match="to 'swift'"):
            await rt.run(both, id="r")
    assert sent == ["sepa 1", "sepa 2"]


async def test_in_branches_of_their_own_two_may_share_a_name(storage: Storage):  # proves: RUN-8
    @remit.flow(contract=OPEN)
    async def settle(run: remit.Run) -> list[str]:
        return [await run.branch("a").effect(SEPA.send, 5), await run.branch("b").effect(LEDGER.send, 5)]

    async with storage.open() as rt:
        assert (await rt.run(settle, id="r")).value == ["sepa", "ledger"]
    assert sent == ["sepa 5", "ledger 5"]


async def test_a_function_that_is_made_anew_for_each_call_is_one(storage: Storage):
    def asked(number: int) -> Callable[[], int]:
        def look() -> int:
            return number

        return look

    @remit.flow(contract=OPEN)
    async def three(run: remit.Run) -> list[int]:
        return [await run.step(asked(number)) for number in range(3)]

    async with storage.open() as rt:
        assert (await rt.run(three, id="r")).value == [0, 1, 2]


@pytest.mark.parametrize("first", ["the one that has the name now", "the one that paid"])
async def test_names_that_were_exchanged_pay_nothing_twice(storage: Storage, first: str):  # proves: FX-11, RUN-4
    """Whoever is told that a name is taken may give a new one to the function that an open run has called already."""
    is_mended = False

    def renamed(effect: remit.Effect[str], name: str) -> remit.Effect[str]:
        return remit.effect(name=name)(effect.fn)

    @remit.step
    def archive() -> None:
        assert is_mended

    @remit.flow(contract=OPEN)
    async def settle(run: remit.Run) -> None:
        if not is_mended:
            await run.effect(SEPA.send, 5)
        elif first == "the one that paid":
            await run.gather(run.effect(renamed(SEPA.send, "send_sepa"), 5), run.effect(LEDGER.send, 5))
        else:
            await run.effect(LEDGER.send, 5)
            await run.effect(renamed(SEPA.send, "send_sepa"), 5)
        await run.step(archive)

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(settle, id="r")
        is_mended = True
        with pytest.raises(remit.DefinitionIncompatible) as found:
            await rt.run(settle, id="r")
    assert (found.value.recorded, found.value.functions) == (("send",), (SEPA.send.function, LEDGER.send.function))
    assert sent == ["sepa 5"]


@pytest.mark.parametrize("to", [("sepa", "sepa"), ("sepa", "swift")], ids=["one other side", "two"])
async def test_of_a_function_that_is_made_anew_what_it_captured_tells_which_it_is(
    storage: Storage, to: tuple[str, str]
):  # proves: FX-11
    def rail(side: str) -> remit.Effect[None]:
        @remit.effect
        def wire(order: int, *, key: str) -> None:
            sent.append(f"{side} {order}")

        return wire

    @remit.flow(contract=OPEN)
    async def both(run: remit.Run) -> None:
        for side in to:
            await run.effect(rail(side), 1)

    async with storage.open() as rt:
        if to == ("sepa", "sepa"):
            assert (await rt.run(both, id="r")).status == "completed"
        else:
            with pytest.raises(remit.CallRefused, match="made anew") as found:
                await rt.run(both, id="r")
            assert found.value.code == "call.name_taken" and 'connector="..."' in found.value.hint
    assert sent == ["sepa 1", "sepa 1"][: 2 if to[1] == "sepa" else 1]


async def test_methods_of_two_objects_are_two_effects(storage: Storage):  # proves: FX-11
    class Rail:
        def __init__(self, side: str) -> None:
            self.side = side

        def wire(self, order: int, *, key: str) -> None:
            sent.append(f"{self.side} {order}")

    sepa, swift = (remit.effect(Rail(side).wire) for side in ("sepa", "swift"))

    @remit.flow(contract=OPEN)
    async def both(run: remit.Run) -> None:
        await run.effect(sepa, 1)
        await run.effect(sepa, 2)
        await run.effect(swift, 3)

    async with storage.open() as rt:
        with pytest.raises(remit.CallRefused) as found:
            await rt.run(both, id="r")
    assert (found.value.code, sent) == ("call.name_taken", ["sepa 1", "sepa 2"])
