"""The purchase: one payment behind the gate, after a pause that somebody else ends.

The probe is all that the bank offers: it can be asked what was paid under a key. It promises neither
to deduplicate nor to fence, so that every payment that is counted is one that Remit let through.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import remit
from examples.procurement.bank import client as bank
from examples.procurement.bank.order import Order, Receipt

BANK, FOLDER = "SCENARIO_BANK", "SCENARIO_FOLDER"  # the environment says where both are
GOODS, FROZEN = "goods", "frozen"  # files in the folder

ALONE_PENCE_MAX = 25_000_00


@remit.step
def write_order(order: Order) -> Order:
    """What the bank will be asked, recorded: this is what an attacker edits."""
    return order


@remit.step
def await_goods() -> str:
    """Raises until the goods are there; so the run waits with its order in the journal."""
    if not (Path(os.environ[FOLDER]) / GOODS).exists():
        raise OSError("the goods did not arrive yet")
    return "arrived"


def find_payment(order: Order, *, key: str) -> remit.Landed[Receipt] | remit.NotLanded:
    """Ask the bank whether it paid under this key."""
    receipts = bank.find(os.environ[BANK], key)
    return remit.Landed(receipts[0]) if receipts else remit.NotLanded()


@remit.effect(doubt="probe", probe=find_payment)
def pay(order: Order, *, key: str) -> Receipt:
    """Have the bank pay. Where a file says so the process first freezes itself, here, with its request not sent."""
    frozen = Path(os.environ[FOLDER]) / FROZEN
    if frozen.exists():
        frozen.unlink()
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        return bank.pay(os.environ[BANK], order, key, timeout_s=30)
    except bank.NothingSent as exc:
        raise remit.DidNotHappen(str(exc)) from exc
    except bank.Declined as exc:
        raise remit.Declined(str(exc)) from exc


def is_large(order: Order) -> bool:
    """Whether a director has to say yes."""
    return order.amount > ALONE_PENCE_MAX


RULES = remit.Contract(
    version="1",
    risk="medium",
    resume={"buyer"},
    effects={"pay": remit.Rule(approval=remit.Approval({"director"}, timedelta(hours=8), when=is_large))},
)


@remit.flow(contract=RULES)
async def purchase(run: remit.Run, order: Order) -> Receipt:
    """Pay one order, once the goods are there; the bank's receipt."""
    written = await run.step(write_order, order)
    await run.step(await_goods)
    return await run.effect(pay, written)


@remit.flow(name="purchase", contract=RULES)
async def purchase_edited(run: remit.Run, order: Order) -> Receipt:
    """The same flow, as somebody edited it while its runs waited: £38,184.30 is asked for as £83,184.30."""
    written = await run.step(write_order, order)
    await run.step(await_goods)
    return await run.effect(pay, replace(written, amount=83_184_30))


FLOWS = {"purchase": purchase, "edited": purchase_edited}
