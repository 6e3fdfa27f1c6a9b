"""What SQLite adds to the contract of every store: settings, guards, companions, waiting."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from remit.errors import LeaseLost, StoreClosed, StoreRefused, StoreUnavailable, Tampered
from remit.facts.machine import OPEN
from remit.store.protocol import Store
from remit.store.rows import RunFilter
from remit.store.schema import migrations
from remit.store.sqlite import SqliteStore
from remit.store.sqlite.connection import WAL_BYTES_MAX, check_version, settle, transact
from remit.store.sqlite.rows import Q
from remit.store.tables import INLINE_BYTES_MAX
from remit.store.units import Renewal
from tests.support.clock import MovedClock
from tests.support.journal import Hand, open_held, opening, read_view

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "purchases.db"


@pytest.fixture
async def store(path: Path):
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def other(path: Path, store: Store):
    """Another program's connection to the same file, through SQLite."""
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


# Opening


async def test_every_setting_is_read_back(store: SqliteStore):  # proves: OWN-8
    (settings,) = [f for f in await store.examine() if f.name == "settings"]

    assert settings.ok
    assert "journal_mode=wal" in settings.seen and "synchronous=2" in settings.seen


def test_a_setting_that_does_not_take_is_refused():  # proves: OWN-8
    in_memory = apsw.Connection(":memory:")  # has no write-ahead log

    with pytest.raises(StoreRefused, match="journal_mode") as caught:
        settle(in_memory)
    assert caught.value.code == "store.pragma"


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.50.4"])
def test_an_sqlite_that_can_lose_commits_is_refused(version: str):  # proves: OWN-8
    with pytest.raises(StoreRefused) as caught:
        check_version(version)
    assert caught.value.code == "store.sqlite_version"


def test_an_sqlite_that_keeps_its_commits_is_taken():  # proves: OWN-8
    check_version("3.51.3")
    check_version(apsw.sqlite_lib_version())


async def test_a_new_file_is_readable_by_its_owner_alone(path: Path, store: SqliteStore):  # proves: OWN-8
    await open_held(store, "po-1")

    assert {name.name: oct(name.stat().st_mode & 0o777) for name in path.parent.iterdir()} == {
        "purchases.db": "0o600",
        "purchases.db-wal": "0o600",
        "purchases.db-shm": "0o600",
    }


async def test_many_openers_of_a_new_file_make_one_ledger(path: Path):  # proves: OWN-8
    stores = [SqliteStore(path) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))

    assert len({store.ledger.origin for store in stores}) == 1
    for store in stores:
        await store.close()


async def test_a_clock_of_the_callers_is_remembered_for_ever(path: Path):  # proves: OWN-8
    seen = []
    for clock in (None, MovedClock(), None):
        store = SqliteStore(path, clock=clock)
        await store.open()
        seen.append(store.ledger.clock)
        await store.close()

    assert seen == ["database", "given", "given"]


async def test_a_missing_folder_is_named(tmp_path: Path):
    await refused(SqliteStore(tmp_path / "absent" / "a.db"), "store.missing")

    assert not (tmp_path / "absent").exists()


async def test_a_folder_is_not_a_file(tmp_path: Path):
    await refused(SqliteStore(tmp_path), "store.unwritable")


@pytest.mark.parametrize("content", [b"not a database", b"x" * 5_000, b"SQLite format 3\0" + b"\xff" * 5_000])
async def test_a_file_that_is_no_database_is_left_as_it_is(path: Path, content: bytes):
    path.write_bytes(content)

    await refused(SqliteStore(path), "store.broken")

    assert path.read_bytes() == content


async def test_a_database_of_another_program_is_left_as_it_is(path: Path):
    run_sql(path, "CREATE TABLE song (title TEXT); INSERT INTO song VALUES ('Blue Monday')")
    before = path.read_bytes()

    await refused(SqliteStore(path), "store.foreign")

    assert path.read_bytes() == before


async def test_a_ledger_of_a_newer_version_is_left_as_it_is(path: Path):
    await closed(SqliteStore(path))
    run_sql(path, f"INSERT INTO remit_migration VALUES ({len(migrations('sqlite')) + 1}, 'later', 0)")
    before = path.read_bytes()

    await refused(SqliteStore(path), "store.newer")

    assert path.read_bytes() == before


async def test_a_ledger_without_its_row_is_broken(path: Path):
    await closed(SqliteStore(path))
    run_sql(path, "DELETE FROM remit_ledger")

    await refused(SqliteStore(path), "store.broken")


