"""A recorded denial can't become an approval across a crash: the process is really killed, and another one goes on.

By then the code would say "approved", and somebody was at the database in between. What
is not caught, a journal that is recomputed as a whole with its row, stands in `test_not_caught.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from remit.facts.entry import HEADER
from remit.facts.kinds import StepDone
from tests.attack.edits import linked, order, parts, raw, resealed
from tests.attack.siege import VICTIM, Edit
from tests.spec.conftest import Storage
from tests.support.vault import Vault

ROOT = Path(__file__).parents[2]
KILLED = ["RunOpened", "AttemptStarted", "StepDone"]
DENIED = len(KILLED)

EDITS: list[tuple[str, str, Edit]] = [
    ("the word edited", "chain.hash", raw(DENIED, "value", b"denied", b"approved")),
    ("the word and its digest's salt edited", "chain.hash", parts(DENIED, salt=b"s" * 16, value=b'"approved"')),
    ("the word blanked", "chain.hash", parts(DENIED, salt=None, value=None)),
    ("the decision cut off, so that it is taken anew", "run.truncated", order(1, 2)),
    ("another decision in its place", "chain.head", linked(2, StepDone(took=9))),
    ("another decision before it", "chain.hash", linked(2, StepDone(took=9), rest=DENIED)),
    ("another decision behind it, and the row's head with it", "chain.move", resealed(DENIED, (1, StepDone(took=9)))),
]


def decider(place: Storage, book: Path, decision: str, wait: str = "go") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.attack.decider", place.make(None), str(book), decision, wait]
    path = os.pathsep.join([str(ROOT), *sys.path])
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    )


def kill_before_paying(place: Storage, book: Path) -> None:
    """The denial is on the disk, and the process that was about to act on it dies."""
    victim = decider(place, book, "denied", "wait")
    assert victim.stdout is not None
    assert victim.stdout.readline() == "paying\n"
    victim.send_signal(signal.SIGKILL)
    victim.communicate(timeout=60)
    assert victim.returncode == -signal.SIGKILL
    assert book.read_text().splitlines() == ["flow", "decided denied"]


def go_on(place: Storage, book: Path) -> str:
    """What a new process with other code says at last."""
    out, _ = decider(place, book, "approved").communicate(timeout=60)
    return out.splitlines()[-1]


@pytest.fixture
def killed(lasting: Storage, tmp_path: Path) -> tuple[Storage, Path]:
    book = tmp_path / "book"
    kill_before_paying(lasting, book)
    return lasting, book


async def test_a_denial_stands_after_a_kill_whatever_the_code_would_say_by_then(killed):  # proves: LOG-2, RUN-5
    place, book = killed
    assert go_on(place, book) == "denied"
    assert book.read_text().splitlines() == ["flow", "decided denied", "flow", "nothing paid"]
    assert go_on(place, book) == "denied"
    assert book.read_text().count("decided") == 1


async def test_a_denial_cannot_become_an_approval_across_a_kill(killed):  # proves: LOG-2, LOG-3, LOG-4
    """Each way is tried on the same dead run, which is restored in between, and none of them runs a line."""
    place, book = killed
    vault, before = Vault(place.make(None)), book.read_text()
    whole = await vault.read()
    assert [HEADER.read(entry.header).kind for entry in whole[VICTIM].main] == KILLED

    answers = {}
    for title, _, edit in EDITS:
        wrong = await vault.read()
        wrong[VICTIM].row["quarantined"] = False  # by hand as well: the bytes alone must be enough to refuse it
        edit(wrong)
        await vault.write({VICTIM: wrong[VICTIM]})
        answers[title] = go_on(place, book)
        assert book.read_text() == before
        await vault.write({VICTIM: whole[VICTIM]})
    assert answers == {title: code for title, code, _ in EDITS}
    assert go_on(place, book) == "denied"
    assert book.read_text().splitlines()[-1] == "nothing paid"
