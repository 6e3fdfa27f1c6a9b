"""The schema grows by numbered files, and a database never goes back.

`sql/<dialect>/0001_ledger.sql` and its successors are applied in order, each once, all that
are missing in one transaction. A database that has a higher number than this code knows
was written by a newer Remit: it is refused and left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from remit.errors import StoreRefused

_TABLE = re.compile(r"^CREATE TABLE ([\w.]+)", re.MULTILINE)
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int  # from 1, without gaps
    name: str
    sql: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """All that this code knows for "sqlite" or "postgres", in order."""
    found = []
    for file in files("remit.store").joinpath("sql", dialect).iterdir():
        match = _FILE.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    found.sort(key=lambda m: m.number)
    assert [m.number for m in found] == list(range(1, len(found) + 1)), "migrations are numbered without gaps"
    return tuple(found)


def tables_of(migration: Migration) -> frozenset[str]:
    """Names of the tables that it makes, as they are written there."""
    return frozenset(_TABLE.findall(migration.sql))


def pending(dialect: str, applied: Iterable[int]) -> tuple[Migration, ...]:
    """What a database with these migrations still needs.

    Raises StoreRefused: `store.newer` where it has one that this code does not know,
    `store.broken` where one is missing in between.
    """
    known, numbers = migrations(dialect), sorted(applied)
    if numbers and numbers[-1] > known[-1].number:
        raise StoreRefused(
            f"Nothing was changed: the store has schema {numbers[-1]} and this version knows {known[-1].number}.",
            code="store.newer",
            hint="Use the version of Remit that wrote it, or a later one.",
        )
    if numbers != list(range(1, len(numbers) + 1)):
        raise StoreRefused(f"Nothing was changed: the store lists the migrations {numbers}.", code="store.broken")
    return known[len(numbers) :]
