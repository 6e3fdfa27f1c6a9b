"""A worker, seen from outside: what its steps leave in the log, what it says, and its death.

The demo asks neither Remit nor the worker how far it is. It reads the same log from which
it counts afterwards.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from examples.procurement.desk import FOLDER_VARIABLE, Desk

ROOT = Path(__file__).resolve().parents[2]  # from where `examples` can be imported
PATIENCE_SECONDS = 45.0
_LOOK_SECONDS = 0.002

Call = tuple[str, str]  # run id, step name


class BrokeDown(Exception):
    """A process of the demo ended otherwise than it should; its text is what the process said."""


@dataclass(frozen=True)
class Refusal:
    """A purchase that Remit refused, as its worker said it."""

    code: str
    message: str
    hint: str


@dataclass
class Sight:
    """What can be seen of a worker by now."""

    began: Counter[Call] = field(default_factory=Counter)  # step bodies that this worker began
    ended: set[str] = field(default_factory=set)  # runs whose outcome it has said
    refused: dict[str, Refusal] = field(default_factory=dict)


class Worker:
    """A worker process of our own. Look at it with `looks`; it may be killed in between."""

    def __init__(self, desk: Desk, month: str, *, at_once: int) -> None:
        self._desk = desk
        self._log_from = len(_bytes(desk.steps_log))
        self._process = start("worker", month, str(at_once), desk=desk)
        self.pid = self._process.pid
        self.status: int | None = None  # how the process ended, -9 where it was killed; None while it lives

    def looks(self) -> Iterator[Sight]:
        """A sight whenever there may be something new, until the process is over. Raises BrokeDown if it takes long."""
        sight, said, over_at = Sight(), b"", time.monotonic() + PATIENCE_SECONDS
        pipe = self._process.stdout
        assert pipe is not None
        try:
            while True:
                if time.monotonic() > over_at:
                    raise BrokeDown(f"Worker {self.pid} is not done after {PATIENCE_SECONDS:.0f} seconds.")
                is_ready, _, _ = select.select([pipe], [], [], _LOOK_SECONDS)
                more = os.read(pipe.fileno(), 65_536) if is_ready else None
                *lines, said = (said + (more or b"")).split(b"\n")
                for line in lines:
                    _hear(sight, line)
                sight.began = count(self._desk, self._log_from)
                yield sight
                if more == b"":
                    self.status = self._process.wait()
                    return
        finally:
            self.kill()  # a worker never outlives whoever looks at it
            self._process.wait()
            pipe.close()

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed, nobody is told."""
        self._process.send_signal(signal.SIGKILL)


def start(module: str, *arguments: str, desk: Desk) -> subprocess.Popen[bytes]:
    """A module of this example as a process that works at `desk`; its output is a pipe, its errors go to calls.log."""
    desk.folder.mkdir(parents=True, exist_ok=True)
    with desk.calls_log.open("ab") as calls:
        return subprocess.Popen(
            [sys.executable, "-m", f"examples.procurement.{module}", *arguments],
            stdout=subprocess.PIPE,
            stderr=calls,
            cwd=ROOT,
            env={**os.environ, FOLDER_VARIABLE: str(desk.folder)},
        )


def ask(module: str, *arguments: str, desk: Desk) -> dict[str, str]:
    """The one JSON document that a module of this example prints. Raises BrokeDown."""
    with start(module, *arguments, desk=desk) as process:
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    check_end(desk, module, process.returncode, 0)
    answer: dict[str, str] = json.loads(out)
    return answer


def check_end(desk: Desk, module: str, status: int | None, *expected: int) -> None:
    """Raises BrokeDown where a process did not end with one of the expected statuses."""
    if status not in expected:
        raise BrokeDown(f"The {module} ended with {status}. It said:\n{desk.calls_log.read_text(encoding='utf-8')}")


def count(desk: Desk, from_byte: int = 0) -> Counter[Call]:
    """How often each step body began, by the log; from a place in it, where one is given."""
    whole_lines = _bytes(desk.steps_log)[from_byte:].decode().split("\n")[:-1]
    return Counter((run, step) for run, step, _ in (line.split() for line in whole_lines))


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _hear(sight: Sight, line: bytes) -> None:
    told = json.loads(line)
    sight.ended.add(told["run"])
    if "refused" in told:
        sight.refused[told["run"]] = Refusal(told["refused"], told["message"], told["hint"])
