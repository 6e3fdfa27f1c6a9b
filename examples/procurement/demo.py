"""The demo: `python -m examples.procurement.demo`.

January's purchases are killed half-way by SIGKILL and gone on with, until all are complete.
February's are killed as well; then one saved decision is edited in the database, from
"denied" to "approved", and two answers to that are shown: of a resume that trusts its log,
and of Remit, which refuses that purchase and goes on with the others.

Then payments leave by a bank, a process of its own, and the question is no longer whether a
run can go on: a director is asked, three things change until Friday, a role is revoked, a
process dies when the bank has paid and the ledger does not know, and January is paid to its end.

The demo ends with 0 when everything that it says of itself was found to be so, else with 1.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

import remit
from examples.procurement import claims, show, show_acts, tamper
from examples.procurement.acts import director, friday, killed, revoked
from examples.procurement.acts import january as january_paid
from examples.procurement.bank import client
from examples.procurement.claims import Claim, Death, Month, Played
from examples.procurement.desk import FOLDER_DEFAULT, Desk
from examples.procurement.ledger import read_ledger, saved_calls
from examples.procurement.payments import MONTHS, Published, pounds, published, read_payment, repeats_of
from examples.procurement.stage import open_stage
from examples.procurement.watch import BrokeDown, Refusal, Sight, Worker, ask, check_end

AT_ONCE = 8
SECONDS_MAX = 60
AGAIN = "The same call again, in a new process:"
_LAST_STEPS = ("write_proposal", "write_denial")
_ACTS = (director, friday, revoked, killed, january_paid)


@dataclass(frozen=True)
class Plan:
    """Where a month's worker will die: inside the last step of the purchases that repeat each other.

    The demo holds their payee's folder on the desk, as anybody might who reads in it, so that
    the worker has to wait there. It runs one purchase more at once than have to wait, so it
    also works when it dies.
    """

    file: Published
    payee: str
    waiting: tuple[str, ...]  # runs that are inside their last step by then; all but the first are denied

    @property
    def denied(self) -> str:
        """The run whose denial is saved and whose paper is not written."""
        return self.waiting[-1]


def plan(month: str) -> Plan:
    """The first payments of a month that nothing tells apart. Both months have some."""
    file = published(month)
    payments = [read_payment(request) for request in file.requests]
    first = next(found[0] for found in map(repeats_of, payments) if found)
    group = [payments[first - 1], *(payment for payment in payments if first in repeats_of(payment))]
    return Plan(file, group[0].supplier, tuple(payment.request.run for payment in group))


def january(on: Console, desk: Desk) -> tuple[Month, list[Claim]]:
    """Killed, gone on with, complete."""
    planned = plan(MONTHS[0])
    on.print(show.heading(1, "January: killed half-way, and back"))
    death = live_and_die(on, desk, planned)
    tell_of(on, death, planned)
    on.print(show.told("\n", AGAIN))
    refused = come_back(on, desk, planned)
    month = claims.take_stock(desk, planned.file, death, refused)
    found = [*claims.claims_of_a_death(month), *claims.claims_of_steps(month), *claims.claims_of_results(month)]
    on.print(show.claims(found))
    return month, found


def february(on: Console, desk: Desk) -> tuple[Month, list[Claim]]:
    """Killed, one decision edited, gone on with: that purchase is refused, the others complete."""
    planned = plan(MONTHS[1])
    on.print(show.heading(2, "February: killed half-way, and a saved decision edited"))
    death = live_and_die(on, desk, planned)
    tell_of(on, death, planned)
    edit = ask("tamper", str(desk.ledger), planned.denied, desk=desk)
    tell_of_the_edit(on, planned, edit)
    trusting = ask("trusting", str(desk.ledger), planned.denied, desk=Desk(desk.folder / "trusting"))
    on.print(show.told("\n", AGAIN))
    refused = come_back(on, desk, planned)
    month = claims.take_stock(desk, planned.file, death, refused)
    on.print(show.side_by_side(on, believed(trusting), answer(refused.get(planned.denied), month)))
    found = [
        *claims.claims_of_an_edit(edit, trusting),
        *claims.claims_of_a_refusal(month, planned.denied, desk),
        *claims.claims_of_a_death(month),
        *claims.claims_of_steps(month),
        *claims.claims_of_results(month),
    ]
    on.print(show.claims(found))
    return month, found


def at_the_bank(on: Console, desk: Desk, number: int) -> list[Claim]:
    """The acts that pay, and what the bank says of all of them. number: of the first one's heading."""
    with open_stage(desk.folder) as stage:
        acts: list[Played] = []
        for act in _ACTS:
            on.print(show.heading(number + len(acts), act.TITLE))
            acts.append(act.act(on, stage))
            on.print(show.claims(acts[-1].claims))
        counters = client.counters(stage.bank)
    on.print(show.heading(number + len(acts), "At the bank"))
    on.print(show_acts.closing(acts, counters))
    found = claims.claims_at_the_end(acts, counters)
    on.print(show.claims(found))
    return [claim for act in acts for claim in act.claims] + found


