"""The same asked for as another call, where it was made before and nobody was asked for that: the page tells of it."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit import MadeBefore
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.office import DORA, answer, asked, staffed

OPEN = remit.Contract(version="1", resume="anyone", effects={"pay": remit.Rule(), "refund": remit.Rule()})
ORDER = {"amount": 5, "invoice": "I-8"}


def asking(*immaterial: str) -> dict[str, Any]:
    rule = {"roles": ["director"], "within": "4h", "immaterial": list(immaterial)}
    return {"version": "1", "approvals": {"pay": rule}}


class Till:
    """A flow that makes one call after the other; before the last one an operator sets a policy that asks."""

    def __init__(
        self, *requests: tuple[str, dict[str, Any]], policy: dict[str, Any] | None = None, before: int | None = None
    ) -> None:
        """before: how many of them are made before the policy, where that is not all but one."""
        self.requests, self.policy = requests, policy or asking()
        self.before = len(requests) - 1 if before is None else before
        self.raises: list[BaseException | None] = []
        self.is_open = False

    async def go(self, rt: remit.Runtime) -> None:
        """Go on with the run, until it waits for an answer or ends."""

        async def outside(order: dict[str, Any], *, key: str) -> str:
            if self.raises and (raised := self.raises.pop(0)) is not None:
                raise raised
            return "done"

        effects = {name: remit.effect(name=name)(outside) for name in ("pay", "refund")}

        @remit.step
        async def wait() -> None:
            if not self.is_open:
                raise OSError("later")

        @remit.flow(contract=OPEN, name="till")
        async def till(run: remit.Run) -> None:
            for place, (name, order) in enumerate(self.requests):
                if place == self.before:
                    await run.step(wait)
                with suppress(remit.EffectDeclined):
                    await run.effect(effects[name], order)

        if not self.is_open:
            with suppress(remit.StepError):
                await rt.run(till, id="r")
            await rt.set_policy(self.policy, by="user:root")
            self.is_open = True
        await rt.run(till, id="r")

    async def ask(self, rt: remit.Runtime) -> remit.Ask:
        """The question for the last of them."""
        await staffed(rt)
        await self.go(rt)
        return await asked(rt)


async def test_who_is_asked_for_what_was_done_without_a_question_is_told_so(storage: Storage, clock: MovedClock):
    # proves: APR-5
    async with storage.open(clock=clock) as rt:
        ask = await Till(("pay", ORDER), ("pay", ORDER)).ask(rt)
        assert (ask.call, ask.elsewhere, ask.earlier) == ("pay#2", None, None)
        assert ask.made_before == MadeBefore("pay", clock.now(), "ok")


@pytest.mark.parametrize("other", [("pay", ORDER | {"amount": 6}), ("refund", ORDER)], ids=["amount", "effect"])
async def test_another_matter_is_not_told_as_the_same(other: Any):  # proves: APR-5
    async with remit.open("memory:") as rt:
        ask = await Till(other, ("pay", ORDER)).ask(rt)
        assert ask.made_before is None
        page = await rt.ask(ask.id)
        assert ask.version == page.version == (await rt.show("r")).view.boundary.asks[ask.id].hash


@pytest.mark.parametrize(("immaterial", "told"), [((), None), (("note",), "pay")])
async def test_what_the_rule_calls_immaterial_makes_no_other_matter_of_what_was_made(
    immaterial: tuple[str, ...], told: str | None
):  # proves: APR-5
    till = Till(("pay", ORDER | {"note": "a"}), ("pay", ORDER | {"note": "b"}), policy=asking(*immaterial))
    async with remit.open("memory:") as rt:
        made = (await till.ask(rt)).made_before
        assert (made.call if made is not None else None) == told


async def test_of_several_the_newest_that_was_made_is_told_before_one_that_came_to_nothing():  # proves: APR-5
    till = Till(("pay", ORDER), ("pay", ORDER), ("pay", ORDER), ("pay", ORDER))
    till.raises = [None, None, remit.Declined("no")]
    async with remit.open("memory:") as rt:
        made = (await till.ask(rt)).made_before
        assert made is not None and (made.call, made.state) == ("pay#2", "ok")


async def test_where_none_was_made_it_is_told_that_one_was_declined():  # proves: APR-5
    till = Till(("pay", ORDER), ("pay", ORDER))
    till.raises = [remit.Declined("no")]
    async with remit.open("memory:") as rt:
        made = (await till.ask(rt)).made_before
        assert made is not None and (made.call, made.state) == ("pay", "failed")


async def test_it_is_not_told_beside_an_answer_by_which_the_same_was_made():  # proves: APR-5
    till = Till(("pay", ORDER), ("pay", ORDER), ("pay", ORDER), before=1)
    async with remit.open("memory:") as rt:
        second = await till.ask(rt)
        assert second.call == "pay#2" and second.made_before is not None and second.made_before.call == "pay"
        await answer(rt)
        await till.go(rt)
        third = await asked(rt)
        assert third.call == "pay#3" and third.elsewhere is not None and third.elsewhere.call == "pay#2"
        assert third.made_before is None
        await answer(rt)
        await till.go(rt)
        assert (await rt.ask(second.id)).made_before == second.made_before  # and nothing of what came after it


async def test_a_yes_from_a_page_that_told_nothing_of_it_is_not_taken():  # proves: APR-1, APR-5
    """While somebody looks at one of two, the other is made without anybody."""
    hour = timedelta(hours=1)

    @remit.effect
    async def pay(order: dict[str, Any], *, key: str) -> str:
        return "paid"

    rule = remit.Rule(
        approval=remit.Approval({"director"}, hour, when=lambda order: bool(order["note"]), immaterial={"note"})
    )

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": rule}))
    async def both(run: remit.Run) -> None:
        async def after() -> None:
            await run.approve("trust them", {}, roles={"director"}, within=hour)
            await run.branch("b").effect(pay, ORDER | {"note": ""})

        await run.gather(run.branch("a").effect(pay, ORDER | {"note": "please"}), after())

    async with remit.open("memory:") as rt:
        await staffed(rt)
        await rt.run(both, id="r")
        page, other = sorted(await rt.inbox(), key=lambda ask: ask.call)
        await answer(rt, ask=other)
        await rt.run(both, id="r")
        with pytest.raises(remit.ApprovalRefused) as refused:
            await rt.decide(page.id, "approve", by=DORA, seen=page.version)
        assert refused.value.code == "approval.stale"
        now = await rt.ask(page.id)
        assert now.made_before is not None and now.made_before.call == "b/pay"
        await rt.decide(now.id, "approve", by=DORA, seen=now.version)
