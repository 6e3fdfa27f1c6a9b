"""Friday: three things changed while a payment waited for its yes, and the yes comes all the same.

Asked on Tuesday. By Friday the operators have cut the ceiling, the quote has expired, and a
figure of the request has been edited. Each is reason enough. Nothing happens, and all three
are named, because who has to set it right should not find them one after the other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rich.console import Console

import remit
from examples.procurement import show, show_acts
from examples.procurement.bank.order import Order
from examples.procurement.claims import Claim, Played
from examples.procurement.edited import pay_invoice_edited, slip
from examples.procurement.invoice import pay, pay_invoice
from examples.procurement.payments import Request, pounds
from examples.procurement.stage import BUYER, CLERK, DIRECTOR, OFFICE, Stage, invoice_of, open_ledger
from remit.authority.difference import Change, difference
from remit.engine.runs.dry import Judged

TITLE = "Friday: three things changed while it waited"
TUESDAY = datetime(2025, 1, 14, 9, 0, tzinfo=UTC)
WEDNESDAY = datetime(2025, 1, 15, 11, 0, tzinfo=UTC)
FRIDAY = datetime(2025, 1, 17, 10, 0, tzinfo=UTC)
CUT = {"version": "friday", "ceilings": {"pay.amount": {"max": 25_000_00, "currency": "GBP"}}}

THREE = Request(month="2025-01", row=64)  # £38,184.30: all three change
FIGURE = Request(month="2025-01", row=12)  # £39,237.49: only its figure is edited

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Calendar:
    """A clock that is turned by hand: `remit.open(url, clock=Calendar(TUESDAY))`."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        return (self.at - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Reason:
    """Why it may not go on. then, now: what the approver would see of it."""

    check: str
    codes: tuple[str, ...]
    then: str
    now: str


@dataclass(frozen=True)
class Found:
    """What became of both."""

    asked_anew: remit.Ask  # on Wednesday, of the one whose figure alone was edited
    denied: remit.Outcome
    judged: Judged  # dry, before anything went on
    reasons: tuple[Reason, ...]
    ended: remit.Outcome
    journaled: tuple[str, ...]  # checks that did not pass, as the journal has them
    paid: int


def act(on: Console, stage: Stage) -> Played:
    """Play it, and say what it comes to."""
    found = play(on, stage)
    return Played("Friday", claims(found), Counter((found.denied.code, found.ended.code)))


def play(on: Console, stage: Stage) -> Found:
    """Tuesday, Wednesday, Friday, on one ledger with a calendar."""
    calendar = Calendar(TUESDAY)
    three, figure = invoice_of(THREE, TUESDAY), invoice_of(FIGURE, TUESDAY)
    with open_ledger(stage.desk("friday"), clock=calendar) as rt:
        for request, invoice in ((THREE, three), (FIGURE, figure)):
            rt.run_sync(pay_invoice, invoice, id=request.run, by=BUYER, behalf=CLERK)
        asks = {ask.run: ask for ask in rt.inbox_sync(role="director")}
        _tell_tuesday(on, three.payee, three.amount)

        calendar.at = WEDNESDAY
        asked_anew, denied = _wednesday(rt, asks[FIGURE.run])
        on.print(show_acts.asked_anew(asked_anew))

        calendar.at = FRIDAY
        rt.set_policy_sync(CUT, by=OFFICE, reason="the year is over budget")
        rt.decide_sync(asks[THREE.run].id, "approve", by=DIRECTOR, seen=asks[THREE.run].version, reason="fine")
        judged = rt.judge_sync(THREE.run, pay_invoice_edited)
        ended = rt.resume_sync(THREE.run, pay_invoice_edited)
        last = rt.show_sync(THREE.run).view.boundary.judged
        assert last is not None
        journaled = tuple(finding.check for finding in last.verdict.findings if not finding.ok)
    reasons = _reasons(judged, asks[THREE.run])
    on.print(show_acts.reasons(THREE.run, TUESDAY, FRIDAY, reasons))
    paid = len(stage.paid({three.number, figure.number}))
    return Found(asked_anew, denied, judged, reasons, ended, journaled, paid)


def claims(found: Found) -> list[Claim]:
    """Nothing commits, and each reason is named."""
    difference_ = found.asked_anew.difference
    changes = () if difference_ is None else difference_.changes
    codes = {code for reason in found.reasons for code in reason.codes}
    told = found.ended.reason
    wanted = {"ceiling.exceeded", "evidence.expired", "approval.payload"}
    named = [words for words in ("ceiling.exceeded", "evidence.expired", "the request changed") if words in told]
    return [
        Claim(
            "A yes to other bytes is void; asked anew, with the change",
            ", ".join(change.path for change in changes),
            [change.path for change in changes] == ["$.amount"] and "approval.payload" in found.asked_anew.void,
        ),
        Claim(
            "Friday's yes pays nothing: the run ends",
            f"{found.ended.status}, {found.ended.code}",
            (found.ended.status, found.ended.code) == ("failed", "ceiling_exceeded"),
        ),
        Claim(
            "All three reasons are named, to the caller and in the journal",
            f"{len(named)} of 3",
            wanted <= codes and len(named) == 3 and found.journaled == ("authority", "evidence", "approval"),
        ),
        Claim("Payments at the bank for both", str(found.paid), found.paid == 0 and found.denied.code == "denied"),
    ]


def _wednesday(rt: remit.Runtime, ask: remit.Ask) -> tuple[remit.Ask, remit.Outcome]:
    """A director says yes to what she saw on Tuesday, and is asked again. She says no to what it is now."""
    rt.decide_sync(ask.id, "approve", by=DIRECTOR, seen=ask.version, reason="as quoted")
    rt.resume_sync(ask.run, pay_invoice_edited)
    (anew,) = (other for other in rt.inbox_sync(role="director") if other.run == ask.run)
    rt.decide_sync(anew.id, "deny", by=DIRECTOR, seen=anew.version, reason="that is not what was quoted")
    return anew, rt.resume_sync(ask.run, pay_invoice_edited)


def _reasons(judged: Judged, ask: remit.Ask) -> tuple[Reason, ...]:
    """What the gate found, each with what it was on Tuesday and what it is now."""
    question = judged.question
    limits = {limit.source: limit.max for limit in question.ceilings}
    (quote,) = question.evidence
    (change,) = _edit(ask)
    assert change.old is not None and change.new is not None
    shown = {
        "authority": (f"{pounds(limits['contract'])} at most", f"{pounds(limits['policy'])} at most, by policy"),
        "evidence": (f"good until {_day(quote.until)}", f"it is {_day(question.now)}"),
        "approval": (f"{change.path} {pounds(int(change.old))}", f"{change.path} {pounds(int(change.new))}"),
    }
    return tuple(
        Reason(finding.check, tuple(dict.fromkeys((finding.code, *_codes(finding.detail)))), *shown[finding.check])
        for finding in judged.verdict.findings
        if not finding.ok
    )


def _codes(detail: str) -> list[str]:
    return [code for code in detail.split(", ") if code.startswith("approval.")]


def _edit(ask: remit.Ask) -> tuple[Change, ...]:
    """Tuesday's request and the edited one, compared as the inbox compares them."""
    data, _ = pay.request_codec.write(slip(Order(**ask.payload)))
    return difference(ask.raw, data).changes


def _day(at: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=at):%A %H:%M}"


def _tell_tuesday(on: Console, payee: str, amount: int) -> None:
    on.print(
        show.told(
            "On ",
            ("Tuesday", "bold"),
            f" the agent asks to pay {pounds(amount)} to {payee}, and another invoice besides. "
            "Both wait for a director.",
        )
    )
