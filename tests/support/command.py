"""The command line at a desk of its own: a folder with a store and some flows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
from typer.testing import CliRunner, Result

import remit
from remit.faces.cli.main import app

STORE = "sqlite:///runs.db"

FLOWS = """
import os
import subprocess
import sys
import time

import remit

OPEN = remit.Contract(version="1", resume="anyone")


@remit.step
async def fetch(n: int) -> dict:
    with open("ran.txt", "a") as file:
        file.write(f"{n}\\n")
    if os.path.exists("die-at") and open("die-at").read() == str(n):
        os.kill(os.getpid(), 9)
    if os.path.exists("broken"):
        raise ValueError("no \\x1b[2Jpaper\\nleft [red]\\u202e")
    return {"n": n, "note": "\\x1b[31mred \\u202e[bold]\\x7f"}


@remit.step
def chat() -> int:
    print("said by a step", flush=True)
    subprocess.run([sys.executable, "-c", "print('said by its child')"], check=True)
    return 1


@remit.step
def nap() -> None:
    print("asleep", flush=True)
    time.sleep(600)


@remit.flow(contract=OPEN)
async def good(run: remit.Run, count: int) -> list:
    return [await run.step(fetch, n) for n in range(count)]


@remit.flow(contract=OPEN, name="good")
async def shorter(run: remit.Run, count: int) -> list:
    return [await run.step(fetch, n) for n in range(count - 1)]


@remit.flow(contract=remit.Contract(version="2", resume="anyone", risk="high"), name="good")
async def stricter(run: remit.Run, count: int) -> list:
    return [await run.step(fetch, n) for n in range(count)]


@remit.flow(contract=OPEN)
def chatty(run: remit.SyncRun) -> int:
    return run.step(chat)


@remit.flow(contract=OPEN)
def sleeper(run: remit.SyncRun) -> None:
    run.step(chat)
    run.step(nap)
"""


class Desk:
    """A folder with a store, some flows, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "runs.db"
        (folder / "flows.py").write_text(FLOWS)

    def __call__(self, *words: str, exits: int = 0, columns: int = 100) -> str:
        """The answer, as text; a failed expectation shows it."""
        result = self._invoke(words, columns)
        assert result.exit_code == exits, f"{result.exit_code}: {result.output} {result.exception!r}"
        return result.output

    def json(self, *words: str, exits: int = 0) -> Any:
        """The answer as one document, which is all that goes to standard output."""
        result = self._invoke((*words, "--json"), 100)
        assert result.exit_code == exits, f"{result.exit_code}: {result.output} {result.exception!r}"
        return json.loads(result.stdout)

    def child(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The same in a process of its own, as from a shell, until it ends."""
        child = self.start(*words)
        out, complaint = child.communicate(timeout=60)
        return subprocess.CompletedProcess(words, child.returncode, out, complaint)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The same, under way."""
        command = [sys.executable, "-m", "remit.faces.cli.main", *words]
        env = os.environ | {"PYTHONPATH": str(Path(remit.__file__).parents[1]), "REMIT_STORE": STORE}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.folder, env=env, stdout=pipe, stderr=pipe, encoding="utf-8", preexec_fn=_hear_interrupts
        )

    def ran(self) -> list[str]:
        """Which steps ran, counted outside Remit."""
        path = self.folder / "ran.txt"
        return path.read_text().split() if path.exists() else []

    def _invoke(self, words: tuple[str, ...], columns: int) -> Result:
        before = Path.cwd()
        os.chdir(self.folder)
        sys.modules.pop("flows", None)
        sys.path.insert(0, str(self.folder))
        try:
            return CliRunner().invoke(app, list(words), env={"COLUMNS": str(columns), "REMIT_STORE": STORE})
        finally:
            sys.path.remove(str(self.folder))
            os.chdir(before)


def at_a_terminal(desk: Desk, *words: str) -> Any:
    """The command as somebody at a terminal of 100 columns has it, under way."""
    src = str(Path(remit.__file__).parents[1])
    env = {"PYTHONPATH": src, "REMIT_STORE": STORE, "TERM": "xterm", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    command = ["-m", "remit.faces.cli.main", *words]
    return pexpect.spawn(
        sys.executable, command, cwd=str(desk.folder), env=env, dimensions=(60, 100), encoding="utf-8", timeout=30
    )


def _hear_interrupts() -> None:
    """A shell's background command ignores them, and so would everything that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
