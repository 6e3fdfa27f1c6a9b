"""A run whose effect looks, each time its body begins, at what its journal says at that very moment.

    python -m tests.spec.gate_walker URL NOTES END

is a process that walks to that body, notes what it saw there, and either dies in it (END is "die") or says "here"
and stays in it until somebody kills it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import remit
from remit.engine.process.journal import read_journal
from remit.facts.kinds import EffectIntended, GateJudged
from tests.spec.conftest import Storage
from tests.support.office import BUYER, DANA, RUN, die, staffed

OPEN: dict[str, Any] = {"version": "1", "resume": {"buyer"}}
LEASE_MS = 600_000  # far longer than any test: whoever waits for it to run out fails


class Watched:
    """An effect that looks at its journal, and what it saw."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.rt: remit.Runtime | None = None
        self.saw: list[tuple[str, ...]] = []
        self.raises: list[BaseException] = []  # what the next calls raise, the last first
        self.last: Callable[[], Awaitable[None]] | None = None  # what a body does that does not come back

    def effect(self, name: str = "pay", **options: Any) -> remit.Effect[Any]:
        @remit.effect(name=name, **options)
        async def pay(amount: int, *, key: str, epoch: int) -> str:
            self.saw.append(await self.look(key, epoch))
            if self.last is not None:
                await self.last()
            if self.raises:
                raise self.raises.pop()
            return f"paid {amount}"

        return pay

    async def look(self, key: str, epoch: int) -> tuple[str, ...]:
        """The call of its last two entries; asserts that they are what the gate let pass."""
        assert self.rt is not None
        stored = await self.rt.read(RUN)
        main = read_journal(self.rt._store.ledger.origin, stored)[1].main
        # The last that was written but for calls beside this one.
        at = max(n for n, e in enumerate(main) if isinstance(e.fact, EffectIntended) and e.fact.key == key)
        last = main[at - 1 : at + 1]
        judged, intended = last[0].fact, last[1].fact
        assert isinstance(judged, GateJudged)
        assert isinstance(intended, EffectIntended)
        assert judged.question.effect is not None
        assert (judged.verdict.decision, intended.key, stored.row.epoch) == ("resume", key, epoch)
        assert all(finding.ok for finding in judged.verdict.findings)
        assert judged.question.effect.bound.request == intended.request
        assert (judged.question.authority, intended.authority) == ((await self.rt.authority()).version,) * 2
        assert {entry.header.epoch for entry in last} == {epoch}
        assert stored.row.worker == self.rt._ready().worker
        return tuple(entry.header.name or "" for entry in last)

    async def intentions(self) -> int:
        """How many the journal has, which verifies."""
        async with self.storage.open() as rt:
            assert await rt.verify(RUN) is None
            main = read_journal(rt._store.ledger.origin, await rt.read(RUN))[1].main
            return sum(isinstance(entry.fact, EffectIntended) for entry in main)

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[remit.Runtime]:
        """Another process, where the storage knows such; a document and an object have one only."""
        assert self.rt is not None
        if self.storage.kind in ("file", "memory"):
            yield self.rt
            return
        async with self.storage.open() as rt:
            yield rt

    async def turn(self, flow: remit.Flow[Any], *, is_first: bool = False) -> remit.Outcome:
        """One turn of the run in a runtime of its own, as after a restart."""
        async with self.storage.open() as rt:
            self.rt = await staffed(rt) if is_first else rt
            return await rt.run(flow, id=RUN, by=BUYER, behalf=DANA)


def flow_of(effect: remit.Effect[Any], body: Any = None, **contract: Any) -> remit.Flow[Any]:
    async def plain(run: remit.Run) -> str:
        outcome: str = await run.effect(effect, 7)
        return outcome

    flow: remit.Flow[Any] = remit.flow(contract=remit.Contract(**OPEN, **contract), name="purchase")(body or plain)
    return flow


def sent_again(seen: Watched) -> remit.Flow[Any]:
    """The flow of a process that dies, and of whoever goes on with it."""
    return flow_of(seen.effect(doubt="resend", sink="dedupes"))


async def main(url: str, notes: str, end: str) -> None:
    seen = Watched(Storage("", lambda clock: url))

    async def last() -> None:
        Path(notes).write_text(json.dumps(seen.saw), encoding="utf-8")
        if end == "die":
            die()
        print("here", flush=True)
        await asyncio.Event().wait()

    seen.last = last
    async with remit.open(url, lease_ms=LEASE_MS) as rt:
        seen.rt = await staffed(rt)
        await rt.run(sent_again(seen), id=RUN, by=BUYER, behalf=DANA)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
