"""What `doctor` sees of an SQLite file. Looks, and changes nothing."""

from __future__ import annotations

import os

import apsw

from remit.errors import FIND_OUT
from remit.store.checkups import of_ledger, of_runs, of_schema
from remit.store.protocol import LEASE_US_OVERLONG
from remit.store.rows import Checkup, Ledger
from remit.store.sqlite.connection import PRAGMAS, VERSION_MIN, WAL_BYTES_MAX
from remit.store.sqlite.guards import companions_trouble, is_network, read_mount
from remit.store.sqlite.rows import Q, rows_of


def examine(connection: apsw.Connection, path: str, ledger: Ledger, now: int) -> list[Checkup]:
    """Version, settings, place, integrity, log, schema, ledger, leases."""
    return [
        _version(),
        _pragmas(connection),
        _place(path),
        _integrity(connection),
        _log(path),
        of_schema("sqlite", ledger),
        of_ledger(ledger, clock="this machine's"),
        *_runs(connection, now),
    ]


def _version() -> Checkup:
    seen = apsw.sqlite_lib_version()
    ok = tuple(int(part) for part in seen.split(".")[:3]) >= VERSION_MIN
    return Checkup("sqlite version", ok, seen, "" if ok else "Install a current `apsw`.")


def _pragmas(connection: apsw.Connection) -> Checkup:
    seen = {name: connection.pragma(name) for name in PRAGMAS}
    off = {name: value for name, value in seen.items() if value != PRAGMAS[name]}
    shown = ", ".join(f"{name}={value}" for name, value in (off or seen).items())
    return Checkup("settings", not off, shown, "Close the store and open it again." if off else "")


def _place(path: str) -> Checkup:
    mount = read_mount(path)
    trouble = companions_trouble(path, mount)
    if trouble:
        return Checkup("file system", False, f"{path} {trouble}", "Mount its folder, and leave it one name.")
    if mount is None:
        return Checkup("file system", True, f"{path} (this system does not say which)")
    ok = not is_network(mount)
    hint = "" if ok else "Move the file to a disk of this machine."
    return Checkup("file system", ok, f"{path} on {mount.point} ({mount.kind})", hint)


def _integrity(connection: apsw.Connection) -> Checkup:
    try:
        lines = [str(line) for (line,) in connection.execute("PRAGMA quick_check(5)")]
    except apsw.Error as exc:
        lines = [f"{type(exc).__name__}: {exc}"]
    ok = lines == ["ok"]
    return Checkup("integrity", ok, "; ".join(lines), "" if ok else f"Stop the workers. {FIND_OUT}; restore the file.")


def _log(path: str) -> Checkup:
    try:
        size = os.stat(path + "-wal").st_size  # never open(): closing it would drop SQLite's locks
    except OSError:
        size = 0
    ok = size <= 2 * WAL_BYTES_MAX
    hint = "" if ok else "Some process reads in one long transaction; find it with `lsof` and end it."
    return Checkup("write-ahead log", ok, f"{size:,} bytes", hint)


def _runs(connection: apsw.Connection, now: int) -> list[Checkup]:
    try:
        runs, quarantined = next(iter(connection.execute(Q["count_runs"])))
        ((stale,),) = list(connection.execute(Q["count_stale"], (now,)))
        ((orphans,),) = list(connection.execute(Q["count_orphans"]))
        overlong = [run for (run,) in rows_of(connection, Q["list_overlong"], (now + LEASE_US_OVERLONG,))]
    except apsw.Error as exc:
        return [
            Checkup("runs", False, f"{type(exc).__name__}: {exc}", f"Stop the workers. {FIND_OUT}; restore the file.")
        ]
    return of_runs(runs=runs, quarantined=quarantined, stale=stale, orphans=orphans, overlong=overlong)
