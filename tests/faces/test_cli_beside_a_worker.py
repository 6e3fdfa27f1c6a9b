"""Every command of the command line, while a worker has the database open and holds a run.

SQLite's locks on a file belong to the process, and all are dropped when any descriptor of that
file is closed; and the last connection that closes removes the write-ahead log. So the commands
are given both in the worker's own process, where a careless `open()` would cost it its locks,
and in processes of their own, where a lost lock of the worker would cost it the log.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.main import get_command

import remit
from remit.faces.cli.main import app
from tests.support.command import Desk

OPEN = remit.Contract(version="1", resume="anyone")

# Each command with the exit statuses that it may have while `held` is under way.
COMMANDS: dict[str, tuple[tuple[str, ...], set[int]]] = {
    "run": (("run", "flows:good", "--id", "new", "--input", "1"), {0}),
    "resume": (("resume", "new", "flows:good"), {0}),
    "cancel": (("cancel", "new", "--by", "user:dana"), {2}),  # it has ended
    "list": (("list",), {0}),
    "show": (("show", "held"), {0}),
    "why": (("why", "held"), {0}),
    "explain": (("explain", "held"), {0}),
    "verify": (("verify",), {0}),
    "check": (("check", "held", "flows:good"), {2}),  # it is another flow's
    "judge": (("judge", "held", "flows:good"), {2}),  # it is another flow's
    "inbox": (("inbox",), {0}),
    "ask": (("ask", "none"), {2}),
    "approve": (("approve", "none", "--by", "user:dana", "--yes"), {2}),
    "deny": (("deny", "none", "--by", "user:dana", "--seen", "none"), {2}),
    "effects": (("effects", "held"), {0}),
    "resolve": (("resolve", "held", "one", "ok", "--by", "user:dana", "--evidence", "seen"), {2}),  # a step
    "grant": (("grant", "user:dana", "director", "--by", "user:ops"), {0}),
    "revoke": (("revoke", "user:dana", "director", "--by", "user:ops"), {0}),
    "disable": (("disable", "user:dana", "--by", "user:ops"), {0}),
    "enable": (("enable", "user:dana", "--by", "user:ops"), {0}),
    "link": (("link", "agent:buyer", "--person", "user:dana", "--by", "user:ops"), {0}),
    "who": (("who",), {0}),
    "policy": (("policy",), {0}),
    "doctor": (("doctor",), {0}),
    "lift": (("lift", "held", "--by", "user:dana", "--reason", "to be sure"), {2}),  # it is not quarantined
    "version": (("version",), {0}),
}

TRY_TO_WRITE = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.setbusytimeout(0)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("wrote")
except apsw.BusyError:
    print("busy")
"""


class Worker:
    """A runtime in this process that is in the middle of a step of the run `held`, until it is let go on."""

    def __init__(self, desk: Desk) -> None:
        self.path, self.ran = desk.database, []  # type: tuple[Path, list[str]]
        self.begun, self.go = threading.Event(), threading.Event()
        self._runtime = remit.open(f"sqlite:///{desk.database}", lease_ms=600_000)
        self._thread = threading.Thread(target=self._work)
        self.outcome: remit.Outcome | None = None

        @remit.step
        def one() -> int:
            self.ran.append("one")
            return 1

        @remit.step
        def two() -> int:
            self.ran.append("two")
            self.begun.set()
            self.go.wait()
            return 2

        @remit.flow(contract=OPEN)
        def holding(run: remit.SyncRun) -> int:
            total: int = run.step(one) + run.step(two)
            return total

        self._flow = holding

    def _work(self) -> None:
        self.outcome = self._runtime.run_sync(self._flow, id="held")

    def start(self) -> None:
        self._runtime.__enter__()
        self._thread.start()
        assert self.begun.wait(30)

    def finish(self) -> remit.Outcome | None:
        self.go.set()
        self._thread.join(30)
        return self.outcome

    def close(self) -> None:
        self.finish()
        self._runtime.__exit__(None, None, None)

    def row(self) -> tuple[str | None, int, int]:
        """Who holds the run, under which epoch, and how long its journal is."""
        row = self._runtime.read_sync("held").row
        return row.worker, row.epoch, row.seq

    def log(self) -> int:
        return Path(f"{self.path}-wal").stat().st_ino

    def locks(self) -> list[str]:
        """This process's locks on the database and its companions, as the kernel lists them."""
        files = {os.stat(path).st_ino for path in (self.path, f"{self.path}-shm")}
        lines = [line.split(maxsplit=1)[1] for line in Path("/proc/locks").read_text().splitlines()]
        mine = [line for line in lines if line.split()[3] == str(os.getpid())]
        # While others lock, the kernel may list a lock twice in one reading.
        return sorted({line for line in mine if int(line.split()[4].rpartition(":")[2]) in files})

    def excludes(self) -> bool:
        """Whether another process is kept out while this worker writes, and let in when it does not."""
        store: Any = self._runtime._store
        connection: apsw.Connection = store._writer._connection
        with store._writer._lock:
            connection.execute("BEGIN IMMEDIATE")
            try:
                meanwhile = another_process_writes(self.path)
            finally:
                connection.execute("ROLLBACK")
        return (meanwhile, another_process_writes(self.path)) == ("busy", "wrote")


def another_process_writes(path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", TRY_TO_WRITE, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def worker(desk: Desk) -> Iterator[Worker]:
    worker = Worker(desk)
    worker.start()
    yield worker
    worker.close()


def test_every_command_has_a_line_in_this_table():
    names = get_command(app).list_commands(None)  # type: ignore[attr-defined]
    assert sorted(COMMANDS) == sorted(names)


@pytest.mark.parametrize("place", ["in the worker's process", "in its own"])
def test_every_command_leaves_a_workers_log_locks_and_lease_alone(  # proves: OWN-8, OWN-1, C35
    desk: Desk, worker: Worker, place: str
):
    """Case C35."""
    log, locks, row = worker.log(), worker.locks(), worker.row()
    assert locks != [] and row[0] is not None
    for words, statuses in COMMANDS.values():
        if place == "in its own":
            told = desk.child(*words)
            assert told.returncode in statuses, (words, told.stderr)
        else:
            (status,) = statuses
            desk(*words, exits=status)
        assert (worker.log(), worker.locks(), worker.row()) == (log, locks, row), words
    assert worker.excludes()

    outcome = worker.finish()
    assert outcome is not None and outcome.value == 3
    assert worker.ran == ["one", "two"]
    assert worker.log() == log
    assert desk.json("verify")["verified"] == 3  # two runs, and the directory
