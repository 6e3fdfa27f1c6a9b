"""What the tests stand on does what it says, or every other test proves less than it seems to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import asyncpg

from remit.clock import Clock
from tests.support.clock import MovedClock
from tests.support.postgres import FROM_OUTSIDE, drop_database, fresh_database, name_of, url_of


async def _ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_a_commit_of_the_test_postgres_is_synced_when_it_is_acknowledged(postgres_url: str) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert await _ask(postgres_url, f"SHOW {setting}") == "on"


async def test_each_test_gets_an_empty_database_of_its_own(postgres_url: str) -> None:
    one, other = fresh_database(postgres_url), fresh_database(postgres_url)
    await _ask(one, "CREATE TABLE seen ()")

    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert await _ask(one, tables) == 1
    assert await _ask(other, tables) == 0
    drop_database(one)
    drop_database(other)


async def test_a_database_is_dropped_while_somebody_is_still_connected(postgres_url: str) -> None:
    url = fresh_database(postgres_url)
    connection = await asyncpg.connect(url)
    drop_database(url)
    connection.terminate()

    assert await _ask(postgres_url, f"SELECT count(*) FROM pg_database WHERE datname = '{name_of(url)}'") == 0


def test_a_session_that_is_terminated_leaves_no_server() -> None:
    child = "import time\nfrom tests.support.postgres import postgres_running\n"
    child += "with postgres_running() as url:\n    print(url, flush=True)\n    time.sleep(600)"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    session = subprocess.Popen([sys.executable, "-c", child], stdout=pipe, stderr=pipe, text=True, env=env)
    assert session.stdout is not None
    folder = Path(session.stdout.readline().partition("host=")[2].partition("&")[0])
    assert (folder / "data" / "postmaster.pid").exists()
    session.terminate()
    _, complaint = session.communicate(timeout=60)

    assert not folder.exists()
    assert complaint.strip().endswith("KeyboardInterrupt")  # and no word of a server that could not be stopped


_SLEEPS = """
import time

def test_it_is_terminated(postgres_url):
    with open("url", "w") as file:
        print(postgres_url, file=file)
    time.sleep(600)
"""


def test_a_session_of_several_processes_that_is_terminated_leaves_no_server(tmp_path: Path) -> None:
    """Whoever starts the processes stops their server, also when they do not end by themselves."""
    (tmp_path / "test_sleeps.py").write_text(_SLEEPS)
    given = ["-n", "1", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    env = {name: value for name, value in env.items() if name != FROM_OUTSIDE and not name.startswith("PYTEST")}
    out = (tmp_path / "out").open("w+")
    command = [sys.executable, "-m", "pytest", *given, "test_sleeps.py"]
    session = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT, env=env)
    while not (said := tmp_path / "url").exists() or not said.read_text().endswith("\n"):
        assert session.poll() is None, (tmp_path / "out").read_text()
        time.sleep(0.05)
    folder = Path(said.read_text().partition("host=")[2].partition("&")[0])
    assert (folder / "data" / "postmaster.pid").exists()
    session.terminate()
    session.wait(timeout=120)

    assert not folder.exists()
    out.close()


def test_a_child_process_needs_only_the_url(postgres_database: str) -> None:
    child = (
        "import asyncio, sys, asyncpg\n"
        "async def main():\n"
        "    connection = await asyncpg.connect(sys.argv[1])\n"
        "    print(await connection.fetchval('SELECT current_database()'))\n"
        "    await connection.close()\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", child, postgres_database], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == name_of(postgres_database)


def test_a_url_keeps_its_server_when_its_database_changes() -> None:
    over_tcp = "postgresql://dana:secret@db.example:5433/app?sslmode=require"
    assert url_of(over_tcp, "other") == "postgresql://dana:secret@db.example:5433/other?sslmode=require"
    assert url_of("postgresql:///app?host=/run/pg&user=u", "other") == "postgresql:///other?host=/run/pg&user=u"


def test_a_moved_clock_stands_still_between_moves_and_can_be_set_back(clock: MovedClock) -> None:
    as_the_product_sees_it: Clock = clock
    start = as_the_product_sees_it.now()
    assert as_the_product_sees_it.now() == start

    clock.move(timedelta(hours=1))
    assert as_the_product_sees_it.now() == start + 3_600_000_000

    clock.move(timedelta(hours=-2))
    assert as_the_product_sees_it.now() == start - 3_600_000_000
