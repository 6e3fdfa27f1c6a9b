"""The bank of the procurement example: a real process, asked over HTTP; what its counters say is what was paid."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from examples.procurement.bank import client
from examples.procurement.bank.client import Declined, NothingSent, Order, Receipt, Refused, Unknown
from examples.procurement.bank.process import PaymentService

ROOT = Path(__file__).parents[2]
ORDER = Order(payee="Tŷ Cymru Ltd", amount=38_000_00, currency="GBP", invoice="INV-1041")
BODY = {"payee": "Tŷ Cymru Ltd", "amount": 38_000_00, "currency": "GBP", "invoice": "INV-1041"}
PATIENCE_S = 30.0  # how long a test waits before it calls itself broken
SOON_S = 0.2  # a caller that gives up on purpose: nothing is ever going to answer it


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaymentService]:
    with PaymentService(tmp_path_factory.mktemp("bank") / "bank.db") as service:
        yield service


@pytest.fixture
def url(process: PaymentService) -> Iterator[str]:
    """A bank that answers as it does by default; each test uses keys of its own."""
    yield process.url
    client.clear_faults(process.url)
    client.release(process.url)
    client.settings(process.url, dedupe=True, fence=False, decline=[])


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}"[-200:]


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """A request by hand. body: bytes go out as they are, anything else as JSON."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, sent, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    told = answer.status, json.loads(answer.read())
    connection.close()
    return told


def paid(url: str, key: str) -> int:
    return int(client.counters(url)["by_key"].get(key, 0))


class TestPayments:
    def test_a_payment_is_answered_with_its_receipt_and_found_by_its_key(self, url: str, key: str):
        before = time.time_ns() // 1_000
        status, receipt = ask(url, "POST", "/payments", BODY, Idempotency_Key=key)
        after = time.time_ns() // 1_000

        assert status == 201
        assert {name: receipt[name] for name in BODY} == BODY
        assert receipt["key"] == key and before <= receipt["made_at"] <= after
        assert ask(url, "GET", f"/payments/by-key/{key}") == (200, [receipt])
        assert receipt in ask(url, "GET", "/payments")[1]

    def test_the_same_key_again_is_answered_with_the_first_receipt_and_pays_nothing(self, url: str, key: str):
        first = ask(url, "POST", "/payments", BODY, Idempotency_Key=key)
        # The fields are what is the same, not the bytes.
        again = ask(url, "POST", "/payments", dict(reversed(BODY.items())), Idempotency_Key=key)
        assert again == (200, first[1])
        assert paid(url, key) == 1

    def test_the_same_key_with_another_body_is_a_conflict_and_pays_nothing(self, url: str, key: str):
        client.pay(url, ORDER, key)
        for change in ({"amount": 38_000_01}, {"payee": "Ty"}, {"currency": "EUR"}, {"invoice": "INV-1042"}):
            status, told = ask(url, "POST", "/payments", BODY | change, Idempotency_Key=key)
            assert (status, told["error"]) == (422, "idempotency.conflict")
        assert paid(url, key) == 1

    def test_a_bank_that_does_not_deduplicate_pays_again_and_its_counters_show_it(self, tmp_path: Path):
        with PaymentService(tmp_path / "bank.db", dedupe=False) as service:
            first, second = (client.pay(service.url, ORDER, "k") for _ in range(2))
            client.pay(service.url, ORDER, "once")
            assert first.id != second.id
            assert client.find(service.url, "k") == [first, second]
            assert client.counters(service.url) == {
                "requests": 3,
                "payments": 3,
                "by_key": {"k": 2, "once": 1},
                "amount_total": {"GBP": 3 * 38_000_00},
                "above_one": 1,
            }

    def test_deduplication_is_switched_while_it_runs(self, url: str, key: str):
        first = client.pay(url, ORDER, key)
        client.settings(url, dedupe=False)
        assert client.pay(url, ORDER, key) != first
        client.settings(url, dedupe=True)
        assert client.pay(url, ORDER, key) == first
        assert paid(url, key) == 2

    def test_the_same_key_from_many_callers_at_once_is_one_payment(
        self, url: str, key: str, background: ThreadPoolExecutor
    ):
        receipts = list(background.map(lambda _: client.pay(url, ORDER, key), range(16)))
        assert len(set(receipts)) == 1
        assert paid(url, key) == 1

    def test_amounts_are_added_up_exactly_and_by_currency(self, tmp_path: Path):
        most = 2**53 - 1
        with PaymentService(tmp_path / "bank.db") as service:
            for number, (amount, currency) in enumerate([(most, "GBP"), (most, "GBP"), (1, "EUR")]):
                client.pay(service.url, Order(payee="p", amount=amount, currency=currency, invoice="i"), str(number))
            assert client.counters(service.url)["amount_total"] == {"GBP": 2 * most, "EUR": 1}

    def test_a_key_of_any_visible_characters_is_found_again(self, url: str):
        odd = "a/b?c=d&e%2F#f:g\"'\\~"
        receipt = client.pay(url, ORDER, odd)
        assert client.find(url, odd) == [receipt]
        assert client.find(url, "a/b") == []

    def test_a_declined_payee_is_paid_nothing(self, tmp_path: Path):
        with PaymentService(tmp_path / "bank.db", decline=("Shell Ltd", ORDER.payee)) as service:
            assert ask(service.url, "POST", "/payments", BODY, Idempotency_Key="k")[0] == 402
            with pytest.raises(Declined):
                client.pay(service.url, ORDER, "k")
            assert client.find(service.url, "k") == []
            client.settings(service.url, decline=[])
            client.pay(service.url, ORDER, "k")  # nothing was remembered of the no
            assert client.counters(service.url)["requests"] == 3

    def test_an_amount_of_nothing_is_declined(self, url: str, key: str):
        assert ask(url, "POST", "/payments", BODY | {"amount": 0}, Idempotency_Key=key)[0] == 402
        assert paid(url, key) == 0


