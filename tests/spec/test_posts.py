"""Posts that come while a turn is under way: what is heard late, twice or out of turn changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

import remit
from remit.facts.entry import HEADER, entry_hash
from remit.store.memory import MemoryStore
from remit.store.rows import RunRow, Stored
from remit.store.state import KeptRun
from tests.support.journal import Hand
from tests.support.till import OPEN, Order, Till

HOUR = timedelta(hours=1)


class Overtaken(MemoryStore):
    """The answer to one look at a run, just after the first post, arrives when it is let go.

    is_late: it is asked only then.
    """

    def __init__(self, *, is_late: bool = False) -> None:
        super().__init__()
        self.is_late = is_late
        self.is_held, self.let_go = asyncio.Event(), asyncio.Event()

    async def read_run(self, run_key: int) -> Stored | None:
        stored = await super().read_run(run_key)
        if stored is not None and (stored.row.run, stored.row.post_seq) == ("r", 1) and not self.is_held.is_set():
            self.is_held.set()
            await self.let_go.wait()
            return await super().read_run(run_key) if self.is_late else stored
        return stored

    def kinds(self, run: str) -> list[str]:
        """Of the entries of lane main, in order."""
        return [HEADER.read(entry.header).kind for entry in self._kept(run).main]

    def _kept(self, run: str) -> KeptRun:
        return next(kept for kept in self._state.runs.values() if kept.row.run == run)

    def lose_posts(self, run: str) -> RunRow:
        """All that was posted for the run is gone."""
        kept = self._kept(run)
        kept.row = replace(kept.row, post_head=entry_hash(kept.main[0].header), post_seq=0)
        kept.post.clear()
        return kept.row


async def test_two_answers_at_once_are_both_heard_in_whatever_order_they_are_read():  # proves: APR-7, LOG-2
    store, till = Overtaken(), Till()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def asking(run: remit.Run) -> int:
        questions = [run.branch(name).approve("ok", {"of": name}, roles={"director"}, within=HOUR) for name in "ab"]
        paid, *_ = await run.gather(run.effect(pay, Order()), *questions)
        return int(paid.amount)

    async with remit.open(store) as rt:
        await rt.grant("user:dana", "director", by="user:root")
        running = asyncio.create_task(rt.run(asking, id="r"))
        while len(asks := await rt.inbox()) < 2:
            await asyncio.sleep(0)
        first, second = [rt.decide(ask.id, "approve", by="user:dana", seen=ask.version) for ask in asks]
        overtaken = asyncio.create_task(first)
        await store.is_held.wait()
        await second
        store.let_go.set()
        await overtaken
        till.let_go.set()
        assert (await running).value == 100
        assert await rt.verify("r") is None


async def test_what_another_look_read_meanwhile_is_what_the_next_entries_must_follow():  # proves: LOG-2
    """A look began before anything was posted, and sees what was posted where the store lost what others had read."""
    store, till = Overtaken(is_late=True), Till()
    till.next(till.hold)
    pay = till.effect()

    @remit.flow(contract=OPEN)
    async def asking(run: remit.Run) -> None:
        questions = [run.branch(name).approve("ok", {"of": name}, roles={"director"}, within=HOUR) for name in "ab"]
        await run.gather(run.effect(pay, Order()), *questions)

    async with remit.open(store) as rt:
        await rt.grant("user:dana", "director", by="user:root")
        running = asyncio.create_task(rt.run(asking, id="r"))
        while len(asks := await rt.inbox()) < 2:
            await asyncio.sleep(0)
        first, second = [rt.decide(ask.id, "approve", by="user:dana", seen=ask.version) for ask in asks]
        overtaken = asyncio.create_task(first)
        await store.is_held.wait()
        await second
        while store.kinds("r").count("ApprovalUsed") < 2:  # from here on no other look comes before the end
            await asyncio.sleep(0)
        post = Hand(store, store.lose_posts("r"), lane="post")
        for _ in range(3):
            await store.append(post.signal())
        store.let_go.set()
        with pytest.raises(remit.Tampered, match="an approval that nobody gave"):
            await overtaken  # whoever reads the run whole finds that the approvals are lost
        till.let_go.set()
        with pytest.raises(remit.Tampered, match=r"Entry post 2 .* does not go on behind what was read"):
            await running
