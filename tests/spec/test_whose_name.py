"""What is recorded under a name belongs to the function that did it: no other is given it, and none does it anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any

import msgspec
import pytest

import remit
from remit.authority.named import function_text

OPEN = remit.Contract(version="1", resume="anyone")
HERE = "tests.spec.test_whose_name"
sent: list[str] = []
is_mended = False


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    global is_mended
    sent.clear()
    is_mended = False


async def sepa(order: int, *, key: str) -> str:
    sent.append("sepa")
    return "sepa"


async def swift(order: int, *, key: str) -> str:
    sent.append("swift")
    return "swift"


async def unheard(order: int, *, key: str) -> str:
    sent.append("unheard")
    raise ConnectionError("no answer")


async def unsent(order: int, *, key: str) -> str:
    raise remit.DidNotHappen("closed")


@remit.step
async def archive() -> None:
    assert is_mended


@remit.step
async def look() -> int:
    return 1


def effect(fn: Callable[..., Any], name: str = "send", **declared: Any) -> remit.Effect[Any]:
    return remit.effect(name=name, **declared)(fn)


def flow_of(body: Callable[[remit.Run], Any]) -> remit.Flow[Any]:
    @remit.flow(contract=OPEN, name="settle")
    async def settle(run: remit.Run) -> None:
        await body(run)

    return settle


def calling(*effects: remit.Effect[Any]) -> remit.Flow[Any]:
    """A flow that calls these one after the other, and comes to its end when it is mended."""

    async def body(run: remit.Run) -> None:
        for each in effects:
            await run.effect(each, 5)
        await run.step(archive)

    return flow_of(body)


def side_by_side(*effects: remit.Effect[Any]) -> remit.Flow[Any]:
    async def body(run: remit.Run) -> None:
        await run.gather(*(run.effect(each, 5) for each in effects))
        await run.step(archive)

    return flow_of(body)


async def stopped(rt: remit.Runtime, flow: remit.Flow[Any]) -> None:
    """Its first turn, which ends behind its effects; the code of the next one is another."""
    global is_mended
    with pytest.raises(remit.StepError):
        await rt.run(flow, id="r")
    is_mended = True


async def refused(rt: remit.Runtime, flow: remit.Flow[Any]) -> remit.DefinitionIncompatible:
    assert (await rt.check("r", flow)).fit == "incompatible"
    with pytest.raises(remit.DefinitionIncompatible) as found:
        await rt.run(flow, id="r")
    return found.value


# -- another function has the name now --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [calling, side_by_side])
@pytest.mark.parametrize("said", [{}, {"connector": "bank"}, {"sink": "dedupes"}], ids=["", "connector", "sink"])
@pytest.mark.parametrize("order", ["who did it first", "who has the name first"])
async def test_names_that_were_exchanged_are_seen_whatever_else_changed(
    shape: Any, said: dict[str, Any], order: str
):  # proves: FX-14
    effects = [effect(sepa, "book", **said), effect(swift)]
    async with remit.open("memory:") as rt:
        await stopped(rt, calling(effect(sepa)))
        flow = shape(*(effects if order == "who did it first" else effects[::-1]))
        if shape is calling and order == "who did it first":
            assert (await refused(rt, flow)).recorded == ("send",)  # what is recorded is missed, as of any other call
        else:
            error = await refused(rt, flow)
            assert error.functions == (f"{HERE}.sepa", f"{HERE}.swift") and error.done == ("send",)
            assert f"recorded_as='{HERE}.sepa'" in error.hint
    assert sent == ["sepa"]


async def test_a_call_that_lost_its_race_has_its_name_all_the_same():  # proves: FX-14
    async def slow(order: int, *, key: str) -> str:
        await asyncio.sleep(0.05)
        return await sepa(order, key=key)

    async def race(run: remit.Run, loser: remit.Effect[Any]) -> None:
        await run.first(run.effect(loser, 5), run.step(look))

    async def before(run: remit.Run) -> None:
        await race(run, effect(slow))
        await asyncio.sleep(0.1)
        await run.step(archive)

    async def after(run: remit.Run) -> None:
        await race(run, effect(swift))
        await run.step(archive)
        await run.effect(effect(slow, "book"), 5)

    async with remit.open("memory:") as rt:
        await stopped(rt, flow_of(before))
        await refused(rt, flow_of(after))
    assert sent == ["sepa"]


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_doubt_belongs_to_the_function_that_is_in_it(is_told: bool):  # proves: FX-14
    async with remit.open("memory:") as rt:
        await rt.grant("user:ann", "clerk", by="user:root")
        assert (await rt.run(calling(effect(unheard)), id="r")).status == "in_doubt"
        if is_told:
            await rt.resolve("r", "send", "ok", by="user:ann", evidence="statement", outcome="it")
        await refused(rt, side_by_side(effect(unheard, "book"), effect(swift)))
    assert sent == ["unheard"]


async def test_what_did_not_happen_binds_no_function():  # proves: FX-14
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.EffectDidNotHappen):
            await rt.run(calling(effect(unsent)), id="r")
        with pytest.raises(remit.StepError, match="archive"):
            await rt.run(calling(effect(swift)), id="r")
    assert sent == ["swift"]


async def test_nothing_is_sent_again_or_asked_about_by_another_function():  # proves: FX-2, FX-14
    def timed(fn: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapper(order: int, *, key: str) -> str:
            outcome: str = await fn(order, key=key)
            return outcome

        return wrapper

    async def there(account: str, order: int, *, key: str) -> Any:
        return remit.Landed("there")

    async def lost(account: str, order: int, *, key: str) -> str:
        return await unheard(order, key=key)

    async def other(account: str, order: int, *, key: str) -> str:
        return await swift(order, key=key)

    probed: dict[str, Any] = {"doubt": "probe", "probe": partial(there, "ours"), "sink": "dedupes"}
    for before, after in (
        (effect(timed(unheard), sink="dedupes"), effect(timed(swift), doubt="resend", sink="dedupes")),
        (effect(partial(lost, "ours"), sink="dedupes"), effect(partial(other, "ours"), **probed)),
    ):
        sent.clear()
        async with remit.open("memory:") as rt:
            assert (await rt.run(calling(before), id="r")).status == "in_doubt"
            await refused(rt, calling(after))
        assert sent == ["unheard"]


async def test_a_yes_to_one_function_is_none_to_another_that_is_called_through_the_same_words():  # proves: APR-1
    async def note(book: str, order: int, *, key: str) -> str:
        return "noted"

    async def wire(account: str, order: int, *, key: str) -> str:
        return await sepa(order, key=key)

    rule = remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=8)))

    def flow(fn: Callable[..., Any]) -> remit.Flow[Any]:
        @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"send": rule}), name="settle")
        async def settle(run: remit.Run) -> None:
            await run.effect(effect(partial(fn, "x")), 900)

        return settle

    async with remit.open("memory:") as rt:
        await rt.grant("user:lee", "lead", by="user:ops")
        await rt.run(flow(note), id="r")
        (ask,) = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:lee", seen=ask.version)
        outcome = await rt.run(flow(wire), id="r")
    assert (outcome.code, sent) == ("approval_connector", [])


# -- the same function, elsewhere -------------------------------------------------------------------------------------


async def test_a_function_that_was_moved_says_so_and_is_given_what_it_did():  # proves: FX-14
    async with remit.open("memory:") as rt:
        await stopped(rt, calling(effect(sepa)))
        await refused(rt, calling(effect(swift)))  # as if it were sepa, renamed
        moved = effect(swift, recorded_as=f"{HERE}.sepa")
        assert (await rt.check("r", calling(moved))).fit == "compatible"
        assert (await rt.run(calling(moved), id="r")).status == "completed"
    assert sent == ["sepa"]


@pytest.mark.parametrize("is_said", [False, True])
async def test_a_transaction_that_was_moved_says_so(tmp_path: Path, is_said: bool):  # proves: FX-6, FX-14
    def debit(connection: Any, order: int) -> str:
        sent.append("debit")
        return "debit"

    def booked(connection: Any, order: int) -> str:
        sent.append("booked")
        return "booked"

    def flow(fn: Callable[..., Any], **said: Any) -> remit.Flow[Any]:
        async def body(run: remit.Run) -> None:
            await run.transact(remit.transaction(name="book", **said)(fn), 5)
            await run.step(archive)

        return flow_of(body)

    async with remit.open(f"sqlite:///{tmp_path}/a.db") as rt:
        await stopped(rt, flow(debit))
        if is_said:
            assert (await rt.run(flow(booked, recorded_as=function_text(debit)), id="r")).status == "completed"
        else:
            await refused(rt, flow(booked))
    assert sent == ["debit"]


async def test_the_intention_says_which_function_is_called():  # proves: FX-14, LOG-1
    async with remit.open("memory:") as rt:
        await stopped(rt, calling(effect(sepa), effect(swift, "other", connector="a bank")))
        bodies = [msgspec.json.decode(entry.body) for entry in (await rt.read("r")).main]
    assert [b["function"] for b in bodies if "function" in b] == [f"{HERE}.sepa", f"{HERE}.swift to a bank"]


# -- two functions that a journal could not tell apart ----------------------------------------------------------------


def rail(side: str) -> Callable[..., Any]:
    async def send(order: int, *, key: str) -> str:
        sent.append(side)
        return side

    return send


class Client:
    def __init__(self, side: str) -> None:
        self.side = side

    async def send(self, order: int, *, key: str) -> str:
        sent.append(self.side)
        return self.side


ONE = Client("sepa")


class Called:
    def __init__(self, side: str) -> None:
        self.side = side

    async def __call__(self, order: int, *, key: str) -> str:
        sent.append(self.side)
        return self.side


async def at(side: str, order: int, *, key: str) -> str:
    sent.append(side)
    return side


def wrapped(side: str) -> Callable[..., Any]:
    @wraps(sepa)
    async def send(order: int, *, key: str) -> str:
        sent.append(side)
        return side

    return send


def typed_in(side: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"__name__": "plugins", "sent": sent, "SIDE": side}
    exec("async def send(order: int, *, key: str) -> str:\n    sent.append(SIDE)\n    return SIDE", names)
    found: Callable[..., Any] = names["send"]
    return found


def redefined(side: str) -> Callable[..., Any]:
    if side == "sepa":

        async def send(order: int, *, key: str) -> str:
            sent.append("sepa")
            return "sepa"
    else:

        async def send(order: int, *, key: str) -> str:
            sent.append("swift")
            return "swift"

    return send


MAKERS = {
    "a factory": rail,
    "methods of two objects": lambda side: Client(side).send,
    "two objects": Called,
    "partials": lambda side: partial(at, side),
    "a decorator": wrapped,
    "what was executed": typed_in,
    "what was defined twice": redefined,
}
made = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))


@made
async def test_two_functions_of_the_same_words_are_not_called_in_one_turn(make: Callable[[str], Any]):  # proves: FX-14
    flow = calling(effect(make("sepa"), "send_sepa"), effect(make("swift")))
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.CallRefused, match="'send' and 'send_sepa' are two functions") as found:
            await rt.run(flow, id="r")
    assert (found.value.code, sent) == ("call.function_shared", ["sepa"])


@made
async def test_two_functions_of_the_same_words_do_not_share_a_name(make: Callable[[str], Any]):  # proves: FX-14
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.CallRefused) as found:
            await rt.run(calling(effect(make("sepa")), effect(make("swift"))), id="r")
    assert (found.value.code, sent) == ("call.name_taken", ["sepa"])


async def test_nor_in_two_branches():  # proves: FX-14, RUN-8
    async def body(run: remit.Run) -> None:
        await run.branch("a").effect(effect(rail("sepa")), 5)
        await run.branch("b").effect(effect(rail("swift")), 5)

    async with remit.open("memory:") as rt:
        with pytest.raises(remit.CallRefused, match="'b/send' and 'send' are two functions") as found:
            await rt.run(flow_of(body), id="r")
    assert (found.value.code, sent) == ("call.function_shared", ["sepa"])


@made
@pytest.mark.parametrize("anew", ["who did it", "the other one"])
@pytest.mark.parametrize("told", ["neither", "who did it", "the other one", "both"])
async def test_whatever_is_done_about_a_taken_name_pays_nothing_twice(
    make: Callable[[str], Any], anew: str, told: str
):  # proves: FX-14
    """All that the hints of `call.name_taken` and `call.function_shared` may be taken to say, but for a false word."""
    names = {"sepa": "send_sepa", "swift": "send"} if anew == "who did it" else {"sepa": "send", "swift": "send_swift"}
    sides = {"neither": "", "who did it": "sepa", "the other one": "swift", "both": "sepa swift"}[told]
    effects = [
        effect(make(side), name, **({"connector": side} if side in sides else {})) for side, name in names.items()
    ]
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.CallRefused):
            await rt.run(calling(effect(make("sepa")), effect(make("swift"))), id="r")
        global is_mended
        is_mended = True
        for flow in (calling(*effects), calling(*effects[::-1]), side_by_side(*effects)):
            with pytest.raises(remit.RemitError) as found:
                await rt.run(flow, id="r")
            assert found.value.code in ("definition_incompatible", "call.function_shared")
        assert sent == ["sepa"]
        known = function_text(make("sepa"))
        right = [effect(make("sepa"), connector="sepa", recorded_as=known)]
        right.append(effect(make("swift"), "send_swift", connector="swift"))
        assert (await rt.run(calling(*right), id="r")).status == "completed"
    assert sent == ["sepa", "swift"]


async def test_two_functions_may_not_both_say_that_they_are_one():  # proves: FX-14
    flow = calling(effect(sepa, "a", recorded_as="pay"), effect(swift, "b", recorded_as="pay"))
    async with remit.open("memory:") as rt:
        with pytest.raises(remit.CallRefused, match="both as pay") as found:
            await rt.run(flow, id="r")
    assert (found.value.code, sent) == ("call.function_shared", ["sepa"])


async def test_the_rehearsal_says_it_too():  # proves: FX-14
    async with remit.open("memory:") as rt:
        await stopped(rt, calling(effect(rail("sepa"), "send_sepa")))
        found = await rt.check("r", calling(effect(rail("sepa"), "send_sepa"), effect(rail("swift"))))
    assert found.fit == "incompatible" and "are two functions" in found.reason


# -- what is one ------------------------------------------------------------------------------------------------------


async def test_plain_functions_are_never_taken_for_each_other():  # proves: FX-14
    """Also to one other side, and where one of them has two names."""
    effects = [
        effect(sepa, "a", connector="bank"), effect(swift, "b", connector="bank"),
        effect(sepa, "c", connector="bank", sink="dedupes"), effect(partial(sepa), "d", connector="bank"),
    ]  # fmt: skip
    async with remit.open("memory:") as rt:
        await stopped(rt, calling(*effects))
    assert sent == ["sepa", "swift", "sepa", "sepa"]


async def test_one_function_may_have_what_two_did():  # proves: FX-14
    merged = [effect(sepa, "a"), effect(sepa, "b", recorded_as=f"{HERE}.swift")]
    async with remit.open("memory:") as rt:
        await stopped(rt, calling(effect(sepa, "a"), effect(swift, "b")))
        assert (await rt.run(calling(*merged), id="r")).status == "completed"
    assert sent == ["sepa", "swift"]


@pytest.mark.parametrize(
    "make",
    [lambda: rail("sepa"), lambda: partial(at, "sepa"), lambda: partial(at, "sepa", key="k"), lambda: ONE.send],
    ids=["a factory", "a partial", "a partial by name", "a method"],
)
async def test_a_function_that_is_made_anew_is_the_one_that_it_was(make: Callable[[], Any]):
    first, second = effect(make()), effect(make())
    assert first.is_same(second) and first.is_one(effect(make(), "other", sink="dedupes"))
    assert not first.is_same(effect(make(), sink="dedupes"))


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), (0.0, -0.0), ("1", b"1"), ((), [])])
def test_plain_values_that_were_captured_are_compared_as_they_are(one: Any, other: Any):
    def holding(value: Any) -> remit.Effect[Any]:
        async def send(order: int, *, key: str) -> str:
            return str(value)

        return effect(send)

    assert holding(one).is_same(holding(one))
    assert not holding(one).is_same(holding(other))
    assert not effect(partial(at, one)).is_same(effect(partial(at, other)))


def test_the_words_for_a_local_function_name_what_it_was_made_of():
    def made_of(fn: Any, other: Any = None) -> Callable[..., Any]:
        def outer(order: int) -> Any:
            return again if order else (fn, other)

        def again() -> Any:
            return outer, absent

        if fn is None:
            absent = 1
        return outer

    local = f"{HERE}.test_the_words_for_a_local_function_name_what_it_was_made_of.<locals>.made_of.<locals>"
    words = function_text(made_of(sepa, partial(ONE.send)))
    again = f"{local}.again({local}.outer)"
    assert words == f"{local}.outer({again}, {HERE}.sepa, {HERE}.Client.send)"
    assert function_text(partial(partial(at, "x"), 5)) == f"{HERE}.at"
    assert function_text(made_of(Client)) == f"{local}.outer({again}, {HERE}.Client)"
