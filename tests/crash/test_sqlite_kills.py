"""SQLite under real deaths and under several processes. REMIT_KILLS=500 for the long run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from remit.store.rows import RunFilter
from remit.store.sqlite import SqliteStore
from tests.support.journal import read_view

KILLS = int(os.environ.get("REMIT_KILLS", "40"))
SLOTS = 2
ROOT = Path(__file__).parents[2]

Acknowledged = dict[tuple[str, int], str]


@pytest.mark.slow
async def test_no_acknowledged_step_is_lost_whenever_the_process_dies(tmp_path: Path) -> None:  # proves: OWN-8, RUN-5
    """Case C34."""
    url = f"sqlite:///{tmp_path}/killed.db"
    chance = random.Random(20260105)
    acknowledged: Acknowledged = {}

    for kill in range(0, KILLS, SLOTS):
        victims = [start(url, f"s{slot}-{kill}") for slot in range(SLOTS)]
        for victim in victims:
            for _ in range(chance.choice([1, 1, 4, 20, 60, 200])):
                note(victim.stdout.readline(), acknowledged)  # type: ignore[union-attr]
            victim.send_signal(signal.SIGKILL)
        for victim in victims:
            rest, complaint = victim.communicate()
            for line in rest.splitlines(keepends=True):
                note(line, acknowledged)
            assert victim.returncode == -signal.SIGKILL, complaint

    assert len(acknowledged) > KILLS
    assert integrity(tmp_path / "killed.db") == "ok"
    assert await missing(url, acknowledged) == {}


@pytest.mark.slow
async def test_eight_processes_share_one_file_without_an_error(tmp_path: Path) -> None:  # proves: OWN-8
    """Case C33."""
    url = f"sqlite:///{tmp_path}/shared.db"
    processes = [start(url, f"p{number}-1", commits=200) for number in range(8)]
    acknowledged: Acknowledged = {}

    for process in processes:
        out, complaint = process.communicate(timeout=120)
        assert (process.returncode, complaint) == (0, "")
        for line in out.splitlines(keepends=True):
            note(line, acknowledged)

    assert len(acknowledged) == 8 * (134 + 66 * 3)
    assert integrity(tmp_path / "shared.db") == "ok"
    assert await missing(url, acknowledged) == {}


def start(url: str, worker: str, commits: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.sqlite_victim", url, worker, str(commits)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def note(line: str, acknowledged: Acknowledged) -> None:
    """Keep an acknowledgement that was printed whole."""
    if line.startswith("ack ") and line.endswith("\n"):
        _, run, seq, token = line.split()
        acknowledged[run, int(seq)] = token


def integrity(path: Path) -> object:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute("PRAGMA integrity_check").get
    finally:
        connection.close()


async def missing(url: str, acknowledged: Acknowledged) -> Acknowledged:
    """What was acknowledged and is not there; every journal is verified on the way."""
    store = SqliteStore(url)
    await store.open()
    found: Acknowledged = {}
    for row in await store.list_rows(RunFilter("default")):
        run = await read_view(store, row.run_key)
        for call in run.calls.values():
            assert call.value is not None
            found[row.run, call.seq] = call.value.decode().strip('"')
    await store.close()
    return {key: token for key, token in acknowledged.items() if found.get(key) != token}
