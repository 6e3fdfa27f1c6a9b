"""The invoice: a payment that leaves by the bank, and only while it is still allowed.

    write_order   a step: what the bank will be asked, recorded
    quote         evidence: what the payment rests on, good for 48 hours
    pay           an effect: the bank pays, behind the gate, under a key that never changes
    RULES         who may go on with it, who has to say yes, how much, and resting on what

The flow says what is to be done; the contract says when it may be. Nobody checks a ceiling or
waits for a director in the flow's own lines, so nobody can forget to: the gate asks each time,
also when the run comes back days later in another process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta

import remit
from examples.procurement.bank import client as bank
from examples.procurement.bank.order import Order, Receipt

BANK_VARIABLE = "PROCUREMENT_BANK"  # the environment says where the bank is

ALONE_PENCE_MAX = 25_000_00  # up to here a buyer needs nobody
PAYMENT_PENCE_MAX = 4_000_000_00
QUOTE_HOLDS = timedelta(hours=48)


@dataclass(frozen=True, kw_only=True)
class Quote:
    """What the supplier said that it costs, and when."""

    amount: int  # pence
    issued: datetime


@dataclass(frozen=True, kw_only=True)
class Invoice:
    """What a supplier asks for, and the quote that it rests on."""

    number: str  # the business: no two runs pay the same one
    payee: str
    amount: int  # pence
    quote: Quote


@remit.step
def write_order(invoice: Invoice) -> Order:
    """What the bank will be asked. Raises ValueError where the invoice asks for more than was quoted."""
    if invoice.amount > invoice.quote.amount:
        raise ValueError(f"{invoice.number} asks for {invoice.amount}, and {invoice.quote.amount} was quoted")
    return Order(payee=invoice.payee, amount=invoice.amount, currency="GBP", invoice=invoice.number)


def find_payment(order: Order, *, key: str) -> remit.Landed[Receipt] | remit.NotLanded:
    """Ask the bank whether it paid under this key. So a crash after the payment is found out."""
    receipts = bank.find(os.environ[BANK_VARIABLE], key)
    return remit.Landed(receipts[0]) if receipts else remit.NotLanded()


@remit.effect(doubt="probe", probe=find_payment, sink="dedupes", business_key="invoice")
def pay(order: Order, *, key: str) -> Receipt:
    """Have the bank pay. What it raises says what is known; whatever else goes wrong leaves a doubt, to be probed."""
    try:
        return bank.pay(os.environ[BANK_VARIABLE], order, key)
    except bank.NothingSent as exc:
        raise remit.DidNotHappen(str(exc)) from exc
    except bank.Declined as exc:
        raise remit.Declined(str(exc)) from exc


def is_large(order: Order) -> bool:
    """Whether a director has to say yes."""
    return order.amount > ALONE_PENCE_MAX


RULES = remit.Contract(
    version="1",
    risk="high",
    window=timedelta(days=7),
    resume={"buyer"},
    effects={
        "pay": remit.Rule(
            approval=remit.Approval({"director"}, timedelta(days=5), when=is_large),
            ceiling=remit.Ceiling("amount", max=PAYMENT_PENCE_MAX, currency="GBP"),
            evidence={"quote"},
        )
    },
)


@remit.flow(contract=RULES)
async def pay_invoice(run: remit.Run, invoice: Invoice) -> Receipt:
    """Pay one invoice, at most once; the bank's receipt. A denial, and an invoice that another run paid, end it."""
    order = await run.step(write_order, invoice)
    run.evidence("quote", invoice.quote, as_of=invoice.quote.issued, fresh_for=QUOTE_HOLDS)
    return await run.effect(pay, order, rests_on=["quote"])
