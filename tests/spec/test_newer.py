"""A journal that a newer version of Remit wrote: nothing rests on it, and nobody else is held up by it."""

from __future__ import annotations

from typing import Any

import pytest

import remit
from remit.facts.entry import Lane, Pen
from remit.facts.names import AUTHORITY
from remit.store.units import Unit
from tests.support.journal import SALT, identity_of
from tests.support.office import BUYER, DANA, DORA, ORDER, ROOT, RUN, Office, asked, staffed

NEWER = "po-1042"


async def written_by_a_newer_one(rt: remit.Runtime, run: str, kind: str, *, lane: Lane = "main") -> None:
    """An entry of a kind that this version does not know, in a chain that holds."""
    row = await rt._store.read_row("default", run)
    assert row is not None
    head, seq = (row.head, row.seq) if lane == "main" else (row.post_head, row.post_seq)
    pen = Pen(identity_of(rt._store, row), lane=lane, by=ROOT, epoch=0, head=head, seq=seq)
    entry = pen.seal(kind, b'{"x":1}', at=row.opened_at, value=(SALT, b'{"detail":""}'))
    await rt._store.append(Unit(row.run_key, lane, head, pen.head, pen.seq, [entry], None))


async def test_a_newer_directory_under_way_is_no_answer_that_a_flow_can_swallow():  # proves: GATE-5, FX-11
    office = Office(remit.Rule())

    @remit.step
    async def somebody_upgrades() -> None:
        await written_by_a_newer_one(rt, AUTHORITY, "PrincipalBlessed")

    @remit.flow(contract=remit.Contract(**office.contract))
    async def purchase(run: remit.Run) -> str:
        try:
            await run.step(somebody_upgrades)
            outcome: str = await run.effect(office.pay, ORDER)
        except Exception:
            return "another way"
        return outcome

    async with remit.open("memory:") as rt:
        await staffed(rt)
        outcome = await rt.run(purchase, id=RUN, by=BUYER, behalf=DANA)
        assert (outcome.status, outcome.waits_for, outcome.code) == ("waiting", "gate", "authority.unreadable")
        assert (await rt.show(RUN)).row.worker is None
    assert office.sent == []


async def test_under_a_newer_directory_everything_waits_and_says_why():  # proves: GATE-5
    office = Office()
    async with remit.open("memory:") as rt:
        await staffed(rt)
        await office.go(rt)
        ask = await asked(rt)
        await written_by_a_newer_one(rt, AUTHORITY, "PrincipalBlessed")
        outcome = await office.go(rt)
        assert (outcome.waits_for, outcome.code) == ("gate", "authority.unreadable")
        assert (await rt.why(RUN)).code == "authority.unreadable"
        refused: list[Any] = [
            office.go(rt, NEWER),
            rt.decide(ask.id, "approve", by=DORA, seen=ask.version),
            rt.grant("user:x", "director", by=ROOT),
            rt.authority(),
        ]
        for call in refused:
            with pytest.raises(remit.AuthorityUnreadable) as unreadable:
                await call
            assert unreadable.value.hint == remit.JournalNewer.hint  # nothing is to be restored
        assert (await rt.explain(RUN)).authority is None
    assert office.sent == []


async def test_one_newer_run_hides_no_other():  # proves: LOG-3
    """The inbox, the effects in doubt and what the doctor counts leave it out and go on."""
    asking, doubting = Office(), Office(remit.Rule())

    def lost(order: Any, key: str) -> str:
        raise OSError("the line is dead")

    doubting.body = lost
    async with remit.open("memory:") as rt:
        await staffed(rt)
        for run in (RUN, NEWER):
            await asking.go(rt, run)
            await doubting.go(rt, f"{run}-lost")
        for run in (NEWER, f"{NEWER}-lost"):
            await written_by_a_newer_one(rt, run, "SignalDreamt", lane="post")
        asks, doubts = await rt.inbox(), await rt.effects(in_doubt=True)
        assert [ask.run for ask in asks] == [RUN]
        assert [told.run for told in doubts] == [f"{RUN}-lost"]
        assert [[one.run for one in found.left_out] for found in (asks, doubts)] == [[NEWER], [f"{NEWER}-lost"]]
        (counted,) = (found for found in await rt.doctor() if found.name == "ceilings")
        assert "without 2 that can't be read" in counted.seen
        assert [row.run for row in await rt.list(quarantined=True)] == []
        with pytest.raises(remit.JournalNewer):
            await asking.go(rt, NEWER)