class TestFence:
    def test_an_epoch_below_the_highest_is_refused_and_pays_nothing(self, tmp_path: Path):
        with PaymentService(tmp_path / "bank.db", fence=True) as service:
            client.pay(service.url, ORDER, "a", epoch=2, fence="run-1")
            for stale in (1, 0, None):  # to leave it out is no way round the fence
                with pytest.raises(Refused) as refused:
                    client.pay(service.url, ORDER, "b", epoch=stale, fence="run-1")
                assert (refused.value.status, refused.value.code) == (409, "fence.epoch")
            client.pay(service.url, ORDER, "c", epoch=2, fence="run-1")
            client.pay(service.url, ORDER, "d", epoch=1, fence="run-2")
            assert client.counters(service.url)["by_key"] == {"a": 1, "c": 1, "d": 1}

    def test_without_a_group_the_keys_beginning_is_the_group(self, tmp_path: Path):
        with PaymentService(tmp_path / "bank.db", fence=True) as service:
            client.pay(service.url, ORDER, "run-1:a", epoch=2)
            client.pay(service.url, ORDER, "run-2:a", epoch=1)
            with pytest.raises(Refused, match="fence"):
                client.pay(service.url, ORDER, "run-1:b", epoch=1)

    def test_what_it_saw_before_it_fenced_counts_and_survives_a_kill(self, tmp_path: Path):
        with PaymentService(tmp_path / "bank.db") as service:
            client.settings(service.url, decline=[ORDER.payee])
            with pytest.raises(Declined):
                client.pay(service.url, ORDER, "k", epoch=7)
            service.kill()
            service.start()
            client.pay(service.url, ORDER, "k", epoch=6)
            client.settings(service.url, fence=True)
            with pytest.raises(Refused, match="fence"):
                client.pay(service.url, ORDER, "k", epoch=6)

    def test_a_call_that_was_overtaken_on_its_way_is_refused_when_it_arrives(
        self, url: str, key: str, background: ThreadPoolExecutor
    ):
        client.settings(url, fence=True)
        client.cause(url, "hold_before", key=key)
        late = background.submit(client.pay, url, ORDER, key, 1)
        client.wait_held(url)
        receipt = client.pay(url, ORDER, key, 2)
        client.release(url)
        with pytest.raises(Refused, match="fence"):
            late.result(PATIENCE_S)
        assert client.find(url, key) == [receipt]


