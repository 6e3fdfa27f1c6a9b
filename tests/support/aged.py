"""Aged: a file as an earlier Remit left it, with the rows of one of today.

age(new, old, schema=2)     makes `old`, of that schema, from a closed `new`
"""

from __future__ import annotations

from pathlib import Path

import apsw

from remit.store.schema import migrations


def age(new: Path, old: Path, *, schema: int) -> None:
    """Tables under the names of then, made by the files of then; what schema 1 had no table for is left out."""
    db = apsw.Connection(str(old))
    db.pragma("journal_mode", "wal")
    for migration in migrations("sqlite")[:schema]:
        db.execute(migration.sql)
        db.execute("INSERT INTO migration VALUES (?, ?, 5)", (migration.number, migration.name))
    db.execute("ATTACH ? AS new", (str(new),))
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('migration', 'sqlite_sequence')"
    for (name,) in db.execute(names).fetchall():
        db.execute(f"INSERT INTO {name} SELECT * FROM new.remit_{name}")
    db.execute("DELETE FROM sqlite_sequence")
    known = (
        "SELECT substr(name, 7), seq FROM new.sqlite_sequence WHERE substr(name, 7) IN (SELECT name FROM sqlite_schema)"
    )
    db.execute(f"INSERT INTO sqlite_sequence {known}")
    db.close()
