"""What a chain by itself does not catch: shown, so that nobody believes it does.

Each test does what somebody with write access to the database can do, and shows that this
version takes it. A signed log with a memory outside the database will catch them; when it
does, these tests have to be turned round. docs/guarantees.md says the same in words.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

import remit
from remit.engine.process import incidents
from remit.facts import chain, kinds
from remit.facts.entry import HEADER, Identity, Pen, genesis, value_digest
from remit.facts.names import INCIDENTS

OPEN = remit.Contract(version="1", resume="anyone")


class Desk:
    """Decides once, and then waits for a payment office that is closed until somebody opens it."""

    def __init__(self) -> None:
        self.decided = 0
        self.paid: list[str] = []
        self.is_closed = True

        @remit.step
        def decide(amount: int) -> str:
            self.decided += 1
            return "denied"

        @remit.step
        def pay(decision: str) -> str:
            if self.is_closed:
                raise OSError("the office is closed")
            if decision == "approved":
                self.paid.append(decision)
            return decision

        @remit.flow(contract=OPEN)
        def payment(run: remit.SyncRun, amount: int) -> str:
            decision: str = run.step(decide, amount)
            outcome: str = run.step(pay, decision)
            return outcome

        self.flow = payment

    def leave_denied(self, path: Path) -> None:
        """A run whose denial is on the disk and which waits; the database is closed."""
        with remit.open(f"sqlite:///{path}") as rt, pytest.raises(remit.StepError):
            rt.run_sync(self.flow, 82_000, id="pay-7")

    def go_on(self, path: Path) -> remit.Outcome:
        self.is_closed = False
        with remit.open(f"sqlite:///{path}") as rt:
            return rt.run_sync(self.flow, 82_000, id="pay-7")


def recompute(path: Path, edit: dict[bytes, bytes]) -> None:
    """Write a run's journal anew with edited values, every hash and the row's head computed as Remit would."""
    db = apsw.Connection(str(path))
    origin = db.execute("SELECT origin FROM remit_ledger").get
    key, tenant, run, gen, flow = db.execute(
        "SELECT run_key, tenant, run, gen, flow FROM remit_run WHERE run = 'pay-7'"
    ).get
    rows = list(
        db.execute("SELECT seq, header, body, salt, value FROM remit_entry WHERE run_key = ? ORDER BY seq", (key,))
    )
    identity = Identity(origin, tenant, run, gen, flow)
    head = genesis(identity, value_digest(rows[0][3], rows[0][4]))
    for seq, header, body, salt, value in rows:
        was = HEADER.read(header)
        pen = Pen(identity, lane="main", by=was.by, epoch=was.epoch, head=head, seq=seq - 1)
        salted = None if value is None else (salt, edit.get(value, value))
        entry = pen.seal(was.kind, body, at=was.at, name=was.name, value=salted)
        new = (entry.header, entry.value, key, seq)
        db.execute("UPDATE remit_entry SET header = ?, value = ? WHERE run_key = ? AND seq = ?", new)
        head = pen.head
        if seq == 1:
            db.execute("UPDATE remit_run SET post_head = ? WHERE run_key = ?", (head, key))
    db.execute("UPDATE remit_run SET head = ? WHERE run_key = ?", (head, key))
    db.close()


def test_an_edited_denial_alone_is_caught(tmp_path: Path):  # proves: LOG-2, LOG-3
    """The other side, for comparison: the same edit without the recomputing."""
    desk, path = Desk(), tmp_path / "a.db"
    desk.leave_denied(path)
    db = apsw.Connection(str(path))
    db.execute("UPDATE remit_entry SET value = ? WHERE value = ?", (b'"approved"', b'"denied"'))
    db.close()

    with pytest.raises(remit.Tampered) as refused:
        desk.go_on(path)

    assert (refused.value.code, refused.value.run, desk.paid) == ("chain.hash", "pay-7", [])


def test_the_old_id_of_a_renamed_run_begins_afresh_and_only_the_renamed_one_is_refused(tmp_path: Path):  # proves: LOG-5
    desk, path = Desk(), tmp_path / "a.db"
    desk.leave_denied(path)

    db = apsw.Connection(str(path))
    db.execute("UPDATE remit_run SET run = 'pay-8' WHERE run = 'pay-7'")
    db.close()

    assert desk.go_on(path).value == "denied"
    assert desk.decided == 2
    with remit.open(f"sqlite:///{path}") as rt, pytest.raises(remit.Tampered) as refused:
        rt.run_sync(desk.flow, 82_000, id="pay-8")
    assert refused.value.code == "chain.genesis"


def test_a_run_that_was_recomputed_as_a_whole_with_its_row_is_not_caught(tmp_path: Path):  # proves: LOG-5
    desk, path = Desk(), tmp_path / "a.db"
    desk.leave_denied(path)

    recompute(path, {b'"denied"': b'"approved"'})

    assert desk.go_on(path).value == "approved"
    assert (desk.decided, desk.paid) == (1, ["approved"])


def test_a_run_that_was_deleted_with_all_its_rows_is_not_missed_and_begins_afresh(tmp_path: Path):  # proves: LOG-5
    desk, path = Desk(), tmp_path / "a.db"
    desk.leave_denied(path)
    db = apsw.Connection(str(path))
    db.execute("DELETE FROM remit_entry WHERE run_key = (SELECT run_key FROM remit_run WHERE run = 'pay-7')")
    db.execute("DELETE FROM remit_run WHERE run = 'pay-7'")
    db.close()

    assert desk.go_on(path).value == "denied"
    assert desk.decided == 2


def test_an_older_database_that_was_restored_is_not_caught(tmp_path: Path):  # proves: LOG-5
    desk, path, kept = Desk(), tmp_path / "a.db", tmp_path / "yesterday.db"
    desk.leave_denied(path)
    shutil.copy(path, kept)  # closed: the write-ahead log was written back
    assert desk.go_on(path).status == "completed"
    shutil.copy(kept, path)

    with remit.open(f"sqlite:///{path}") as rt:
        assert rt.show_sync("pay-7").view.status == "waiting"
        assert rt.run_sync(desk.flow, 82_000, id="pay-7").value == "denied"


def test_a_tail_that_was_cut_together_with_the_row_is_not_caught(tmp_path: Path):  # proves: LOG-5
    """What was appended last can be taken back, where the row is set to the entry before it."""
    desk, path = Desk(), tmp_path / "a.db"
    desk.leave_denied(path)
    db = apsw.Connection(str(path))
    db.execute("DELETE FROM remit_entry WHERE seq > 1")
    db.execute("UPDATE remit_run SET seq = 1, head = post_head, status = 'queued', code = ''")
    db.close()

    assert desk.go_on(path).value == "denied"
    assert desk.decided == 2


def test_a_quarantine_that_was_cleared_by_hand_is_not_believed_but_not_noticed_either(tmp_path: Path):  # proves: LOG-5
    """Bytes that do not hold are refused again; bytes that were put back go on without anybody's word."""
    desk, path = Desk(), tmp_path / "a.db"
    desk.leave_denied(path)
    db = apsw.Connection(str(path))

    def write(sql: str, *values: Any) -> None:
        db.execute(sql, values)

    write("UPDATE remit_entry SET value = ? WHERE value = ?", b'"approved"', b'"denied"')
    with pytest.raises(remit.Tampered):
        desk.go_on(path)
    write("UPDATE remit_run SET quarantined = 0")
    with pytest.raises(remit.Tampered):
        desk.go_on(path)
    write("UPDATE remit_run SET quarantined = 0")
    write("UPDATE remit_entry SET value = ? WHERE value = ?", b'"denied"', b'"approved"')
    assert desk.go_on(path).value == "denied"
    db.close()

    with remit.open(f"sqlite:///{path}") as rt:
        stored = rt.read_sync(INCIDENTS)
        noted = incidents.verify(rt._store.ledger.origin, stored)
    assert [type(entry.fact) for entry in noted] == [kinds.RunQuarantined] * 2


