"""A turn that ends before it came to all that is recorded: nothing that other calls came behind is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import remit
from tests.spec.conftest import Storage
from tests.support.till import OPEN, Order, Till

HOUR = timedelta(hours=1)
ASKING = remit.Contract(
    version="1",
    resume="anyone",
    effects={"card": remit.Rule(), "wire": remit.Rule(approval=remit.Approval({"director"}, HOUR))},
)
DENYING = remit.Contract(
    version="1",
    resume="anyone",
    effects={"card": remit.Rule(approval=remit.Approval({"director"}, HOUR)), "wire": remit.Rule()},
)

Way = Callable[["Shop", remit.Run], Awaitable[Any]]


class Panic(BaseException):
    """As libraries raise that are not to be caught."""


class Shop:
    """A card that fails, a wire that goes in its stead, and books that are closed. broken: what raises, and what."""

    def __init__(self) -> None:
        self.line, self.till = Till(), Till()
        self.card, self.wire = self.line.effect("card"), self.till.effect("wire")
        self.broken: dict[str, BaseException] = {"book": OSError("books closed"), "quote": OSError("no answer")}

    @property
    def arrived(self) -> tuple[int, int]:
        return len(self.line.arrived), len(self.till.arrived)

    def meet(self, what: str) -> None:
        if what in self.broken:
            raise self.broken[what]

    async def book(self) -> str:
        self.meet("book")
        return "booked"

    async def quote(self) -> int:
        self.meet("quote")
        return 80

    async def other(self) -> int:
        return 90


async def a_step(shop: Shop, run: remit.Run) -> None:
    await run.step(shop.quote)


async def an_effect(shop: Shop, run: remit.Run) -> None:
    await run.effect(shop.card, Order())


async def a_call_in_a_group(shop: Shop, run: remit.Run) -> None:
    await run.gather(an_effect(shop, run.branch("a")), run.branch("b").step(shop.other))


async def another_step(shop: Shop, run: remit.Run) -> None:
    await run.step(shop.other)


async def another_effect(shop: Shop, run: remit.Run) -> None:
    await run.effect(shop.wire, Order())


def flow_of(shop: Shop, first: Way, then: Way | None, contract: remit.Contract = OPEN) -> remit.Flow[Any]:
    """then: what it goes on to where the first way fails; None for a release without a handler."""

    @remit.flow(contract=contract, name="flow")
    async def flow(run: remit.Run) -> str:
        try:
            await first(shop, run)
        except (remit.StepError, remit.Denied):
            if then is None:
                raise
            shop.meet("handler")
            await then(shop, run)
        return str(await run.step(shop.book))

    return flow


FIRST = [a_step, an_effect, a_call_in_a_group]
THEN = [another_step, another_effect]
RAISED = [OSError("disk full"), Panic("rust"), ExceptionGroup("both", [KeyError("a")]), remit.Denied("not by me")]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("raised", RAISED[:3])
async def test_an_error_of_the_handler_s_own_takes_no_failure_back(
    first: Way, then: Way, raised: BaseException, storage: Storage
):  # proves: RUN-6, FX-2
    shop = Shop()
    shop.line.next(remit.DidNotHappen("line is down"))
    flow = flow_of(shop, first, then)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="books closed"):
            await rt.run(flow, id="r")
        recorded, arrived = list((await rt.show("r")).view.calls), shop.arrived

        shop.broken = {"handler": raised}
        assert (await rt.check("r", flow)).fit == "incompatible"
        with pytest.raises(remit.StepError, match="flow of run 'r' raised") as cut:
            await rt.run(flow, id="r")
        assert cut.value.hint.startswith("Mend the code")
        assert list((await rt.show("r")).view.calls) == recorded

        shop.broken = {}
        assert (await rt.check("r", flow)).fit == "compatible"
        assert (await rt.run(flow, id="r")).value == "booked"
        assert shop.arrived == arrived


async def test_what_waits_behind_a_failure_keeps_it_too(storage: Storage):  # proves: RUN-6, FX-2
    shop = Shop()
    shop.broken = {}
    shop.line.next(remit.DidNotHappen("line is down"))
    flow = flow_of(shop, an_effect, another_effect, ASKING)
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(flow, id="r")).waits_for == "approval"
        shop.broken = {"handler": OSError("disk full")}
        with pytest.raises(remit.StepError, match="disk full") as cut:
            await rt.run(flow, id="r")
        assert "also wire, to which the flow did not come" in cut.value.hint
        shop.broken = {}
        [ask] = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        assert (await rt.run(flow, id="r")).value == "booked"
        assert shop.arrived == (1, 1)


async def test_a_request_that_can_t_be_stored_takes_no_failure_back(storage: Storage):  # proves: RUN-6, FX-2
    shop = Shop()
    shop.line.next(remit.DidNotHappen("line is down"))

    async def mistaken(shop: Shop, run: remit.Run) -> None:
        await run.effect(shop.wire, {"no": "order"})

    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="books closed"):
            await rt.run(flow_of(shop, an_effect, another_effect), id="r")
        with pytest.raises(remit.ValueRefused):
            await rt.run(flow_of(shop, an_effect, mistaken), id="r")
        shop.broken = {}
        assert (await rt.run(flow_of(shop, an_effect, another_effect), id="r")).value == "booked"
        assert shop.till.times == [1]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("no", [remit.DidNotHappen("line is down"), remit.Declined("no such card")])
async def test_code_that_lets_a_failure_go_that_was_caught_is_refused(
    first: Way, then: Way, no: Exception, storage: Storage
):  # proves: RUN-4, RUN-6, FX-2
    shop = Shop()
    shop.line.next(no)
    good, edited = flow_of(shop, first, then), flow_of(shop, first, None)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="books closed"):
            await rt.run(good, id="r")
        arrived = shop.arrived

        checked = await rt.check("r", edited)
        with pytest.raises(remit.DefinitionIncompatible) as refused:
            await rt.run(edited, id="r")
        left, failed = "other" if then is another_step else "wire", "quote" if first is a_step else "card"
        assert (refused.value.recorded, checked.recorded) == ((left,), (left,))
        assert (checked.fit, checked.reason) == ("incompatible", refused.value.message)
        assert [name.split("/")[-1] for name in refused.value.behind] == [failed]
        assert "make the recorded calls there" in refused.value.hint

        shop.broken.pop("book")
        assert (await rt.run(good, id="r")).value == "booked"
        assert shop.arrived == arrived


async def test_so_is_code_that_lets_it_go_in_a_group(storage: Storage):  # proves: RUN-4, FX-2
    shop = Shop()
    shop.line.next(remit.DidNotHappen("line is down"))

    async def in_a_group(shop: Shop, run: remit.Run) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(an_effect(shop, run))

    @remit.flow(contract=OPEN, name="flow")
    async def good(run: remit.Run) -> str:
        try:
            await in_a_group(shop, run)
        except* remit.StepError:
            await run.effect(shop.wire, Order())
        return str(await run.step(shop.book))

    edited = flow_of(shop, in_a_group, None)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="books closed"):
            await rt.run(good, id="r")
        assert (await rt.check("r", edited)).fit == "incompatible"
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(edited, id="r")
        shop.broken = {}
        assert (await rt.run(good, id="r")).value == "booked"
        assert shop.till.times == [1]


async def deny_card(rt: remit.Runtime, flow: remit.Flow[Any]) -> None:
    """A run whose card is denied, and whose books are closed behind what was paid in its stead."""
    await rt.grant("user:dana", "director", by="user:root")
    assert (await rt.run(flow, id="r")).waits_for == "approval"
    [ask] = await rt.inbox()
    await rt.decide(ask.id, "deny", by="user:dana", seen=ask.version)
    with pytest.raises(remit.StepError, match="books closed"):
        await rt.run(flow, id="r")


async def test_a_no_that_was_caught_ends_no_run_whose_code_lets_it_go(storage: Storage):  # proves: RUN-4
    shop = Shop()
    good, edited = (flow_of(shop, an_effect, then, DENYING) for then in (another_effect, None))
    async with storage.open() as rt:
        await deny_card(rt, good)
        checked = await rt.check("r", edited)
        assert (checked.fit, checked.recorded) == ("incompatible", ("wire",))
        with pytest.raises(remit.DefinitionIncompatible, match="lets 'card' leave the flow"):
            await rt.run(edited, id="r")
        shop.broken = {}
        assert (await rt.run(good, id="r")).value == "booked"
        assert shop.till.times == [1]


async def test_nor_does_a_no_of_the_flow_s_own_while_recorded_calls_are_left(storage: Storage):  # proves: RUN-4
    shop = Shop()
    good = flow_of(shop, an_effect, another_effect, DENYING)
    async with storage.open() as rt:
        await deny_card(rt, good)
        shop.broken = {"handler": remit.Denied("not by me")}
        assert (await rt.check("r", good)).fit == "incompatible"
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(good, id="r")
        shop.broken = {}
        assert (await rt.run(good, id="r")).value == "booked"


async def test_a_conflict_that_was_caught_ends_no_run_either(storage: Storage):  # proves: RUN-4, FX-8
    shop = Shop()
    shop.card = shop.line.effect("card", business_key="invoice")
    good, edited = (flow_of(shop, an_effect, then) for then in (another_effect, None))
    async with storage.open() as rt:

        @remit.flow(contract=OPEN)
        async def holding(run: remit.Run) -> None:
            await run.effect(shop.card, Order())

        await rt.run(holding, id="holder")
        with pytest.raises(remit.StepError, match="books closed"):
            await rt.run(good, id="r")
        assert (await rt.check("r", edited)).fit == "incompatible"
        with pytest.raises(remit.DefinitionIncompatible):
            await rt.run(edited, id="r")
        shop.broken = {}
        assert (await rt.run(good, id="r")).value == "booked"
        assert (shop.line.times, shop.till.times) == ([1], [1])


async def test_a_failure_stays_where_what_came_behind_it_is_called_first_now(storage: Storage):  # proves: RUN-6, FX-2
    """As where somebody brings a recorded call back at another place than it had."""
    shop = Shop()
    shop.line.next(remit.DidNotHappen("line is down"))

    async def both(shop: Shop, run: remit.Run) -> None:
        await another_effect(shop, run)
        await an_effect(shop, run)

    edited = flow_of(shop, both, None)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="books closed"):
            await rt.run(flow_of(shop, an_effect, another_effect), id="r")
        for _ in range(2):
            with pytest.raises(remit.EffectDidNotHappen) as failed:
                await rt.run(edited, id="r")
            assert "Let the flow catch this" in failed.value.hint
        assert (shop.line.times, shop.till.times) == ([], [1])


async def test_a_failure_behind_which_nothing_is_recorded_runs_again_all_the_same(storage: Storage):  # proves: RUN-6
    """Although the flow, in the turn that recorded it, was not let come to its end."""
    shop = Shop()
    shop.broken = {"quote": OSError("no answer")}

    async def slow(shop: Shop, run: remit.Run) -> None:
        await run.step(shop.other)
        await run.step(shop.quote)

    flow = flow_of(shop, slow, None)
    async with storage.open() as rt:
        with pytest.raises(remit.StepError, match="no answer"):
            await rt.run(flow, id="r")
        shop.broken = {}
        assert (await rt.run(flow, id="r")).value == "booked"


@pytest.mark.parametrize("paid", [2, 3])
async def test_a_branch_that_is_on_its_way_refuses_no_code_that_did_not_change(
    paid: int, storage: Storage
):  # proves: RUN-4, RUN-6
    """`asyncio.gather` raises at once. While its flow was slow, and its process died, the other branch had gone on.

    What is left of it when the flow is over is in nobody's stead where the branch came to all of it.
    """
    shop, fails, is_slow = Shop(), asyncio.Event(), True

    async def quote() -> int:
        await fails.wait()
        raise OSError("no answer")

    async def wiring(run: remit.Run) -> None:
        for number in range(paid):
            await run.effect(shop.wire, Order(invoice=str(number)))
            fails.set()

    @remit.flow(contract=OPEN, name="flow")
    async def flow(run: remit.Run) -> None:
        try:
            await asyncio.gather(run.branch("a").step(quote), wiring(run.branch("b")))
        finally:
            await asyncio.sleep(60 if is_slow else 0)

    async with storage.open() as rt:
        dying = asyncio.ensure_future(rt.run(flow, id="r"))
        while len(shop.till.paid) < paid:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        dying.cancel()
        await asyncio.wait([dying])
        wires = ["b/wire", "b/wire#2", "b/wire#3"][:paid]
        assert sorted((await rt.show("r")).view.calls) == ["a/quote", *wires]

        is_slow = False
        assert "fails as it is recorded" in (await rt.check("r", flow)).reason
        with pytest.raises(remit.StepError, match="no answer") as failed:
            await rt.run(flow, id="r")
        assert "Mend the code" in failed.value.hint


@pytest.mark.parametrize("contract", [OPEN, ASKING], ids=["under way", "asked"])
async def test_nor_does_one_that_was_given_up_before_it_came_there_again(contract: remit.Contract, storage: Storage):
    # proves: RUN-4, RUN-6
    shop, fails, is_slow = Shop(), asyncio.Event(), True
    shop.till.next(shop.till.hold)

    async def quote() -> int:
        await fails.wait()
        raise OSError("no answer")

    async def wiring(run: remit.Run) -> None:
        await asyncio.sleep(0.01)
        await run.effect(shop.wire, Order())

    @remit.flow(contract=contract, name="flow")
    async def flow(run: remit.Run) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run.branch("a").step(quote))
                group.create_task(wiring(run.branch("b")))
        finally:
            await asyncio.sleep(60 if is_slow else 0)

    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        dying = asyncio.ensure_future(rt.run(flow, id="r"))
        while not (shop.till.is_held.is_set() or await rt.inbox()):
            await asyncio.sleep(0.001)
        fails.set()
        while "a/quote" not in (await rt.show("r")).view.calls:
            await asyncio.sleep(0.001)
        shop.till.let_go.set()
        await asyncio.sleep(0.05)
        dying.cancel()
        await asyncio.wait([dying])

        is_slow = False
        for _ in range(2):
            with pytest.raises(remit.StepError, match="ExceptionGroup") as failed:
                await rt.run(flow, id="r")
            assert ("Let the flow catch a/quote" in failed.value.hint) is (contract is OPEN)


async def test_a_doubt_that_the_flow_left_behind_when_it_returned_is_found_out_and_it_ends(storage: Storage):
    # proves: RUN-4
    is_known = False

    async def probe(order: dict[str, int], *, key: str) -> remit.Landed[str] | remit.NotLanded:
        if not is_known:
            raise OSError("no answer")
        return remit.Landed("paid")

    @remit.effect(doubt="probe", probe=probe)
    async def card(order: dict[str, int], *, key: str) -> str:
        raise OSError("no answer")

    @remit.step
    async def notify() -> None:
        raise OSError("the mail is down")

    @remit.flow(contract=OPEN, name="flow")
    async def flow(run: remit.Run) -> str:
        try:
            await asyncio.gather(run.step(notify), run.branch("p").effect(card, {"o": 1}))
        except remit.StepError:
            return "done"
        return "all"

    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        is_known = True
        assert (await rt.run(flow, id="r")).value == "done"
        assert (await rt.effects("r"))[0].state == "ok"


async def test_when_a_failure_left_the_flow_nothing_new_begins_and_what_is_under_way_is_settled(storage: Storage):
    # proves: RUN-6
    begun: list[int] = []
    both = asyncio.Event()

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        begun.append(order["o"])
        if len(begun) == 2:
            both.set()
        await asyncio.sleep(order["ms"] / 1000)
        return "paid"

    @remit.step
    async def quote() -> None:
        await both.wait()
        raise OSError("no answer")

    async def paying(run: remit.Run) -> None:
        for number in range(4):
            await run.effect(pay, {"o": number, "ms": 20})

    @remit.flow(contract=OPEN, name="flow")
    async def flow(run: remit.Run) -> None:
        slow = run.branch("s").effect(pay, {"o": 9, "ms": 300})
        await asyncio.gather(run.branch("a").step(quote), slow, paying(run.branch("b")))

    async with storage.open() as rt:
        with pytest.raises(remit.StepError):
            await rt.run(flow, id="r")
        assert sorted(begun) == [0, 9]
        assert {each.state for each in await rt.effects("r")} == {"ok"}
