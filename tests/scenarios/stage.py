"""The stage of one scenario: a folder, a ledger on SQLite with its people, the bank, and worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import remit
from examples.procurement.bank import client
from examples.procurement.bank.order import Order
from examples.procurement.bank.process import PaymentService
from remit.store.protocol import LEASE_MS_MAX
from tests.scenarios.purchase import BANK, FOLDER, GOODS, purchase

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
RUN, BUYER, DANA, DORA, OFFICE = "po-1041", "agent:buyer", "user:dana", "user:dora", "service:office"
SMALL = Order(payee="ACME Ltd", amount=18_000_00, currency="GBP", invoice="INV-1041")
LARGE = Order(payee="ACME Ltd", amount=38_184_30, currency="GBP", invoice="INV-1041")


@dataclass(frozen=True)
class Told:
    """How a run stood when a worker was through with it. status: "raised" where the code is an error's."""

    status: str
    code: str


class Worker:
    """A process of `tests.scenarios.worker`, as its parent sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None and process.stdin is not None
        assert "ready" in process.stdout.readline(), "the worker did not come up"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> Told:
        """Wait until it is over; what it said."""
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return Told(**json.loads(out))

    def until_stopped(self) -> None:
        """Returns when the process has stopped itself."""
        found = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None and found.si_code == os.CLD_STOPPED, "it ended instead"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@dataclass
class Stage:
    """Where one scenario is played."""

    folder: Path
    bank: str  # URL
    workers: list[Worker] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.database}"

    @contextmanager
    def ledger(self) -> Iterator[remit.Runtime]:
        with remit.open(self.url) as rt:
            yield rt

    def open_run(self, order: Order) -> None:
        """The people are known, the order is written, and the run waits for the goods."""
        with self.ledger() as rt:
            for principal, role in ((BUYER, "buyer"), (DANA, "clerk"), (DORA, "director")):
                rt.grant_sync(principal, role, by=OFFICE)
            try:
                rt.run_sync(purchase, order, id=RUN, by=BUYER, behalf=DANA)
            except remit.StepError:
                return
        raise AssertionError("it was to wait for the goods")

    def bring_goods(self) -> None:
        (self.folder / GOODS).touch()

    def approve(self) -> None:
        """The one question that waits is answered with yes."""
        with self.ledger() as rt:
            (ask,) = rt.inbox_sync()
            rt.decide_sync(ask.id, "approve", by=DORA, seen=ask.version)

    def hire(self, flow: str = "purchase", *, lease_ms: int = LEASE_MS_MAX) -> Worker:
        """A worker that opened the ledger and waits for the word to begin."""
        command = [sys.executable, "-m", "tests.scenarios.worker", self.url, RUN, flow, str(lease_ms)]
        env = {**os.environ, BANK: self.bank, FOLDER: str(self.folder)}
        pipe: Any = subprocess.PIPE
        with (self.folder / "errors.txt").open("ab") as errors:
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, cwd=ROOT, env=env)
        self.workers.append(Worker(process))
        return self.workers[-1]

    def work(self, flow: str = "purchase") -> Told:
        """A worker goes on with the run; how that ends."""
        worker = self.hire(flow)
        worker.go()
        return worker.end()

    @property
    def payments(self) -> int:
        """What the bank paid, by its own count."""
        return int(client.counters(self.bank)["payments"])


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """A new stage. Its bank and its workers end with it."""
    folder.mkdir(parents=True, exist_ok=True)
    before = {name: os.environ.get(name) for name in (BANK, FOLDER)}
    with PaymentService(folder / "bank.db", dedupe=False) as bank:
        os.environ |= {BANK: bank.url, FOLDER: str(folder)}  # for what runs in this process
        stage = Stage(folder, bank.url)
        try:
            yield stage
        finally:
            for worker in stage.workers:
                worker.kill()
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
