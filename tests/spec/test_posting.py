"""Posting: who rests on the directory looks at it once and is held to it; who does not needs none."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import remit
from remit.engine.process.reserved import TRIES
from remit.store.memory import MemoryStore
from remit.store.rows import Peek
from tests.spec.conftest import Storage
from tests.support.office import DANA, DORA, ROOT, RUN, Office, staffed
from tests.support.till import Till, paying


class Peeked(MemoryStore):
    """A memory store that counts looks at the directory, and can have lost it."""

    def __init__(self) -> None:
        super().__init__()
        self.looks, self.is_gone = 0, False

    async def peek(self, run_key: int) -> Peek | None:
        self.looks += 1
        return None if self.is_gone else await super().peek(run_key)


async def test_who_decides_or_resolves_looks_at_the_directory_once():  # proves: APR-3, FX-9
    store, office, till = Peeked(), Office(), Till()
    till.next(ConnectionError("no answer"))
    async with remit.open(store) as rt:
        await staffed(rt)
        await office.go(rt)
        await rt.run(paying(till.effect()), id="doubt")
        (ask,) = await rt.inbox()

        store.looks = 0
        await rt.decide(ask.id, "approve", by=DORA, seen=ask.version)
        assert store.looks == 1
        await rt.resolve("doubt", "pay", "did_not_happen", by=DORA, evidence="asked the bank")
        assert store.looks == 2


async def test_a_wish_to_end_a_run_needs_no_directory_whatever_this_process_looked_at_before():  # proves: RUN-14
    store, office = Peeked(), Office()
    async with remit.open(store) as rt:
        await staffed(rt)
        await office.go(rt)
        (ask,) = await rt.inbox()
        store.is_gone = True
        with pytest.raises(remit.AuthorityUnreadable):
            await rt.decide(ask.id, "approve", by=DORA, seen=ask.version)
        assert (await rt.cancel(RUN, by=DANA)).status == "cancelled"


async def test_however_many_post_to_one_run_at_once_each_is_heard(database: Storage):  # proves: RUN-14, APR-7
    many, till = 3 * TRIES, Till()
    till.next(ConnectionError("no answer"))
    async with database.open() as rt, database.open() as beside:
        await rt.run(paying(till.effect()), id="r")
        wishes = [one.cancel("r", by=DANA) for one in (rt, beside) for _ in range(many // 2)]
        await asyncio.gather(*wishes)
        assert len((await rt.read("r")).post) == many
        assert await rt.verify("r") is None


@pytest.mark.parametrize(
    "say",
    [
        lambda rt: rt.grant(DORA, "director", by=ROOT, reason=None),
        lambda rt: rt.set_policy({"version": "1"}, by=ROOT, reason=5),
        lambda rt: rt.cancel("r", by=ROOT, reason=b"why"),
        lambda rt: rt.resolve("r", "pay", "ok", by=DORA, evidence=None),
    ],
)
async def test_a_reason_that_is_no_text_is_refused(say: Any):  # proves: LOG-10
    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def wait(run: remit.Run) -> None:
        await run.approve("terms", {"days": 30}, roles={"director"}, within=timedelta(hours=1))

    async with remit.open("memory:") as rt:
        await rt.run(wait, id="r")
        with pytest.raises(remit.Refused) as refused:
            await say(rt)
        assert refused.value.code == "words.text"
        assert (await rt.show("r")).row.status == "waiting"
