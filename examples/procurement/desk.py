"""The desk: where the steps of a purchase leave something behind, outside Remit.

    steps.log               a line for each step body that began, before it did anything
    papers/PAYEE/RUN.json   what was written for one payment: a proposal or a denial
    papers/PAYEE/lock       who writes to a payee's folder holds it, one at a time
    calls.log               what the workers had to say to a person

The log is how the demo counts: Remit's own word for it would prove nothing. A paper bears
the name of its run, so that a step that runs twice leaves one paper and not two.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "PROCUREMENT_DESK"
FOLDER_DEFAULT = ".demo"


@dataclass(frozen=True)
class Desk:
    """A folder, and what stands where in it."""

    folder: Path

    @property
    def ledger(self) -> Path:
        """Remit's database."""
        return self.folder / "ledger.db"

    @property
    def ledger_url(self) -> str:
        return f"sqlite:///{self.ledger}"

    @property
    def steps_log(self) -> Path:
        return self.folder / "steps.log"

    @property
    def calls_log(self) -> Path:
        """What workers say on their standard error: Remit calls for a person there."""
        return self.folder / "calls.log"

    def note(self, run: str, step: str) -> None:
        """Say that the body of a step begins. One write of one line: lines of several threads do not mix."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = f"{run} {step} {os.getpid()}\n".encode()
        descriptor = os.open(self.steps_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def write_paper(self, payee: str, run: str, paper: dict[str, Any]) -> str:
        """Put a paper into a payee's folder, whole and on the disk; its path below the desk.

        Waits for whoever holds the folder. A crash in here leaves the old paper or the new one.
        """
        with self.hold(payee) as folder:
            path, half = folder / f"{run}.json", folder / f"{run}.half"
            with half.open("w", encoding="utf-8") as file:
                json.dump(paper, file, indent=1, ensure_ascii=False)
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
        return str(path.relative_to(self.folder))

    @contextmanager
    def hold(self, payee: str) -> Iterator[Path]:
        """Have a payee's folder to oneself. The system gives it back when its holder dies."""
        folder = self.folder / "papers" / re.sub(r"\W+", "-", payee.lower()).strip("-")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder

    def papers(self, month_prefix: str) -> list[dict[str, Any]]:
        """All papers of a month, as they lie on the disk."""
        found = sorted(self.folder.glob(f"papers/*/{month_prefix}*.json"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in found]


def desk() -> Desk:
    """The desk that this process works at: the environment names its folder, else `.demo` here."""
    return Desk(Path(os.environ.get(FOLDER_VARIABLE, FOLDER_DEFAULT)).resolve())
