"""An office that pays: one effect behind one rule, and the people who answer for it.

What it sent stands in `Office.sent`, outside of every journal. What the code would do next is
changed between turns by setting a field: the flow is declared anew each time it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any, Literal

import remit
from remit.facts.entry import HEADER
from remit.facts.kinds import GateJudged

BUYER, DANA = "agent:buyer", "user:dana"  # the executor, and the one for whom it acts
DORA, DEREK = "user:dora", "user:derek"  # directors
ROOT = "user:root"
RUN = "po-1041"
ORDER = {"amount": 82_000, "note": "thanks", "payee": "ACME Ltd"}
HOURS_72 = timedelta(hours=72)
BY_DIRECTOR = remit.Approval({"director"}, HOURS_72)
WINDOW = timedelta(days=5)


class Office:
    """The code of a flow that pays, as it is at this moment, and what it paid."""

    def __init__(self, rule: remit.Rule | None = None, **contract: Any) -> None:
        self.sent: list[Any] = []
        self.order: dict[str, Any] = dict(ORDER)
        self.rule = rule or remit.Rule(approval=BY_DIRECTOR)
        self.contract: dict[str, Any] = {"version": "3", "resume": {"buyer"}, "risk": "medium", "window": WINDOW}
        self.contract |= contract
        self.effect: dict[str, Any] = {}  # options of the declared effect
        self.rests_on: Collection[str] = ()
        self.before: Callable[[remit.Run], None] = lambda run: None  # runs in the flow, ahead of the effect
        self.body: Callable[[dict[str, Any], str], Any] = lambda order, key: f"paid {order['amount']}"

    @property
    def pay(self) -> remit.Effect[Any]:
        """The effect as the code declares it now."""

        async def pay(order: dict[str, Any], *, key: str) -> str:
            self.sent.append(order)
            outcome: str = self.body(order, key)
            return outcome

        declared: remit.Effect[Any] = remit.effect(**{"name": "pay", **self.effect})(pay)
        return declared

    @property
    def flow(self) -> remit.Flow[Any]:
        """The flow as the code declares it now."""
        pay = self.pay

        @remit.flow(contract=remit.Contract(effects={"pay": self.rule}, **self.contract), name="purchase")
        async def purchase(run: remit.Run, given: Any) -> str:
            self.before(run)
            outcome: str = await run.effect(pay, self.order, rests_on=self.rests_on)
            return outcome

        return purchase

    async def go(self, rt: remit.Runtime, run: str = RUN) -> remit.Outcome:
        """Start the run or go on with it, as the agent that opened it."""
        return await rt.run(self.flow, id=run, by=BUYER, behalf=DANA)


async def staffed(rt: remit.Runtime) -> remit.Runtime:
    """The directory as every story here begins with it."""
    for principal, role in ((BUYER, "buyer"), (DANA, "requester"), (DORA, "director"), (DEREK, "director")):
        await rt.grant(principal, role, by=ROOT)
    return rt


async def asked(rt: remit.Runtime) -> remit.Ask:
    """The one question that waits."""
    (ask,) = await rt.inbox()
    return ask


async def answer(
    rt: remit.Runtime, choice: Literal["approve", "deny"] = "approve", *, by: str = DORA, ask: remit.Ask | None = None
) -> remit.Ask:
    """Answer a question, having seen it; the only one that waits unless another is given."""
    ask = ask or await asked(rt)
    return await rt.decide(ask.id, choice, by=by, seen=ask.version, reason="as discussed")


async def kinds_of(rt: remit.Runtime, run: str = RUN) -> list[str]:
    """The kinds of the run's entries in lane main."""
    return [HEADER.read(entry.header).kind for entry in (await rt.read(run)).main]


async def judged(rt: remit.Runtime, run: str = RUN) -> GateJudged:
    """The newest judgement that did not let the run go on."""
    found = (await rt.show(run)).view.boundary.judged
    assert found is not None
    return found


async def voided(rt: remit.Runtime, run: str = RUN) -> list[list[str]]:
    """Why each question of the run holds no longer, in the order of asking; nothing where it does."""
    return [ask.voided for ask in (await rt.show(run)).view.boundary.asks.values()]


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), 9)
