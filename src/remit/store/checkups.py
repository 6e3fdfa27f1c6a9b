"""Checkups: what `doctor` says alike of every store, from what each has counted its own way."""

from __future__ import annotations

from remit.store.protocol import Checkup, Ledger
from remit.store.schema import migrations


def of_schema(dialect: str, ledger: Ledger) -> Checkup:
    newest = migrations(dialect)[-1].number
    return Checkup("schema", ledger.schema == newest, f"{ledger.schema} of {newest}")


def of_ledger(ledger: Ledger, *, clock: str) -> Checkup:
    """clock: whose it is where none was passed in: "this machine's"."""
    by = f"{clock} clock" if ledger.clock == "database" else "a clock that was passed in, at least once"
    return Checkup("ledger", True, f"origin {ledger.origin}, time by {by}")


def of_runs(*, runs: int, quarantined: int, stale: int) -> list[Checkup]:
    """Of all tenants, without the journals of Remit's own. stale: leases that ran out and were not taken over."""
    hint = "See `remit list --quarantined`; restore their bytes, then lift them." if quarantined else ""
    left = "None goes on by itself: the next call with its id takes it over." if stale else ""
    return [
        Checkup("runs", not quarantined, f"{runs:,} runs, {quarantined:,} in quarantine", hint),
        Checkup("leases", True, f"{stale:,} ran out and were not taken over", left),
    ]
