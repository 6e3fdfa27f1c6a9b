"""A real process dies at each place of a run, in each way, on each store; another one goes on and nothing is doubled.

What must be recorded at each place stands in the table: a name that is recorded too early
is as wrong as one that is lost. No death costs more than the calls that were under way, and
no survivor waits for a lease: leases last ten minutes here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import remit
from tests.crash.victim import Job, Report, Survey
from tests.crash.voyage import EXIT_STATUS, GIVEN
from tests.support.postgres import drop_database, fresh_database

ROOT = Path(__file__).resolve().parents[2]
TOOK_MS_MAX = 20_000

Ask = Callable[[Job], Report]

# The order in which calls are recorded. A draw and a race are recorded with the step after them.
VOYAGE = ("run.uuid", "plan", "load", "left", "right", "quick", "run.first", "unload")
SHORT = ("plan", "toll")
NOTHING, NO_RUN = "", "-"


class Place(NamedTuple):
    """Where a process dies, and the last call that is recorded by then."""

    name: str
    last: str
    flow: str = "voyage"
    before: str = ""  # where an earlier process died at the same run
    calls: int = 1  # of the survivor
    is_start: bool = False

    def recorded(self) -> list[str] | None:
        if self.last == NO_RUN:
            return None
        names = SHORT if self.flow in ("tolled", "withdrawn") else VOYAGE
        return list(names[: names.index(self.last) + 1]) if self.last else []


OPENING = [
    Place("before put_worker", NO_RUN),
    Place("before open_run", NO_RUN),
    Place("after open_run", NOTHING),
    Place("before open_run", NO_RUN, is_start=True),
    Place("returned", NOTHING, is_start=True),  # C8: what `start` promised is there
]
STEPS = [
    Place("flow before plan", NOTHING),
    Place("inside plan", NOTHING),
    Place("end of plan", NOTHING),
    Place("before append plan", NOTHING),
    Place("after append plan", "plan"),
    Place("flow after plan", "plan"),
    Place("inside load", "plan"),  # in a thread
    Place("end of load", "plan"),
    Place("before append load", "plan"),
    Place("after append load", "load"),
    Place("flow after load", "load"),
]
SIDE_BY_SIDE = [
    Place("inside left", "load"),
    Place("before append left", "load"),
    Place("after append left", "left"),
    Place("inside right", "left"),
    Place("end of right", "left"),
    Place("before append right", "left"),
    Place("after append right", "right"),
    Place("flow after gather", "right"),
]
RACE = [
    Place("inside slow", "right"),
    Place("inside quick", "right"),
    Place("before append quick", "right"),
    Place("after append quick", "quick"),
    Place("flow after race", "quick"),
    Place("inside unload", "quick"),
    Place("before append unload", "quick"),
    Place("after append unload", "unload"),
]
END = [
    Place("flow after unload", "unload"),
    Place("before append RunEnded", "unload"),
    Place("after append RunEnded", "unload"),
    Place("returned", "unload"),
    Place("before close", "unload"),
    Place("closed", "unload"),
]
PARKING = [
    Place("before append toll", "plan", "tolled"),
    Place("after append toll", "toll", "tolled", calls=2),  # the failure is told first, as it would have been
    Place("before append RunParked", "toll", "tolled", calls=2),
    Place("after append RunParked", "plan", "tolled"),
    Place("returned", "plan", "tolled"),
    Place("before release", "plan", "withdrawn"),
    Place("after release", "plan", "withdrawn"),
]
PLAIN = [
    Place("flow before plan", NOTHING, "plain_voyage"),
    Place("inside load", "plan", "plain_voyage"),
    Place("flow after load", "load", "plain_voyage"),
    Place("inside right", "left", "plain_voyage"),
    Place("flow after race", "quick", "plain_voyage"),
    Place("before append RunEnded", "unload", "plain_voyage"),
]
TWICE = [
    Place(name, last, before="inside load")
    for name, last in (
        ("after open_run", "plan"),
        ("before read_row", "plan"),
        ("before read_run", "plan"),
        ("after read_run", "plan"),
        ("after read_worker", "plan"),
        ("before claim", "plan"),
        ("after claim", "plan"),
        ("flow before plan", "plan"),  # while it is replayed
        ("flow after plan", "plan"),
        ("inside load", "plan"),
        ("before append load", "plan"),
        ("after append load", "load"),
        ("after append RunEnded", "unload"),
    )
]
TWICE_IN_A_RACE = [
    Place("after claim", "quick", before="after append quick"),
    Place("flow after race", "quick", before="flow after race"),
    Place("before append unload", "quick", before="before append unload"),
]
PLACES = [*OPENING, *STEPS, *SIDE_BY_SIDE, *RACE, *END, *PARKING, *PLAIN, *TWICE, *TWICE_IN_A_RACE]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Give a job to a process that is to die or to survive."""
    locks = tmp_path_factory.mktemp("locks")
    environment = os.environ | {"PYTHONPATH": str(Path(remit.__file__).parents[1]), "TMPDIR": str(locks)}
    command = [sys.executable, "-m", "tests.crash.victim"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe) as forking:
        assert forking.stdin is not None and forking.stdout is not None

        def give(job: Job) -> Report:
            assert forking.stdin is not None and forking.stdout is not None
            forking.stdin.write(msgspec.json.encode(job) + b"\n")
            forking.stdin.flush()
            return msgspec.json.decode(forking.stdout.readline(), type=Report)

        yield give
        forking.stdin.close()


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[dict[str, str]]:
    """One of each, for all deaths: what dies in one run must not touch another."""
    postgres = fresh_database(postgres_url)
    yield {"sqlite": f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'runs.db'}", "postgres": postgres}
    drop_database(postgres)


