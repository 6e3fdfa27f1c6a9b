"""What a caller calls: one request to a call, no retries, and an error that says what is known.

    NothingSent    no connection came about: the bank was never asked
    Declined       the bank was asked and will not pay (402): nothing was paid
    Refused        the bank did not do this (400, 409, 422, ...): its code says why
    Unknown        it was asked, and did not say: a time-out, a 5xx, a dropped connection

Only after `Unknown` may there be a payment that nobody knows of; `find` asks. Needs the
standard library alone. The calls block: from async code, `await asyncio.to_thread(pay, ...)`,
whose thread goes on to its time-out when the task that awaits it is cancelled.
"""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

from examples.procurement.bank.order import Order, Receipt, as_json

__all__ = [
    "Declined",
    "NothingSent",
    "Order",
    "PaymentError",
    "Receipt",
    "Refused",
    "Unknown",
    "cause",
    "clear_faults",
    "counters",
    "faults",
    "find",
    "pay",
    "payments",
    "release",
    "settings",
    "wait_held",
]

TIMEOUT_S_DEFAULT = 10.0
WAITING_PATIENCE_MS = 30_000


class PaymentError(Exception):
    """The bank did not answer with a payment."""


class NothingSent(PaymentError):
    """No connection came about; nothing of the request left this process."""


class Declined(PaymentError):
    """The bank was asked and will not pay. Nothing was paid."""


class Refused(PaymentError):
    """The bank did nothing about this request, and says why in `code`.

    After `idempotency.conflict` an earlier, different payment stands under the same key.
    """

    def __init__(self, status: int, code: str, hint: str) -> None:
        super().__init__(f"{code}: {hint}")
        self.status = status
        self.code = code


class Unknown(PaymentError):
    """The bank was asked and did not say what it did. It may have paid."""


def pay(
    url: str,
    request: Order,
    key: str,
    epoch: int | None = None,
    timeout_s: float = TIMEOUT_S_DEFAULT,
    *,
    fence: str | None = None,
) -> Receipt:
    """Ask for a payment, once; its receipt, which may be that of an earlier request with the same key.

    key: 1 to 255 visible ASCII characters. epoch, fence: for a bank that fences; the group is by
    default the key up to its first colon. timeout_s: the longest wait for the connection, and again for the answer.
    Raises NothingSent, Declined, Refused, Unknown; ValueError for a header that can't be sent, and nothing was.
    """
    headers = {"Idempotency-Key": key}
    if epoch is not None:
        headers["Remit-Epoch"] = str(epoch)
    if fence is not None:
        headers["Fence-Group"] = fence
    return _receipt(_ask(url, "POST", "/payments", as_json(request), timeout_s, headers=headers))


def find(url: str, key: str, timeout_s: float = TIMEOUT_S_DEFAULT) -> list[Receipt]:
    """The probe: what was paid under a key, oldest first; empty where nothing was.

    Raises NothingSent, Refused, Unknown: then the question is still open.
    """
    try:
        receipts = _ask(url, "GET", f"/payments/by-key/{quote(key, safe='')}", None, timeout_s)
    except Refused as exc:
        if exc.code == "key.unknown":
            return []
        raise
    return [_receipt(told) for told in receipts]


def payments(url: str) -> list[Receipt]:
    """Every payment, oldest first."""
    return [_receipt(told) for told in _ask(url, "GET", "/payments")]


def counters(url: str) -> dict[str, Any]:
    """What the bank saw and did: {"requests", "payments", "by_key", "amount_total", "above_one"}.

    by_key: payments by key. amount_total: minor units by currency. above_one: how many keys paid more than once.
    """
    return dict(_ask(url, "GET", "/counters"))


def settings(url: str, **changes: Any) -> dict[str, Any]:
    """What holds now, after `dedupe=`, `fence=` or `decline=[payee, ...]` were changed. Raises Refused: none was."""
    return dict(_ask(url, "POST", "/settings", changes) if changes else _ask(url, "GET", "/settings"))


def cause(url: str, kind: str, times: int = 1, *, key: str | None = None, invoice: str | None = None) -> None:
    """Let something go wrong for the next requests, of anybody or of one key or invoice; kinds as in faults."""
    _ask(url, "POST", "/faults", {"kind": kind, "times": times, "key": key, "invoice": invoice})


def faults(url: str) -> list[dict[str, Any]]:
    """What is still to go wrong."""
    return list(_ask(url, "GET", "/faults"))


def clear_faults(url: str) -> None:
    """Nothing more goes wrong. Requests that are held stay held."""
    _ask(url, "DELETE", "/faults")


def wait_held(url: str, count: int = 1, patience_ms: int = WAITING_PATIENCE_MS) -> list[dict[str, Any]]:
    """Returns when `count` requests are held: [{"place": "before" or "after", "key", "invoice"}].

    patience_ms: up to 60_000. Raises TimeoutError where it is over first.
    """
    path = f"/waiting?count={count}&patience_ms={patience_ms}"
    held = list(_ask(url, "GET", path, timeout_s=patience_ms / 1_000 + TIMEOUT_S_DEFAULT))
    if len(held) < count:
        raise TimeoutError(f"{len(held)} of {count} requests are held after {patience_ms} ms")
    return held


def release(url: str, key: str | None = None) -> int:
    """Let the requests that are held go on, all or those of a key; how many there were."""
    return int(_ask(url, "POST", "/release", {} if key is None else {"key": key})["released"])


def _ask(
    url: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S_DEFAULT,
    *,
    headers: dict[str, str] | None = None,
) -> Any:
    """What the bank answered to one request. Raises as `pay` does."""
    where = urlsplit(url)
    assert where.scheme == "http" and where.hostname is not None, url
    sent = None if body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=timeout_s)
    try:
        try:
            connection.connect()
        except OSError as exc:
            raise NothingSent(f"{url}: {exc}") from exc
        try:
            connection.request(method, path, body=sent, headers=headers or {})
            answer = connection.getresponse()
            status, told = answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, json.JSONDecodeError, UnicodeDecodeError) as exc:
            raise Unknown(f"{url} was asked and did not say: {type(exc).__name__} {exc}".rstrip()) from exc
    finally:
        connection.close()
    return _settled(status, told)


def _settled(status: int, told: Any) -> Any:
    if status in (200, 201):
        return told
    # A no that is not in the bank's own words may be somebody else's, in between: it proves nothing.
    code, hint = (told.get("error"), told.get("hint")) if isinstance(told, dict) else (None, None)
    if code == "declined" and status == 402:
        raise Declined(str(hint))
    if isinstance(code, str) and 400 <= status < 500:
        raise Refused(status, code, str(hint))
    raise Unknown(f"answered {status} {code}")


def _receipt(told: Any) -> Receipt:
    try:
        return Receipt(**told)
    except TypeError as exc:
        raise Unknown(f"answered with what is no receipt: {told!r}") from exc