def test_a_whole_ledger_that_was_made_elsewhere_is_not_caught(tmp_path: Path):  # proves: LOG-5
    """A replaced file has an origin of its own, and nothing outside it remembers the old one."""
    desk, path = Desk(), tmp_path / "a.db"
    desk.leave_denied(path)
    path.unlink()
    forged = Desk()
    forged.leave_denied(tmp_path / "forged.db")
    (tmp_path / "forged.db").rename(path)
    assert desk.go_on(path).value == "denied"


async def test_a_ceiling_emptied_and_a_key_freed_by_hand_are_believed_and_found_by_doctor(tmp_path: Path):
    """Tables beside the journals: no crossing compares them, and doctor recounts them afterwards."""
    path, paid = tmp_path / "a.db", []

    @remit.effect(business_key="invoice")
    async def pay(order: dict[str, Any], *, key: str) -> str:
        paid.append(key)
        return "paid"

    rule = remit.Rule(ceiling=remit.Ceiling("amount", max=100, per="day"))

    @remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": rule}))
    async def payment(run: remit.Run) -> str:
        outcome: str = await run.effect(pay, {"amount": 90, "invoice": "i-1"})
        return outcome

    async def wrong() -> dict[str, str]:
        async with remit.open(f"sqlite:///{path}") as rt:
            return {found.name: found.seen for found in await rt.doctor() if not found.ok}

    async with remit.open(f"sqlite:///{path}") as rt:
        await rt.run(payment, id="a")
        assert (await rt.run(payment, id="b")).status == "failed"
    assert await wrong() == {}
    db = apsw.Connection(str(path))
    db.execute("UPDATE remit_ceiling SET used = 0; DELETE FROM remit_business_key")
    db.close()
    found = await wrong()
    assert set(found) == {"ceilings", "business keys"}
    assert "pay.amount/day/" in found["ceilings"] and "pay of run a" in found["business keys"]
    async with remit.open(f"sqlite:///{path}") as rt:
        assert (await rt.run(payment, id="c")).value == "paid"
        assert await rt.verify("a") is None and await rt.verify("c") is None
    assert len(paid) == 2
    assert set(await wrong()) == {"ceilings", "business keys"}


