"""Orders and receipts: what a caller asks the bank for, and what it is answered.

An amount is an integer of minor units (pence) from end to end. An order that does not say
what it has to say is refused whole, and is not mended: a bank that guesses pays wrongly.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

AMOUNT_MAX = 2**53 - 1  # beyond this, a reader that keeps numbers as binary floating point pays another amount
TEXT_LENGTH_MAX = 200
KEY = re.compile(r"[!-~]{1,255}")  # visible ASCII: what a header carries unchanged


class Refusal(Exception):
    """The bank did nothing, and says why: a stable code, and a sentence for people."""

    def __init__(self, status: int, code: str, hint: str) -> None:
        super().__init__(hint)
        self.status = status
        self.code = code
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Order:
    """A payment that somebody wants made."""

    payee: str
    amount: int  # minor units, 0 to AMOUNT_MAX; 0 is always declined
    currency: str  # three capital letters: "GBP"
    invoice: str


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A payment that was made."""

    id: str
    key: str  # the idempotency key that it was asked for under
    payee: str
    amount: int  # minor units
    currency: str
    invoice: str
    made_at: int  # microseconds UTC

    @property
    def order(self) -> Order:
        return Order(payee=self.payee, amount=self.amount, currency=self.currency, invoice=self.invoice)


def as_json(what: Order | Receipt) -> dict[str, Any]:
    return asdict(what)


def read_json(body: bytes) -> dict[str, Any]:
    """A JSON object, nothing else. Raises Refusal `request.json`: also for a name given twice, NaN, and bad UTF-8."""
    try:
        told = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        raise Refusal(400, "request.json", f"The body is not JSON: {exc}") from exc
    if not isinstance(told, dict):
        raise Refusal(400, "request.json", "The body is not a JSON object.")
    return told


def read_order(body: bytes) -> Order:
    """The order in a request's body. Raises Refusal, with a code that names the field."""
    told = read_json(body)
    expect_fields(told, {"payee", "amount", "currency", "invoice"})
    amount, currency = told["amount"], told["currency"]
    if not is_whole(amount) or not 0 <= amount <= AMOUNT_MAX:
        raise Refusal(400, "request.amount", f"`amount` is an integer of minor units, 0 to {AMOUNT_MAX}.")
    if not isinstance(currency, str) or not re.fullmatch(r"[A-Z]{3}", currency):
        raise Refusal(400, "request.currency", "`currency` is three capital letters.")
    return Order(payee=_text(told, "payee"), amount=amount, currency=currency, invoice=_text(told, "invoice"))


def read_key(header: str | None) -> str:
    """An idempotency key. Raises Refusal `request.key`."""
    if header is None or not KEY.fullmatch(header):
        raise Refusal(400, "request.key", "`Idempotency-Key` is 1 to 255 visible ASCII characters.")
    return header


def expect_fields(told: dict[str, Any], wanted: set[str], optional: frozenset[str] = frozenset()) -> None:
    """Raises Refusal `request.fields`, naming what is missing and what is not known."""
    missing, unknown = sorted(wanted - set(told)), sorted(set(told) - wanted - optional)
    if missing or unknown:
        raise Refusal(400, "request.fields", f"Missing: {missing}; not known: {unknown}.")


def is_whole(value: object) -> bool:
    """An integer; JSON's true is none, though Python says that it is 1."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_text(value: object) -> bool:
    """Text that a database keeps and a terminal shows: a lone surrogate and control characters are none."""
    return isinstance(value, str) and 0 < len(value) <= TEXT_LENGTH_MAX and value.isprintable() and bool(value.strip())


def _text(told: dict[str, Any], name: str) -> str:
    value = told[name]
    if not is_text(value):
        raise Refusal(400, f"request.{name}", f"`{name}` is printable text of 1 to {TEXT_LENGTH_MAX} characters.")
    return str(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name is given twice")
    return dict(pairs)


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number")
