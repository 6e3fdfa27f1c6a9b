"""A flow as the code of a run is at this moment: payments one after the other, together, or one beside more work."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import remit
from tests.spec.random_shared.law import FRESH, US, WITHIN, Cap, Code, Law
from tests.spec.random_shared.outside import Outside, Process

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

CAPS: tuple[tuple[Cap, ...], ...] = (
    (),
    (("day", 120),),
    (("day", 160),),
    (("day", 200),),
    (("day", 400),),
    (("month", 400),),
    (("run", 150), ("day", 300)),
)
LARGE_CAPS: tuple[Cap, ...] = (("day", 900), ("month", 2000))


@dataclass(frozen=True)
class Job:
    """What a run is to pay, and in which way. asks: it asks a question of its own first."""

    orders: tuple[dict[str, Any], ...]
    way: str  # "row", "gather", "beside"
    asks: bool


def flow_of(law: Law, outside: Outside, process: Process, job: Job, code: Code) -> remit.Flow[Any]:
    async def probe(order: dict[str, Any], *, key: str) -> Any:
        return await outside.look(process, key)

    more: dict[str, Any] = {"doubt": code.doubt} | ({"sink": "dedupes"} if code.dedupes else {})
    if code.doubt == "probe":
        more["probe"] = probe

    @remit.effect(name="pay", business_key=code.business, **more)
    async def pay(order: dict[str, Any], *, key: str) -> dict[str, Any]:
        return await outside.pay(process, code, order, key)

    @remit.step
    async def work(turns: int) -> int:
        await outside.wait(turns)
        return turns

    rule = remit.Rule(
        approval=remit.Approval({"director"}, WITHIN) if code.approval else None,
        ceiling=[remit.Ceiling("amount", max=most, per=per) for per, most in code.caps],
        evidence={"quote"} if code.evidence else (),
    )
    contract = remit.Contract(version="1", resume={"buyer"}, window=30 * 24 * WITHIN, effects={"pay": rule})

    @remit.flow(name="paying", contract=contract)
    async def paying(run: remit.Run) -> list[str]:
        def fetch() -> int:
            law.quoted[run.id] = law.clock.now()
            return 1

        async def paid(order: dict[str, Any], turns: int = 0) -> str:
            place = run.branch(order["of"].partition("/")[2])
            try:
                if turns:
                    await place.step(work, turns)
                receipt = await place.effect(pay, order)
            except (remit.EffectDeclined, remit.Denied) as no:
                return type(no).__name__
            return str(receipt["of"])

        as_of = run.now()
        law.quoted[run.id] = max(law.quoted.get(run.id, 0), (as_of - EPOCH) // US)
        run.evidence("quote", 1, as_of=as_of, fresh_for=FRESH, again=fetch)
        first, *others = job.orders
        if job.asks:
            try:
                await run.approve("go on", {"for": run.id}, roles={"director"}, within=WITHIN)
            except remit.Denied:
                return ["denied"]
        if job.way == "gather":
            return list(await run.gather(*map(paid, job.orders)))
        if job.way == "beside":
            return list(await asyncio.gather(paid(first), *(paid(order, turns=2) for order in others)))
        return [await paid(order) for order in job.orders]

    return paying


def draw_job(rng: random.Random, run: str) -> Job:
    orders = tuple(
        {
            "of": f"{run}/{line}",
            "invoice": f"i{rng.randrange(6)}",
            "payee": f"p{rng.randrange(6)}",
            "amount": rng.choice((40, 60, 100)),
        }
        for line in range(rng.choice((1, 1, 2, 2, 3)))
    )
    return Job(orders, rng.choice(("row", "gather", "beside", "beside")), asks=rng.random() < 0.15)


def draw_code(rng: random.Random, doubt: str) -> Code:
    caps = rng.choice(CAPS)
    return Code(
        doubt,
        rng.choice((None, "invoice", "payee")),
        caps,
        approval=rng.random() < 0.2,
        evidence=rng.random() < 0.25,
    )
