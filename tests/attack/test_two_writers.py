"""Two writers at one place of a journal: one wins, the other writes nothing, and there is no fork."""

from __future__ import annotations

import asyncio

import apsw
import asyncpg
import pytest

import remit
from remit.errors import LeaseLost
from remit.facts.entry import HEADER, Pen
from remit.facts.kinds import AttemptStarted, SignalSent, StepDone, write
from remit.store.protocol import Store
from remit.store.units import Move, Unit
from tests.attack.siege import AMOUNT, OPEN, VICTIM, Siege
from tests.spec.conftest import Storage
from tests.support.journal import SALT, identity_of
from tests.support.vault import Vault


async def rival_unit(store: Store) -> Unit:
    """What a second process would append that believes to hold the same lease: the same seq, another outcome."""
    row = await store.read_row("default", "pay-7")
    assert row is not None
    pen = Pen(identity_of(store, row), lane="main", by=row.by, epoch=row.epoch, head=row.head, seq=row.seq)
    begun = AttemptStarted(contract="c0" * 32, version="1", worker="4711-rival")
    entries = [
        pen.seal("AttemptStarted", write(begun), at=row.opened_at),
        pen.seal("StepDone", write(StepDone(took=1)), at=row.opened_at, name="decide", value=(SALT, b'"approved"')),
    ]
    return Unit(row.run_key, "main", row.head, pen.head, pen.seq, entries, row.epoch, Move("running"))


async def test_of_two_that_append_the_same_place_the_second_writes_nothing(database: Storage):  # proves: OWN-3, LOG-4
    """The rival is faster while the step runs: what the run then has to say is refused, and the rival's word stands."""
    decided: list[str] = []

    @remit.step
    async def decide() -> str:
        decided.append("denied")
        if len(decided) == 1:
            await rival.append(await rival_unit(rival))
        return "denied"

    @remit.flow(contract=OPEN)
    async def payment(run: remit.Run) -> str:
        decision: str = await run.step(decide)
        return decision

    async with database.open() as other, database.open() as rt:
        rival = other._store
        with pytest.raises(LeaseLost) as lost:
            await rt.run(payment, id="pay-7")
        assert lost.value.code == "lease.lost"
        kept = (await Vault(database.make(None)).read())["pay-7"]
        assert [HEADER.read(entry.header).kind for entry in kept.main] == ["RunOpened", "AttemptStarted", "StepDone"]
        assert [entry.seq for entry in kept.main] == [1, 2, 3]
        assert kept.main[2].value == b'"approved"'
        assert await rt.verify("pay-7") is None
    async with database.open() as rt:
        assert (await rt.run(payment, id="pay-7")).value == "approved"
        assert await rt.verify("pay-7") is None
    assert decided == ["denied"]


async def test_of_many_that_post_at_the_same_place_one_is_heard(database: Storage):  # proves: LOG-4
    siege = Siege(database)
    await siege.prepare()
    async with database.open() as one, database.open() as two:
        row = (await one.show(VICTIM)).row
        units = []
        for number in range(6):
            pen = Pen(identity_of(one._store, row), lane="post", by="user:dana", epoch=0, head=row.post_head, seq=2)
            value = (SALT, b'{"detail":"%d"}' % number)
            entry = pen.seal("SignalSent", write(SignalSent()), at=row.opened_at, value=value)
            units.append(Unit(row.run_key, "post", row.post_head, pen.head, pen.seq, [entry], None))
        stores = [one._store, two._store] * 3
        sent = (store.append(unit) for store, unit in zip(stores, units, strict=True))
        told = await asyncio.gather(*sent, return_exceptions=True)

        assert sorted(type(answer).__name__ for answer in told) == ["LeaseLost"] * 5 + ["NoneType"]
        won = [unit for unit, answer in zip(units, told, strict=True) if answer is None]
        assert (await siege.vault.read())[VICTIM].post[2:] == won[0].entries
        assert await one.verify(VICTIM) is None


async def test_the_database_itself_keeps_no_second_entry_at_one_place(database: Storage):  # proves: LOG-4
    """Not even for somebody who writes it by hand: the place is a key."""
    siege = Siege(database)
    await siege.prepare()
    before = await siege.vault.read()
    table = "remit.entry" if database.kind == "postgres" else "remit_entry"
    with pytest.raises((apsw.ConstraintError, asyncpg.UniqueViolationError)):
        await siege.vault.sql(f"INSERT INTO {table} SELECT * FROM {table}")
    assert await siege.vault.read() == before
    siege.desk.is_closed = False
    async with database.open() as rt:
        assert (await rt.run(siege.desk.flow, AMOUNT, id=VICTIM)).value == "denied"
