"""Reservations under real deaths: what is used is what the entries say. REMIT_KILLS=500 for the long run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from remit.facts.announced import DoubtTold, read
from remit.store.protocol import Store
from remit.store.rows import RunFilter
from remit.store.url import store_for
from tests.crash.boundary_victim import AMOUNT, SCOPE, TAKEN
from tests.support.journal import read_view

KILLS = int(os.environ.get("REMIT_KILLS", "24"))
SLOTS = 2
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/killed.db"
    database: str = request.getfixturevalue("postgres_database")
    return database


@pytest.mark.slow
async def test_a_death_leaves_a_reservation_and_its_entry_or_neither(url: str) -> None:  # proves: GATE-3, FX-8, RUN-5
    chance = random.Random(20260105)
    acknowledged: set[str] = set()
    for kill in range(0, KILLS, SLOTS):
        victims = [start(url, f"s{slot}-{kill}") for slot in range(SLOTS)]
        for victim in victims:
            for _ in range(chance.choice([1, 4, 10, 30, 60])):
                note(victim.stdout.readline(), acknowledged)  # type: ignore[union-attr]
            victim.send_signal(signal.SIGKILL)
        for victim in victims:
            rest, complaint = victim.communicate()
            for line in rest.splitlines(keepends=True):
                note(line, acknowledged)
            assert victim.returncode == -signal.SIGKILL, complaint

    store = store_for(url)
    await store.open()
    try:
        await check(store, acknowledged)
    finally:
        await store.close()


async def check(store: Store, acknowledged: set[str]) -> None:
    written = await entries(store)
    assert acknowledged <= written and len(acknowledged) > KILLS
    assert await store.read_used("default", SCOPE) == AMOUNT * len(written)
    held = {key for key in written if (row := await store.read_key("default", key)) and f"{row.run}/" in key}
    taken = await store.read_key("default", TAKEN)
    told = [read(row.kind, row.data) for row in await store.read_outbox("default", 0, 10**6)]
    assert taken is not None
    assert len(written - held) == 1  # whose key is the one that was wanted again and again
    assert sorted(one.call for one in told if isinstance(one, DoubtTold)) == sorted(held)


async def entries(store: Store) -> set[str]:
    """run/seq of every entry that reserved; every journal is verified on the way."""
    found: set[str] = set()
    for row in await store.list_rows(RunFilter("default", limit=10_000)):
        view = await read_view(store, row.run_key)
        found |= {f"{row.run}/{call.seq}" for call in view.calls.values()}
    return found


def start(url: str, slot: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.boundary_victim", url, slot]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def note(line: str, acknowledged: set[str]) -> None:
    """Keep an acknowledgement that was printed whole."""
    if line.startswith("ack ") and line.endswith("\n"):
        acknowledged.add(line.split()[1])
