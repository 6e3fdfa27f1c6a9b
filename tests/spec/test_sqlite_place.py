"""The file and its companions while it is open: a commit that nobody could find again is none."""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import remit
from remit.errors import CommitUnknown, StoreRefused, StoreUnavailable
from remit.store.rows import WorkerRow
from remit.store.sqlite import SqliteStore, place
from remit.store.sqlite import rows as sqlite_rows
from remit.store.sqlite.guards import Mount, check_companions
from remit.store.units import Claim, Unit
from tests.support.journal import Hand, open_held, opening, read_view

COMPANIONS = ("", "-wal", "-shm")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def store(path: Path):
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


def take_away(path: Path, end: str) -> None:
    os.rename(f"{path}{end}", f"{path}{end}.away")


def put_back(path: Path, end: str) -> None:
    os.rename(f"{path}{end}.away", f"{path}{end}")


def replace(path: Path, end: str) -> None:
    shutil.copy(f"{path}{end}", f"{path}{end}.copy")
    os.rename(f"{path}{end}.copy", f"{path}{end}")


# A file that is gone, or another one


@pytest.fixture(params=["changed just now", "left alone for long"])
def folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is known of the folder: as long as it may change within the same tick, each file is looked at."""
    monkeypatch.setattr(place, "_is_settled", lambda changed_ns, now_ns: request.param == "left alone for long")
    return str(request.param)


@pytest.mark.parametrize("harm", [take_away, replace])
@pytest.mark.parametrize("end", COMPANIONS)
async def test_nothing_is_committed_where_one_of_the_files_is_gone(
    path: Path, store: SqliteStore, end: str, harm: Callable[[Path, str], None], folder: str
):  # proves: RUN-3, OWN-8
    hand, free = await open_held(store, "po-1"), await open_held(store, "po-2")
    await store.release(free.row.run_key, 1)
    harm(path, end)

    for act in every_commit(store, hand, free):
        with pytest.raises(StoreUnavailable) as caught:
            await act()
        assert (caught.value.code, f"{path}{end} was moved" in str(caught.value)) == ("store.moved", True)

    assert (await read_view(store, hand.row.run_key)).calls == {}
    if harm is take_away:
        put_back(path, end)
        await store.append(Hand(store, await row_of(store, "po-1")).step())


def every_commit(store: SqliteStore, hand: Hand, free: Hand) -> list[Callable[[], Awaitable[Any]]]:
    unit = hand.step()

    def build(connection: apsw.Connection) -> Unit:
        connection.execute("CREATE TABLE own (n)")
        return unit

    return [
        lambda: store.append(unit),
        lambda: asyncio.gather(*(store.append(unit), *(store.open_run(opening(store, f"r-{n}")) for n in range(5)))),
        lambda: store.transact(build, limit_ms=5_000),
        lambda: store.claim(Claim(free.row.run_key, 1, "w-2", 60_000)),
        lambda: store.release(hand.row.run_key, 1),
        lambda: store.put_worker(WorkerRow("w-1", "host", 1)),
    ]


async def test_a_log_that_goes_in_a_commit_leaves_it_unknown_and_the_store_of_no_use(
    path: Path, store: SqliteStore, folder: str
):  # proves: RUN-3, OWN-8
    """What was read from here would show the commit, and be believed."""
    hand = await open_held(store, "po-1")
    renewer = await store.renewer()

    def harm() -> bool:  # after the last look before it
        take_away(path, "-wal")
        return False

    store._writer._connection.set_commit_hook(harm)

    with pytest.raises(CommitUnknown) as caught:
        await store.append(hand.step())
    assert "start again" in caught.value.hint

    store._writer._connection.set_commit_hook(None)
    put_back(path, "-wal")
    for act in (
        store.read_row("default", "po-1"),
        store.read_run(hand.row.run_key),
        store.examine(),
        store.append(hand.step()),
        renewer.renew("w-1", [], lease_ms=60_000),
    ):
        with pytest.raises(StoreUnavailable) as refused:
            await act
        assert refused.value.code == "store.moved"
    await renewer.close()
    with pytest.raises(StoreUnavailable, match="-wal was moved"):
        store._writer.place.check()  # as a unit is that waited behind that commit


async def test_a_commit_looks_at_the_folder_alone_while_nothing_comes_and_goes_there(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch, folder: str
):  # proves: OWN-8
    """A look at the log makes its next write dearer."""
    hand = await open_held(store, "po-1")
    looked_at = list[str]()
    file_id = place.file_id

    def look(name: str) -> place.FileId | None:
        looked_at.append(name.removeprefix(str(path)))
        return file_id(name)

    monkeypatch.setattr(place, "file_id", look)
    each = {"changed just now": [*COMPANIONS, "-wal"], "left alone for long": []}[folder]

    await store.append(hand.step())
    assert looked_at == each

    (path.parent / "notes.txt").touch()
    looked_at.clear()
    await store.append(hand.step())
    assert looked_at == (each or list(COMPANIONS))
    looked_at.clear()
    await store.append(hand.step())
    assert looked_at == each


@pytest.mark.parametrize(
    ("changed_ns", "within_ns"),
    [(1_000_000_001, 50_000_000), (1_010_000_000, 3_000_000_000), (2_000_000_000, 3_000_000_000)],
    ids=["kernel ticks", "may be a tick of 10 ms", "may be a file system that counts in seconds"],
)
def test_a_change_that_may_have_the_same_time_as_the_last_one_is_looked_for(changed_ns: int, within_ns: int):
    # proves: OWN-8
    assert not place._is_settled(changed_ns, changed_ns + within_ns)
    assert place._is_settled(changed_ns, changed_ns + within_ns + 1)


async def test_what_another_process_does_by_the_rules_is_no_harm(
    path: Path, store: SqliteStore, folder: str
):  # proves: OWN-8
    hand = await open_held(store, "po-1")
    code = f"import apsw; c = apsw.Connection({str(path)!r}); c.execute('CREATE TABLE own (n); DROP TABLE own')\n"
    code += "c.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE); c.execute('VACUUM'); c.close()"

    for _ in range(2):
        await store.append(hand.step())
        subprocess.run([sys.executable, "-c", code], check=True)
    await store.append(hand.step())

    assert len((await read_view(store, hand.row.run_key)).calls) == 3


async def test_closed_and_opened_again_the_companions_are_new_ones(path: Path):  # proves: OWN-8
    for number in range(3):
        store = SqliteStore(path)
        await store.open()
        assert Path(f"{path}-wal").exists() and Path(f"{path}-shm").exists()
        await open_held(store, f"po-{number}")
        await store.close()
        assert not Path(f"{path}-wal").exists()


# Another SQLite in the same process


class Payer:
    """Pays an invoice, and counts."""

    def __init__(self) -> None:
        self.paid: list[str] = []

        @remit.effect(business_key="invoice")
        async def pay(order: dict[str, Any], *, key: str) -> str:
            self.paid.append(order["invoice"])
            return "paid"

        @remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="settle")
        async def settle(run: remit.Run, invoice: str) -> str:
            outcome: str = await run.effect(pay, {"invoice": invoice})
            return outcome

        self.flow = settle


async def test_python_s_own_sqlite3_takes_the_log_away_and_nothing_is_paid_until_the_restart(path: Path):
    # proves: OWN-8, FX-1
    payer, url = Payer(), f"sqlite:///{path}"
    async with remit.open(url) as rt:
        await rt.run(payer.flow, "I-1", id="r-1")
        own = importlib.import_module("sqlite3").connect(path)  # which nobody imports for anything else
        own.execute("SELECT 1 FROM sqlite_schema").fetchone()
        own.close()
        with pytest.raises(StoreUnavailable) as refused:
            await rt.run(payer.flow, "I-2", id="r-2")
        assert (refused.value.code, "apsw" in refused.value.hint, payer.paid) == ("store.moved", True, ["I-1"])

    async with remit.open(url) as rt:
        assert [(await rt.run(payer.flow, f"I-{n}", id=f"r-{n}")).status for n in (1, 2)] == ["completed"] * 2
    assert payer.paid == ["I-1", "I-2"]


async def test_apsw_in_the_same_process_takes_nothing_away(path: Path):  # proves: OWN-8
    payer = Payer()
    async with remit.open(f"sqlite:///{path}") as rt:
        for number in range(3):
            own = await asyncio.to_thread(apsw.Connection, str(path))
            own.execute("CREATE TABLE IF NOT EXISTS own (n)")
            own.execute("INSERT INTO own VALUES (1)")
            own.close()
            assert (await rt.run(payer.flow, f"I-{number}", id=f"r-{number}")).status == "completed"


# A file under several names


async def test_a_file_with_several_names_is_refused_under_each(path: Path, tmp_path: Path):  # proves: OWN-8
    await closed(SqliteStore(path))
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "runs.db"
    os.link(path, other)

    for name in (path, other):
        with pytest.raises(StoreRefused) as refused:
            await SqliteStore(name).open()
        assert (refused.value.code, "copy it" in refused.value.hint) == ("store.companions", True)
    other.unlink()
    await closed(SqliteStore(path))


async def test_a_name_that_it_is_given_while_it_is_open_is_told_by_the_doctor(path: Path, store: SqliteStore):
    # proves: OWN-8
    os.link(path, path.with_name("snapshot.db"))

    (found,) = [found for found in await store.examine() if found.name == "file system"]

    assert (found.ok, "2 names" in found.seen) == (False, True)


@pytest.mark.parametrize(("at", "is_refused"), [("runs.db", True), ("", False)], ids=["file", "folder"])
async def test_a_file_that_is_mounted_alone_is_refused_and_a_folder_is_not(
    path: Path, store: SqliteStore, at: str, is_refused: bool
):  # proves: OWN-8
    """As `docker run -v ./runs.db:/data/runs.db` does: each container has a log of its own beside it."""
    mount = Mount(str(path.with_name(at)) if at else str(path.parent), "ext4", "/dev/sda1", "rw")

    if not is_refused:
        check_companions(str(path), mount)
        return
    with pytest.raises(StoreRefused, match="single file") as refused:
        check_companions(str(path), mount)
    assert (refused.value.code, "folder" in refused.value.hint) == ("store.companions", True)


# A row that reads as no row does


async def test_a_row_without_its_numbers_is_trouble_of_the_store_s(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-1
    """Where two libraries wrote at once, a page was another's: NULL stood where none can be."""
    hand = await open_held(store, "po-1")
    read = sqlite_rows.row_of

    def broken(*given: Any) -> Any:
        row = read(*given)
        return (*row[:12], None, *row[13:])

    monkeypatch.setattr(sqlite_rows, "row_of", broken)
    with pytest.raises(StoreUnavailable) as refused:
        await store.read_run(hand.row.run_key)
    assert refused.value.code == "store.broken"


async def row_of(store: SqliteStore, run: str) -> Any:
    row = await store.read_row("default", run)
    assert row is not None
    return row


async def closed(store: SqliteStore) -> None:
    await store.open()
    await store.close()
