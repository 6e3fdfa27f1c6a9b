"""Opening a database: looked at before anything is written to it.

All tables live in schema `remit`, so that a database may be shared with its application,
and every statement names them in full. Several processes may make or change the tables at
once: one gets the advisory lock, the others find the work done. It is one transaction; a
crash in the middle leaves nothing.
"""

from __future__ import annotations

import secrets

from remit.clock import Clock
from remit.errors import RemitError, StoreRefused
from remit.store.postgres.connection import FAILURES, PLANS, Connection, Row, connect, leave, now_or_null, refusal
from remit.store.postgres.rows import Q
from remit.store.rows import Ledger
from remit.store.schema import migrations, pending

VERSION_MIN = 130_000


async def open_database(url: str, shown: str, clock: Clock | None) -> tuple[Connection, Ledger]:
    """A connection to write, and what the ledger says. Raises as Store.open says; leaves nothing open.

    shown: the URL without its password.
    """
    try:
        connection = await connect(url, settings=PLANS)
    except (*FAILURES, ValueError, OverflowError) as exc:
        raise refusal(shown, exc) from exc
    try:
        check_server(await connection.fetchrow(Q["read_server"]), shown)
        ledger = await _prepare(connection, shown, clock)
    except BaseException as exc:
        await leave(connection)
        if isinstance(exc, FAILURES) and not isinstance(exc, RemitError):
            raise refusal(shown, exc) from exc
        raise
    return connection, ledger


async def has_schema(url: str, shown: str) -> bool:
    """Whether the database has any table in schema `remit`. Makes nothing. Raises as `open_database` does."""
    try:
        connection = await connect(url)
        try:
            return bool(await connection.fetch(Q["read_tables"]))
        finally:
            await leave(connection)
    except RemitError:
        raise
    except (*FAILURES, ValueError, OverflowError) as exc:
        raise refusal(shown, exc) from exc


def check_server(server: Row | None, shown: str) -> None:
    """Raises StoreRefused where this server can't keep a journal."""
    assert server is not None
    if server["version"] < VERSION_MIN:
        raise StoreRefused(
            f"Nothing was opened: {shown} is Postgres {server['version_shown']}, and 13 is the oldest that will do.",
            code="store.postgres_version",
            hint="Upgrade the server.",
        )
    if server["is_standby"] or server["is_read_only"]:
        hint = "Name the primary in the URL."
        raise StoreRefused(f"Nothing was opened: {shown} can only be read.", code="store.unwritable", hint=hint)
    wanted = {"encoding": "UTF8", "isolation": "read committed", "standard_conforming_strings": "on"}
    off = {name: server[name] for name, value in wanted.items() if server[name] != value}
    if server["synchronous_commit"] == "off":
        off["synchronous_commit"] = "off"
    if off:
        seen = ", ".join(f"{name} is {value!r}" for name, value in off.items())
        raise StoreRefused(
            f"Nothing was opened: {shown}: {seen}.",
            code="store.setting",
            hint="Make the database with encoding UTF8, and leave its other settings as Postgres has them.",
        )


async def _prepare(connection: Connection, shown: str, clock: Clock | None) -> Ledger:
    applied = await _look(connection, shown)
    if pending("postgres", applied):
        async with connection.transaction():
            await connection.execute(Q["lock_schema"])
            await _migrate(connection, await _look(connection, shown), clock)
    found = await connection.fetchrow(Q["read_ledger"])
    if found is None:
        raise StoreRefused(f"Nothing was changed: the ledger of {shown} has no origin.", code="store.broken")
    if clock is not None and found["clock"] != "given":
        await connection.execute(Q["mark_given_clock"])
    word = "given" if clock is not None or found["clock"] == "given" else "database"
    return Ledger(found["origin"], migrations("postgres")[-1].number, "given" if word == "given" else "database")


async def _look(connection: Connection, shown: str) -> list[int]:
    """Numbers of the migrations that were applied; raises StoreRefused where the schema is not ours."""
    tables = {row["relname"] for row in await connection.fetch(Q["read_tables"])}
    if not tables:
        return []
    if not {"ledger", "migration"} <= tables:
        raise StoreRefused(
            f"Nothing was changed: schema remit of {shown} is another program's, with {len(tables)} tables.",
            code="store.foreign",
            hint="Give Remit a database of its own.",
        )
    return [row["number"] for row in await connection.fetch(Q["read_migrations"])]


async def _migrate(connection: Connection, applied: list[int], clock: Clock | None) -> None:
    now = now_or_null(clock)
    if now is None:
        now = await connection.fetchval(Q["read_now"])
    for migration in pending("postgres", applied):
        await connection.execute(migration.sql)
        await connection.execute(Q["insert_migration"], migration.number, migration.name, now)
    word = "database" if clock is None else "given"
    await connection.execute(Q["insert_ledger"], secrets.token_hex(16), now, word)
