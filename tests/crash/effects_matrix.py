"""The crash matrix of one effect: every place to die, under every doubt rule, on every store that outlives a process.

    python -m tests.crash.effects_matrix [sqlite] [postgres] [file]

A real process is killed at the place, and where a second place is named, the one that goes on is killed as
well. Another one then goes on with the run, and a person ends the doubt that is left. The outside is a
file that every process shares; it counts.

A cell says how often the key was paid, and how the run stood before a person came: `1` completed, `0?` or
`1?` in doubt. The last line counts the keys that were paid more than once, and has to say 0.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

import remit
from tests.crash.effects_victim import Found, Job, Report
from tests.crash.errand import AMOUNT, RULES
from tests.support.postgres import drop_database, fresh_database, postgres_for_tests

ROOT = Path(__file__).resolve().parents[2]
STORES = ("file", "sqlite", "postgres")
KILLED = -9

Ask = Callable[[Job], Report]


class Place(NamedTuple):
    """Where a process dies. stage: what is durable and what is paid by then, which decides how the run has to stand.

    then: where the process dies that goes on after it; under some rules it never comes there.
    """

    name: str
    stage: str
    then: str = ""

    def __str__(self) -> str:
        return f"{self.name}, then {self.then}" if self.then else self.name


OPENING = [Place(name, "open") for name in ("before put_worker", "before open_run", "after open_run")]
ASKING = [
    Place(f"{side} {place}", "open")
    for place in ("append ApprovalAsked", "append RunParked", "append ApprovalDecided", "claim", "read_run")
    for side in ("before", "after")
]
INTENDING = [
    Place("flow before effect", "open"),
    Place("before append EffectIntended", "open"),
    Place("after append EffectIntended", "unpaid"),
]
BODY = [
    Place("body before outside", "unpaid"),
    Place("body inside outside", "unpaid"),
    Place("body after outside", "paid"),
]
SETTLING = [Place("before append EffectSettled", "paid"), Place("after append EffectSettled", "settled")]
ENDING = [
    Place(name, "settled")
    for name in ("flow after effect", "before append RunEnded", "after append RunEnded", "returned", "before close")
]
AROUND = [*INTENDING, *BODY, *SETTLING]
ONCE = [*OPENING, *ASKING, *AROUND, *ENDING]
TWICE = [
    Place(first, stage, then)
    for first, stage in (("body inside outside", "unpaid"), ("body after outside", "paid"))
    for then in (
        "after claim",
        "inside probe",
        "end of probe",
        "before append EffectIntended",
        "after append EffectIntended",
        "body before outside",
        "body after outside",
        "before append EffectSettled",
        "after append EffectSettled",
        "before append RunParked",
        "after append RunParked",
        "before append RunEnded",
    )
]
PLACES = [*ONCE, *TWICE]


def expected(place: Place, rule: str) -> tuple[str, int]:
    """Status and payments when another process has gone on, before any person came."""
    if place.stage == "paid" and rule == "ask":
        return "in_doubt", 1
    if place.stage == "unpaid" and rule in ("ask", "probe"):
        return "in_doubt", 0
    return "completed", 1


def settlements(place: Place, rule: str) -> list[tuple[str, str]]:
    """What is settled behind one death, and how the yes stands by then: free again only where nothing happened."""
    if place.stage == "settled":
        return []
    # A sink that dedupes is sent the same again, under the same yes: nobody has to know whether it happened.
    is_known_undone = place.stage == "unpaid" and RULES[rule].get("sink") != "dedupes"
    return [("did_not_happen", "approved")] * is_known_undone + [("ok", "used")]


class Cell(NamedTuple):
    """One death, or two, and what came of it."""

    place: Place
    rule: str
    deaths: list[Report]
    survivor: Report

    def faults(self) -> list[str]:
        """What is not as it was promised."""
        told, first, last = [], self.survivor.first, self.survivor.last
        if first is None or last is None:
            return [f"nobody could go on: {self.survivor.complaint}"]
        if (self.deaths[0].status, self.deaths[0].has_come) != (KILLED, True):
            told.append(f"the first process did not come to its place: {self.deaths[0]}")
        told += [death.complaint for death in self.deaths if death.complaint]
        # A second death may end the doubt before the survivor looks, so what is left depends on it alone.
        if not self.place.then and (first.status, first.paid) != expected(self.place, self.rule):
            told.append(f"{first.status} after {first.paid} payments, not {expected(self.place, self.rule)}")
        told += [fault for found in (first, last) for fault in _lies(found)]
        if (last.status, last.paid, last.paid_most) != ("completed", 1, 1):
            told.append(f"{last.status} after {last.paid} payments in the end")
        told += self._misused()
        return told + ([self.survivor.wrong] if self.survivor.wrong else [])

    def _misused(self) -> list[str]:
        """What is wrong with the yes: there is one question all along, and what may have happened has used it."""
        told, left = [], self.survivor.left
        assert self.survivor.first is not None and self.survivor.last is not None
        asks = [*(left or ()), *self.survivor.first.asks, *self.survivor.last.asks]
        if len({ask for ask, _ in asks}) != 1:
            told.append(f"more questions than one: {asks}")
        if [state for _, state in asks[len(left or ()) :]] != ["used", "used"]:
            told.append(f"the questions are {self.survivor.first.asks}, then {self.survivor.last.asks}")
        if self.place.then:
            return told
        if self.place.stage != "open" and [state for _, state in left or ()] != ["used"]:
            told.append(f"it died behind an intention, and left {left}")
        settled = settlements(self.place, self.rule)
        if self.survivor.settled != settled:
            told.append(f"it was settled as {self.survivor.settled}, not {settled}")
        return told

    def __str__(self) -> str:
        first = self.survivor.first
        if first is None:
            return "!"
        return f"{first.paid}{'?' if first.status == 'in_doubt' else ''}{'!' if self.faults() else ''}"


def _lies(found: Found) -> list[str]:
    """A status that does not tell the truth, and a reservation that nobody owns."""
    truths = {"completed": ("", "ok", 0), "in_doubt": ("doubt", "in_doubt", 1)}
    told = (found.waits_for, found.state, found.listed)
    lies = [] if told == truths.get(found.status) else [f"it says {found.status}, and {told}"]
    if found.status == "completed" and found.paid != 1:
        lies.append(f"it says completed, and {found.paid} were paid")
    if found.paid_most > 1:
        lies.append(f"one key was paid {found.paid_most} times")
    if found.held != AMOUNT:
        lies.append(f"{found.held} are held under the ceiling")
    return lies


def play(ask: Ask, url: str, folder: Path, place: Place, rule: str) -> Cell:
    """One cell, in a tenant and a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(url=url, tenant=f"{place}/{rule}"[:200], folder=str(folder), rule=rule)
    deaths = [ask(msgspec.structs.replace(job, place=place.name, is_first=True))]
    if place.then:
        deaths.append(ask(msgspec.structs.replace(job, place=place.then)))
    return Cell(place, rule, deaths, ask(job))


