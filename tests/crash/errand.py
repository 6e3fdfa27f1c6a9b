"""An errand: one effect behind an approval, with a place to die before and after all that it does.

    before append EffectIntended    body before outside    body after outside    after append EffectSettled    ...

Every call of the store and every line of the bodies passes the stage. Whoever comes to a park takes the
part of the person: says yes to a question, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import remit
from remit.facts.entry import HEADER
from tests.crash.outside import Outside
from tests.crash.voyage import Stage

AMOUNT, AMOUNT_MAX = 100, 150  # two payments never fit under the ceiling
DIRECTOR, ROOT = "user:dora", "user:root"
ROUNDS_MAX = 4

RULES: dict[str, dict[str, Any]] = {
    "ask": {"doubt": "ask"},
    "probe": {"doubt": "probe"},
    "probe, lands_within": {"doubt": "probe", "lands_within": timedelta(microseconds=1)},
    "probe, dedupes": {"doubt": "probe", "sink": "dedupes"},
    "probe, fences": {"doubt": "probe", "sink": "fences"},
    "resend, dedupes": {"doubt": "resend", "sink": "dedupes"},
}

CONTRACT = remit.Contract(
    version="1",
    resume="anyone",
    window=timedelta(days=1),
    effects={
        "pay": remit.Rule(
            approval=remit.Approval({"director"}, timedelta(hours=1)),
            ceiling=remit.Ceiling("amount", max=AMOUNT_MAX, currency="GBP", per="day"),
        )
    },
)

_WATCHED = frozenset({"open_run", "claim", "release", "read_run", "put_worker", "append", "close"})


class Watched:
    """A store with a place before and after each of its calls. An append is named after the kind it ends with."""

    def __init__(self, store: Any, stage: Stage) -> None:
        self._store, self._stage = store, stage

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._watch(name, found) if name in _WATCHED else found

    def _watch(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any) -> Any:
            place = f"append {HEADER.read(args[0].entries[-1].header).kind}" if name == "append" else name
            self._stage.at(f"before {place}")
            answer = await method(*args)
            self._stage.at(f"after {place}")
            return answer

        return call


def errand(stage: Stage, rule: str) -> remit.Flow[Any]:
    """The flow under one doubt rule, played on this stage; its value is the number of the payment."""
    declared = dict(RULES[rule])
    outside = Outside(stage.folder, declared.get("sink"))

    async def find(request: dict[str, Any], *, key: str, epoch: int) -> Any:
        stage.at("inside probe")
        number = outside.find(key, epoch)
        stage.at("end of probe")
        return remit.NotLanded() if number is None else remit.Landed(number)

    if declared["doubt"] == "probe":
        declared["probe"] = find

    @remit.effect(**declared)
    async def pay(request: dict[str, Any], *, key: str, epoch: int) -> int:
        stage.at("body before outside")
        outside.ask(key)
        stage.at("body inside outside")
        number = outside.pay(key, epoch)
        stage.at("body after outside")
        return number

    @remit.flow(contract=CONTRACT, name="errand")
    async def flow(run: remit.Run) -> int:
        stage.at("flow before effect")
        number: int = await run.effect(pay, {"amount": AMOUNT, "currency": "GBP", "payee": "acme"})
        stage.at("flow after effect")
        return number

    return flow


async def appoint(rt: remit.Runtime) -> None:
    """There is a director, before anybody asks for one."""
    await rt.grant(DIRECTOR, "director", by=ROOT)


async def drive(rt: remit.Runtime, flow: remit.Flow[Any], run: str) -> remit.Outcome:
    """Go on until the run ends, or waits for something else than a yes."""
    for _ in range(ROUNDS_MAX):
        outcome = await rt.run(flow, id=run)
        if outcome.waits_for != "approval":
            break
        for ask in await rt.inbox(role="director"):
            await rt.decide(ask.id, "approve", by=DIRECTOR, seen=ask.version)
    return outcome
