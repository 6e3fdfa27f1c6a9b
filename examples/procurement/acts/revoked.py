"""Revoked: the executor loses its role while its payments wait. Nothing goes on, and whoever waits is told."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from rich.console import Console

from examples.procurement import show, show_acts
from examples.procurement.bank import client
from examples.procurement.claims import Claim, Played
from examples.procurement.invoice import pay_invoice
from examples.procurement.payments import Request
from examples.procurement.stage import (
    BUYER,
    CLERK,
    DIRECTOR,
    OFFICE,
    Stage,
    invoice_of,
    open_ledger,
    outbox,
    said,
    start_payer,
)
from examples.procurement.watch import check_end
from remit.facts.entry import Entry

TITLE = "Revoked: the buyer is a buyer no longer"
BEGUN = Request(month="2025-02", row=3)  # waits with a director's yes in hand
OPENED = Request(month="2025-02", row=4)  # no step of it ran yet


@dataclass(frozen=True)
class Found:
    """What became of both."""

    ends: dict[str, dict[str, str]]  # by run, as the payer said
    steps: dict[str, tuple[str, ...]]  # by run: entries of the payer's attempt, by kind
    told: dict[str, str]  # by run that is announced to have failed: the reason, as whoever waits then finds it
    asked: int  # requests that reached the bank in this act


def act(on: Console, stage: Stage) -> Played:
    """Play it, and say what it comes to."""
    found = play(on, stage)
    on.print(show_acts.told_to(CLERK, found.told[BEGUN.run]))
    return Played("Revoked", claims(found), Counter(end["code"] for end in found.ends.values()))


def play(on: Console, stage: Stage) -> Found:
    """One waits with a yes, one is only opened; then a payer process is to go on with both."""
    desk, before = stage.desk("revoked"), client.counters(stage.bank)["requests"]
    with open_ledger(desk) as rt:
        rt.run_sync(pay_invoice, invoice_of(BEGUN), id=BEGUN.run, by=BUYER, behalf=CLERK)
        (ask,) = rt.inbox_sync(role="director")
        rt.decide_sync(ask.id, "approve", by=DIRECTOR, seen=ask.version)
        rt.start_sync(pay_invoice, invoice_of(OPENED), id=OPENED.run, by=BUYER, behalf=CLERK)
        seen = {run: len(rt.read_sync(run).main) for run in (BEGUN.run, OPENED.run)}
        version = rt.revoke_sync(BUYER, "buyer", by=OFFICE, reason="replaced")
        on.print(
            show.told(
                f"A director has said yes to {BEGUN.run}; {OPENED.run} is opened and not begun. Then {BUYER} loses the "
                f"role of buyer (version {version} of the directory), and a new process is to go on with both."
            )
        )
        payer = start_payer(desk)
        ends = said(payer)
        check_end(desk, "payer", payer.returncode, 0)
        steps = {run: tuple(_kind(entry) for entry in rt.read_sync(run).main[count:]) for run, count in seen.items()}
        stopped = [each.run for each in outbox(desk) if each.what.get("status") == "failed"]
        told = {run: rt.wait_sync(run).reason for run in stopped}
    return Found(ends, steps, told, client.counters(stage.bank)["requests"] - before)


def claims(found: Found) -> list[Claim]:
    """Both end, before anything of them runs."""
    codes = [end["code"] for end in found.ends.values()]
    kinds = sorted({kind for kinds in found.steps.values() for kind in kinds})
    return [
        Claim(
            "Both runs end, the director's yes in hand or not",
            ", ".join(codes),
            [(end["status"], end["code"]) for end in found.ends.values()] == [("failed", "resume_denied")] * 2,
        ),
        Claim(
            "No step of them ran, and the bank was not asked",
            f"{found.asked} requests",
            found.asked == 0 and set(kinds) <= {"AttemptStarted", "GateJudged", "RunEnded"},
        ),
        Claim(
            "Whoever waits is told why",
            f"{len(found.told)} of 2",
            len(found.told) == 2 and all(BUYER in words for words in found.told.values()),
        ),
    ]


def _kind(entry: Entry) -> str:
    return str(json.loads(entry.header)["kind"])