@pytest.fixture(params=["file", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, databases: dict[str, str], tmp_path: Path) -> str:
    return databases.get(request.param) or f"file:{tmp_path / 'state.json'}"


def _shown(place: Place) -> str:
    words = [place.flow] if place.flow != "voyage" else []
    words += [place.name] + ["of start"] * place.is_start + [f"after {place.before}"] * bool(place.before)
    return " ".join(words).replace(" ", "-")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES, ids=_shown)
@pytest.mark.parametrize("way", ["kill", "exit"])
def test_a_run_goes_on_wherever_its_process_dies(
    url: str, way: str, place: Place, ask: Ask, tmp_path: Path
):  # proves: RUN-3, RUN-5, RUN-8, RUN-9, OWN-1, FX-12, C3, C4, C6, C8
    job = Job(url=url, run=f"{way}/{_shown(place)}", flow=place.flow, folder=str(tmp_path), way=way)
    job.is_start = place.is_start
    (tmp_path / "broken").touch()
    deaths = [place.before, place.name] if place.before else [place.name]
    for death in deaths:
        dead = ask(msgspec.structs.replace(job, place=death))
        assert (dead.status, dead.has_come) == ((EXIT_STATUS, False), (-signal.SIGKILL, True))[way == "kill"], dead
    (tmp_path / "broken").unlink()
    ran_before = _ran(tmp_path)

    survivor = ask(msgspec.structs.replace(job, place="", calls_max=place.calls))

    assert survivor.survey is not None, survivor
    _check(survivor.survey, place, ran_before, _ran(tmp_path), deaths=len(deaths))


def _check(survey: Survey, place: Place, before: Counter[str], after: Counter[str], *, deaths: int) -> None:
    assert survey.found == place.recorded()
    recorded, bodies = set(survey.found or ()) - set(survey.failed), _bodies(place.flow)
    # Once one side of a race is recorded the race is over, decided or not: the loser does not begin again.
    over = recorded | ({"slow"} if recorded & {"quick", "run.first"} else set())
    expected = {name: int(name not in over) for name in bodies}
    assert {name: after[name] - before[name] for name in expected} == expected
    assert [name for name in recorded.intersection(bodies) if after[name] > deaths] == []
    assert [name for name in bodies if after[name] > deaths + 1] == []

    assert survey.value == _expected(place.flow, survey.value)
    assert (survey.calls, survey.wrong, survey.worker) == (place.calls, None, None)
    assert survey.epochs == sorted(set(survey.epochs)) and survey.epochs
    assert survey.took_ms < TOOK_MS_MAX


def _bodies(flow: str) -> tuple[str, ...]:
    short = {"tolled": ("plan", "toll"), "withdrawn": ("plan", "leave")}
    return short.get(flow, ("plan", "load", "left", "right", "quick", "slow", "unload"))


def _expected(flow: str, value: Any) -> Any:
    """The mark is whatever was drawn, but the same to the flow and to every step that saw it."""
    if flow in ("tolled", "withdrawn"):
        return GIVEN + 7
    mark = value["mark"]
    cargo = ["quick", "right", "left"]
    return {"mark": mark, "planned": mark, "loaded": {"of": mark}, "cargo": cargo, "given": GIVEN}


def _ran(folder: Path) -> Counter[str]:
    path = folder / "ran"
    return Counter(path.read_text().split() if path.exists() else ())