class TestFaults:
    @pytest.mark.parametrize("kind", ["error_before", "drop_before", "timeout_before"])
    def test_before_nothing_is_done_and_the_caller_does_not_know(self, url: str, key: str, kind: str):
        client.cause(url, kind, key=key)
        with pytest.raises(Unknown):
            client.pay(url, ORDER, key, timeout_s=SOON_S if kind.startswith("timeout") else PATIENCE_S)
        assert client.find(url, key) == []

    @pytest.mark.parametrize("kind", ["error_after", "drop_after", "timeout_after"])
    def test_after_it_is_done_and_the_caller_does_not_know(self, url: str, key: str, kind: str):
        client.cause(url, kind, key=key)
        with pytest.raises(Unknown):
            client.pay(url, ORDER, key, timeout_s=SOON_S if kind.startswith("timeout") else PATIENCE_S)
        (receipt,) = client.find(url, key)
        assert client.pay(url, ORDER, key) == receipt  # the fault is used up

    def test_a_no_is_lost_as_well_as_a_yes(self, url: str, key: str):
        client.settings(url, decline=[ORDER.payee])
        client.cause(url, "error_after", key=key)
        with pytest.raises(Unknown):
            client.pay(url, ORDER, key)
        assert client.find(url, key) == []

    def test_a_request_that_times_out_goes_when_its_caller_gives_up(self, url: str, key: str):
        """A bank that is asked for more than it has threads for would otherwise fill up."""
        client.cause(url, "timeout_after", key=key)
        with socket.create_connection(address(url), timeout=PATIENCE_S) as caller:
            caller.sendall(raw(BODY, key))
            assert_gone_after_half_close(caller)
        assert paid(url, key) == 1

    @pytest.mark.parametrize("kind", ["error_before", "drop_before", "error_after"])
    def test_a_request_is_counted_when_it_arrives_whatever_becomes_of_it(self, url: str, key: str, kind: str):
        before = client.counters(url)["requests"]
        client.cause(url, kind, key=key)
        with pytest.raises(Unknown):
            client.pay(url, ORDER, key)
        assert client.counters(url)["requests"] == before + 1

    def test_faults_happen_as_often_as_asked_for_and_to_whom(self, url: str, key: str):
        other = Order(payee="p", amount=1, currency="GBP", invoice=f"of {key}")
        client.cause(url, "error_before", 2, key=key)
        client.cause(url, "error_before", invoice=other.invoice)
        client.pay(url, ORDER, f"{key}-nobody's")
        for _ in range(2):
            with pytest.raises(Unknown):
                client.pay(url, ORDER, key)
        client.pay(url, ORDER, key)
        with pytest.raises(Unknown):
            client.pay(url, other, f"{key}-other")
        assert client.faults(url) == []

    def test_faults_are_told_and_cleared(self, url: str, key: str):
        client.cause(url, "drop_after", 3)
        with pytest.raises(Unknown):
            client.pay(url, ORDER, key)
        assert client.faults(url) == [{"kind": "drop_after", "times": 2, "key": None, "invoice": None}]
        client.clear_faults(url)
        client.pay(url, ORDER, key)
        assert client.faults(url) == []

    def test_a_probe_that_fails_says_nothing(self, url: str, key: str):
        client.pay(url, ORDER, key)
        client.cause(url, "error_probe", key=key)
        with pytest.raises(Unknown):
            client.find(url, key)
        assert len(client.find(url, key)) == 1