async def test_an_empty_file_becomes_a_ledger(path: Path):
    path.touch()
    await closed(SqliteStore(path))


# Statements


def test_the_hot_update_touches_no_index(store: SqliteStore, other: apsw.Connection):
    hot = {row[1] for row in other.execute("EXPLAIN " + Q["advance"], (b"", 1, 1, b"", 1, 1, None))}
    moving = {
        row[1] for row in other.execute("EXPLAIN " + Q["advance_and_move"], (b"", 1, 1, b"", 1, 1, None, "", "", 0))
    }

    assert "IdxInsert" not in hot
    assert "IdxInsert" in moving  # the status is indexed, so this one shows that the check sees it


@pytest.mark.parametrize("is_ending", [False, True])
@pytest.mark.parametrize("column", ["epoch = epoch + 1", "lease_until = 0", "quarantined = 1", "head = zeroblob(32)"])
async def test_both_hot_statements_compare_the_row(
    store: SqliteStore, other: apsw.Connection, column: str, is_ending: bool
):  # proves: OWN-3
    hand = await open_held(store, "po-1")
    other.execute(f"UPDATE remit_run SET {column}")

    with pytest.raises(LeaseLost):
        await store.append(hand.end() if is_ending else hand.step())

    assert other.execute("SELECT count(*) FROM remit_entry").get == 2
    assert other.execute("SELECT status FROM remit_run").get == "running"


def test_the_open_statuses_are_the_machines():
    listed = [part.split(")")[0] for sql in Q.values() for part in sql.split("status IN (")[1:]]

    assert len(listed) == 2
    assert all({status.strip(" '") for status in text.split(",")} == OPEN for text in listed)


@pytest.mark.parametrize(
    "name",
    ["list_newest", "list_by_status", "read_row", "read_entries", "list_asks", "read_outbox"],
)
def test_a_list_is_read_in_its_order_without_sorting(store: SqliteStore, other: apsw.Connection, name: str):
    plan = " ".join(str(row[3]) for row in other.execute("EXPLAIN QUERY PLAN " + Q[name], bindings(Q[name])))

    assert "TEMP B-TREE" not in plan


# Several programs on one file


async def test_a_visitor_leaves_the_log_and_the_locks_alone(path: Path, store: SqliteStore):  # proves: OWN-8
    hand = await open_held(store, "po-1")
    log = Path(f"{path}-wal").stat().st_ino
    locks = locks_held()

    visit = "import asyncio, sys; from remit.store.sqlite import SqliteStore; s = SqliteStore(sys.argv[1])\n"
    visit += "async def main():\n    await s.open(); await s.examine(); await s.read_row('default', 'po-1')\n"
    visit += "    await s.close()\nasyncio.run(main())"
    subprocess.run([sys.executable, "-c", visit, str(path)], check=True, cwd=ROOT)

    assert Path(f"{path}-wal").stat().st_ino == log
    assert locks_held() == locks != []
    assert await step(store, hand, b"1") == 3


async def test_a_second_store_of_this_process_leaves_the_locks_alone(path: Path, store: SqliteStore):  # proves: OWN-8
    await open_held(store, "po-1")
    log, locks = Path(f"{path}-wal").stat().st_ino, locks_held()

    await closed(SqliteStore(path))

    assert Path(f"{path}-wal").stat().st_ino == log
    assert locks_held() == locks != []


def test_a_fork_can_not_use_the_store_and_does_no_harm(path: Path):  # proves: OWN-8
    """Case C36."""
    command = [sys.executable, "-W", "error", "-m", "tests.crash.sqlite_forker", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        *["child got store.forked"] * 4,
        "child let go of its connections: True",
        "child ended with 0",
        "log is the same: True",
        "parent wrote entry 3",
    ]


async def test_an_append_waits_for_another_writer_without_holding_up_the_loop(
    store: SqliteStore, other: apsw.Connection
):  # proves: OWN-8
    hand = await open_held(store, "po-1")
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(step(store, hand, b"1"))
    for _ in range(100):
        await asyncio.sleep(0)  # the loop runs on while the writer waits
    assert not waiting.done()

    other.execute("COMMIT")

    assert await waiting == 3


