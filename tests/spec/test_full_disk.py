"""A full disk is told as a full disk, wherever it is met: whoever is told of owners and modes looks in vain."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from remit.errors import StoreError, StoreRefused, StoreUnavailable
from remit.store.file import FileStore
from remit.store.sqlite.connection import refusal, unavailable
from remit.store.sqlite.store import SqliteStore
from tests.support.journal import Hand, open_held, read_view

STORES: dict[str, Callable[[Path], Any]] = {"sqlite": SqliteStore, "file": FileStore}


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """What would, ends in an error of the system other than that of a full disk, as SQLite tells it: an I/O error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def disk(**fields: int) -> Callable[[str], os.statvfs_result]:
    """What `os.statvfs` tells of a disk with room for a thousand blocks and as many files, but for these fields."""
    told = {"bfree": 1_000, "bavail": 1_000, "files": 9_000, "ffree": 1_000, "favail": 1_000} | fields
    order = ("bfree", "bavail", "files", "ffree", "favail")
    return lambda folder: os.statvfs_result((4096, 4096, 9_000, *(told[name] for name in order), 0, 255))


NO_BLOCK = disk(bfree=0, bavail=0)
NO_FILE = disk(ffree=0, favail=0)
FILES_NOT_COUNTED = disk(files=0, ffree=0, favail=0)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small disk can't be mounted here: that needs the rights of root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Leave no byte free; the file that takes them all."""
    ballast = place / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return ballast


async def kept(store: Any) -> None:
    """A run with one step, and closed."""
    await store.open()
    hand = await open_held(store, "po-1")
    await store.append(hand.step(b'"kept"'))
    await store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_a_store_on_a_full_disk_says_so_where_it_is_opened_and_opens_again_with_room(
    small: Path, kind: str
):  # proves: RUN-3
    path = small / "runs"
    await kept(STORES[kind](path))
    (small / "runs.lock").unlink(missing_ok=True)  # of `file:`, whose lock has the room that it had
    ballast = fill(small)
    store = STORES[kind](path)
    with pytest.raises(StoreRefused) as refused:
        await store.open()
    assert (refused.value.code, refused.value.hint) == ("store.full", "Make room on the disk and call again.")
    ballast.unlink()
    store = STORES[kind](path)
    await store.open()
    row = await store.read_row("default", "po-1")
    assert list((await read_view(store, row.run_key)).calls) == ["s-3"]
    await store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_a_disk_that_fills_while_a_store_is_open_is_told_the_same_and_nothing_is_written(
    small: Path, kind: str
):  # proves: RUN-3
    store = STORES[kind](small / "runs")
    await store.open()
    hand = await open_held(store, "po-1")
    ballast = fill(small)
    with pytest.raises(StoreUnavailable) as refused:
        await store.append(hand.step(b'"' + b"v" * 100_000 + b'"'))
    assert refused.value.code == "store.full"
    ballast.unlink()
    row = await store.read_row("default", "po-1")
    await store.append(Hand(store, row).step(b'"kept"'))
    await store.close()


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (NO_BLOCK, "store.full"),
        (NO_FILE, "store.full"),
        (FILES_NOT_COUNTED, "store.unwritable"),
        (disk(), "store.unwritable"),
    ],
)
async def test_an_io_error_of_opening_is_a_full_disk_where_the_disk_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Any, code: str
):
    """The memory that the processes share can't grow: SQLite says "disk I/O error", whatever the system said."""
    path = tmp_path / "runs"
    await kept(SqliteStore(path))
    monkeypatch.setattr(os, "statvfs", told)
    with no_file_grows_beyond(16_384), pytest.raises(StoreRefused) as refused:
        await SqliteStore(path).open()
    assert isinstance(refused.value.__cause__, apsw.IOError)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("error", "told", "code"),
    [
        (apsw.FullError, disk(), "store.full"),
        (apsw.IOError, NO_BLOCK, "store.full"),
        (apsw.CantOpenError, NO_FILE, "store.full"),
        (apsw.CantOpenError, disk(), "store.unavailable"),
        (apsw.IOError, disk(), "store.unavailable"),
        (apsw.SQLError, NO_BLOCK, "store.unavailable"),
    ],
)
def test_what_an_open_store_meets_is_told_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[apsw.Error], told: Any, code: str
):
    connection = apsw.Connection(str(tmp_path / "runs"))
    connection.execute("CREATE TABLE one (number)")
    monkeypatch.setattr(os, "statvfs", told)
    assert unavailable(error("it failed"), connection).code == code
    connection.close()
    assert unavailable(apsw.IOError("it failed"), connection).code == "store.unavailable"


def test_a_folder_and_a_file_that_is_not_ours_are_no_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "statvfs", NO_BLOCK)
    told: StoreError = refusal(str(tmp_path), apsw.CantOpenError("unable to open"))
    assert (told.code, told.hint) == ("store.unwritable", "Name a file inside it.")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert refusal(str(tmp_path / "runs"), apsw.CantOpenError("unable to open")).code == "store.unwritable"
    assert refusal(str(tmp_path / "runs"), OSError(28, "No space left on device")).code == "store.full"
