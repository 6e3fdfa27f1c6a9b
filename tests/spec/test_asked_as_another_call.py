"""The same asked again as another call: a new question, in which what somebody said to the first one is told."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit import Earlier
from tests.spec.conftest import Storage
from tests.support.office import DEREK, DORA, answer, asked, staffed

RULE = remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=1), immaterial={"note"}))
CONTRACT = remit.Contract(version="1", resume="anyone", effects={"pay": RULE, "refund": RULE})
ORDER = {"amount": 82_000, "note": "thanks"}


class Shop:
    """A flow that asks for one effect after the other, whatever the answer, as a retry around it does."""

    def __init__(self, *requests: tuple[str, dict[str, Any]]) -> None:
        self.requests = requests
        self.sent: list[str] = []
        self.raises: Exception | None = None

    @property
    def flow(self) -> remit.Flow[Any]:
        def outside(order: dict[str, Any], *, key: str) -> str:
            self.sent.append(key)
            if self.raises is not None:
                raise self.raises
            return "paid"

        effects = {name: remit.effect(name=name)(outside) for name in ("pay", "refund")}

        @remit.flow(contract=CONTRACT, name="shop")
        async def shop(run: remit.Run) -> int:
            for name, order in self.requests:
                try:
                    await run.effect(effects[name], order)
                except (remit.Denied, remit.EffectDeclined):
                    continue
            return len(self.sent)

        return shop

    async def go(self, rt: remit.Runtime) -> remit.Outcome:
        return await rt.run(self.flow, id="r")

    async def second(self, rt: remit.Runtime, choice: Any, reason: str = "") -> remit.Ask:
        """The question that waits once somebody answered the first one."""
        await self.go(rt)
        first = await asked(rt)
        await rt.decide(first.id, choice, by=DORA, seen=first.version, reason=reason)
        await self.go(rt)
        return await asked(rt)


@pytest.mark.parametrize(("choice", "became"), [("deny", "refused"), ("approve", "ok")])
async def test_asked_again_as_another_call_it_is_told_what_somebody_answered_and_what_came_of_that(
    storage: Storage, choice: Any, became: Any
):
    # proves: APR-5, APR-6, APR-10
    shop = Shop(("pay", ORDER), ("pay", ORDER))
    async with storage.open() as rt:
        await staffed(rt)
        second = await shop.second(rt, choice, "not twice")
        assert second.call == "pay#2" and second.earlier == second.elsewhere and second.earlier is not None
        state: Any = "" if choice == "deny" else became
        assert second.earlier == Earlier(second.earlier.ask, DORA, choice, "pay", became, "not twice", state)
        assert second.difference is not None and second.difference.changes == ()
        first = await rt.ask(second.earlier.ask)
        assert (first.earlier, first.elsewhere) == (None, None)  # nothing of what came after it


async def test_what_the_rule_calls_immaterial_makes_no_other_matter_of_it(storage: Storage):  # proves: APR-5
    shop = Shop(("pay", ORDER), ("pay", ORDER | {"note": "please"}))
    async with storage.open() as rt:
        await staffed(rt)
        second = await shop.second(rt, "deny")
        assert second.earlier is not None and second.earlier.choice == "deny" and second.difference is not None
        assert [(change.path, change.is_material) for change in second.difference.changes] == [("$.note", False)]


@pytest.mark.parametrize("other", [("pay", ORDER | {"amount": 1}), ("refund", ORDER)], ids=["amount", "effect"])
async def test_another_matter_is_compared_with_nothing(storage: Storage, other: Any):  # proves: APR-5
    async with storage.open() as rt:
        await staffed(rt)
        second = await Shop(("pay", ORDER), other).second(rt, "deny")
        assert (second.earlier, second.difference, second.elsewhere) == (None, None, None)


async def test_a_no_to_the_same_is_told_beside_what_this_call_was_answered():  # proves: APR-5
    """Whoever changes what is asked until somebody says yes gets nobody who does not hear of the no."""
    shop = Shop(("pay", ORDER), ("pay", ORDER | {"amount": 5}))
    async with remit.open("memory:") as rt:
        await staffed(rt)
        small = await shop.second(rt, "deny", "too much")
        await answer(rt, "approve", by=DEREK)
        shop.requests = (("pay", ORDER), ("pay", ORDER))
        await shop.go(rt)
        again = await asked(rt)
        assert again.earlier is not None and (again.earlier.ask, again.earlier.choice) == (small.id, "approve")
        assert again.elsewhere is not None and again.elsewhere.reason == "too much"
        assert (again.elsewhere.call, again.elsewhere.choice) == ("pay", "deny")


async def test_a_no_is_told_also_after_this_call_was_asked_anew_and_nobody_answered():  # proves: APR-5
    shop = Shop(("pay", ORDER), ("pay", ORDER))
    async with remit.open("memory:") as rt:
        await staffed(rt)
        await shop.second(rt, "deny")
        await rt.set_policy({"version": "1"}, by="user:root")
        await shop.go(rt)
        again = await asked(rt)
        assert again.void and again.earlier is not None and again.earlier.choice == "deny"


@pytest.mark.parametrize(
    ("raised", "became"), [(remit.Declined("no"), "failed"), (None, "ok")], ids=["declined", "done"]
)
async def test_what_became_of_a_yes_is_what_became_of_its_call(raised: Exception | None, became: str):
    # proves: APR-5, APR-10
    shop = Shop(("pay", ORDER), ("pay", ORDER))
    shop.raises = raised
    async with remit.open("memory:") as rt:
        await staffed(rt)
        second = await shop.second(rt, "approve")
        assert second.earlier is not None and second.earlier.became == became


@pytest.mark.parametrize("is_given_back", [False, True], ids=["sent again", "given back"])
async def test_a_call_that_was_done_is_told_as_done_whoever_let_it_pass(is_given_back: bool):  # proves: APR-5, APR-10
    """The yes let a sending pass, or was given back; then no rule asked any more, and the call was done."""
    times, entered = list[str](), list[int]()

    @remit.effect(doubt="resend", sink="dedupes")
    async def pay(order: dict[str, int], *, key: str) -> str:
        times.append(key)
        if len(times) < 4:
            raise remit.DidNotHappen("the line is down") if is_given_back else ConnectionError("no answer")
        return "paid"

    @remit.step
    async def enter() -> None:
        entered.append(1)
        if len(entered) == 1:
            await rt.set_policy(asking("3"), by="user:root")
            raise OSError("the books are busy")

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": remit.Rule()}))
    async def settle(run: remit.Run) -> None:
        for _ in range(2):
            await run.effect(pay, {"amount": 1})
            try:
                await run.step(enter)
                return
            except remit.StepError:
                continue

    def asking(version: str) -> dict[str, Any]:
        return {"version": version, "approvals": {"pay": {"roles": ["director"], "within": "24h"}}}

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.set_policy(asking("1"), by="user:root")
        await rt.run(settle, id="r")
        await answer(rt, "approve", by=DORA)
        with suppress(remit.StepError):
            await rt.run(settle, id="r")
        await rt.set_policy({"version": "2"}, by="user:root")
        while not await rt.inbox():
            with suppress(remit.EffectDidNotHappen):
                await rt.run(settle, id="r")
        second = await asked(rt)
        assert second.call == "pay#2" and second.elsewhere is not None and second.elsewhere.is_made
        assert second.elsewhere.call_state == "ok" and len(times) >= 4
        assert second.elsewhere.became == ("void" if is_given_back else "ok")


async def test_a_call_that_was_done_with_other_words_is_told_as_done():  # proves: APR-5, APR-10
    """Its yes was void, and it passed without one in words that make no other matter of it."""
    sent, note = list[Any](), ["printed at nine"]

    @remit.effect
    async def pay(order: dict[str, Any], *, key: str) -> str:
        sent.append(order)
        return "paid"

    @remit.step
    async def enter() -> None:
        await rt.set_policy(asking("3"), by="user:root")
        raise OSError("the books are busy")

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": remit.Rule()}))
    async def settle(run: remit.Run) -> None:
        for _ in range(2):
            await run.effect(pay, {"amount": 1, "note": note[0]})
            with suppress(remit.StepError):
                await run.step(enter)

    def asking(version: str) -> dict[str, Any]:
        rule = {"roles": ["director"], "within": "24h", "immaterial": ["note"]}
        return {"version": version, "approvals": {"pay": rule}}

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.set_policy(asking("1"), by="user:root")
        await rt.run(settle, id="r")
        await answer(rt, "approve", by=DORA)
        await rt.set_policy({"version": "2"}, by="user:root")
        note[0] = "printed at ten"
        await rt.run(settle, id="r")
        second = await asked(rt)
        assert (second.call, len(sent)) == ("pay#2", 1)
        assert second.elsewhere is not None and second.elsewhere.is_made
        assert (second.elsewhere.became, second.elsewhere.call_state) == ("void", "ok")


async def test_a_yes_from_a_page_that_told_nothing_of_another_answer_is_not_taken():  # proves: APR-1, APR-5
    sent = list[str]()

    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        sent.append(key)
        return "paid"

    @remit.flow(contract=CONTRACT)
    async def twice(run: remit.Run) -> None:
        await run.gather(run.effect(pay, {"amount": 1}), run.effect(pay, {"amount": 1}))

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(twice, id="r")
        first, second = sorted(await rt.inbox(), key=lambda ask: ask.call)
        page = await rt.ask(second.id)
        await rt.decide(first.id, "approve", by=DORA, seen=first.version)
        for when in ("answered", "done"):
            with pytest.raises(remit.ApprovalRefused) as refused:
                await rt.decide(second.id, "approve", by=DEREK, seen=page.version)
            assert refused.value.code == "approval.stale", when
            page = await rt.ask(second.id)
            assert page.elsewhere is not None and page.elsewhere.by == DORA
            await rt.run(twice, id="r")
        assert len(sent) == 1
        page = await rt.ask(second.id)
        await rt.decide(second.id, "approve", by=DEREK, seen=page.version)
        await rt.run(twice, id="r")
        assert len(sent) == 2


async def test_side_by_side_the_one_that_waits_is_told_what_was_said_to_the_other():  # proves: APR-5
    @remit.effect
    async def pay(order: dict[str, int], *, key: str) -> str:
        return "paid"

    @remit.flow(contract=CONTRACT)
    async def both(run: remit.Run) -> None:
        await run.gather(
            *(run.branch(name).effect(pay, {"amount": 1}) for name in "ab"), run.effect(pay, {"amount": 2})
        )

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(both, id="r")
        a, b, other = sorted(await rt.inbox(), key=lambda ask: ask.call)
        assert (a.elsewhere, b.elsewhere, other.elsewhere) == (None, None, None)
        await rt.decide(b.id, "deny", by=DORA, seen=b.version)
        for one, told in ((a, "b/pay"), (other, "")):
            now = await rt.ask(one.id)
            assert (now.elsewhere.call if now.elsewhere is not None else "") == told


async def test_a_question_of_the_flow_s_own_is_known_by_its_name():  # proves: APR-5, APR-10
    asks = ["terms", "terms", "price"]

    @remit.flow(contract=CONTRACT)
    async def own(run: remit.Run) -> None:
        for name in asks:
            await run.branch("x").approve(name, {"days": 30}, roles={"director"}, within=timedelta(hours=1))

    async with remit.open("memory:") as rt:
        await staffed(rt)
        for told in (None, ("x/terms", "used"), None):
            await rt.run(own, id="r")
            ask = await asked(rt)
            assert told == (None if ask.earlier is None else (ask.earlier.call, ask.earlier.became))
            await answer(rt, "approve", by=DORA)


async def test_of_several_others_the_one_that_was_done_is_told(storage: Storage):  # proves: APR-5, APR-10
    """What came to nothing since says nothing of it."""
    shop = Shop(("pay", ORDER), ("pay", ORDER), ("pay", ORDER))
    async with storage.open() as rt:
        await staffed(rt)
        await shop.second(rt, "approve")
        shop.raises = remit.Declined("no such account")
        await answer(rt)
        await shop.go(rt)
        ask = await asked(rt)
    assert ask.call == "pay#3" and ask.elsewhere is not None
    assert (ask.elsewhere.call, ask.elsewhere.choice, ask.elsewhere.became) == ("pay", "approve", "ok")
