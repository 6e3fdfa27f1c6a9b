"""Checkups: what `doctor` says alike of every store, from what each has counted its own way."""

from __future__ import annotations

from collections.abc import Sequence

from remit.errors import FIND_OUT
from remit.store.rows import Checkup, Ledger
from remit.store.schema import migrations


def of_schema(dialect: str, ledger: Ledger) -> Checkup:
    newest = migrations(dialect)[-1].number
    return Checkup("schema", ledger.schema == newest, f"{ledger.schema} of {newest}")


def of_ledger(ledger: Ledger, *, clock: str) -> Checkup:
    """clock: whose it is where none was passed in: "this machine's"."""
    by = f"{clock} clock" if ledger.clock == "database" else "a clock that was passed in, at least once"
    return Checkup("ledger", True, f"origin {ledger.origin}, time by {by}")


def of_runs(
    *, runs: int, quarantined: int, stale: int, orphans: int = 0, overlong: Sequence[str] = ()
) -> list[Checkup]:
    """Of all tenants, without the journals of Remit's own.

    stale: leases that ran out and were not taken over. orphans: runs that have entries and no row. overlong: runs whose
    lease lasts longer than any that is granted.
    """
    hint = f"See `remit list --quarantined`. {FIND_OUT}; restore their bytes, then lift them." if quarantined else ""
    left = "None goes on by itself: the next call with its id takes it over." if stale else ""
    seen = f"{runs:,} runs, {quarantined:,} in quarantine"
    if orphans:
        seen += f", and entries of {orphans:,} whose row is gone"
        hint = f"Somebody deleted rows: an id that is called again begins afresh. {FIND_OUT}; restore the store."
    return [
        Checkup("runs", not quarantined and not orphans, seen, hint),
        _of_leases(stale, overlong, left),
    ]


def _of_leases(stale: int, overlong: Sequence[str], left: str) -> Checkup:
    seen = f"{stale:,} ran out and were not taken over"
    if not overlong:
        return Checkup("leases", True, seen, left)
    more = ", ..." if len(overlong) > _NAMED_MAX else ""
    named = ", ".join(ascii(run) for run in overlong[:_NAMED_MAX])
    return Checkup("leases", False, f"{seen}; longer than any that is granted: run {named}{more}", OVERLONG_HINT)


_NAMED_MAX = 5
OVERLONG_HINT = (
    "Somebody wrote that into the run's row by hand, and nobody takes it over: "
    "find out who, and then set its `lease_until` to 0."
)
