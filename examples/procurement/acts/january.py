"""January: a month of payments to their end, with a bank that fails and a payer that is killed.

the payer     opens nothing and knows no list: it goes on with what the ledger has
the director  says yes to most, no to what is above £1,000,000
the bank      pays and drops the line, fails before paying, and is slow once
the end       each payment made at most once; every penny of the file accounted for
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

import remit
from examples.procurement import show, show_acts
from examples.procurement.bank import client
from examples.procurement.claims import Claim, Played
from examples.procurement.desk import Desk
from examples.procurement.invoice import Invoice, pay_invoice
from examples.procurement.payments import MONTHS, pounds, published
from examples.procurement.stage import BUYER, CLERK, DIRECTOR, Stage, invoice_of, open_ledger, start_payer
from examples.procurement.watch import check_end

TITLE = "January, with a bank that fails and a payer that is killed"
AT_ONCE = 8
DENIED_ABOVE = 1_000_000_00
FAULTS = {"drop_after": 5, "error_before": 5}
_HELD_ROW = 40  # the payer is killed while the bank is slow about this one


@dataclass(frozen=True)
class Month:
    """How the month ended. Money in pence, by why it was paid or not: "" is paid."""

    runs: int
    waiting: int  # questions, when every run had come as far as it could alone
    paid_waiting: int  # payments at the bank by then
    status: int  # of the killed payer
    doubts: int  # effects in doubt when it was dead
    ends: Counter[str]  # runs by outcome code
    pence: Counter[str]
    published: int
    found: Counter[str]  # effects by how they are known to have happened: "" is by the call's own answer
    used: int  # questions whose yes was used
    keys_at_bank: int
    paid_at_bank: int  # payments
    pence_at_bank: int
    above_one: int  # keys that paid more than once
    is_same: bool  # ledger and bank name the same receipts


def act(on: Console, stage: Stage) -> Played:
    """Play it, and say what it comes to."""
    month = play(on, stage)
    on.print(show_acts.month(month))
    return Played("January", claims(month), month.ends)


def play(on: Console, stage: Stage) -> Month:
    """All of January."""
    desk, file = stage.desk("january"), published(MONTHS[0])
    invoices = {request.run: invoice_of(request) for request in file.requests}
    numbers = {invoice.number for invoice in invoices.values()}
    with open_ledger(desk) as rt:
        for run, invoice in invoices.items():
            rt.start_sync(pay_invoice, invoice, id=run, by=BUYER, behalf=CLERK)
        _go_on(on, desk, len(invoices))
        waiting, paid_waiting = rt.inbox_sync(role="director", limit=1_000), len(stage.paid(numbers))
        denied = _decide(rt, waiting)
        _tell_decisions(on, len(waiting), denied)
        status, doubts = _die(on, stage, desk, rt, invoices)
        _go_on(on, desk, _open(rt))
        return _stock(rt, stage, invoices, waiting, (paid_waiting, status, doubts, file.total_pence))


def _open(rt: remit.Runtime) -> int:
    """Runs that a payer would go on with."""
    return sum(len(rt.list_sync(status=status, limit=1_000)) for status in ("running", "waiting", "in_doubt"))


def _go_on(on: Console, desk: Desk, count: int) -> None:
    """A payer process, to its end."""
    payer = start_payer(desk, AT_ONCE)
    with show_acts.bar(on, f"payer {payer.pid}", count) as bar:
        for _ in _lines(payer):
            bar.move()
        bar.end("done")
    check_end(desk, "payer", payer.wait(), 0)


def _die(on: Console, stage: Stage, desk: Desk, rt: remit.Runtime, invoices: dict[str, Invoice]) -> tuple[int, int]:
    """A payer process while the bank fails, killed in the middle of it; its status, and what it left in doubt."""
    for kind, times in FAULTS.items():
        client.cause(stage.bank, kind, times)
    client.cause(stage.bank, "hold_after", invoice=list(invoices.values())[_HELD_ROW - 1].number)
    payer = start_payer(desk, AT_ONCE)
    with show_acts.bar(on, f"payer {payer.pid}", _open(rt)) as bar:
        client.wait_held(stage.bank)
        payer.send_signal(signal.SIGKILL)
        for _ in _lines(payer):
            bar.move()
        bar.end("killed")
    status = payer.wait()
    client.release(stage.bank)
    return status, len(rt.effects_sync(in_doubt=True))


def _lines(payer: subprocess.Popen[bytes]) -> Iterator[dict[str, str]]:
    assert payer.stdout is not None
    with payer.stdout as pipe:
        yield from map(json.loads, pipe)


def _decide(rt: remit.Runtime, asks: list[remit.Ask]) -> int:
    """The director goes through her inbox; how often she said no."""
    denied = 0
    for ask in asks:
        is_denied = ask.payload["amount"] > DENIED_ABOVE
        rt.decide_sync(ask.id, "deny" if is_denied else "approve", by=DIRECTOR, seen=ask.version)
        denied += is_denied
    return denied


def _stock(
    rt: remit.Runtime,
    stage: Stage,
    invoices: dict[str, Invoice],
    asks: list[remit.Ask],
    seen: tuple[int, int, int, int],
) -> Month:
    paid_waiting, status, doubts, total = seen
    ends, pence, found = Counter[str](), Counter[str](), Counter[str]()
    receipts: set[tuple[str, str, int]] = set()
    for run, invoice in invoices.items():
        outcome = rt.wait_sync(run, timeout=0.5)
        why = outcome.code if outcome.status == "failed" else "" if outcome.status == "completed" else outcome.status
        ends[why] += 1
        pence[why] += invoice.amount
        for effect in rt.effects_sync(run):
            if effect.state == "ok":
                found[effect.found] += 1
                receipts.add((effect.key, effect.outcome["id"], effect.outcome["amount"]))
    at_bank = stage.paid({invoice.number for invoice in invoices.values()})
    counters = client.counters(stage.bank)
    return Month(
        runs=len(invoices),
        waiting=len(asks),
        paid_waiting=paid_waiting,
        status=status,
        doubts=doubts,
        ends=ends,
        pence=pence,
        published=total,
        found=found,
        used=sum(rt.ask_sync(ask.id).state == "used" for ask in asks),
        keys_at_bank=len({receipt.key for receipt in at_bank}),
        paid_at_bank=len(at_bank),
        pence_at_bank=sum(receipt.amount for receipt in at_bank),
        above_one=counters["above_one"],
        is_same=receipts == {(receipt.key, receipt.id, receipt.amount) for receipt in at_bank},
    )


def claims(month: Month) -> list[Claim]:
    """Each at most once, and all of it adds up."""
    paid = month.ends[""]
    return [
        Claim(
            "Without a director nothing above £25,000 was paid",
            f"{month.waiting} waited, {month.paid_waiting} paid",
            month.waiting == month.runs - month.ends["ceiling_exceeded"] and month.paid_waiting == 0,
        ),
        Claim(
            "A payer was killed with payments in doubt",
            f"{month.doubts} in doubt",
            month.status == -9 and month.doubts > 0,
        ),
        Claim(
            "Found out by asking the bank",
            str(month.found["probe"]),
            month.found["probe"] > 0 and set(month.found) <= {"", "probe"},
        ),
        Claim(
            "Each payment was made at most once; keys that paid twice",
            str(month.above_one),
            month.above_one == 0 and month.paid_at_bank == month.keys_at_bank == paid == month.used,
        ),
        Claim("The ledger and the bank name the same receipts", str(month.paid_at_bank), month.is_same),
        Claim(
            "Paid and not paid, each with its reason = the published total",
            pounds(month.published),
            month.pence.total() == month.published
            and month.pence[""] == month.pence_at_bank
            and set(month.ends) == {"", "denied", "ceiling_exceeded", "idempotency_conflict"},
        ),
    ]


def _tell_decisions(on: Console, asked: int, denied: int) -> None:
    on.print(
        show.told(
            f"{asked} questions wait for a director, and no process with them. She says no to {denied}, which are "
            f"above {pounds(DENIED_ABOVE)}, and yes to the others. From here on the bank fails: "
            f"{FAULTS['drop_after']} times it pays and drops the line, {FAULTS['error_before']} times it fails before "
            "paying, and once it is slow.",
        )
    )
