"""Killed: the bank has paid, and the process dies before it could write that down.

The hardest place to die. The journal says "intended", the bank says "paid", and a program that
knows only its own journal either pays again or gives up. This one asks the bank, by the key.
"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass

from rich.console import Console

from examples.procurement import show
from examples.procurement.bank import client
from examples.procurement.claims import Claim, Played
from examples.procurement.invoice import pay_invoice
from examples.procurement.payments import Request, pounds
from examples.procurement.stage import BUYER, CLERK, DIRECTOR, Stage, invoice_of, open_ledger, said, start_payer
from examples.procurement.watch import check_end

TITLE = "Killed when the bank had paid and the ledger did not know"
PAID = Request(month="2025-02", row=5)


@dataclass(frozen=True)
class Found:
    """What was seen of it."""

    status: int  # of the killed process
    doubts: tuple[str, ...]  # states of its effects, when it was dead
    paid_then: int  # payments at the bank when the process was dead
    end: dict[str, str]  # as the second process said
    found: str  # how the doubt was ended
    calls: int  # of the effect's function
    approval: str  # state of the question
    paid: int  # payments at the bank, at the end


def act(on: Console, stage: Stage) -> Played:
    """Play it, and say what it comes to."""
    found = play(on, stage)
    return Played("Killed", claims(found), Counter([found.end["code"]]))


def play(on: Console, stage: Stage) -> Found:
    """A payer is held inside its call, after the bank has paid, and killed; a second one goes on."""
    desk, invoice = stage.desk("killed"), invoice_of(PAID)
    with open_ledger(desk) as rt:
        rt.run_sync(pay_invoice, invoice, id=PAID.run, by=BUYER, behalf=CLERK)
        (ask,) = rt.inbox_sync(role="director")
        rt.decide_sync(ask.id, "approve", by=DIRECTOR, seen=ask.version)

        client.cause(stage.bank, "hold_after", invoice=invoice.number)
        first = start_payer(desk)
        client.wait_held(stage.bank)
        first.send_signal(signal.SIGKILL)
        status = first.wait()
        first.communicate()
        client.release(stage.bank)
        doubts = tuple(effect.state for effect in rt.effects_sync(in_doubt=True))
        paid_then = len(stage.paid({invoice.number}))
        on.print(
            show.told(
                f"The bank pays {pounds(invoice.amount)} to {invoice.payee} and is slow to say so. ",
                ("SIGKILL", "bold red"),
                f" to process {first.pid}. At the bank: {paid_then} payment. In the journal: an intention, and nothing "
                "after it. A second process takes over.",
            )
        )
        second = start_payer(desk)
        ends = said(second)
        check_end(desk, "payer", second.returncode, 0)
        (effect,) = rt.effects_sync(PAID.run)
        state = rt.ask_sync(ask.id).state
    paid = len(stage.paid({invoice.number}))
    return Found(status, doubts, paid_then, ends[PAID.run], effect.found, effect.calls, state, paid)


def claims(found: Found) -> list[Claim]:
    """One payment; found out by asking."""
    return [
        Claim(
            "Killed when the bank had paid, before that was saved",
            f"{found.paid_then} paid, {', '.join(found.doubts)}",
            (found.status, found.doubts, found.paid_then) == (-9, ("in_doubt",), 1),
        ),
        Claim(
            "The second process found it out by asking, and completed the run",
            f"{found.found}, {found.end['status']}",
            (found.found, found.end["status"]) == ("probe", "completed"),
        ),
        Claim(
            "One payment at the bank, one call, and the yes is used up",
            f"{found.paid} paid, {found.calls} call, {found.approval}",
            (found.paid, found.calls, found.approval) == (1, 1, "used"),
        ),
    ]
