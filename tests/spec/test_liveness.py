"""Liveness: a worker is proven dead only when it is, however many runtimes its process has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from remit import clock
from remit.engine.process import liveness
from remit.engine.process.liveness import ProcessLock, enlist, is_proven_dead, retire
from remit.errors import StoreRefused
from remit.locks import hold, let_go
from remit.store.rows import WorkerRow

_STANDS_STILL = """
import sys
from remit.engine.process.liveness import enlist
row = enlist(0)
print(row.worker, row.host, sep="\\t", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def no_lock_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ProcessLock, "_own", None)
    yield
    let_go(ProcessLock.own()._file)


def test_runtimes_opened_at_once_in_many_threads_share_one_lock_and_none_looks_dead():  # proves: OWN-1
    rows: list[WorkerRow] = []
    start = threading.Barrier(16)

    def open_one() -> None:
        start.wait()
        rows.append(enlist(0))

    threads = [threading.Thread(target=open_one) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {row.worker for row in rows} == {f"{ProcessLock.own().path.stem}-{n}" for n in range(1, 17)}
    assert [is_proven_dead(row) for row in rows] == [False] * 16


def test_a_runtime_that_was_closed_is_dead_while_its_process_lives():  # proves: OWN-1
    closed, other = enlist(0), enlist(0)
    retire(closed.worker)
    assert (is_proven_dead(closed), is_proven_dead(other)) == (True, False)


def test_a_closed_runtime_lives_until_all_that_it_sent_has_returned():  # proves: OWN-1, FX-2
    closed, lock = enlist(0), ProcessLock.own()
    returned = [lock.send(closed.worker, intention) for intention in ("a", "a", "b")]
    retire(closed.worker)
    assert lock.send(closed.worker, "c") is None, "nothing begins in it any more"
    for has_returned, left in zip(returned, ({"a", "b"}, {"b"}, set()), strict=True):
        assert has_returned is not None and not is_proven_dead(closed)
        has_returned()
        assert set(lock.outstanding) == left
    assert is_proven_dead(closed)
    assert lock.send(closed.worker, "c") is None


def test_a_killed_process_is_dead_and_a_silent_one_is_not():  # proves: OWN-1
    command = [sys.executable, "-c", _STANDS_STILL]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as silent:
        assert silent.stdout is not None
        worker, host = silent.stdout.readline().strip().split("\t")
        row = WorkerRow(worker, host, 0)
        assert not is_proven_dead(row)
        silent.kill()
        silent.wait()
        assert is_proven_dead(row)


def test_nothing_is_proven_of_another_machine_or_of_a_file_that_is_gone(monkeypatch):  # proves: OWN-1
    row = enlist(0)
    retire(row.worker)
    assert is_proven_dead(row)
    assert not is_proven_dead(replace(row, host="another boot/1"))
    assert not is_proven_dead(replace(row, worker="4711-0123456789ab-1"))
    monkeypatch.setattr(liveness, "_host", lambda: "")
    assert not is_proven_dead(replace(row, host=""))


@pytest.mark.parametrize(
    "name", ["{free}", "../{free}", "{free}-1", "../remit/{free}-1", "4711-0123456789ab", "4711-0123456789ab-1/../x-1"]
)
def test_a_free_file_elsewhere_proves_nothing(name: str, tmp_path: Path):  # proves: OWN-1, FX-2
    """Whoever can write the database may give a worker any name and row: none leads out of this process's folder."""
    (tmp_path / "4711-0123456789ab.lock").write_bytes(b"")
    named = name.format(free=tmp_path / "4711-0123456789ab")
    assert not is_proven_dead(replace(enlist(0), worker=named))


def test_a_lock_folder_that_others_may_write_is_refused(tmp_path: Path):  # proves: OWN-1
    """Whoever can replace a lock file can forge a death."""
    folder = tmp_path / f"remit-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(tmp_path))
        with pytest.raises(StoreRefused) as refused:
            ProcessLock()
    assert refused.value.code == "lock.folder"


HOUR_S, WEEK_S = 3_600, 7 * 86_400


def ended(folder: Path, name: str, *, ago_s: float) -> Path:
    """The lock file of a process that ended, and that was made so long ago."""
    path = folder / f"{name}.lock"
    path.touch()
    os.utime(path, (time.time() - ago_s, time.time() - ago_s))
    return path


def start(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of locks, as a process leaves it that begins; the one before it has ended."""
    if ProcessLock._own is not None:
        let_go(ProcessLock._own._file)
    monkeypatch.setattr(ProcessLock, "_own", None)
    return ProcessLock.own().path.parent


def test_locks_of_long_ended_processes_are_looked_for_once_an_hour_whoever_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A file that is gone proves nothing, so each stays when its process ends: there may be very many."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = start(monkeypatch)
    old, young = ended(folder, "1-old", ago_s=WEEK_S + HOUR_S), ended(folder, "2-young", ago_s=WEEK_S - HOUR_S)
    held = ended(folder, "3-held", ago_s=WEEK_S + HOUR_S)
    file = os.open(held, os.O_WRONLY)
    hold(file)
    for _ in range(3):
        start(monkeypatch)
        assert old.exists(), "it was looked within the hour"
    marker = folder / "pruned"
    os.utime(marker, (time.time() - HOUR_S - 1, time.time() - HOUR_S - 1))
    start(monkeypatch)
    assert (old.exists(), young.exists(), held.exists()) == (False, True, True)
    let_go(file)
    start(monkeypatch)
    assert held.exists(), "it was looked just now"


def test_a_clock_that_was_set_back_does_not_stop_old_locks_from_being_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = start(monkeypatch)
    marker = folder / "pruned"
    os.utime(marker, (time.time() + 10 * WEEK_S, time.time() + 10 * WEEK_S))
    old = ended(folder, "1-old", ago_s=WEEK_S + HOUR_S)
    start(monkeypatch)
    assert not old.exists() and marker.stat().st_mtime <= time.time(), "and an hour is counted from here on"


def test_where_nothing_can_be_noted_old_locks_are_removed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = start(monkeypatch)
    (folder / "pruned").unlink()
    (folder / "pruned").symlink_to(tmp_path / "elsewhere")
    old = ended(folder, "1-old", ago_s=WEEK_S + HOUR_S)
    start(monkeypatch)
    assert not old.exists() and not (tmp_path / "elsewhere").exists()


def test_a_worker_lives_whoever_of_its_process_read_its_lock(tmp_path: Path):  # proves: OWN-1, OWN-2, FX-2
    """A backup, a sum, a scan of the folder for temporary files: closing what it opened lets go of nothing."""
    command = [sys.executable, "-c", _STANDS_STILL.replace("sys.stdin.read()", _READS_ALL)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reading:
        assert reading.stdout is not None
        worker, host = reading.stdout.readline().strip().split("\t")
        assert reading.stdout.readline() == "read\n"
        assert not is_proven_dead(WorkerRow(worker, host, 0))
        reading.kill()
        reading.wait()
        assert is_proven_dead(WorkerRow(worker, host, 0))


_READS_ALL = """
from pathlib import Path
from remit.engine.process.liveness import ProcessLock
for path in ProcessLock.own().path.parent.glob("*.lock"):
    path.read_bytes()
print("read", flush=True)
sys.stdin.read()
"""


def test_a_child_that_outlives_its_parent_does_not_keep_it_alive():  # proves: OWN-1
    command = [sys.executable, "-W", "ignore", "-c", _STANDS_STILL.replace("sys.stdin.read()", _FORKS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker, host = parent.stdout.readline().strip().split("\t")
        child = int(parent.stdout.readline())
        assert not is_proven_dead(WorkerRow(worker, host, 0))
        parent.kill()
        parent.wait()
        try:
            os.kill(child, 0)
            assert is_proven_dead(WorkerRow(worker, host, 0))
        finally:
            os.kill(child, signal.SIGKILL)


_FORKS = """
import os, time
if os.fork() == 0:
    print(os.getpid(), flush=True)  # by the child, which has let go of the lock by then
    time.sleep(600)
sys.stdin.read()
"""


def test_a_lease_runs_out_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch):  # proves: FX-5
    """The clock that stands still in a sleep would believe in the lease of before it."""
    before = clock.monotonic_ms()
    monkeypatch.setattr(time, "monotonic_ns", lambda: 0)
    asleep = clock.elapsed_us
    monkeypatch.setattr(clock, "elapsed_us", lambda: asleep() + 3_600_000_000)
    assert clock.monotonic_ms() >= before + 3_600_000
