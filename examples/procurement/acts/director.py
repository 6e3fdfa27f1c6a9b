"""A director: a payment above £25,000 waits for a person, whose yes is good once and for these bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console

import remit
from examples.procurement import show
from examples.procurement.claims import Claim, Played
from examples.procurement.invoice import Invoice, Quote, pay_invoice
from examples.procurement.payments import Request, pounds
from examples.procurement.stage import BUYER, CLERK, DIRECTOR, Stage, invoice_of, open_ledger

TITLE = "A payment above £25,000 waits for a director"
SMALL_PENCE = 1_250_00
LARGE = Request(month="2025-02", row=1)
UNWANTED = Request(month="2025-02", row=2)


@dataclass(frozen=True)
class Found:
    """What became of three payments: a small one, one that a director allowed, and one that she did not."""

    small: remit.Outcome
    waited: remit.Outcome
    large: remit.Outcome
    denied: remit.Outcome
    is_held: bool  # somebody held the run while it waited
    paid_small: int  # payments at the bank
    paid_waiting: int  # of the large one, while it waited
    paid_large: int
    paid_denied: int
    refused: dict[str, str]  # who else tried to answer, and the code that they got
    again: str  # code of a second answer
    state: str  # of the question, at the end


def act(on: Console, stage: Stage) -> Played:
    """Play it, and say what it comes to."""
    found = play(on, stage)
    ends = Counter(outcome.code for outcome in (found.small, found.large, found.denied))
    return Played("Director", claims(found), ends)


def play(on: Console, stage: Stage) -> Found:
    """Three payments on one ledger; in this process, because a wait holds none."""
    large, unwanted = invoice_of(LARGE), invoice_of(UNWANTED)
    quote = Quote(amount=SMALL_PENCE, issued=datetime.now(UTC))
    stationery = Invoice(number="EX-0001", payee="An Example Stationer", amount=SMALL_PENCE, quote=quote)
    with open_ledger(stage.desk("director")) as rt:
        small = rt.run_sync(pay_invoice, stationery, id="ex-0001", by=BUYER, behalf=CLERK)
        waited = rt.run_sync(pay_invoice, large, id=LARGE.run, by=BUYER, behalf=CLERK)
        paid_waiting = len(stage.paid({large.number}))
        is_held = rt.show_sync(LARGE.run).row.worker is not None
        (ask,) = rt.inbox_sync(role="director")
        _tell_ask(on, ask)
        refused = {who: _answer(rt, ask, who) for who in (BUYER, CLERK)}
        rt.decide_sync(ask.id, "approve", by=DIRECTOR, seen=ask.version, reason="as quoted")
        again = _answer(rt, ask, DIRECTOR)
        paid = rt.resume_sync(LARGE.run, pay_invoice)
        state = rt.ask_sync(ask.id).state

        rt.run_sync(pay_invoice, unwanted, id=UNWANTED.run, by=BUYER, behalf=CLERK)
        (other,) = rt.inbox_sync(role="director")
        rt.decide_sync(other.id, "deny", by=DIRECTOR, seen=other.version, reason="not this year")
        denied = rt.resume_sync(UNWANTED.run, pay_invoice)
    return Found(
        small=small,
        waited=waited,
        large=paid,
        denied=denied,
        is_held=is_held,
        paid_small=len(stage.paid({stationery.number})),
        paid_waiting=paid_waiting,
        paid_large=len(stage.paid({large.number})),
        paid_denied=len(stage.paid({unwanted.number})),
        refused=refused,
        again=again,
        state=state,
    )


def claims(found: Found) -> list[Claim]:
    """One payment for each yes, and none without."""
    large, denied = found.large, found.denied
    waits = f"{found.waited.status}, {found.paid_waiting} paid"
    return [
        Claim(
            f"{pounds(SMALL_PENCE)} is paid without asking anybody",
            f"{found.small.status}, {found.paid_small} paid",
            (found.small.status, found.paid_small) == ("completed", 1),
        ),
        Claim(
            "Above £25,000 it waits; nothing is paid, no worker holds it",
            waits,
            (found.waited.status, found.waited.waits_for, found.paid_waiting, found.is_held)
            == ("waiting", "approval", 0, False),
        ),
        Claim(
            "Neither the agent nor its clerk can answer",
            ", ".join(found.refused.values()),
            found.refused == {BUYER: "approval.decider", CLERK: "approval.role"},
        ),
        Claim(
            "A director's yes pays it once, and is used up",
            f"{large.status}, {found.paid_large} paid, {found.state}",
            (large.status, found.paid_large, found.state, found.again) == ("completed", 1, "used", "approval.decided"),
        ),
        Claim(
            "A director's no ends the other one",
            f"{denied.code}, {found.paid_denied} paid",
            (denied.status, denied.code, found.paid_denied) == ("failed", "denied", 0),
        ),
    ]


def _answer(rt: remit.Runtime, ask: remit.Ask, who: str) -> str:
    """The code with which a yes of somebody is refused; "" where it is taken."""
    try:
        rt.decide_sync(ask.id, "approve", by=who, seen=ask.version)
    except remit.ApprovalRefused as refusal:
        return refusal.code
    return ""


def _tell_ask(on: Console, ask: remit.Ask) -> None:
    on.print(
        show.told(
            "The agent wants to pay ",
            (pounds(ask.payload["amount"]), "bold"),
            f" to {ask.payload['payee']}. Its run waits, and no process with it. In the inbox of a director stands "
            f"the very request that the bank will get, and the quote it rests on.",
        )
    )
