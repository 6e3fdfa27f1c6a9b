"""The stage: where payments are made, the people who may decide, and who takes part in an act.

Stage      a folder, and the bank, in a process of its own
ledger     one act's ledger, with its people in the directory
payer      a process that goes on with what is open there
told       what was announced to those who wait
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import remit
from examples.procurement.bank import client
from examples.procurement.bank.order import Receipt
from examples.procurement.bank.process import PaymentService
from examples.procurement.desk import Desk
from examples.procurement.invoice import BANK_VARIABLE, Invoice, Quote
from examples.procurement.payments import Request, read_payment
from examples.procurement.watch import start
from remit.clock import Clock
from remit.store.url import store_for

BUYER, CLERK, DIRECTOR, OFFICE = "agent:buyer", "user:dana", "user:eve", "service:office"


@dataclass(frozen=True)
class Stage:
    """Where the acts are played."""

    folder: Path
    bank: str  # URL

    def desk(self, act: str) -> Desk:
        """An act's own desk: it has a ledger of its own."""
        return Desk(self.folder / act)

    def paid(self, numbers: set[str]) -> list[Receipt]:
        """What the bank paid of these invoices, by its own book."""
        return [receipt for receipt in client.payments(self.bank) if receipt.invoice in numbers]


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """A stage with a bank that nobody asked for anything yet. The bank ends with it."""
    before = os.environ.get(BANK_VARIABLE)
    with PaymentService(folder / "bank.db") as bank:
        os.environ[BANK_VARIABLE] = bank.url  # for the effect, here and in the payers
        try:
            yield Stage(folder, bank.url)
        finally:
            if before is None:
                del os.environ[BANK_VARIABLE]
            else:
                os.environ[BANK_VARIABLE] = before


@contextmanager
def open_ledger(desk: Desk, clock: Clock | None = None) -> Iterator[remit.Runtime]:
    """An act's ledger, new, with an agent that buys, a clerk for whom it does, and a director."""
    desk.folder.mkdir(parents=True, exist_ok=True)
    with remit.open(desk.ledger_url, clock=clock) as rt:
        rt.grant_sync(BUYER, "buyer", by=OFFICE)
        rt.grant_sync(CLERK, "clerk", by=OFFICE)
        rt.grant_sync(DIRECTOR, "director", by=OFFICE)
        yield rt


def invoice_of(request: Request, issued: datetime | None = None) -> Invoice:
    """A published payment as an invoice. issued: when its price was quoted; now, where nothing is said.

    Rows that nothing tells apart have one number: they are one invoice, asked for again.
    """
    payment = read_payment(request)
    number = payment.number or f"{payment.supplier} {payment.date} {payment.amount_pence}"
    quote = Quote(amount=payment.amount_pence, issued=issued or datetime.now(UTC))
    return Invoice(number=number, payee=payment.supplier, amount=payment.amount_pence, quote=quote)


def start_payer(desk: Desk, at_once: int = 1) -> subprocess.Popen[bytes]:
    """A payer process; it prints a line for each run that ended or waits."""
    return start("payer", str(at_once), desk=desk)


def said(payer: subprocess.Popen[bytes]) -> dict[str, dict[str, str]]:
    """Wait for a payer's end; what it said of each run."""
    out, _ = payer.communicate(timeout=60)
    lines = [json.loads(line) for line in out.splitlines()]
    return {line["run"]: line for line in lines}


@dataclass(frozen=True)
class Told:
    """An announcement, as the outbox has it for whoever is to be told."""

    run: str
    kind: str  # "AskOpened", "AskDecided", "RunStopped"
    what: dict[str, Any]


def outbox(desk: Desk) -> list[Told]:
    """Everything that was announced in an act, in order. What a webhook would be fed from."""

    async def read() -> list[Told]:
        store = store_for(desk.ledger_url)
        await store.open()
        try:
            rows = await store.read_outbox("default", 0, 10_000)
        finally:
            await store.close()
        return [Told(row.run, row.kind, json.loads(row.data)) for row in rows]

    return asyncio.run(read())