def live_and_die(on: Console, desk: Desk, planned: Plan) -> Death:
    """Run a month's purchases and kill the worker while it is inside the planned steps."""

    def is_time(sight: Sight) -> bool:
        return all(any((run, step) in sight.began for step in _LAST_STEPS) for run in planned.waiting)

    with ExitStack() as held:
        held.enter_context(desk.hold(planned.payee))
        worker = Worker(desk, planned.file.month, at_once=len(planned.waiting) + 1)
        with show.progress(on, worker.pid, len(planned.file.rows)) as bar:
            for sight in worker.looks():
                bar.move(len(sight.ended), sight.began.total())
                if is_time(sight):
                    worker.kill()
            check_end(desk, "worker", worker.status, -signal.SIGKILL)
            bar.end("killed")
    standings = read_ledger(desk, planned.file.month)
    saved = saved_calls(standings)
    completed = sum(standing.status == "completed" for standing in standings.values())
    return Death(worker.pid, worker.status or 0, completed, frozenset(saved), frozenset(sight.began.keys() - saved))


def come_back(on: Console, desk: Desk, planned: Plan) -> dict[str, Refusal]:
    """The same call again, by a new worker, to its end; what it was refused."""
    worker = Worker(desk, planned.file.month, at_once=AT_ONCE)
    with show.progress(on, worker.pid, len(planned.file.rows)) as bar:
        for sight in worker.looks():
            bar.move(len(sight.ended), sight.began.total())
        check_end(desk, "worker", worker.status, 0, remit.Tampered.exit_status)
        bar.end(f"{len(sight.refused)} refused" if sight.refused else "done")
    return sight.refused


def tell_of(on: Console, death: Death, planned: Plan) -> None:
    on.print(
        show.told(
            ("SIGKILL", "bold red"),
            f" to process {death.pid}, with no chance to tidy up. On the disk: {death.completed} purchases complete, "
            f"{len(death.saved)} steps saved. {len(death.half_way)} steps were half-way; {len(planned.waiting)} of "
            f"these had a paper for {planned.payee} in hand.",
        )
    )


def tell_of_the_edit(on: Console, planned: Plan, edit: dict[str, str]) -> None:
    payment = read_payment(planned.file.requests[int(planned.denied[-3:]) - 1])
    on.print(
        show.told(
            f"\n{planned.denied} asks for {pounds(payment.amount_pence)} to {payment.supplier} and was denied: an "
            f"earlier row has the same payee, date, amount and transaction number {payment.number}. Its denial is "
            "saved. Now somebody with access to the database edits that, in one statement:\n"
        )
    )
    on.print(show.statement(tamper.EDIT, planned.denied))
    on.print(
        show.told(
            "\nsaved before  ",
            (edit["was"], "bold"),
            "    saved now  ",
            (edit["now"], "bold red"),
            "    1 row changed",
        )
    )