@contextmanager
def asking(locks: Path) -> Iterator[Ask]:
    """A process to which jobs are given."""
    environment = os.environ | {"PYTHONPATH": str(Path(remit.__file__).parents[1]), "TMPDIR": str(locks)}
    command = [sys.executable, "-m", "tests.crash.effects_victim"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe) as forking:
        given, told = forking.stdin, forking.stdout
        assert given is not None and told is not None

        def ask(job: Job) -> Report:
            given.write(msgspec.json.encode(job) + b"\n")
            given.flush()
            return msgspec.json.decode(told.readline(), type=Report)

        yield ask
        given.close()


def main(stores: Sequence[str]) -> int:
    """Print a table for each store; 0 where nothing is as it must not be."""
    began, cells = time.monotonic(), []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="remit-crash-")))
        ask = stack.enter_context(asking(folder))
        server = stack.enter_context(postgres_for_tests()) if "postgres" in stores else ""
        for store in stores:
            if store == "postgres":
                url = fresh_database(server)
                stack.callback(drop_database, url)
            print(f"\n{store}\n{'':58}" + "".join(f"{rule:>21}" for rule in RULES), flush=True)
            for number, place in enumerate(PLACES):
                row = []
                for at, rule in enumerate(RULES):
                    own = folder / f"{store}-{number}-{at}"
                    where = {"file": f"file:{own}/state.json", "sqlite": f"sqlite:///{folder}/runs.db"}
                    row.append(play(ask, where.get(store) or url, own, place, rule))
                print(f"{place!s:58}" + "".join(f"{cell!s:>21}" for cell in row), flush=True)
                cells += row
    return _sum_up(cells, time.monotonic() - began)


def _sum_up(cells: list[Cell], seconds: float) -> int:
    broken = [(cell, cell.faults()) for cell in cells if cell.faults()]
    for cell, faults in broken:
        print(f"\n{cell.place}, {cell.rule}: {'; '.join(faults)}")
    deaths = sum(death.has_come for cell in cells for death in cell.deaths)
    most = [found.paid_most for cell in cells if (found := cell.survivor.last) is not None]
    print(f"\n{len(cells)} cells, {deaths} processes killed, {seconds:.0f} s")
    print(f"cells that are not as promised: {len(broken)}")
    above = sum(calls > 1 for calls in most)
    print(f"calls above one: {above}")
    return 1 if broken or above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or STORES))
