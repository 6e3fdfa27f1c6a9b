"""Payments: what the published files say, in whole pence.

An amount goes from the text of the file to an integer by way of Decimal; binary floating
point is nowhere on that way. A row that does not say what a payment has to say is refused
with its place in the file, and is not mended.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

MONTHS = ("2025-01", "2025-02")
THRESHOLD_PENCE = 25_000_00  # smaller payments are not published

_DATA = Path(__file__).parent / "data"
_NO_NUMBER = "None"  # as January's file writes that it has no transaction number


class RowRefused(ValueError):
    """A row that is not a payment as it was promised; nothing was done with it."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which payment a run is about: the row of a published file, from 1."""

    month: str  # "2025-01"
    row: int

    @property
    def run(self) -> str:
        """The run id: "pay-2025-01-031"."""
        return f"{prefix(self.month)}{self.row:03}"


@dataclass(frozen=True, kw_only=True)
class Payment:
    """One row of a published file."""

    request: Request
    date: dt.date
    entity: str  # which body paid: "HMT", "DMO"
    supplier: str
    purpose: str  # expense type, area and description
    number: str | None  # transaction number; None where the file gives none
    amount_pence: int


@dataclass(frozen=True)
class Published:
    """A month's file: its rows as they stand, and what its publisher says of them."""

    month: str
    title: str
    licence: str
    total_pence: int
    count: int
    first: dt.date
    last: dt.date
    rows: tuple[dict[str, Any], ...]

    @property
    def requests(self) -> list[Request]:
        """One for each row, in the file's order."""
        return [Request(month=self.month, row=row) for row in range(1, len(self.rows) + 1)]


def prefix(month: str) -> str:
    """How the ids of a month's runs begin."""
    return f"pay-{month}-"


@cache
def published(month: str) -> Published:
    """The file of a month, one of MONTHS. Amounts in it are Decimal, as they are written."""
    text = (_DATA / f"hmt-spend-{month}.json").read_text(encoding="utf-8")
    told = json.loads(text, parse_float=Decimal)
    meta = told["metadata"]
    # The publisher added the total up in binary floating point; its rows are exact.
    total = Decimal(meta["financial_summary"]["total_amount_gbp"]).quantize(Decimal("0.01"))
    return Published(
        month=month,
        title=meta["title"],
        licence=meta["license"],
        total_pence=pence(total),
        count=meta["record_counts"]["transaction_count"],
        first=dt.date.fromisoformat(meta["temporal_coverage"]["start_date"]),
        last=dt.date.fromisoformat(meta["temporal_coverage"]["end_date"]),
        rows=tuple(told["data"]),
    )


def read_payment(request: Request) -> Payment:
    """A row as a payment. Raises RowRefused: absent, without a payee, below the threshold, outside its month."""
    file = published(request.month)
    if not 1 <= request.row <= len(file.rows):
        raise RowRefused(f"{request.month} has rows 1 to {len(file.rows)}, not {request.row}")
    row = file.rows[request.row - 1]
    number = row["transaction_number"]
    payment = Payment(
        request=request,
        date=dt.date.fromisoformat(row["date"]),
        entity=_text(row, "entity", request),
        supplier=_text(row, "supplier", request),
        purpose=" / ".join(_text(row, key, request) for key in ("expense_type", "expense_area", "description")),
        number=None if number in (None, "", _NO_NUMBER) else str(number),
        amount_pence=pence(row["amount_gbp"]),
    )
    if payment.amount_pence < THRESHOLD_PENCE:
        raise RowRefused(f"{request.run}: {pounds(payment.amount_pence)} is below what is published")
    if not file.first <= payment.date <= file.last:
        raise RowRefused(f"{request.run}: {payment.date} is not in {file.title}")
    return payment


def repeats_of(payment: Payment) -> list[int]:
    """Earlier rows of the same file with the same payee, date, amount and transaction number."""
    earlier = [read_payment(Request(month=payment.request.month, row=row)) for row in range(1, payment.request.row)]
    return [other.request.row for other in earlier if _marks(other) == _marks(payment)]


def pence(amount: Decimal | int) -> int:
    """Pounds as whole pence, exactly. Raises RowRefused where there is a fraction of a penny, or no number at all."""
    if isinstance(amount, bool) or not isinstance(amount, Decimal | int):
        raise RowRefused(f"{amount!r} is not an amount")
    exact = Decimal(amount)
    if not exact.is_finite():
        raise RowRefused(f"{amount} is not an amount")
    numerator, denominator = exact.as_integer_ratio()
    whole, rest = divmod(numerator * 100, denominator)
    if rest:
        raise RowRefused(f"£{amount} has a fraction of a penny")
    return whole


def pounds(amount_pence: int) -> str:
    """For people: "£153,024.95"."""
    sign = "-" if amount_pence < 0 else ""
    whole, rest = divmod(abs(amount_pence), 100)
    return f"{sign}£{whole:,}.{rest:02}"


def _marks(payment: Payment) -> tuple[object, ...]:
    return payment.supplier, payment.date, payment.amount_pence, payment.number


def _text(row: dict[str, Any], key: str, request: Request) -> str:
    """A field on one line: the files have no-break spaces in the middle of words and blanks at their ends."""
    value = row[key]
    if not isinstance(value, str) or not value.strip():
        raise RowRefused(f"{request.run} has no {key}")
    return " ".join(value.split())
