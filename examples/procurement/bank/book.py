"""The book: which payments were made.

    requests    one row: how often the bank was asked
    payments    one row for each payment made, never changed
    fences      the highest epoch that a fence group has shown

A payment is on the disk when `pay` returns. A crash before that made no payment; a crash
after it leaves one that nobody was told of, which is what a probe by key is there for.
Whether a key was paid is looked up in the transaction that pays, so that two requests at
the same time are one payment where the bank deduplicates.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from examples.procurement.bank.order import Order, Receipt, Refusal

BUSY_MS = 10_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL);
INSERT OR IGNORE INTO requests VALUES (1, 0);
CREATE TABLE IF NOT EXISTS payments (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    key      TEXT    NOT NULL,
    payee    TEXT    NOT NULL,
    amount   INTEGER NOT NULL,  -- minor units
    currency TEXT    NOT NULL,
    invoice  TEXT    NOT NULL,
    made_at  INTEGER NOT NULL   -- microseconds UTC
) STRICT;
CREATE INDEX IF NOT EXISTS payments_by_key ON payments (key, number);
CREATE TABLE IF NOT EXISTS fences (name TEXT PRIMARY KEY, epoch INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""

COLUMNS = "number, key, payee, amount, currency, invoice, made_at"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the bank answers; may be changed while it runs."""

    dedupe: bool = True  # the same key again is the same payment
    fence: bool = False  # an epoch below the highest of its group is refused
    decline: frozenset[str] = frozenset()  # payees that are paid nothing


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request to pay, as it arrived."""

    key: str
    order: Order
    epoch: int | None
    fence: str  # the group whose epochs are compared


class Book:
    """All payments, in one SQLite file. Safe for threads: one at a time."""

    def __init__(self, path: Path | str) -> None:
        self._lock = threading.Lock()
        self._db = apsw.Connection(str(path))
        self._db.set_busy_timeout(BUSY_MS)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")  # a payment that was answered survives a power cut
        self._db.execute(SCHEMA)

    def close(self) -> None:
        """Waits for the transaction that is under way."""
        with self._lock:
            self._db.close()

    def count_request(self) -> None:
        """Somebody asked for a payment; whatever becomes of it."""
        with self._transaction():
            self._db.execute("UPDATE requests SET count = count + 1")

    def pay(self, asked: Asked, settings: Settings) -> tuple[Receipt, bool]:
        """Make a payment; its receipt, and whether it is a new one.

        Raises Refusal, and nothing was paid: `fence.epoch` (409), `idempotency.conflict` (422),
        `declined` (402).
        """
        with self._transaction():
            answer = self._answer(asked, settings)
        # The epoch of a request that is declined has been seen all the same, so its transaction commits.
        if isinstance(answer, Refusal):
            raise answer
        return answer

    def paid_by(self, key: str) -> list[Receipt]:
        """What was paid under a key, oldest first; empty where nothing was."""
        with self._lock:
            return self._paid_by(key)

    def all(self) -> list[Receipt]:
        """Every payment, oldest first."""
        with self._lock:
            return self._receipts(f"SELECT {COLUMNS} FROM payments ORDER BY number")

    def counters(self) -> dict[str, Any]:
        """Requests, payments, payments by key, keys above one, and amounts by currency in minor units."""
        with self._lock:
            requests = self._db.execute("SELECT count FROM requests").get
            receipts = self._receipts(f"SELECT {COLUMNS} FROM payments ORDER BY number")
        by_key = Counter(receipt.key for receipt in receipts)
        total: Counter[str] = Counter()
        for receipt in receipts:
            total[receipt.currency] += receipt.amount
        return {
            "requests": requests,
            "payments": len(receipts),
            "by_key": dict(by_key),
            "amount_total": dict(total),
            "above_one": sum(1 for count in by_key.values() if count > 1),
        }

    def _answer(self, asked: Asked, settings: Settings) -> tuple[Receipt, bool] | Refusal:
        stale = self._raise_fence(asked)
        if settings.fence and stale is not None:
            return Refusal(409, "fence.epoch", f"Epoch {asked.epoch} is below {stale}, which this fence has seen.")
        if settings.dedupe and (paid := self._paid_by(asked.key)):
            first = paid[0]
            if first.order != asked.order:
                return Refusal(422, "idempotency.conflict", f"{asked.key} has paid something else: {first.id}.")
            return first, False
        if asked.order.amount == 0 or asked.order.payee in settings.decline:
            return Refusal(402, "declined", f"{asked.order.payee} is paid nothing.")
        return self._pay(asked), True

    def _raise_fence(self, asked: Asked) -> int | None:
        """The epoch that this one is below, or None. Kept also while the bank does not fence: it may begin to.

        A request that names no epoch counts as epoch 0, else leaving it out would be the way round the fence.
        """
        seen = self._db.execute("SELECT epoch FROM fences WHERE name = ?", (asked.fence,)).get or 0
        epoch = asked.epoch or 0
        if epoch > seen:
            self._db.execute("INSERT OR REPLACE INTO fences VALUES (?, ?)", (asked.fence, epoch))
        return seen if epoch < seen else None

    def _pay(self, asked: Asked) -> Receipt:
        order = asked.order
        row = (asked.key, order.payee, order.amount, order.currency, order.invoice, time.time_ns() // 1_000)
        return self._receipts(
            "INSERT INTO payments (key, payee, amount, currency, invoice, made_at) VALUES (?, ?, ?, ?, ?, ?)"
            f" RETURNING {COLUMNS}",
            row,
        )[0]

    def _paid_by(self, key: str) -> list[Receipt]:
        return self._receipts(f"SELECT {COLUMNS} FROM payments WHERE key = ? ORDER BY number", (key,))

    def _receipts(self, query: str, bindings: tuple[apsw.SQLiteValue, ...] = ()) -> list[Receipt]:
        return [
            Receipt(
                id=f"P{number:06}",
                key=key,
                payee=payee,
                amount=amount,
                currency=currency,
                invoice=invoice,
                made_at=made_at,
            )
            for number, key, payee, amount, currency, invoice, made_at in self._db.execute(query, bindings)
        ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
