"""The purchase: what happens to one payment, from its published row to a paper on the desk.

    validate              the row says what a payment has to say
    look_for_duplicates   earlier rows that nothing tells apart from this one
    classify              how large it is
    decide                approved, director (somebody else signs), or denied
    write_proposal        or write_denial, where it was denied

Each outcome is saved before the next step begins. What is saved as `decide` is therefore
what a resumption goes by, and worth editing for somebody who wants a payment to go out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import remit
from examples.procurement.desk import desk
from examples.procurement.payments import Payment, Request, pounds, read_payment, repeats_of

LARGE_PENCE = 100_000_00
MAJOR_PENCE = 1_000_000_00


class Size(StrEnum):
    """How large a payment is: from nothing, from £100,000, from £1,000,000."""

    ROUTINE = "routine"
    LARGE = "large"
    MAJOR = "major"


class Decision(StrEnum):
    """What becomes of a payment. DIRECTOR: it is proposed, and a director has to sign."""

    APPROVED = "approved"
    DIRECTOR = "director"
    DENIED = "denied"


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a purchase ended. amount_pence: what was proposed, or denied."""

    supplier: str
    amount_pence: int
    size: Size
    decision: Decision
    paper: str  # path below the desk


@remit.step
def validate(request: Request) -> Payment:
    """Read the row, and refuse it where it is not a payment as it was promised."""
    desk().note(request.run, "validate")
    return read_payment(request)


@remit.step
def look_for_duplicates(payment: Payment) -> list[int]:
    """Earlier rows of the file with the same payee, date, amount and transaction number."""
    desk().note(payment.request.run, "look_for_duplicates")
    return repeats_of(payment)


@remit.step
def classify(payment: Payment) -> Size:
    """By amount alone."""
    desk().note(payment.request.run, "classify")
    if payment.amount_pence >= MAJOR_PENCE:
        return Size.MAJOR
    return Size.LARGE if payment.amount_pence >= LARGE_PENCE else Size.ROUTINE


@remit.step
def decide(payment: Payment, repeats: list[int], size: Size) -> Decision:
    """A repeat is denied, a major payment goes to a director, the rest is approved."""
    desk().note(payment.request.run, "decide")
    if repeats:
        return Decision.DENIED
    return Decision.DIRECTOR if size is Size.MAJOR else Decision.APPROVED


@remit.step
def write_proposal(payment: Payment, size: Size, decision: Decision) -> str:
    """Lay the proposal to pay on the desk; its path."""
    desk().note(payment.request.run, "write_proposal")
    signs = "director" if decision is Decision.DIRECTOR else "officer"
    return desk().write_paper(
        payment.supplier, payment.request.run, {**_facts(payment), "paper": "proposal", "size": size, "signs": signs}
    )


@remit.step
def write_denial(payment: Payment, repeats: list[int]) -> str:
    """Lay the denial on the desk; its path."""
    desk().note(payment.request.run, "write_denial")
    return desk().write_paper(
        payment.supplier, payment.request.run, {**_facts(payment), "paper": "denial", "repeats": repeats}
    )


@remit.flow(contract=remit.Contract(version="1", resume="anyone", risk="low", window=timedelta(days=1)))
async def purchase(run: remit.Run, request: Request) -> Result:
    """One payment, from its row to its paper."""
    payment = await run.step(validate, request)
    repeats = await run.step(look_for_duplicates, payment)
    size = await run.step(classify, payment)
    decision = await run.step(decide, payment, repeats, size)
    if decision is Decision.DENIED:
        paper = await run.step(write_denial, payment, repeats)
    else:
        paper = await run.step(write_proposal, payment, size, decision)
    return Result(
        supplier=payment.supplier, amount_pence=payment.amount_pence, size=size, decision=decision, paper=paper
    )


def _facts(payment: Payment) -> dict[str, object]:
    return {
        "run": payment.request.run,
        "payee": payment.supplier,
        "date": payment.date.isoformat(),
        "number": payment.number,
        "amount": pounds(payment.amount_pence),
        "amount_pence": payment.amount_pence,
        "purpose": payment.purpose,
    }
