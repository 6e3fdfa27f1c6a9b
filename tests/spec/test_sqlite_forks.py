"""A forked child and a file that was open at the fork: it would lose what it commits, and an invoice be paid twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import remit

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # none of the parent's threads is used


@remit.flow(contract=remit.Contract(version="1", resume="anyone"), name="settle")
def settle(run: remit.SyncRun, invoice: str) -> str:
    return invoice


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def opened(path: Path) -> str:
    """What opening it and settling an invoice there comes to: a status or a code."""
    try:
        with remit.open(f"sqlite:///{path}") as rt:
            return rt.run_sync(settle, "I-1", id="r-1").status
    except remit.StoreRefused as refused:
        assert "spawn" in refused.hint
        return refused.code


def in_child(act: Callable[[], str]) -> str:
    """What `act` gives in a forked child; a child that fails gives nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that waits for ever is a child that failed
        try:
            os.write(writing, act().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


def test_a_file_that_was_open_at_the_fork_is_refused_in_the_child(path: Path):  # proves: OWN-8, C36
    with remit.open(f"sqlite:///{path}") as rt:
        log = Path(f"{path}-wal").stat().st_ino
        assert in_child(lambda: opened(path)) == "store.forked"
        assert in_child(lambda: in_child(lambda: opened(path))) == "store.forked"
        assert Path(f"{path}-wal").stat().st_ino == log
        assert rt.run_sync(settle, "I-1", id="r-1").status == "completed"
    assert opened(path) == "completed"


def test_the_child_is_refused_also_when_the_parent_has_closed_it_meanwhile(path: Path):  # proves: OWN-8
    """What it inherited, it keeps."""
    closed_reading, closed_writing = os.pipe()

    def late() -> str:
        os.read(closed_reading, 1)
        return opened(path)

    reading, writing = os.pipe()
    with remit.open(f"sqlite:///{path}"):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os.write(writing, late().encode())
            os._exit(0)
    os.write(closed_writing, b".")
    os.waitpid(child, 0)

    assert os.read(reading, 100) == b"store.forked"
    for descriptor in (reading, writing, closed_reading, closed_writing):
        os.close(descriptor)


def test_a_file_that_was_closed_before_the_fork_is_the_child_s_to_open(path: Path):  # proves: OWN-8
    assert opened(path) == "completed"

    assert in_child(lambda: opened(path)) == "completed"
    with remit.open(f"sqlite:///{path}"):
        assert in_child(lambda: opened(path.with_name("other.db"))) == "completed"
        assert in_child(lambda: executed(path)) == "completed"


def test_it_is_the_file_that_counts_and_not_its_name(path: Path):  # proves: OWN-8
    moved = path.with_name("moved.db")
    with remit.open(f"sqlite:///{path}"):
        path.rename(moved)
        assert in_child(lambda: opened(moved)) == "store.forked"


def test_a_connection_of_the_application_s_own_counts_as_well(path: Path):  # proves: OWN-8
    assert opened(path) == "completed"
    own = apsw.Connection(str(path))
    assert own.execute("SELECT count(*) FROM sqlite_schema").get
    try:
        assert in_child(lambda: opened(path)) == "store.forked"
    finally:
        own.close()
    assert in_child(lambda: opened(path)) == "completed"


PREFORK = """
import os, sys, threading
from pathlib import Path
import apsw, sqlite3
import remit
from tests.spec.test_sqlite_forks import in_child, opened

path = Path(sys.argv[1])
assert "remit.store.sqlite.forks" not in sys.modules  # the server has opened nothing of Remit's
{setup}
print({ask})
"""
OWN = "own = apsw.Connection(str(path)); own.execute('SELECT count(*) FROM sqlite_schema').get"


@pytest.mark.parametrize(
    "setup",
    [
        OWN,  # as the guarantees tell an application to open it
        "own = apsw.Connection(str(path)); own.execute('CREATE TABLE customer (name)')",
        f"{OWN}; path = path.rename(path.with_name('moved.db'))",
        "own = sqlite3.connect(path); own.execute('SELECT count(*) FROM sqlite_schema').fetchone()",
    ],
)
def test_a_server_that_opens_its_tables_before_it_forks_is_heard_of(path: Path, setup: str):  # proves: OWN-8
    """`import remit` alone is what the worker's guard rests on: it had been imported with the store, in the child."""
    assert opened(path) == "completed"

    assert ran(path, setup, "in_child(lambda: opened(path))") == "store.forked"


def test_a_connection_older_than_the_guard_is_heard_of(path: Path):  # proves: OWN-8
    """The application's own was there first, its file has another name by now, and its descriptors can't be listed."""
    assert opened(path) == "completed"
    setup = f"{OWN}; assert opened(path) == 'completed'; path = path.rename(path.with_name('moved.db'))"
    unlisted = "import remit.forks; remit.forks._DESCRIPTORS = ()"

    assert ran(path, f"{unlisted}; {setup}", "in_child(lambda: opened(path))") == "store.forked"
    assert ran(path.with_name("moved.db"), f"{unlisted}; {OWN}", "in_child(lambda: opened(path))") == "store.forked"


def test_a_thread_that_forks_inherits_what_the_others_have_open(path: Path):  # proves: OWN-8
    assert opened(path) == "completed"
    setup = f"{OWN}; told = []; act = lambda: told.append(in_child(lambda: opened(path)))"
    thread = "forker = threading.Thread(target=act); forker.start(); forker.join()"

    assert ran(path, f"{setup}; {thread}", "told[0]") == "store.forked"


@pytest.mark.parametrize("is_imported", [False, True])
def test_a_fork_that_python_was_not_told_of_is_found_by_the_process(path: Path, is_imported: bool):  # proves: OWN-8
    """Code in C forks without running a hook."""
    assert opened(path) == "completed"
    unheard = "import ctypes; os.fork = ctypes.PyDLL(None).fork"
    imported = "import remit.store.sqlite.forks; " if is_imported else ""

    assert ran(path, f"{imported}{OWN}; {unheard}", "in_child(lambda: opened(path))") == "store.forked"


def test_a_server_that_closed_its_tables_before_it_forks_keeps_nobody_out(path: Path):  # proves: OWN-8
    assert opened(path) == "completed"

    assert ran(path, f"{OWN}; own.close()", "in_child(lambda: opened(path))") == "completed"


def ran(path: Path, setup: str, ask: str) -> str:
    """What a process of its own tells, which has imported Remit and no store when `setup` begins."""
    code = PREFORK.format(setup=setup, ask=ask)
    process = subprocess.run(
        [sys.executable, "-W", "ignore:.*fork:DeprecationWarning", "-c", code, str(path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def executed(path: Path) -> str:
    code = f"from pathlib import Path; from {__name__} import opened; print(opened(Path({str(path)!r})))"
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root).stdout.strip()
