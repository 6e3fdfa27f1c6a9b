"""The attacker: somebody with write access to the database, who knows the format as well as Remit does.

Open no runtime meanwhile; each act has a connection of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import apsw

from remit.facts.entry import HEADER, Identity, Pen, genesis, value_digest

PAYEE, THIEF = b"ACME Ltd", b"Mallory!"


def edit(database: Path) -> None:
    """Another payee in the recorded order, and nothing else."""
    db = apsw.Connection(str(database))
    rows = db.execute("SELECT rowid, header, value FROM remit_entry WHERE lane = 0")
    ((at, value),) = [(at, value) for at, header, value in rows if HEADER.read(header).name == "write_order"]
    db.execute("UPDATE remit_entry SET value = ? WHERE rowid = ?", (value.replace(PAYEE, THIEF), at))
    assert db.changes() == 1
    db.close()


def recompute(database: Path, *, with_head: bool) -> None:
    """Another payee in the recorded order, and every hash of the run anew. with_head: in the run's row too."""
    db = apsw.Connection(str(database))
    columns = "run_key, tenant, run, gen, flow"
    key, tenant, run, gen, flow = db.execute(f"SELECT {columns} FROM remit_run WHERE flow = 'purchase'").get
    order = "SELECT seq, header, body, salt, value FROM remit_entry WHERE run_key = ? AND lane = 0 ORDER BY seq"
    rows = list(db.execute(order, (key,)))
    identity = Identity(db.execute("SELECT origin FROM remit_ledger").get, tenant, run, gen, flow)
    head = genesis(identity, value_digest(rows[0][3], rows[0][4]))
    for seq, header, body, salt, value in rows:
        was = HEADER.read(header)
        pen = Pen(identity, lane="main", by=was.by, epoch=was.epoch, head=head, seq=seq - 1)
        is_order = was.kind == "StepDone" and was.name == "write_order"
        salted = None if value is None else (salt, value.replace(PAYEE, THIEF) if is_order else value)
        entry = pen.seal(was.kind, body, at=was.at, name=was.name, value=salted)
        new = (entry.header, entry.value, key, seq)
        db.execute("UPDATE remit_entry SET header = ?, value = ? WHERE run_key = ? AND lane = 0 AND seq = ?", new)
        head = pen.head
    if with_head:
        db.execute("UPDATE remit_run SET head = ? WHERE run_key = ?", (head, key))
    db.close()


def cut(database: Path, *, with_head: bool) -> None:
    """The newest rows gone, from the intention to pay on. with_head: the run's row says that it never was."""
    db = apsw.Connection(str(database))
    key = db.execute("SELECT run_key FROM remit_run WHERE flow = 'purchase'").get
    order = "SELECT seq, header FROM remit_entry WHERE run_key = ? AND lane = 0 ORDER BY seq"
    kinds = {seq: HEADER.read(header) for seq, header in db.execute(order, (key,))}
    last = max(seq for seq, header in kinds.items() if header.kind == "RunParked")
    head = bytes.fromhex(kinds[last + 1].prev)
    db.execute("DELETE FROM remit_entry WHERE run_key = ? AND lane = 0 AND seq > ?", (key, last))
    if with_head:
        parked = db.execute("SELECT body FROM remit_entry WHERE run_key = ? AND lane = 0 AND seq = ?", (key, last)).get
        row = (last, head, json.loads(parked)["code"], key)
        db.execute("UPDATE remit_run SET seq = ?, head = ?, status = 'waiting', code = ? WHERE run_key = ?", row)
    db.close()