class TestHolds:
    @pytest.mark.parametrize(("kind", "while_held"), [("hold_before", 0), ("hold_after", 1)])
    def test_a_held_request_waits_at_its_place_until_released(
        self, url: str, key: str, background: ThreadPoolExecutor, kind: str, while_held: int
    ):
        client.cause(url, kind, key=key)
        held = background.submit(client.pay, url, ORDER, key)

        place = kind.removeprefix("hold_")
        assert client.wait_held(url) == [{"place": place, "key": key, "invoice": ORDER.invoice}]
        assert paid(url, key) == while_held and not held.done()

        assert client.release(url) == 1
        assert [held.result(PATIENCE_S)] == client.find(url, key)

    def test_somebody_who_asks_who_waits_is_answered_when_there_are_enough(
        self, url: str, key: str, background: ThreadPoolExecutor
    ):
        client.cause(url, "hold_before", 2)
        both = background.submit(client.wait_held, url, 2)
        calls = [background.submit(client.pay, url, ORDER, f"{key}-{n}") for n in range(2)]
        assert {held["key"] for held in both.result(PATIENCE_S)} == {f"{key}-0", f"{key}-1"}

        assert client.release(url, f"{key}-1") == 1
        assert calls[1].result(PATIENCE_S).key == f"{key}-1"
        assert [held["key"] for held in client.wait_held(url)] == [f"{key}-0"] and not calls[0].done()
        assert client.release(url) == 1
        calls[0].result(PATIENCE_S)

    def test_nobody_waits_and_patience_ends(self, url: str):
        assert ask(url, "GET", "/waiting?count=0") == (200, [])
        with pytest.raises(TimeoutError):
            client.wait_held(url, 1, patience_ms=1)
        assert client.release(url) == 0

    def test_once_released_it_may_still_go_wrong_at_the_same_place(
        self, url: str, key: str, background: ThreadPoolExecutor
    ):
        client.cause(url, "hold_after", key=key)
        client.cause(url, "drop_after", key=key)
        held = background.submit(client.pay, url, ORDER, key)
        client.wait_held(url)
        client.release(url)
        with pytest.raises(Unknown):
            held.result(PATIENCE_S)
        assert paid(url, key) == 1

    def test_clearing_faults_lets_nobody_go(self, url: str, key: str, background: ThreadPoolExecutor):
        client.cause(url, "hold_before", key=key)
        held = background.submit(client.pay, url, ORDER, key)
        client.wait_held(url)
        client.clear_faults(url)
        assert len(client.wait_held(url)) == 1
        client.release(url)
        held.result(PATIENCE_S)

    @pytest.mark.parametrize(("kind", "while_held"), [("hold_before", 0), ("hold_after", 1)])
    def test_a_caller_that_was_killed_while_held_has_paid_all_the_same_when_it_lands(
        self, url: str, key: str, kind: str, while_held: int
    ):
        client.cause(url, kind, key=key)
        caller = subprocess.Popen([sys.executable, "-c", CALLER, url, key], cwd=ROOT)
        client.wait_held(url)
        os.kill(caller.pid, signal.SIGKILL)
        assert caller.wait(PATIENCE_S) == -signal.SIGKILL
        assert paid(url, key) == while_held

        client.cause(url, "hold_after", key=key)  # so that the test sees it land, and doesn't guess when
        client.release(url)
        client.wait_held(url)
        assert paid(url, key) == 1


