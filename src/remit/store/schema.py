"""The schema grows by numbered files, and a database never goes back.

`sql/<dialect>/0001_ledger.sql` and its successors are applied in order, each once, all that
are missing in one transaction. Each dialect counts for itself: what one needs the other may
not. A database that has a higher number than this code knows was written by a newer Remit:
it is refused and left as it is.

A new database need not go the way of the old ones. Where there is a `whole_0003.sql`, that
makes at once what 0001 to 0003 lead to, and they are noted as applied: on the way there
tables had names that an application in the same file may have as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from remit.errors import StoreRefused

_TABLE = re.compile(r"^(?:CREATE TABLE|ALTER TABLE [\w.]+ RENAME TO) ([\w.]+)", re.MULTILINE)
_DROPPED = re.compile(r"^DROP TABLE ([\w.]+)", re.MULTILINE)
_INDEX = re.compile(r"^CREATE INDEX (\w+)", re.MULTILINE)
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")
_WHOLE = re.compile(r"^whole_(\d{4})\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int  # from 1, without gaps
    name: str
    sql: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """All that this code knows for "sqlite" or "postgres", in order."""
    found = [Migration(int(match[1]), match[2], text) for match, text in _read(dialect, _FILE)]
    found.sort(key=lambda m: m.number)
    assert [m.number for m in found] == list(range(1, len(found) + 1)), "migrations are numbered without gaps"
    return tuple(found)


@cache
def _whole(dialect: str) -> tuple[Migration, ...]:
    """What makes the schema of its number at once; none where a new database goes the way of the old ones."""
    found = tuple(Migration(int(match[1]), "whole", text) for match, text in _read(dialect, _WHOLE))
    assert len(found) <= 1, "a new database begins at one number"
    return found


def _read(dialect: str, name: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    for file in files("remit.store").joinpath("sql", dialect).iterdir():
        match = name.match(file.name)
        if match:
            yield match, file.read_text("utf-8")


def tables_of(migration: Migration) -> frozenset[str]:
    """Names of the tables that it makes or renames, as they are called afterwards."""
    return frozenset(_TABLE.findall(migration.sql))


def tables_made(dialect: str) -> frozenset[str]:
    """Names of the tables that a new database has."""
    made: frozenset[str] = frozenset()
    for migration in steps(dialect, []):
        made = (made | tables_of(migration)) - frozenset(_DROPPED.findall(migration.sql))
    return made


def names_of(migration: Migration) -> frozenset[str]:
    """Every name that it needs to be free: its tables and its indexes, which SQLite keeps in one list."""
    return tables_of(migration) | frozenset(_INDEX.findall(migration.sql))


def steps(dialect: str, applied: Iterable[int]) -> tuple[Migration, ...]:
    """What to run on a database with these migrations, so that none is pending. Raises as `pending` does."""
    missing, whole = pending(dialect, applied), _whole(dialect)
    if whole and missing == migrations(dialect):
        return whole + missing[whole[0].number :]
    return missing


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
