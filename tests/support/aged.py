"""Aged: a database as an earlier Remit left it, with the rows of one of today.

age(new, old, schema=2)          makes the file `old`, of that schema, from a closed `new`
age_postgres(url, schema=2)      the same with a database of today that nobody has open, in its place
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from remit.store.schema import migrations

MADE = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
PREFIXED = 3  # the schema of SQLite that gave every table its prefix
BY_ENTRY = {"sqlite": 4, "postgres": 3}  # those that gave each large value its entry's place
UNLED = {"sqlite": 5, "postgres": 4}  # those that took the path of its lock file from each worker


def age(new: Path, old: Path, *, schema: int) -> None:
    """Tables as the files of then made them, under the names of then; what a schema had no table for is left out."""
    prefix = "remit_" if schema >= PREFIXED else ""
    db = apsw.Connection(str(old))
    db.pragma("journal_mode", "wal")
    db.create_scalar_function("sha256", _sha256, 1, deterministic=True)
    for migration in migrations("sqlite")[:schema]:
        db.execute(migration.sql)
    for migration in migrations("sqlite")[:schema]:
        db.execute(f"INSERT INTO {prefix}migration VALUES (?, ?, 5)", (migration.number, migration.name))
    db.execute("ATTACH ? AS new", (str(new),))
    names = {str(name).removeprefix("remit_") for (name,) in db.execute(MADE).fetchall()}
    if schema < BY_ENTRY["sqlite"]:
        for statement in _by_digest(f"{prefix}entry", f"{prefix}blob", "new.remit_entry", "new.remit_large_value"):
            db.execute(statement)
        names -= {"entry", "blob"}
    if schema < UNLED["sqlite"]:
        db.execute(f"INSERT INTO {prefix}worker SELECT worker, host, '', started_at FROM new.remit_worker")
        names -= {"worker"}
    for name in names - {"migration"}:
        db.execute(f"INSERT INTO {prefix}{name} SELECT * FROM new.remit_{name}")
    db.execute("DELETE FROM sqlite_sequence")
    known = "SELECT substr(name, 7) AS plain, seq FROM new.sqlite_sequence"
    known = f"SELECT '{prefix}' || plain, seq FROM ({known}) WHERE '{prefix}' || plain IN ({MADE})"
    db.execute(f"INSERT INTO sqlite_sequence {known}")
    db.close()


async def age_postgres(url: str, *, schema: int) -> None:
    """Tables of that schema beside those of today, with their rows, in their place."""
    db = await asyncpg.connect(url)
    try:
        async with db.transaction():
            await db.execute("ALTER SCHEMA remit RENAME TO new")
            for migration in migrations("postgres")[:schema]:
                await db.execute(migration.sql)
                await db.execute("INSERT INTO remit.migration VALUES ($1, $2, 5)", migration.number, migration.name)
            rows = await db.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'remit'")
            names = {name for (name,) in rows} - {"migration", "unfinished"}
            if schema < BY_ENTRY["postgres"]:
                for statement in _by_digest("remit.entry", "remit.blob", "new.entry", "new.large_value"):
                    await db.execute(statement)
                names -= {"entry", "blob"}
            if schema < UNLED["postgres"]:
                await db.execute("INSERT INTO remit.worker SELECT worker, host, '', started_at FROM new.worker")
                names -= {"worker"}
            for name in names:
                await db.execute(f"INSERT INTO remit.{name} OVERRIDING SYSTEM VALUE SELECT * FROM new.{name}")
            await db.execute(
                "SELECT setval(pg_get_serial_sequence('remit.run', 'run_key'), max(run_key)) FROM remit.run"
            )
            await db.execute("DROP SCHEMA new CASCADE")
    finally:
        await db.close()


def _sha256(*data: Any) -> bytes:
    return sha256(data[0]).digest()


def _by_digest(entry: str, blob: str, new_entry: str, new_large: str) -> tuple[str, str]:
    """What fills the tables of entries and of large values as they were, when those of the same bytes were one row."""
    return (
        f"INSERT INTO {entry} SELECT e.*, (SELECT sha256(l.value) FROM {new_large} l"
        f" WHERE l.run_key = e.run_key AND l.lane = e.lane AND l.seq = e.seq) FROM {new_entry} e",
        f"INSERT INTO {blob} SELECT DISTINCT sha256(value), value FROM {new_large}",
    )
