"""The same flow, as somebody edited it while its runs were waiting: two digits of the amount changed places.

Same name, same rules, same effect, same journal. What was approved is another request than
what this code asks for, and nothing but a comparison of the bytes can tell.
"""

from __future__ import annotations

from dataclasses import replace

import remit
from examples.procurement.bank.order import Order, Receipt
from examples.procurement.invoice import QUOTE_HOLDS, RULES, Invoice, pay, write_order


def slip(order: Order) -> Order:
    """£38,184.30 becomes £83,184.30."""
    digits = str(order.amount)
    return replace(order, amount=int(digits[1] + digits[0] + digits[2:]))


@remit.flow(name="pay_invoice", contract=RULES)
async def pay_invoice_edited(run: remit.Run, invoice: Invoice) -> Receipt:
    """`pay_invoice`, and one line more."""
    order = await run.step(write_order, invoice)
    order = slip(order)
    run.evidence("quote", invoice.quote, as_of=invoice.quote.issued, fresh_for=QUOTE_HOLDS)
    return await run.effect(pay, order, rests_on=["quote"])