class TestProcess:
    def test_it_says_where_it_listens_and_stops_on_sigterm(self, tmp_path: Path):
        command = [sys.executable, "-m", "examples.procurement.bank", "--db", str(tmp_path / "bank.db"), "--port", "0"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bank:
            assert bank.stdout is not None and bank.stderr is not None
            told = json.loads(bank.stdout.readline())
            assert list(told) == ["port"]
            client.pay(f"http://127.0.0.1:{told['port']}", ORDER, "k")
            bank.terminate()
            assert bank.wait(PATIENCE_S) == 0
            assert (bank.stdout.read(), bank.stderr.read()) == ("", "")

    @pytest.mark.parametrize("kind", ["hold_before", "hold_after", "timeout_after"])
    def test_it_stops_while_requests_wait_and_what_was_held_before_is_not_done(
        self, tmp_path: Path, background: ThreadPoolExecutor, kind: str
    ):
        with PaymentService(tmp_path / "bank.db") as service:
            client.cause(service.url, kind.replace("timeout", "hold"))
            call = background.submit(client.pay, service.url, ORDER, "k")
            client.wait_held(service.url)
            if kind == "timeout_after":
                client.cause(service.url, kind)
                client.release(service.url)
            service.stop()
            with pytest.raises(Unknown):
                call.result(PATIENCE_S)
            service.start()
            assert client.counters(service.url)["by_key"] == ({} if kind == "hold_before" else {"k": 1})

    def test_what_was_answered_survives_a_kill_on_the_same_port(self, tmp_path: Path):
        with PaymentService(tmp_path / "bank.db") as service:
            url = service.url
            receipt = client.pay(url, ORDER, "k")
            service.kill()
            with pytest.raises(NothingSent):
                client.pay(url, ORDER, "k")
            with pytest.raises(NothingSent):
                client.find(url, "k")
            service.start()
            assert service.url == url
            assert client.payments(url) == [receipt] == [client.pay(url, ORDER, "k")]
            assert client.counters(url)["requests"] == 2

    def test_it_ends_with_the_process_that_started_it_however_that_ended(self, tmp_path: Path):
        command = [sys.executable, "-c", STARTER, str(tmp_path / "bank.db")]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
            assert starter.stdout is not None
            url = starter.stdout.readline().strip()
            client.cause(url, "hold_before")
            with socket.create_connection(address(url), timeout=PATIENCE_S) as caller:
                caller.sendall(raw(BODY, "k"))
                client.wait_held(url)
                starter.kill()
                assert starter.wait(PATIENCE_S) == -signal.SIGKILL
                assert caller.recv(1) == b""  # the bank's end of it closes when the bank is gone
        with pytest.raises(NothingSent):
            client.counters(url)

    def test_a_bank_that_does_not_come_up_is_told(self, tmp_path: Path, process: PaymentService):
        taken = int(process.url.rpartition(":")[2])
        with pytest.raises(RuntimeError, match="did not come up"):
            PaymentService(tmp_path / "bank.db", port=taken)

    def test_it_knows_nothing_of_remit(self):
        code = (
            "import sys, examples.procurement.bank.__main__, examples.procurement.bank.process;"
            "print([name for name in sys.modules if name.partition('.')[0] == 'remit'])"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"

    def test_its_client_needs_the_standard_library_alone(self):
        code = (
            "import sys; before = set(sys.modules); import examples.procurement.bank.client;"
            "tops = {name.partition('.')[0] for name in set(sys.modules) - before};"
            "print(sorted(tops - set(sys.stdlib_module_names)))"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == "['examples']\n"


class TestBadInput:
    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"", "request.json"),
            (b"[]", "request.json"),
            (b"\xff", "request.json"),
            (b"[" * 60_000, "request.json"),
            (b'{"amount": ' + b"9" * 5_000 + b"}", "request.json"),
            (b'{"amount": NaN}', "request.json"),
            (b'{"payee": "a", "payee": "b"}', "request.json"),
            ({}, "request.fields"),
            (BODY | {"memo": "x"}, "request.fields"),
            (BODY | {"amount": -1}, "request.amount"),
            (BODY | {"amount": 1.0}, "request.amount"),
            (BODY | {"amount": True}, "request.amount"),
            (BODY | {"amount": "1"}, "request.amount"),
            (BODY | {"amount": 2**53}, "request.amount"),
            (BODY | {"currency": "gbp"}, "request.currency"),
            (BODY | {"currency": "GBP\n"}, "request.currency"),
            (BODY | {"currency": None}, "request.currency"),
            (BODY | {"payee": ""}, "request.payee"),
            (BODY | {"payee": " "}, "request.payee"),
            (BODY | {"payee": "x" * 201}, "request.payee"),
            (BODY | {"payee": "\ud800"}, "request.payee"),
            (BODY | {"payee": "a\0b"}, "request.payee"),
            (BODY | {"invoice": 7}, "request.invoice"),
        ],
    )
    def test_an_order_that_is_none_is_refused_by_name_and_not_counted(self, url: str, key: str, body: Any, code: str):
        before = client.counters(url)
        status, told = ask(url, "POST", "/payments", body, Idempotency_Key="k")
        assert (status, told["error"]) == (400, code)
        assert client.counters(url) == before

    @pytest.mark.parametrize(
        ("headers", "code"),
        [
            ({}, "request.key"),
            ({"Idempotency_Key": ""}, "request.key"),
            ({"Idempotency_Key": "a b"}, "request.key"),
            ({"Idempotency_Key": "é"}, "request.key"),
            ({"Idempotency_Key": "k" * 256}, "request.key"),
            ({"Idempotency_Key": "k", "Remit_Epoch": "-1"}, "request.epoch"),
            ({"Idempotency_Key": "k", "Remit_Epoch": str(2**63)}, "request.epoch"),
            ({"Idempotency_Key": "k", "Fence_Group": ""}, "request.fence"),
        ],
    )
    def test_a_header_that_says_nothing_is_refused_by_name(self, url: str, headers: dict[str, str], code: str):
        status, told = ask(url, "POST", "/payments", BODY, **headers)
        assert (status, told["error"]) == (400, code)

    @pytest.mark.parametrize(
        ("method", "path", "body", "answer"),
        [
            ("GET", "/", None, (404, "path.unknown")),
            ("DELETE", "/payments", None, (404, "path.unknown")),
            ("PUT", "/payments", None, (501, "request.http")),
            ("GET", "/payments/by-key/", None, (400, "request.key")),
            ("GET", "/payments/by-key/nobody", None, (404, "key.unknown")),
            ("GET", "/waiting?count=-1", None, (400, "request.query")),
            ("GET", "/waiting?count=1&count=2", None, (400, "request.query")),
            ("GET", "/waiting?often=1", None, (400, "request.query")),
            ("POST", "/faults", {}, (400, "request.fields")),
            ("POST", "/faults", {"kind": "earthquake"}, (400, "fault.kind")),
            ("POST", "/faults", {"kind": ["hold_after"]}, (400, "fault.kind")),
            ("POST", "/faults", {"kind": "hold_after", "times": 0}, (400, "fault.times")),
            ("POST", "/faults", {"kind": "hold_after", "key": 1}, (400, "fault.for")),
            ("POST", "/faults", {"kind": "error_probe", "invoice": "i"}, (400, "fault.for")),
            ("POST", "/settings", {"colour": "red"}, (400, "request.fields")),
            ("POST", "/settings", {"dedupe": 0}, (400, "settings.switch")),
            ("POST", "/settings", {"decline": "Shell Ltd"}, (400, "settings.decline")),
            ("POST", "/release", {"key": 1}, (400, "request.key")),
            ("POST", "/payments", b"x" * 1_000_000, (413, "request.size")),
        ],
    )
    def test_a_request_that_is_none_is_refused_by_name(
        self, url: str, method: str, path: str, body: Any, answer: tuple[int, str]
    ):
        status, told = ask(url, method, path, body)
        assert (status, told["error"]) == answer
        assert client.faults(url) == []

    def test_settings_that_are_refused_change_nothing(self, url: str):
        before = client.settings(url)
        with pytest.raises(Refused, match="settings"):
            client.settings(url, fence=True, decline=[""])
        assert client.settings(url) == before == {"dedupe": True, "fence": False, "decline": []}

    def test_half_an_order_is_none(self, url: str, key: str):
        before = client.counters(url)
        with socket.create_connection(address(url), timeout=PATIENCE_S) as caller:
            caller.sendall(raw(BODY, key)[:-5])
            assert_gone_after_half_close(caller)
        assert client.counters(url) == before


