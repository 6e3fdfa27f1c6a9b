"""What `doctor` sees of a Postgres database. Looks, and changes nothing."""

from __future__ import annotations

from remit.store.checkups import of_ledger, of_runs, of_schema
from remit.store.postgres.connection import Connection
from remit.store.postgres.rows import Q
from remit.store.postgres.schema import VERSION_MIN
from remit.store.protocol import LEASE_US_OVERLONG
from remit.store.rows import Checkup, Ledger


async def examine(connection: Connection, shown: str, ledger: Ledger, now: int | None) -> list[Checkup]:
    """Version, settings, place, schema, ledger, leases. now: of a given clock; None where the database's counts."""
    server = await connection.fetchrow(Q["read_server"])
    assert server is not None
    return [
        Checkup("postgres version", server["version"] >= VERSION_MIN, server["version_shown"]),
        *[_setting(name, server[name]) for name in ("fsync", "full_page_writes", "synchronous_commit")],
        Checkup("place", True, shown),
        of_schema("postgres", ledger),
        of_ledger(ledger, clock="the database's"),
        *await _runs(connection, now),
    ]


def _setting(name: str, seen: str) -> Checkup:
    ok = seen != "off"
    hint = "" if ok else f"Set {name} on: a commit that the server forgets was never a commit."
    return Checkup(f"setting {name}", ok, seen, hint)


async def _runs(connection: Connection, now: int | None) -> list[Checkup]:
    counted = await connection.fetchrow(Q["count_runs"])
    stale = await connection.fetchval(Q["count_stale"], now)
    orphans = await connection.fetchval(Q["count_orphans"])
    overlong = [row["run"] for row in await connection.fetch(Q["list_overlong"], now, LEASE_US_OVERLONG)]
    assert counted is not None
    return of_runs(
        runs=counted["runs"], quarantined=counted["quarantined"], stale=stale, orphans=orphans, overlong=overlong
    )
