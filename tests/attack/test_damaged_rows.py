"""Rows beside the journals, damaged: what reading them raises is told as Remit's own, and never to a flow.

A flow that hears trouble of the store's in place of its effect's answer goes another way, and pays twice.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.faces.proving import every_journal, prove
from remit.store.postgres import rows as postgres_rows
from remit.store.postgres import writer as postgres_writer
from remit.store.sqlite import marks as sqlite_marks
from remit.store.sqlite import units as sqlite_units
from tests.spec.conftest import Storage, storage_of
from tests.support.vault import Vault

OPEN = remit.Contract(version="1", resume="anyone")
NO_TEXT = b"\xff"


class Payer:
    """Pays an invoice, or where that raises anything but a no, by cheque."""

    def __init__(self) -> None:
        self.paid: list[str] = []

        @remit.effect(business_key="invoice")
        async def pay(order: dict[str, Any], *, key: str) -> str:
            self.paid.append("pay")
            return "paid"

        @remit.effect
        async def cheque(order: dict[str, Any], *, key: str) -> str:
            self.paid.append("cheque")
            return "posted"

        @remit.flow(contract=OPEN)
        async def payment(run: remit.Run) -> str:
            order = {"invoice": "i-1"}
            try:
                outcome: str = await run.effect(pay, order)
            except remit.Denied:
                return "not paid"
            except Exception:
                outcome = await run.effect(cheque, order)
            return outcome

        self.flow = payment


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Storage:
    """The one store that keeps any bytes as text."""
    return storage_of("sqlite", tmp_path, lambda: "")


async def edit(place: Storage, statement: str, *values: Any) -> None:
    await Vault(place.make(None)).sql(statement, *values)


@pytest.mark.parametrize("error", [TypeError("unhashable"), IndexError("lane"), OverflowError("too large")], ids=repr)
async def test_what_no_row_of_ours_raises_is_trouble_of_the_store_s(
    database: Storage, error: Exception, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-1
    """Whatever somebody made of a column: it is told by a code, where it is read and where it is written."""
    payer, rooms = Payer(), {"sqlite": (sqlite_marks, sqlite_units), "postgres": (postgres_rows, postgres_writer)}
    reading, writing = rooms[database.kind]

    def broken(*_: Any, **__: Any) -> Any:
        raise error

    async with database.open() as rt:
        await rt.start(payer.flow, id="a")
        for room, part in ((reading, "read_key"), (writing, "make_marks" if database.kind == "sqlite" else "append")):
            with monkeypatch.context() as patch:
                patch.setattr(room, part, broken)
                if part == "append":
                    patch.setattr(postgres_writer, "write_locked", broken)
                with pytest.raises(remit.StoreUnavailable) as refused:
                    await rt.run(payer.flow, id="a")
            assert (refused.value.code, payer.paid) == ("store.broken", [])
        assert (await rt.run(payer.flow, id="a")).value == "paid"


async def test_a_business_key_whose_row_is_no_text_is_held_all_the_same(on_sqlite: Storage):  # proves: FX-8
    payer = Payer()
    async with on_sqlite.open() as rt:
        await rt.run(payer.flow, id="a")
        await edit(on_sqlite, "UPDATE remit_business_key SET run = CAST($1 AS TEXT)", NO_TEXT)
        assert (await rt.run(payer.flow, id="b")).value == "not paid"
    assert payer.paid == ["pay"]


async def test_a_directory_whose_row_is_damaged_in_mid_run_lets_nothing_proceed(on_sqlite: Storage):  # proves: GATE-5
    payer = Payer()

    @remit.step
    async def damage() -> None:
        async with on_sqlite.open() as other:
            await other.grant("user:x", "clerk", by="user:root")
        await edit(on_sqlite, "UPDATE remit_run SET code = CAST($1 AS TEXT) WHERE run = 'remit:authority'", NO_TEXT)

    @remit.flow(contract=OPEN)
    async def payment(run: remit.Run) -> Any:
        await run.step(damage)
        return await payer.flow.fn(run)

    async with on_sqlite.open() as rt:
        outcome = await rt.run(payment, id="a")
    assert (outcome.status, outcome.code, payer.paid) == ("waiting", "authority.unreadable", [])


@pytest.mark.parametrize("column", ["code", "flow", "status", '"by"'])
async def test_a_run_whose_row_is_no_text_is_set_aside_and_no_other(on_sqlite: Storage, column: str):  # proves: LOG-3
    payer = Payer()
    async with on_sqlite.open() as rt:
        await rt.run(payer.flow, id="a")
        await rt.run(payer.flow, id="b")
    await edit(on_sqlite, f"UPDATE remit_run SET {column} = CAST($1 AS TEXT) WHERE run = 'a'", NO_TEXT)
    async with on_sqlite.open() as rt:
        assert sorted(row.run for row in await rt.list()) == ["a", "b"]
        proof = await prove(rt, await every_journal(rt), is_listed=True)
        assert (list(proof.wrong), "b" in proof.verified) == (["a"], True)
        with pytest.raises(remit.Tampered):
            await rt.show("a")
        assert await rt.inbox() == []
        assert [row.run for row in await rt.list(quarantined=True)] == ["a"]
        assert [found.name for found in await rt.doctor() if not found.ok] == ["runs"]
        assert (await rt.run(payer.flow, id="b")).value == "not paid"


async def test_a_run_whose_id_is_no_text_is_listed_and_found_wrong(on_sqlite: Storage):  # proves: LOG-3
    payer = Payer()
    async with on_sqlite.open() as rt:
        await rt.run(payer.flow, id="a")
    await edit(on_sqlite, "UPDATE remit_run SET run = CAST($1 AS TEXT) WHERE run = 'a'", NO_TEXT)
    async with on_sqlite.open() as rt:
        assert [row.run for row in await rt.list()] == [r"\xff"]
        proof = await prove(rt, await every_journal(rt), is_listed=True)
    assert {name: found.code for name, found in proof.wrong.items()} == {r"\xff": "run.index"}


async def test_a_file_whose_origin_is_no_text_is_refused(on_sqlite: Storage):  # proves: LOG-4
    async with on_sqlite.open():
        pass
    await edit(on_sqlite, "UPDATE remit_ledger SET origin = CAST($1 AS TEXT)", NO_TEXT)
    with pytest.raises(remit.StoreRefused) as refused:
        async with on_sqlite.open():
            pass
    assert refused.value.code == "store.broken"


@pytest.mark.parametrize("lane", [-1, 2])
@pytest.mark.parametrize("is_moved", [True, False], ids=["moved", "beside"])
async def test_a_row_of_a_lane_that_is_none_is_refused(database: Storage, lane: int, is_moved: bool):
    # proves: LOG-2, LOG-3
    payer, table = Payer(), "remit.entry" if database.kind == "postgres" else "remit_entry"
    async with database.open() as rt:
        await rt.run(payer.flow, id="a")
        await rt.run(payer.flow, id="b")
    runs = table.replace("entry", "run")
    where = f"lane = 0 AND seq = 2 AND run_key = (SELECT run_key FROM {runs} WHERE run = 'a')"
    columns = "seq, header, body, salt, value"
    copied = (
        f"INSERT INTO {table} (run_key, lane, {columns}) SELECT run_key, {lane}, {columns} FROM {table} WHERE {where}"
    )
    await edit(database, f"UPDATE {table} SET lane = {lane} WHERE {where}" if is_moved else copied)
    async with database.open() as rt:
        told = await rt.verify("a")
        assert told is not None and (await rt.explain("a")).view is None
        with pytest.raises(remit.Tampered):
            await rt.show("a")
        assert [row.run for row in await rt.list(quarantined=True)] == ["a"]
        assert (await rt.show("b")).view.status == "completed"


@pytest.mark.parametrize("roles", ["'{{director},{x}}'", "'{}'"])
async def test_roles_that_are_no_list_of_names_are_an_index_and_no_more(postgres_database, roles: str):  # proves: APR-1
    """The question is asked by its journal; the next turn writes its row anew."""
    place = storage_of("postgres", Path(), lambda: postgres_database)

    @remit.effect
    async def pay(order: dict[str, Any], *, key: str) -> str:
        return "paid"

    approval = remit.Approval(roles={"director"}, within=timedelta(hours=1))

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": remit.Rule(approval=approval)}))
    async def payment(run: remit.Run) -> str:
        outcome: str = await run.effect(pay, {"amount": 1})
        return outcome

    async with place.open() as rt:
        await rt.grant("user:dir", "director", by="user:root")
        await rt.run(payment, id="a")
        await edit(place, f"UPDATE remit.ask SET roles = {roles}")
        (ask,) = await rt.inbox()
        assert (await rt.ask(ask.id)).roles == (("director",),)
        await rt.run(payment, id="a")
        (listed,) = await rt.inbox(role="director")
        await rt.decide(listed.id, "approve", by="user:dir", seen=listed.version)
        assert (await rt.run(payment, id="a")).value == "paid"


@pytest.mark.parametrize("key", [-1, -(2**63)])
async def test_a_list_ends_behind_a_run_key_below_zero(database: Storage, key: int):  # proves: LOG-3
    """`verify` of all paged for ever."""
    payer = Payer()
    async with database.open() as rt:
        await rt.run(payer.flow, id="a")
        await rt.run(payer.flow, id="b")
    if database.kind == "postgres":
        await edit(database, "ALTER TABLE remit.run ALTER run_key DROP IDENTITY")
    table = "remit.run" if database.kind == "postgres" else "remit_run"
    await edit(database, f"UPDATE {table} SET run_key = {key} WHERE run = 'a'")
    async with database.open() as rt, asyncio.timeout(30):
        proof = await prove(rt, await every_journal(rt), is_listed=True)
    assert (list(proof.wrong), "b" in proof.verified) == (["a"], True)
