"""docs/guarantees.md: each promise names tests that prove it, and what a test proves stands on the page."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.docs.pages import ROOT, read

PAGE = "guarantees.md"
ROW = re.compile(r"^\| ([A-Z]+-\d+) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
PROVES = re.compile(r"# proves: (.*)")
PROMISE = re.compile(r"[A-Z]+-\d+")


def proven() -> dict[str, set[str]]:
    """Promise -> files of tests that name it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("*.py"):
        for ids in PROVES.findall(path.read_text(encoding="utf-8")):
            for promise in PROMISE.findall(ids):
                found[promise].add(str(path.relative_to(ROOT)))
    return found


def promised() -> dict[str, tuple[str, str, list[str]]]:
    """Promise -> what holds, what it does not promise, the files beside it."""
    return {
        id_: (holds, limit, re.findall(r"`([^`]+)`", files)) for id_, holds, limit, files in ROW.findall(read(PAGE))
    }


def test_each_promise_names_a_test_that_proves_it():
    tests = proven()
    wrong = [(id_, file) for id_, (_, _, files) in promised().items() for file in files if file not in tests[id_]]
    assert wrong == []
    assert [id_ for id_, (_, _, files) in promised().items() if not files] == []


def test_each_promise_that_a_test_proves_stands_on_the_page():
    assert sorted(proven().keys() - promised().keys()) == []


def test_each_promise_stands_once():
    ids = [row[0] for row in ROW.findall(read(PAGE))]
    assert sorted(set(ids)) == sorted(ids)


def test_what_holds_in_part_has_its_rest_among_what_is_not_built():
    """The other part may be named by its id or by its family: FX, GATE."""
    rest = read(PAGE).partition("\n## Not built yet")[2]
    part = [id_ for id_, (holds, _, _) in promised().items() if holds.startswith("In part")]
    assert [id_ for id_ in part if id_ not in rest and not _is_in_a_row(id_, rest) and _family(id_) not in rest] == []


def _family(id_: str) -> str:
    return f"({id_.partition('-')[0]})"


def _is_in_a_row(id_: str, text: str) -> bool:
    family, _, number = id_.partition("-")
    return any(int(a) <= int(number) <= int(b) for a, b in re.findall(rf"{family}-(\d+) to {family}-(\d+)", text))
