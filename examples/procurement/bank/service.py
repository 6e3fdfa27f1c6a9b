"""The bank over HTTP, on this machine only: one thread and one connection to a request.

    POST /payments                201 a receipt, made now; 200 the first receipt of that key; else nothing was paid
    GET  /payments                every receipt, oldest first
    GET  /payments/by-key/KEY     the receipts of a key, or 404: the probe
    GET  /counters                what the bank saw and did
    GET, POST /settings           {"dedupe", "fence", "decline"}; those that are named change
    GET, POST, DELETE /faults     what is to go wrong: see faults
    GET  /waiting?count=N         who is held, once there are N
    POST /release                 let them go on, all or {"key": KEY}

`Idempotency-Key` names a payment. `Remit-Epoch` and `Fence-Group` let a bank that fences
refuse a caller that was overtaken; without a group it is the key up to its first colon.
A no is {"error": code, "hint": sentence}. A request is counted once it is an order with a
key, whatever becomes of it.
"""

from __future__ import annotations

import json
import re
import socketserver
import sys
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from examples.procurement.bank.book import Asked, Book, Settings
from examples.procurement.bank.faults import Faults, Place, read_fault
from examples.procurement.bank.order import Refusal, as_json, expect_fields, is_text, read_json, read_key, read_order

BODY_BYTES_MAX = 64 * 1024
DRAINED_BYTES_MAX = 1024 * 1024
EPOCH_MAX = 2**63 - 1  # what SQLite keeps
PATIENCE_MS_DEFAULT = 30_000
PATIENCE_MS_MAX = 60_000
BY_KEY = "/payments/by-key/"


class NotAnswered(Exception):
    """The connection is to be closed without a word."""