async def test_an_append_waits_for_a_claim_without_holding_up_the_loop(
    store: SqliteStore, other: apsw.Connection
):  # proves: OWN-8
    hand, unheld = await open_held(store, "po-1"), await open_held(store, "po-2")
    other.execute("BEGIN IMMEDIATE")
    release = asyncio.create_task(store.release(unheld.row.run_key, 1))  # the writer's thread waits with it
    for _ in iter(store._writer._lock.locked, True):
        await asyncio.sleep(0)
    append = asyncio.create_task(step(store, hand, b"1"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not append.done()

    other.execute("COMMIT")

    assert (await release, await append) == (True, 3)


async def test_a_renewal_waits_for_another_writer(store: SqliteStore, other: apsw.Connection):  # proves: OWN-8, OWN-1
    hand = await open_held(store, "po-1")
    renewer = await store.renewer()
    other.execute("BEGIN IMMEDIATE")
    renewal = asyncio.create_task(renewer.renew("w-1", [Renewal(hand.row.run_key, 1)], lease_ms=60_000))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not renewal.done()

    other.execute("COMMIT")

    assert await renewal == {hand.row.run_key: hand.row.post_head}
    await renewer.close()


def test_a_file_that_stays_busy_is_unavailable(path: Path, store: SqliteStore, other: apsw.Connection):
    other.execute("BEGIN IMMEDIATE")
    late = apsw.Connection(str(path))

    with pytest.raises(StoreUnavailable) as caught:
        transact(late, lambda: None, patience_s=0.01)
    assert caught.value.code == "store.busy"
    late.close()


async def test_the_log_stays_bounded_while_reads_overlap(path: Path, store: SqliteStore):  # proves: OWN-8
    """Case C37."""
    hand = await open_held(store, "po-1")
    stop = threading.Event()
    readers = threading.Thread(target=read_without_a_gap, args=(path, stop))
    readers.start()
    try:
        longest, value = 0, b'"' + b"v" * 250_000 + b'"'
        for _ in range(3 * WAL_BYTES_MAX // 250_000):
            await step(store, hand, value)
            longest = max(longest, Path(f"{path}-wal").stat().st_size)
            # A busy machine may stop a reader for longer than the writer waits: one wait in vain is not the last.
            store._writer._log_rest_until = 0.0
    finally:
        stop.set()
        readers.join()

    assert longest < 2 * WAL_BYTES_MAX


# When things go wrong


async def test_a_file_that_was_moved_takes_nothing(path: Path, store: SqliteStore):  # proves: RUN-3
    hand = await open_held(store, "po-1")
    path.rename(path.with_suffix(".old"))

    with pytest.raises(StoreUnavailable) as caught:
        await step(store, hand, b"1")
    assert caught.value.code == "store.moved"

    path.with_suffix(".old").rename(path)
    assert (await read_view(store, hand.row.run_key)).calls == {}


async def test_a_full_disk_writes_nothing_and_the_next_call_goes_on(store: SqliteStore):  # proves: RUN-3
    hand = await open_held(store, "po-1")
    pages = store._writer._connection  # the limit belongs to a connection, so it is set on the writer's own
    pages.pragma("max_page_count", pages.pragma("page_count") + 1)

    with pytest.raises(StoreUnavailable) as caught:
        await step(store, hand, b'"' + b"v" * 100_000 + b'"')
    assert caught.value.code == "store.full"

    pages.pragma("max_page_count", 1_000_000)
    row = await store.read_row("default", "po-1")
    assert row is not None
    hand = Hand(store, row)
    await store.append(hand.step(name="s-1"))
    assert list((await read_view(store, row.run_key)).calls) == ["s-1"]


async def test_entries_beyond_the_end_of_the_row_refuse_only_that_run(
    store: SqliteStore, other: apsw.Connection
):  # proves: LOG-3, LOG-4
    victim, *rest = [await open_held(store, f"po-{number}") for number in range(4)]
    head, seq = victim.pen.head, victim.pen.seq
    await step(store, victim, b"1")
    other.execute("UPDATE remit_run SET head = ?, seq = ? WHERE run_key = ?", (head, seq, victim.row.run_key))
    row = await store.read_row("default", "po-0")
    assert row is not None

    got = await asyncio.gather(*(step(store, hand, b"2") for hand in [Hand(store, row), *rest]), return_exceptions=True)

    assert isinstance(got[0], Tampered) and got[0].code == "chain.head"
    assert got[1:] == [3, 3, 3]


async def test_a_lost_large_value_is_seen_as_tampering(store: SqliteStore, other: apsw.Connection):  # proves: LOG-4
    hand = await open_held(store, "po-1")
    await step(store, hand, b'"' + b"v" * INLINE_BYTES_MAX + b'"')
    assert len((await read_view(store, hand.row.run_key)).calls) == 1

    other.execute("DELETE FROM remit_large_value")

    with pytest.raises(Tampered) as caught:
        await read_view(store, hand.row.run_key)
    assert (caught.value.code, caught.value.seq) == ("chain.hash", 3)


async def test_a_run_key_is_never_given_twice(store: SqliteStore, other: apsw.Connection):
    first = await open_held(store, "po-1")
    other.execute("DELETE FROM remit_entry")
    other.execute("DELETE FROM remit_run")

    second = await open_held(store, "po-1")

    assert second.row.run_key > first.row.run_key


async def test_openings_of_one_batch_share_a_commit(store: SqliteStore):
    opened = await asyncio.gather(*(store.open_run(opening(store, f"po-{n % 30}", worker=None)) for n in range(40)))

    assert sum(row is not None for row in opened) == 30
    assert store.counters.commits == 1
    assert len(await store.list_rows(RunFilter("default"))) == 30


async def test_a_closed_store_says_so(path: Path):
    store = SqliteStore(path)
    await closed(store)
    await store.close()

    with pytest.raises(StoreClosed):
        await store.read_row("default", "po-1")


# What doctor says


async def test_the_doctor_looks_at_everything_that_matters(store: SqliteStore):  # proves: OWN-8
    await open_held(store, "po-1")
    findings = await store.examine()

    assert all(finding.ok for finding in findings)
    assert [finding.name for finding in findings] == [
        "sqlite version",
        "settings",
        "file system",
        "integrity",
        "write-ahead log",
        "schema",
        "ledger",
        "runs",
        "leases",
    ]


async def test_the_doctor_sees_a_damaged_file(path: Path):  # proves: OWN-8
    store = SqliteStore(path)
    await store.open()
    for number in range(40):
        await open_held(store, f"po-{number}")
    await store.close()
    with path.open("r+b") as file:  # nobody has it open now
        file.seek(4096 * 7)
        file.write(os.urandom(4096 * 4))

    store = SqliteStore(path)
    await store.open()
    (integrity,) = [f for f in await store.examine() if f.name == "integrity"]
    await store.close()

    assert not integrity.ok
    assert "backup" in integrity.hint


async def test_the_doctor_counts_leases_that_ran_out(path: Path):  # proves: OWN-8
    clock = MovedClock()
    store = SqliteStore(path, clock=clock)
    await store.open()
    await open_held(store, "po-1")
    clock.move(timedelta(minutes=2))
    (leases,) = [f for f in await store.examine() if f.name == "leases"]
    await store.close()

    assert leases.seen.startswith("1 ran out")


async def test_a_copied_file_is_the_same_ledger(path: Path):
    await closed(SqliteStore(path))
    shutil.copy(path, path.with_suffix(".copy"))
    first, second = SqliteStore(path), SqliteStore(path.with_suffix(".copy"))
    await first.open()
    await second.open()

    assert first.ledger == second.ledger
    await first.close()
    await second.close()


async def step(store: Store, hand: Hand, value: bytes) -> int:
    unit = hand.step(value)
    await store.append(unit)
    return unit.seq_after


async def refused(store: SqliteStore, code: str) -> None:
    with pytest.raises(StoreRefused) as caught:
        await store.open()
    assert caught.value.code == code
    with pytest.raises(StoreClosed):
        await store.now()


async def closed(store: SqliteStore) -> None:
    await store.open()
    await store.close()


def run_sql(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def bindings(sql: str) -> tuple[int, ...]:
    return tuple(range(max(number for number in range(1, 10) if f"?{number}" in sql)))


def locks_held() -> list[str]:
    """This process's file locks, as the kernel lists them."""
    lines = Path("/proc/locks").read_text().splitlines()
    return sorted(line.split(maxsplit=1)[1] for line in lines if line.split()[4] == str(os.getpid()))


def read_without_a_gap(path: Path, stop: threading.Event) -> None:
    """Two connections that take turns: one begins to read before the other ends.

    Each reads for longer than a commit takes: otherwise both may have seen the newest one when the log is written
    back, and it starts over by itself. And for less than the writer waits.
    """
    ends: list[apsw.Connection] = []
    while not stop.wait(0.02):
        connection = apsw.Connection(str(path))
        connection.setbusytimeout(5_000)
        connection.execute("BEGIN")
        assert connection.execute("SELECT count(*) FROM remit_run").get == 1
        ends.append(connection)
        if len(ends) > 1:
            ends.pop(0).close()
    for connection in ends:
        connection.close()