def believed(paper: dict[str, str]) -> tuple[str, Text]:
    """What the resume that trusts its log did."""
    return "A resume that trusts its log", Text.assemble(
        ("wrote the proposal", "bold red"),
        f"\n{paper['amount']} to {paper['payee']}, transaction {paper['number']}, which an earlier row "
        "asks for as well.\n\nIt skipped each step that has a saved outcome, the denial among them, and went on. "
        "It saw nothing. (Done for real, on a desk of its own.)",
    )


def answer(refusal: Refusal | None, month: Month) -> tuple[str, Text]:
    """What Remit did."""
    if refusal is None:
        return "Remit", Text("did not refuse it", "bold red")
    return "Remit", Text.assemble(
        ("refused it: ", "bold green"),
        (refusal.code, "bold"),
        f"\n{refusal.message}\n\nThe run is set aside for a person; nothing of it was run. It called for a person "
        f"(on the log). The {month.completed} others went on.",
    )


@contextmanager
def at_a_clean_desk(folder: Path) -> Iterator[Desk]:
    """The demo's folder, with what an earlier demo left removed. One demo at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    with (folder / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"Another demo is at work in {folder}; nothing was done. Wait for it, or name another --folder.")
        databases = [f"{name}{end}" for name in ("ledger.db", "bank.db") for end in ("", "-wal", "-shm")]
        for name in (*databases, "steps.log", "calls.log"):
            (folder / name).unlink(missing_ok=True)
        for name in ("papers", "trusting", *(act.__name__.rpartition(".")[2] for act in _ACTS)):
            shutil.rmtree(folder / name, ignore_errors=True)
        yield Desk(folder)


def further(desk: Desk, planned: Plan) -> list[tuple[str, str]]:
    """Commands that look at what the demo left."""
    script = Path(sys.executable).with_name("remit")
    command = f"{_near(script)} --store sqlite:///{_near(desk.ledger)}"
    revoked_ = f"{_near(script)} --store sqlite:///{_near(desk.folder / 'revoked' / desk.ledger.name)}"
    killed_ = f"{_near(script)} --store sqlite:///{_near(desk.folder / 'killed' / desk.ledger.name)}"
    return [
        (f"{command} list", "all runs"),
        (f"{command} explain {planned.waiting[0]}", "what happened in one of them, entry by entry"),
        (f"{command} verify {planned.denied}", "what is wrong with the one that was refused"),
        (f"{revoked_} why {revoked.BEGUN.run}", "why a payment was not made"),
        (f"{killed_} explain {killed.PAID.run}", "how a payment was found out"),
    ]


def _near(path: Path) -> str:
    """A path as one would type it from here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def tell(folder: Path) -> int:
    """The whole story; the exit status."""
    began, on = time.monotonic(), show.console()
    files = [published(month) for month in MONTHS]
    with at_a_clean_desk(folder) as desk:
        on.print(show.title(sum(len(file.rows) for file in files), files[0].licence))
        acts = [january(on, desk), february(on, desk)]
        made = [claim for _, found in acts for claim in found]
        on.print(show.heading(3, "Both months"))
        on.print(show.closing([month for month, _ in acts]))
        made += at_the_bank(on, desk, 4)
        took = time.monotonic() - began
        made.append(Claim("Under a minute", f"{took:.1f} s", took < SECONDS_MAX))
        broken = [claim for claim in made if not claim.holds]
        on.print(show.verdict(len(made), broken, took, _near(desk.folder)))
        show.further(on, further(desk, plan(MONTHS[1])))
    return 1 if broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.procurement.demo", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(FOLDER_DEFAULT), help="where the demo works (%(default)s)")
    folder = parser.parse_args().folder.resolve()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without £ and ✓ gets question marks, not an error
    try:
        return tell(folder)
    except BrokeDown as exc:
        print(exc, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next demo begins afresh.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
