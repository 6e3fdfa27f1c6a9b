"""A file that Python was started with declares the same flow, rules and effects as the module that others import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import remit

REFUNDS = """
import multiprocessing
import sys
from datetime import timedelta

import remit


@remit.effect
def refund(order: dict, *, key: str) -> str:
    return f"refunded {order['amount']}"


def is_big(order: dict) -> bool:
    return order["amount"] > 500_00


def is_open(order: dict) -> bool:
    return True


RULE = remit.Rule(
    approval=remit.Approval({"lead"}, timedelta(hours=1), when=is_big), still_wanted=is_open
)


@remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"refund": RULE}))
def refund_case(run: remit.SyncRun, amount: int) -> str:
    return run.effect(refund, {"amount": amount})


def tell() -> None:
    print(refund.connector, refund_case.terms.digest, RULE.predicate(RULE.pin().wanted, "still_wanted") is is_open)


def go() -> None:
    with remit.open("sqlite:///refunds.db") as rt:
        outcome = rt.run_sync(refund_case, 900_00, id="r-1")
        print(outcome.status, outcome.value if outcome.status == "completed" else None)


if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        multiprocessing.get_context("spawn").Process(target=tell).start()
    else:
        {"tell": tell, "go": go}[sys.argv[1]]()
"""


class Desk:
    """A folder with a script in it, and one more copy in a package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "refunds.py").write_text(REFUNDS)
        (folder / "shop").mkdir()
        (folder / "shop" / "__init__.py").touch()
        (folder / "shop" / "refunds.py").write_text(REFUNDS)

    def __call__(self, *words: str) -> list[str]:
        """What Python says when it is started like that."""
        env = os.environ | {"PYTHONPATH": str(Path(remit.__file__).parents[1])}
        told = subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
        return told.stdout.split()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("module", "started"),
    [
        ("refunds", ("refunds.py", "tell")),
        ("refunds", ("-m", "refunds", "tell")),
        ("refunds", ("refunds.py", "spawn")),
        ("refunds", ("-m", "refunds", "spawn")),
        ("shop.refunds", ("-m", "shop.refunds", "tell")),
    ],
)
def test_a_started_file_declares_what_its_module_does(desk: Desk, module: str, started: tuple[str, ...]):
    """An answer, a probe and a rule are bound to these digests."""
    imported = desk("-c", f"import {module}; {module}.tell()")
    assert imported[2] == "True"
    assert desk(*started) == imported


def test_two_modules_of_one_text_are_two(desk: Desk):
    assert desk("-c", "import refunds; refunds.tell()") != desk("-c", "import shop.refunds as r; r.tell()")


def test_what_nobody_could_import_keeps_its_name(desk: Desk):
    assert desk("-c", "from remit.authority.named import *\ndef f(): 0\nprint(qualified_name(f))") == ["__main__.f"]


def test_a_yes_to_a_started_file_is_good_where_the_module_is_imported(desk: Desk):  # proves: APR-1
    assert desk("refunds.py", "go") == ["waiting", "None"]
    with remit.open(f"sqlite:///{desk.folder}/refunds.db") as rt:
        rt.grant_sync("user:lee", "lead", by="user:root")
        (ask,) = rt.inbox_sync()
        rt.decide_sync(ask.id, "approve", by="user:lee", seen=ask.version)
    assert desk("-c", "import refunds; refunds.go()") == ["completed", "refunded", "90000"]
