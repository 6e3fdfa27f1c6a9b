"""The database from outside: rows read and written by somebody who knows the schema, past every check of Remit's.

    Vault(url).read()     run id -> Kept, all that is stored of each run
    Vault(url).write()    the same rows, edited, through a connection of its own

Open no runtime meanwhile. `sqlite:` and `postgresql:` by SQL, `file:` by editing the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import msgspec

from remit.facts.entry import Entry, Lane
from remit.store.plain import PlainRun, kept_run, plain_entry
from remit.store.rows import RunRow

COLUMNS = [field.name for field in fields(RunRow)]
LANES: tuple[Lane, Lane] = ("main", "post")

_QUOTED = ", ".join(f'"{name}"' for name in COLUMNS)
_ENTRY = "run_key, lane, seq, header, body, salt, value"


@dataclass
class Kept:
    """What is stored of one run: its row by column, and both lanes as the store numbers them."""

    row: dict[str, Any]
    main: list[Entry]
    post: list[Entry]

    def lane(self, name: str) -> list[Entry]:
        return self.main if name == "main" else self.post


Ledger = dict[str, Kept]


class Vault:
    """One storage, by its URL."""

    def __init__(self, url: str) -> None:
        self._url, self._kind = url, url.partition(":")[0]

    async def read(self) -> Ledger:
        """Everything that is stored of every run; entries stand in order of their stored seq."""
        if self._kind == "file":
            return self._read_file()
        keys = await self.sql(f"SELECT {_QUOTED} FROM {self._table('run')} ORDER BY run_key")
        entries = await self.sql(f"SELECT {_ENTRY} FROM {self._table('entry')} ORDER BY run_key, lane, seq")
        ledger: Ledger = {}
        for columns in keys:
            row = dict(zip(COLUMNS, columns, strict=True))
            row["quarantined"] = bool(row["quarantined"])
            lanes = [[Entry(name, *e[2:]) for e in entries if e[:2] == (row["run_key"], n)] for n, name in _numbered()]
            ledger[row["run"]] = Kept(row, *lanes)
        return ledger

    async def write(self, ledger: Ledger) -> None:
        """Make the stored rows of these runs what is given; runs are found by their run_key."""
        if self._kind == "file":
            return self._write_file(ledger)
        for kept in ledger.values():
            await self._write_run(kept)

    async def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """One statement with $1, $2, ... through a connection of its own."""
        if self._kind == "sqlite":
            db = apsw.Connection(self._url.removeprefix("sqlite:///"))
            db.set_busy_timeout(10_000)
            try:
                return list(db.execute(statement.replace("$", "?"), values))
            finally:
                db.close()
        connection = await asyncpg.connect(self._url)
        try:
            return [tuple(row) for row in await connection.fetch(statement, *values)]
        finally:
            await connection.close()

    async def _write_run(self, kept: Kept) -> None:
        key, row = kept.row["run_key"], {name: kept.row[name] for name in COLUMNS[1:]}
        if self._kind == "sqlite":
            row["quarantined"] = int(row["quarantined"])
        settings = ", ".join(f'"{name}" = ${n}' for n, name in enumerate(row, 2))
        await self.sql(f"UPDATE {self._table('run')} SET {settings} WHERE run_key = $1", key, *row.values())
        table = self._table("entry")
        await self.sql(f"DELETE FROM {table} WHERE run_key = $1", key)
        places = [(n, entry) for n, name in _numbered() for entry in kept.lane(name)]
        slots = ", ".join(f"({', '.join(f'${7 * at + n}' for n in range(1, 8))})" for at in range(len(places)))
        values = [v for n, e in places for v in (key, n, e.seq, e.header, e.body, e.salt, e.value)]
        if places:
            await self.sql(f"INSERT INTO {table} ({_ENTRY}) VALUES {slots}", *values)

    def _table(self, name: str) -> str:
        return f"remit.{name}" if self._kind.startswith("postgres") else f"remit_{name}"

    def _read_file(self) -> Ledger:
        ledger: Ledger = {}
        for key, run in self._document()["runs"].items():
            kept = kept_run(msgspec.convert(run, PlainRun), int(key))
            row = {name: getattr(kept.row, name) for name in COLUMNS}
            ledger[run["run"]] = Kept(row, list(kept.lane("main")), list(kept.lane("post")))
        return ledger

    def _write_file(self, ledger: Ledger) -> None:
        document = self._document()
        for kept in ledger.values():
            row = {name: kept.row[name] for name in COLUMNS[1:]}
            row |= {name: row[name].hex() for name in ("head", "post_head")}
            lanes = {name: [msgspec.to_builtins(plain_entry(entry)) for entry in kept.lane(name)] for name in LANES}
            document["runs"][str(kept.row["run_key"])] = row | lanes
        self._path.write_text(json.dumps(document), encoding="utf-8")

    def _document(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        return made

    @property
    def _path(self) -> Path:
        return Path(self._url.removeprefix("file:"))


def renumbered(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries under the seqs that a store would number them with; their headers are left alone."""
    return [msgspec.structs.replace(entry, seq=seq) for seq, entry in enumerate(entries, 1)]


def _numbered() -> list[tuple[int, Lane]]:
    return list(enumerate(LANES))