class TestClient:
    def test_a_header_that_cannot_be_sent_is_the_callers_mistake(self, url: str):
        before = client.counters(url)
        with pytest.raises(ValueError, match="header"):
            client.pay(url, ORDER, "a\r\nRemit-Epoch: 9")
        assert client.counters(url) == before

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"gibberish\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            b"HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\n{",
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
            b"HTTP/1.1 402 Payment Required\r\nContent-Length: 3\r\n\r\nno!",
            b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 2\r\n\r\n{}",
        ],
    )
    def test_an_answer_that_is_not_the_banks_is_no_answer(self, background: ThreadPoolExecutor, answer: bytes):
        with socket.create_server(("127.0.0.1", 0)) as other:
            call: Future[Receipt] = background.submit(
                client.pay, f"http://127.0.0.1:{other.getsockname()[1]}", ORDER, "k"
            )
            connection, _ = other.accept()
            with connection:
                read_whole(connection)
                connection.sendall(answer)
            with pytest.raises(Unknown):
                call.result(PATIENCE_S)


CALLER = """
import sys
from examples.procurement.bank import client
order = client.Order(payee="p", amount=1, currency="GBP", invoice="i")
client.pay(sys.argv[1], order, sys.argv[2])
"""

STARTER = """
import sys
from examples.procurement.bank.process import PaymentService
service = PaymentService(sys.argv[1])
print(service.url, flush=True)
sys.stdin.read()
"""


def address(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def raw(body: dict[str, Any], key: str) -> bytes:
    """A request to pay, as bytes."""
    sent = json.dumps(body).encode()
    head = f"POST /payments HTTP/1.1\r\nHost: bank\r\nIdempotency-Key: {key}\r\nContent-Length: {len(sent)}\r\n\r\n"
    return head.encode() + sent


def assert_gone_after_half_close(caller: socket.socket) -> None:
    """The caller gives up; the bank closes its side without a word."""
    caller.shutdown(socket.SHUT_WR)
    assert caller.recv(1) == b""


def read_whole(connection: socket.socket) -> None:
    """Read a request up to the end of its JSON, so that closing afterwards is no reset."""
    told = b""
    while not told.endswith(b"}"):
        told += connection.recv(65_536)