@pytest.mark.parametrize("business_key", [None, "invoice"])
async def test_of_a_run_whose_row_alone_was_deleted_doctor_finds_the_entries(tmp_path: Path, business_key: str | None):
    """Its id begins afresh; a business key that it took is held by the earlier run, and the new one is told so."""
    path, paid = tmp_path / "a.db", []

    @remit.effect(business_key=business_key)
    async def pay(order: dict[str, Any], *, key: str) -> str:
        paid.append(key)
        return "paid"

    @remit.flow(contract=OPEN)
    async def payment(run: remit.Run) -> str:
        outcome: str = await run.effect(pay, {"invoice": "i-1"})
        return outcome

    async with remit.open(f"sqlite:///{path}") as rt:
        assert (await rt.run(payment, id="a")).value == "paid"
        assert all(found.ok for found in await rt.doctor())
    db = apsw.Connection(str(path))
    db.execute("DELETE FROM remit_run WHERE run = 'a'")
    db.close()
    async with remit.open(f"sqlite:///{path}") as rt:
        outcome = await rt.run(payment, id="a")
        (found,) = [found for found in await rt.doctor() if not found.ok]
        assert (found.name, "entries of 1 whose row is gone" in found.seen) == ("runs", True)
        if business_key is None:
            assert (outcome.status, len(paid)) == ("completed", 2)
        else:
            assert (outcome.status, outcome.code, len(paid)) == ("failed", "idempotency_conflict", 1)
            assert "an earlier a pay" in outcome.reason


async def test_who_holds_a_business_key_is_told_by_its_row_s_key_and_not_by_a_name(tmp_path: Path):
    """A name that was edited made a run its own rival, which then waited for ever."""
    path, line = tmp_path / "a.db", ["broken"]

    @remit.effect(business_key="invoice", doubt="resend", sink="dedupes")
    async def pay(order: dict[str, Any], *, key: str) -> str:
        if line:
            raise OSError("the line broke")
        return "paid"

    @remit.flow(contract=OPEN)
    async def payment(run: remit.Run) -> str:
        outcome: str = await run.effect(pay, {"invoice": "i-1"})
        return outcome

    async with remit.open(f"sqlite:///{path}") as rt:
        assert (await rt.run(payment, id="a")).status == "in_doubt"
    db = apsw.Connection(str(path))
    db.execute("UPDATE remit_business_key SET run = 'b'")
    db.close()
    line.clear()
    async with remit.open(f"sqlite:///{path}") as rt:
        assert (await rt.run(payment, id="a")).value == "paid"


def test_what_was_recomputed_for_another_deployment_is_caught_all_the_same(tmp_path: Path):  # proves: LOG-4
    """Only whoever recomputes with the right origin passes; a copied run does not."""
    identity = Identity("00" * 16, "default", "pay-7", 1, "payment")
    pen = Pen(identity, lane="main", by="service:local", epoch=0, head=genesis(identity, "ab"), seq=0)
    entry = pen.seal("RunOpened", b"{}", at=0, value=(b"s" * 16, b"1"))
    elsewhere = Identity("11" * 16, "default", "pay-7", 1, "payment")
    with pytest.raises(remit.Tampered) as refused:
        chain.verify(elsewhere, chain.Heads(pen.head, 1, pen.head, 0), [entry], [])
    assert refused.value.code == "chain.genesis"
