"""The nine scenes, each played to its end: what was done, what the bank paid, and how the run stood.

refused        nothing was paid that should not be, and a stable code says why
one payment    something broke in the middle of a payment, and the bank paid exactly once
OPEN           it is not caught yet; the row shows what happens today, and what it needs
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass

from examples.procurement.bank import client
from tests.scenarios import attacker
from tests.scenarios.purchase import FROZEN
from tests.scenarios.stage import BUYER, LARGE, OFFICE, SMALL, Stage, Told

REFUSED, ONE = "refused", "one payment"
NEEDS_CHECKPOINTS = "OPEN: needs signed checkpoints"
SHORT_MS = 1_000  # a lease that is over while its worker is frozen or slow


@dataclass(frozen=True)
class Row:
    """One scenario as it came out. payments: at the bank, by its own count. paid: payees, one for each payment."""

    scenario: str
    done: str
    payments: int
    told: Told
    verdict: str
    paid: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.verdict in (REFUSED, ONE)

    @property
    def ended(self) -> str:
        """Status and code, as one reads them."""
        return " ".join(word for word in (self.told.status, self.told.code) if word)


def killed_inside_the_effect(stage: Stage) -> Row:
    stage.open_run(SMALL)
    stage.bring_goods()
    client.cause(stage.bank, "hold_after")
    victim = stage.hire()
    victim.go()
    client.wait_held(stage.bank)
    victim.kill()
    client.release(stage.bank)
    told = stage.work()
    done = "The bank has paid, the worker dies before that is written; a second worker goes on."
    return _counted(stage, "kill inside the effect", done, told, if_once=ONE)


def stored_field_edited(stage: Stage) -> Row:
    stage.open_run(SMALL)
    attacker.edit(stage.database)
    stage.bring_goods()
    done = "Another payee is written into the recorded order, by SQL."
    return _refused(stage, "stored field edited", done, stage.work())


def chain_recomputed(stage: Stage) -> Row:
    stage.open_run(SMALL)
    before = stage.database.read_bytes()
    attacker.recompute(stage.database, with_head=False)
    stage.bring_goods()
    half = stage.work()
    stage.database.write_bytes(before)
    attacker.recompute(stage.database, with_head=True)
    done = (
        "Another payee, and every hash of the run computed anew; with the row's head as well. "
        f"(Without the row's head: {half.code}, nothing paid.)"
    )
    told = stage.work()
    return _refused(stage, "chain recomputed", done, told, otherwise=NEEDS_CHECKPOINTS)


def rows_cut(stage: Stage) -> Row:
    stage.open_run(SMALL)
    stage.bring_goods()
    stage.work()
    whole = stage.database.read_bytes()
    attacker.cut(stage.database, with_head=False)
    half = stage.work()
    stage.database.write_bytes(whole)
    attacker.cut(stage.database, with_head=True)
    done = (
        "Paid; then the rows from the intention on are deleted and the row's head is set back. "
        f"(Without the head: {half.code}, nothing paid again.)"
    )
    return _counted(stage, "rows cut", done, stage.work(), if_once=REFUSED, otherwise=NEEDS_CHECKPOINTS)


def older_database_restored(stage: Stage) -> Row:
    stage.open_run(SMALL)
    yesterday = shutil.copy(stage.database, stage.folder / "yesterday.db")
    stage.bring_goods()
    stage.work()
    shutil.copy(yesterday, stage.database)
    done = "Paid; then yesterday's copy of the database is put back, and the run goes on."
    told = stage.work()
    return _counted(stage, "older database restored", done, told, if_once=REFUSED, otherwise=NEEDS_CHECKPOINTS)


def payload_changed_after_approval(stage: Stage) -> Row:
    stage.open_run(LARGE)
    stage.bring_goods()
    stage.work()
    stage.approve()
    done = "£38,184.30 is approved; the code that comes back asks for £83,184.30."
    return _refused(stage, "payload changed after approval", done, stage.work("edited"))


def role_revoked_in_the_pause(stage: Stage) -> Row:
    stage.open_run(LARGE)
    stage.bring_goods()
    stage.work()
    stage.approve()
    with stage.ledger() as rt:
        rt.revoke_sync(BUYER, "buyer", by=OFFICE)
    done = "Approved; then the executor loses its role, and a worker goes on."
    return _refused(stage, "role revoked in the pause", done, stage.work())


def two_workers(stage: Stage) -> Row:
    stage.open_run(SMALL)
    stage.bring_goods()
    client.cause(stage.bank, "hold_before", times=2)
    workers = [stage.hire(lease_ms=SHORT_MS) for _ in range(2)]
    for worker in workers:
        worker.go()
    client.wait_held(stage.bank)
    asked = _asked_within(stage, 3 * SHORT_MS)
    client.clear_faults(stage.bank)
    client.release(stage.bank)
    one, two = (worker.end() for worker in workers)
    assert one == two, (one, two)
    done = f"Two begin at once, and the payment takes three leases. Meanwhile the bank was asked {asked}."
    return _counted(stage, "two workers", done, one, if_once=ONE)


def zombie(stage: Stage) -> Row:
    stage.open_run(SMALL)
    stage.bring_goods()
    (stage.folder / FROZEN).touch()
    frozen = stage.hire(lease_ms=SHORT_MS)
    frozen.go()
    frozen.until_stopped()
    second = stage.work()
    paid_while_frozen = stage.payments
    frozen.process.send_signal(signal.SIGCONT)
    thawed = frozen.end()
    told = stage.work()
    done = (
        f"Frozen inside the effect past its lease. A second worker: {second.status}, {paid_while_frozen} paid. "
        f"Thawed, its call goes out: {thawed.code}. A third asks the bank."
    )
    return _counted(stage, "zombie", done, told, if_once=ONE)


SCENES: dict[str, Callable[[Stage], Row]] = {
    "kill inside the effect": killed_inside_the_effect,
    "stored field edited": stored_field_edited,
    "chain recomputed": chain_recomputed,
    "rows cut": rows_cut,
    "older database restored": older_database_restored,
    "payload changed after approval": payload_changed_after_approval,
    "role revoked in the pause": role_revoked_in_the_pause,
    "two workers": two_workers,
    "zombie": zombie,
}


def _asked_within(stage: Stage, patience_ms: int) -> str:
    """Whether a second request reached the bank while the first one was held there."""
    try:
        client.wait_held(stage.bank, count=2, patience_ms=patience_ms)
    except TimeoutError:
        return "once"
    return "twice"


def _counted(
    stage: Stage, scenario: str, done: str, told: Told, *, if_once: str, otherwise: str = "OPEN: not caught"
) -> Row:
    """It holds where the bank paid once."""
    return _row(stage, scenario, done, told, if_once if stage.payments == 1 else otherwise)


def _refused(stage: Stage, scenario: str, done: str, told: Told, *, otherwise: str = "OPEN: not caught") -> Row:
    """It holds where the bank paid nothing."""
    return _row(stage, scenario, done, told, REFUSED if stage.payments == 0 else otherwise)


def _row(stage: Stage, scenario: str, done: str, told: Told, verdict: str) -> Row:
    payees = tuple(receipt.payee for receipt in client.payments(stage.bank))
    return Row(scenario, done, stage.payments, told, verdict, payees)
