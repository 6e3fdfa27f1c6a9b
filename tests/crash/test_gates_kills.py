"""Two gates in one run, of which one is answered: whoever dies on the way to the other one, that one still waits."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from remit.facts.entry import HEADER
from tests.crash.gates_victim import two_gates
from tests.spec.conftest import storage_of
from tests.support.office import DEREK, DORA, RUN, answer, asked, staffed

ROOT = Path(__file__).parents[2]
# Behind the answer to the first gate, in the order in which a turn comes there.
PLACES = [
    f"{side} append {kind}" for kind in ("ApprovalUsed", "ApprovalAsked", "RunParked") for side in ("before", "after")
]


def kill_at(url: str, book: Path, place: str) -> None:
    """A process goes on with the run, and is killed at the place."""
    command = [sys.executable, "-m", "tests.crash.gates_victim", url, str(book), place]
    died = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert died.returncode == -signal.SIGKILL, died.stdout + died.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_gate_that_nobody_answered_still_waits_after_a_death_behind_another_one(
    kind: str, place: str, tmp_path: Path, request: pytest.FixtureRequest
):  # proves: APR-6, APR-10, FX-12, C11
    storage, book = storage_of(kind, tmp_path, lambda: request.getfixturevalue("postgres_database")), tmp_path / "book"
    flow = two_gates(book)
    async with storage.open() as rt:
        await staffed(rt)
        assert (await rt.run(flow, id=RUN)).waits_for == "approval"
        first = await answer(rt)
        assert first.call == "terms"

    kill_at(storage.make(None), book, place)

    async with storage.open() as rt:
        left = (await rt.show(RUN)).view.boundary.asks
        for _ in range(2):
            waiting = await rt.run(flow, id=RUN)
            assert (waiting.status, waiting.waits_for) == ("waiting", "approval")
            second = await asked(rt)
            assert (second.call, second.state, second.decided_by) == ("pay", "open", "")
            assert {*left} <= {first.id, second.id}  # a question that the dead one asked is the one that waits
            assert (await rt.ask(first.id)).state == "used"
            assert book.read_text().splitlines() == ["signed"]
        await answer(rt, by=DEREK, ask=second)
        assert (await rt.run(flow, id=RUN)).value == "paid 5"
        assert [ask.state for ask in (await rt.show(RUN)).view.boundary.asks.values()] == ["used", "used"]
        assert [(await rt.ask(one.id)).decided_by for one in (first, second)] == [DORA, DEREK]
        assert await rt.verify(RUN) is None
        kinds = [HEADER.read(entry.header).kind for entry in (await rt.read(RUN)).main]
    assert (kinds.count("ApprovalAsked"), kinds.count("ApprovalUsed")) == (2, 1)
    assert book.read_text().splitlines() == ["signed", "paid 5"]
