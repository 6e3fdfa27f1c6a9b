"""Rehearsals: `check` and `judge` only read. They ask nobody outside and write nothing, whatever code and journal say.

A race that was lost is the hard case: its loser is begun and let go again on every replay, and
where it left a doubt, a real turn ends that doubt beside the flow.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit import Contract
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from remit.store.reading import READS, reading
from remit.store.units import Claim
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")
WRITES = {"append", "claim", "close", "open", "open_run", "put_worker", "release", "renewer", "transact"}


class Race:
    """A payment that loses a race and is left in doubt. probed: how often its probe was called."""

    def __init__(self) -> None:
        self.probed = 0

        async def look(request: int, *, key: str) -> Any:
            self.probed += 1
            raise ConnectionError("no answer")

        @remit.effect(doubt="probe", probe=look)
        async def pay(request: int, *, key: str) -> str:
            self.begun.set()
            await asyncio.sleep(0.01)
            raise ConnectionError("no answer")

        @remit.step
        async def quick() -> int:
            await self.begun.wait()
            return 1

        @remit.flow(contract=OPEN, name="race")
        async def flow(run: remit.Run) -> int:
            return int(await run.first(run.effect(pay, 1), run.step(quick)))

        self.begun, self.flow = asyncio.Event(), flow


async def _settled_down() -> None:
    """What a rehearsal left behind has its turn."""
    for _ in range(50):
        await asyncio.sleep(0.001)


async def test_a_loser_in_doubt_is_neither_asked_about_nor_settled(storage: Storage):  # proves: RUN-17
    race = Race()
    async with storage.open() as rt:
        assert (await rt.run(race.flow, id="r")).status == "in_doubt"
        probed, before = race.probed, await rt.read("r")

        assert (await rt.check("r", race.flow)).fit == "compatible"
        assert (await rt.judge("r", race.flow)).call == ""
        await _settled_down()

        assert race.probed == probed
        assert await rt.read("r") == before


async def test_a_rehearsal_writes_nothing_beside_a_worker_that_holds_the_run(storage: Storage):  # proves: RUN-17, OWN-1
    race = Race()
    async with storage.open() as rt:
        await rt.run(race.flow, id="r")
        await rt.grant("user:dana", "clerk", by="user:root")
        await rt.resolve("r", "pay", "did_not_happen", by="user:dana", evidence="the bank has no such payment")
        row = (await rt.read("r")).row
        assert await rt._ready().store.claim(Claim(row.run_key, row.epoch, "another worker", 60_000)) is not None
        before = (await rt.read("r")).main

        await rt.check("r", race.flow)
        await rt.judge("r", race.flow)
        await _settled_down()

        assert (await rt.read("r")).main == before
        assert await rt.verify("r") is None


async def test_a_rehearsal_says_that_the_run_would_wait_where_an_outcome_was_lost():  # proves: RUN-17
    @remit.effect
    async def pay(request: int, *, key: str) -> str:
        return object()  # type: ignore[return-value]

    @remit.flow(contract=OPEN)
    async def flow(run: remit.Run) -> None:
        await run.effect(pay, 1)

    async with remit.open("memory:") as rt:
        assert (await rt.run(flow, id="r")).code == "effect.value_lost"
        told = await rt.check("r", flow)

    assert told.fit == "compatible"
    assert told.reason.startswith("it would wait: pay happened and its outcome is lost")


async def test_a_rehearsal_of_code_that_swallows_its_end_leaves_the_loop_to_others():  # proves: RUN-15, RUN-17
    @remit.step
    async def quick() -> int:
        return 1

    async def swallowing(run: remit.Run) -> None:
        while True:
            try:
                await run.step(quick)
            except asyncio.CancelledError:
                raise
            except BaseException:
                pass

    async with remit.open("memory:") as rt:
        flow = remit.flow(contract=OPEN)(swallowing)
        await rt.start(flow, id="r")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await rt.check("r", flow)


async def test_a_store_that_is_only_read_refuses_all_that_is_not_listed_as_reading(tmp_path: Path):  # proves: RUN-17
    methods = {name for name in [*vars(Store), *Store.__annotations__] if not name.startswith("_")}
    assert methods - READS == WRITES | {"exists", "examine"}

    store = reading(MemoryStore())
    for name in methods - READS:
        with pytest.raises(AssertionError, match=name):
            getattr(store, name)


# -- what a turn then does ---------------------------------------------------------------------------------------------


class Bank:
    """Where payments land. calls: how often it was asked to pay. answers: whether it says so."""

    def __init__(self) -> None:
        self.calls, self.answers = 0, False

    def pays(self, **declared: Any) -> remit.Effect[str]:
        @remit.effect(name="pay", **declared)
        async def pay(request: int, *, key: str) -> str:
            self.calls += 1
            if not self.answers:
                raise ConnectionError("no answer")
            return "paid"

        return pay


@remit.effect
async def notify(request: int, *, key: str) -> str:
    return "told"


ASKED = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1)))


@pytest.mark.parametrize("rule", [ASKED, remit.Rule()], ids=["asked", "in doubt"])
async def test_code_that_comes_to_another_call_first_is_refused_dry_as_it_is_refused(
    rule: remit.Rule,
):  # proves: RUN-17
    bank = Bank()
    pay = bank.pays()
    contract = Contract(version="1", resume="anyone", effects={"pay": rule, "notify": remit.Rule()})

    @remit.flow(contract=contract, name="f")
    async def before(run: remit.Run) -> None:
        await run.effect(pay, 1)

    @remit.flow(contract=contract, name="f")
    async def after(run: remit.Run) -> None:
        await run.effect(notify, 1)
        await run.effect(pay, 1)

    async with remit.open("memory:") as rt:
        assert (await rt.run(before, id="r")).status in ("waiting", "in_doubt")
        told = await rt.check("r", after)
        with pytest.raises(remit.DefinitionIncompatible) as judged:
            await rt.judge("r", after)
        with pytest.raises(remit.DefinitionIncompatible) as ran:
            await rt.run(after, id="r")

    assert (told.fit, told.recorded, told.asked) == ("incompatible", ("pay",), ("notify",))
    assert judged.value.message == ran.value.message == told.reason


def paying(pay: remit.Effect[str]) -> remit.Flow[Any]:
    @remit.flow(contract=OPEN, name="f")
    async def flow(run: remit.Run) -> str:
        paid = await run.effect(pay, 1)
        return await run.effect(notify, 2) if paid == "paid" else paid

    return flow


@pytest.mark.parametrize(("word", "call"), [("did_not_happen", "pay"), ("ok", "notify")])
async def test_what_a_person_said_holds_dry_as_it_will(
    word: Any, call: str, storage: Storage
):  # proves: RUN-17, GATE-9
    bank = Bank()
    flow = paying(bank.pays())
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        given: dict[str, Any] = {"outcome": "paid"} if word == "ok" else {}
        await rt.resolve("r", "pay", word, by="user:dana", evidence="the bank says so", **given)
        before = await rt.read("r")
        judged, told = await rt.judge("r", flow), await rt.check("r", flow)
        assert await rt.read("r") == before

        assert (judged.call, judged.verdict.decision, told.call) == (call, "resume", call)
        assert judged.first == (f"pay is settled as {word}, as user:dana said",)
        bank.answers = True
        assert (await rt.run(flow, id="r")).status == "completed"
        assert bank.calls == (2 if word == "did_not_happen" else 1)


async def test_what_is_sent_again_by_rule_is_judged_dry_as_that(storage: Storage):  # proves: RUN-17, GATE-9
    bank = Bank()
    flow = paying(bank.pays(doubt="resend", sink="dedupes"))
    async with storage.open() as rt:
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        calls = bank.calls
        judged = await rt.judge("r", flow)
        assert bank.calls == calls
        assert (judged.call, judged.verdict.decision) == ("pay", "resume")
        assert judged.first == ("pay is sent again under its key",)
        bank.answers = True
        assert (await rt.run(flow, id="r")).status == "completed"
        assert bank.calls == calls + 1


async def test_a_doubt_that_only_a_person_can_end_stands_dry(storage: Storage):  # proves: RUN-17, GATE-9
    flow = paying(Bank().pays())
    async with storage.open() as rt:
        await rt.run(flow, id="r")
        judged = await rt.judge("r", flow)
        assert (judged.call, judged.verdict.code, judged.first) == ("pay", "duplicates_in_doubt", ())
        assert judged.waits == "It has to be known first whether pay happened."


@pytest.mark.parametrize("why", ["policy_forbids", "cancelled"])
async def test_a_doubt_that_would_be_sent_again_and_may_not_be_is_said_to_stand(
    why: str, storage: Storage
):  # proves: RUN-17, GATE-9
    bank = Bank()
    flow = paying(bank.pays(doubt="resend", sink="dedupes"))
    async with storage.open() as rt:
        await rt.run(flow, id="r")
        calls = bank.calls
        if why == "cancelled":
            await rt.cancel("r", by="user:ops")
        else:
            await rt.set_policy({"version": "1", "forbid": ["pay"]}, by="user:ops")
        judged = await rt.judge("r", flow)
        assert (judged.call, judged.verdict.code, judged.first) == ("pay", why, ())
        assert judged.waits == "It has to be known first whether pay happened."
        assert (await rt.resume("r", flow)).status == "in_doubt"
        assert bank.calls == calls


async def test_what_did_not_happen_and_is_called_again_is_judged_dry_as_that(storage: Storage):  # proves: GATE-9
    is_closed = [True]

    @remit.effect
    async def pay(request: int, *, key: str) -> str:
        if is_closed:
            raise remit.DidNotHappen("the bank is closed")
        return "paid"

    flow = paying(pay)
    async with storage.open() as rt:
        with pytest.raises(remit.EffectDidNotHappen):
            await rt.run(flow, id="r")
        judged = await rt.judge("r", flow)
        assert (judged.call, judged.verdict.decision) == ("pay", "resume")
        await rt.set_policy({"version": "1", "forbid": ["pay"]}, by="user:ops")
        judged = await rt.judge("r", flow)
        assert (judged.call, judged.verdict.code) == ("pay", "policy_forbids")
        assert (await rt.run(flow, id="r")).code == "policy_forbids"


async def test_a_run_that_ends_before_its_next_call_is_judged_dry_as_that(storage: Storage):  # proves: GATE-9
    wanted = [True]
    rule = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1)), still_wanted=lambda _: wanted[0])
    contract = Contract(version="1", resume={"buyer"}, effects={"pay": rule})

    @remit.effect
    async def pay(request: dict[str, int], *, key: str) -> str:
        raise AssertionError("nobody said yes")

    @remit.flow(contract=contract, name="f")
    async def flow(run: remit.Run) -> str:
        return await run.effect(pay, {"amount": 1})

    async with storage.open() as rt:
        await rt.grant("agent:buyer", "buyer", by="user:root")
        assert (await rt.run(flow, id="r", by="agent:buyer")).waits_for == "approval"
        wanted[0] = False
        assert (await rt.judge("r", flow)).verdict.code == "unwanted"
        await rt.revoke("agent:buyer", "buyer", by="user:root")
        judged = await rt.judge("r", flow)
        assert (judged.call, judged.verdict.code) == ("", "resume_denied")  # nobody asks any more what it wants
        assert (await rt.resume("r", flow)).code == "resume_denied"


@pytest.mark.parametrize("approved", ["pay", "pay#2", "pay#3", ""])
@pytest.mark.parametrize("manner", ["gather", "first", "plain"])
async def test_of_calls_side_by_side_each_is_judged(manner: str, approved: str, storage: Storage):  # proves: GATE-9
    """What may go on stands first, whichever comes last: who reads that nothing goes is told the truth."""
    bank = Bank()
    bank.answers = True
    pay = bank.pays()
    contract = Contract(version="1", resume="anyone", effects={"pay": ASKED})

    async def together(run: remit.Run) -> None:
        calls = [run.effect(pay, n) for n in range(3)]
        await (run.first(*calls) if manner == "first" else run.gather(*calls))

    def plain(run: remit.SyncRun) -> None:
        run.gather(*(run.effect_call(pay, n) for n in range(3)))

    flow: remit.Flow[Any] = remit.flow(contract=contract, name="f")(plain if manner == "plain" else together)
    calls = ["pay", "pay#2", "pay#3"]
    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(flow, id="r")).waits_for == "approval"
        for ask in await rt.inbox():
            if ask.call == approved:
                await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        judged = await rt.judge("r", flow)
        told = {each.call: each.verdict.decision for each in (judged, *judged.beside)}
        assert told == {call: "resume" if call == approved else "revalidate" for call in calls}
        assert not approved or judged.call == approved
        await rt.run(flow, id="r")
    assert bank.calls == bool(approved)


async def test_an_end_that_comes_first_is_what_a_turn_comes_to(storage: Storage):  # proves: GATE-9
    """A turn judges in the order in which its calls come: what stands before an end happens, what stands behind not."""
    bank = Bank()
    rule = remit.Rule(ceiling=remit.Ceiling("n", max=5))
    contract = Contract(version="1", resume="anyone", effects={"pay": rule})

    @remit.effect(name="pay")
    async def pay(request: dict[str, int], *, key: str) -> str:
        bank.calls += 1
        return "paid"

    @remit.flow(contract=contract, name="f")
    async def flow(run: remit.Run, amounts: list[int]) -> None:
        await run.gather(*(run.effect(pay, {"n": amount}) for amount in amounts))

    async with storage.open() as rt:
        for run, amounts, call, decision in [("a", [1, 9], "pay", "resume"), ("b", [9, 1], "pay", "abandon")]:
            await rt.start(flow, amounts, id=run)
            judged = await rt.judge(run, flow)
            assert (judged.call, judged.verdict.decision, len(judged.beside)) == (call, decision, 1)
            before = bank.calls
            assert (await rt.run(flow, amounts, id=run)).code == "ceiling_exceeded"
            assert bank.calls - before == (decision == "resume")


async def test_a_step_beside_calls_that_wait_is_no_wait(storage: Storage):  # proves: GATE-9
    @remit.step
    async def look() -> None: ...

    contract = Contract(version="1", resume="anyone", effects={"pay": ASKED})

    @remit.flow(contract=contract, name="f")
    async def flow(run: remit.Run) -> None:
        await run.gather(run.effect(Bank().pays(), 1), run.step(look))

    async with storage.open() as rt:
        await rt.start(flow, id="r")
        judged = await rt.judge("r", flow)
        assert (judged.call, judged.verdict.decision) == ("", "resume")
        assert [(each.call, each.verdict.code) for each in judged.beside] == [("pay", "approval_needed")]


@pytest.mark.parametrize("shared", ["a ceiling", "a business key"])
async def test_what_a_person_said_gives_back_dry_what_it_will_give_back(
    shared: str, storage: Storage
):  # proves: RUN-17, GATE-9
    paid: list[dict[str, Any]] = []

    @remit.effect(business_key="invoice" if shared == "a business key" else None)
    async def pay(order: dict[str, Any], *, key: str) -> str:
        paid.append(order)
        if len(paid) == 1:
            raise ConnectionError("no answer")
        return "paid"

    async def fetch() -> int:
        return 1

    daily = remit.Ceiling("amount", max=100, per="day")
    rule = remit.Rule(ceiling=daily) if shared == "a ceiling" else remit.Rule()
    contract = Contract(version="1", resume="anyone", effects={"pay": rule})
    is_new: list[bool] = []

    @remit.flow(contract=contract, name="f")
    async def flow(run: remit.Run) -> str:
        beside, order = run.branch("beside"), {"amount": 60, "invoice": "i-1"}
        if not is_new:
            await beside.step(fetch)
            return await run.effect(pay, order)
        call = asyncio.ensure_future(run.effect(pay, order))  # its place is behind the step's
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        await beside.step(fetch)
        return await run.branch("new").effect(pay, order)

    async with storage.open() as rt:
        await rt.grant("user:dana", "director", by="user:root")
        assert (await rt.run(flow, id="r")).status == "in_doubt"
        await rt.resolve("r", "pay", "did_not_happen", by="user:dana", evidence="the bank says so")
        if shared == "a business key":
            is_new.append(True)  # another call of this run takes it
        judged = await rt.judge("r", flow)
        assert (judged.call, judged.verdict.decision) == ("new/pay" if is_new else "pay", "resume")
        assert [limit.used for limit in judged.question.ceilings] == ([0] if shared == "a ceiling" else [])
        assert (await rt.run(flow, id="r")).value == "paid"
    assert len(paid) == 2


@pytest.mark.parametrize("code", ["transact.risk", "transact.store", "transact.function"])
async def test_a_transaction_that_is_refused_is_refused_dry(code: str, tmp_path: Path):  # proves: RUN-17, GATE-9
    async def book_slowly(connection: Any, order: int) -> str:
        return "booked"

    def book(connection: Any, order: int) -> str:
        return "booked"

    booking: Any = remit.transaction(name="book")(book_slowly if code == "transact.function" else book)
    risk: Any = "high" if code == "transact.risk" else "low"

    @remit.flow(contract=Contract(version="1", resume="anyone", risk=risk), name="f")
    async def flow(run: remit.Run) -> str:
        return str(await run.transact(booking, 1))

    url = "memory:" if code == "transact.store" else f"sqlite:///{tmp_path}/a.db"
    async with remit.open(url) as rt:
        await rt.start(flow, id="r")
        told = await rt.check("r", flow)
        with pytest.raises(remit.CallRefused) as judged:
            await rt.judge("r", flow)
        with pytest.raises(remit.CallRefused) as ran:
            await rt.run(flow, id="r")
    assert judged.value.code == ran.value.code == code
    assert (told.fit, told.reason) == ("incompatible", f"the flow raises remit.errors.CallRefused: {ran.value.message}")