class Service(ThreadingHTTPServer):
    """The bank, listening on 127.0.0.1."""

    daemon_threads = True  # a request that is held does not keep the bank from stopping
    request_queue_size = 128  # the default of 5 makes a sixth caller wait a second for its connection

    def __init__(self, book: Book, settings: Settings, port: int) -> None:
        self.book = book
        self.settings = settings
        self.faults = Faults()
        super().__init__(("127.0.0.1", port), Handler)

    def server_bind(self) -> None:
        # HTTPServer's own asks DNS for a name, which can take seconds on a machine without one.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away is nothing to report."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One request: read whole, counted, judged, paid, answered."""

    server: Service
    protocol_version = "HTTP/1.1"
    server_version = "bank"
    wbufsize = -1  # head and body leave together

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: what the bank did is in its counters."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server refuses by itself, in the form of every other no."""
        self._send(code, {"error": "request.http", "hint": message or "This is not HTTP as it should be."})

    def _serve(self, method: str) -> None:
        try:
            url = self._url()
            status, answer = self._answer(method, url, self._body())
        except NotAnswered:
            self.close_connection = True
        except Refusal as no:
            self._send(no.status, {"error": no.code, "hint": no.hint})
        except Exception as exc:
            self._send(500, {"error": "bank.broken", "hint": f"{type(exc).__name__}: {exc}"})
            raise
        else:
            self._send(status, answer)

    def _answer(self, method: str, url: SplitResult, body: bytes) -> tuple[int, Any]:
        book, faults = self.server.book, self.server.faults
        match method, url.path:
            case "POST", "/payments":
                return self._pay(body)
            case "GET", "/payments":
                return 200, [as_json(receipt) for receipt in book.all()]
            case "GET", path if path.startswith(BY_KEY):
                return self._probe(read_key(unquote(path.removeprefix(BY_KEY))))
            case "GET", "/counters":
                return 200, book.counters()
            case "GET", "/settings":
                return 200, _told(self.server.settings)
            case "POST", "/settings":
                self.server.settings = _changed(self.server.settings, read_json(body))
                return 200, _told(self.server.settings)
            case "GET", "/faults":
                return 200, faults.due()
            case "POST", "/faults":
                faults.add(read_fault(read_json(body)))
                return 201, faults.due()
            case "DELETE", "/faults":
                faults.clear()
                return 200, faults.due()
            case "GET", "/waiting":
                count, patience_ms = _waiting_for(url.query)
                return 200, faults.waiting(count, patience_ms / 1_000)
            case "POST", "/release":
                return 200, {"released": faults.release(_released(body))}
            case _:
                raise Refusal(404, "path.unknown", f"There is no {method} {url.path[:100]}.")

    def _pay(self, body: bytes) -> tuple[int, Any]:
        asked = self._asked(body)
        self.server.book.count_request()
        self._go_wrong("before", asked)
        answer: tuple[int, Any] | Refusal
        try:
            receipt, is_new = self.server.book.pay(asked, self.server.settings)
            answer = (201 if is_new else 200), as_json(receipt)
        except Refusal as no:
            answer = no
        # A crash from here on leaves a payment that nobody was told of.
        self._go_wrong("after", asked)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    def _asked(self, body: bytes) -> Asked:
        key = read_key(self.headers.get("Idempotency-Key"))
        epoch = self.headers.get("Remit-Epoch")
        if epoch is not None and not (re.fullmatch(r"[0-9]{1,19}", epoch) and int(epoch) <= EPOCH_MAX):
            raise Refusal(400, "request.epoch", f"`Remit-Epoch` is an integer, 0 to {EPOCH_MAX}.")
        fence = self.headers.get("Fence-Group", key.partition(":")[0])
        if not is_text(fence):
            raise Refusal(400, "request.fence", "`Fence-Group` is printable text of 1 to 200 characters.")
        return Asked(key=key, order=read_order(body), epoch=None if epoch is None else int(epoch), fence=fence)

    def _probe(self, key: str) -> tuple[int, Any]:
        if self.server.faults.take("probe", key) is not None:
            raise Refusal(500, "fault.error", "An error on demand.")
        receipts = self.server.book.paid_by(key)
        if not receipts:
            raise Refusal(404, "key.unknown", f"Nothing was paid under {key}.")
        return 200, [as_json(receipt) for receipt in receipts]

    def _go_wrong(self, place: Place, asked: Asked) -> None:
        faults, key, invoice = self.server.faults, asked.key, asked.order.invoice
        # Held, then released: what comes next at this place may still be due.
        while (wrong := faults.take(place, key, invoice)) == "hold":
            faults.hold(place, key, invoice)
        if wrong == "error":
            raise Refusal(500, "fault.error", "An error on demand.")
        if wrong == "timeout":
            self._wait_for_the_caller_to_give_up()
        if wrong is not None:
            raise NotAnswered

    def _wait_for_the_caller_to_give_up(self) -> None:
        try:
            while self.connection.recv(4096):
                pass
        except OSError:
            pass  # reset rather than closed: gone, too

    def _url(self) -> SplitResult:
        try:
            return urlsplit(self.path)
        except ValueError as exc:
            raise Refusal(400, "request.http", f"This is no path: {exc}") from exc

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not re.fullmatch(r"[0-9]{1,12}", length):
            raise Refusal(411, "request.length", "A body states its `Content-Length`.")
        if int(length) > BODY_BYTES_MAX:
            self.rfile.read(min(int(length), DRAINED_BYTES_MAX))  # else the caller sees a reset instead of the answer
            raise Refusal(413, "request.size", f"A body has {BODY_BYTES_MAX} bytes at most.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise NotAnswered  # cut off half-way: the caller is gone, and half an order is none
        return body

    def _send(self, status: int, answer: Any) -> None:
        body = json.dumps(answer, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        # One request to a connection, so that a dropped one is never mistaken for one that had been idle.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = True


def _told(settings: Settings) -> dict[str, Any]:
    return {"dedupe": settings.dedupe, "fence": settings.fence, "decline": sorted(settings.decline)}


def _changed(settings: Settings, told: dict[str, Any]) -> Settings:
    """Raises Refusal `request.fields`, `settings.switch`, `settings.decline`; nothing changed."""
    expect_fields(told, set(), frozenset({"dedupe", "fence", "decline"}))
    decline = told.pop("decline", sorted(settings.decline))
    if not all(isinstance(value, bool) for value in told.values()):
        raise Refusal(400, "settings.switch", "`dedupe` and `fence` are true or false.")
    if not isinstance(decline, list) or not all(is_text(payee) for payee in decline):
        raise Refusal(400, "settings.decline", "`decline` is a list of payees.")
    return replace(settings, **told, decline=frozenset(decline))


def _waiting_for(query: str) -> tuple[int, int]:
    """Count and patience in ms. Raises Refusal `request.query`."""
    told = parse_qs(query, keep_blank_values=True)
    texts = [told.pop("count", ["1"]), told.pop("patience_ms", [str(PATIENCE_MS_DEFAULT)])]
    if told or not all(len(text) == 1 and re.fullmatch(r"[0-9]{1,9}", text[0]) for text in texts):
        raise Refusal(400, "request.query", "`count` and `patience_ms` are integers, each given once.")
    count, patience_ms = (int(text[0]) for text in texts)
    return count, min(patience_ms, PATIENCE_MS_MAX)


def _released(body: bytes) -> str | None:
    """The key in a body that may be left out; None for everybody."""
    told = read_json(body) if body else {}
    expect_fields(told, set(), frozenset({"key"}))
    return None if told.get("key") is None else read_key(told["key"] if isinstance(told["key"], str) else None)
