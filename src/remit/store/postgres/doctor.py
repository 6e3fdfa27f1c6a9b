"""What `doctor` sees of a Postgres database. Looks, and changes nothing."""

from __future__ import annotations

from remit.store.postgres.connection import Connection
from remit.store.postgres.rows import Q
from remit.store.postgres.schema import VERSION_MIN
from remit.store.protocol import Checkup, Ledger
from remit.store.schema import migrations


async def examine(connection: Connection, shown: str, ledger: Ledger, now: int | None) -> list[Checkup]:
    """Version, settings, place, schema, ledger, leases. now: of a given clock; None where the database's counts."""
    server = await connection.fetchrow(Q["read_server"])
    assert server is not None
    newest = migrations("postgres")[-1].number
    by = "the database's clock" if ledger.clock == "database" else "a clock that was passed in, at least once"
    return [
        Checkup("postgres version", server["version"] >= VERSION_MIN, server["version_shown"]),
        *[_setting(name, server[name]) for name in ("fsync", "full_page_writes", "synchronous_commit")],
        Checkup("place", True, shown),
        Checkup("schema", ledger.schema == newest, f"{ledger.schema} of {newest}"),
        Checkup("ledger", True, f"origin {ledger.origin}, time by {by}"),
        *await _runs(connection, now),
    ]


def _setting(name: str, seen: str) -> Checkup:
    ok = seen != "off"
    hint = "" if ok else f"Set {name} on: a commit that the server forgets was never a commit."
    return Checkup(f"setting {name}", ok, seen, hint)


async def _runs(connection: Connection, now: int | None) -> list[Checkup]:
    counted = await connection.fetchrow(Q["count_runs"])
    stale = await connection.fetchval(Q["count_stale"], now)
    assert counted is not None
    runs, quarantined = counted
    hint = "See `remit list --quarantined`; restore their bytes, then lift them." if quarantined else ""
    left = "None goes on by itself: the next call with its id takes it over." if stale else ""
    return [
        Checkup("runs", not quarantined, f"{runs:,} runs, {quarantined:,} in quarantine", hint),
        Checkup("leases", True, f"{stale:,} ran out and were not taken over", left),
    ]
