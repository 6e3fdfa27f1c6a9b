"""docs/reference/errors.md names every code that the source can raise, and no other."""

from __future__ import annotations

import re
from typing import Any

from remit import errors
from remit.authority.contract import Contract
from tests.docs.pages import ROOT, read

PAGE = "reference/errors.md"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LITERAL = re.compile(r'\bcode\s*=\s*"([a-z_]+(?:\.[a-z_]+)*)"')
CHAIN = re.compile(r'"((?:chain|run)\.[a-z]+)"')
CONTRACT = re.compile(r'_refused\("([a-z]+)"')
ROW = re.compile(r"^\| `([a-z_.]+)` \| ([^|]*) \|", re.MULTILINE)


def classes(root: type[errors.RemitError] = errors.RemitError) -> list[type[errors.RemitError]]:
    return [root, *(each for child in root.__subclasses__() for each in classes(child))]


def raised() -> set[str]:
    """Codes of classes, and those that are given where an error is made."""
    found = {each.code for each in classes()}
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        found |= set(LITERAL.findall(text))
        if path.parent.name in ("facts", "engine"):
            found |= {code for code in CHAIN.findall(text) if not code.startswith("run.") or code in TAMPERED}
        if path.stem == "contract":
            found |= {f"contract.{field}" for field in CONTRACT.findall(text)}
    return found


TAMPERED = {"run.truncated", "run.index"}  # the other words with `run.` are names of calls: run.now, run.first


def said() -> dict[str, str]:
    return dict(ROW.findall(read(PAGE)))


def test_each_code_stands_on_the_page_and_no_other():
    assert sorted(said()) == sorted(raised())


def test_each_class_stands_beside_its_own_code():
    page = said()
    assert [each.__name__ for each in classes() if f"`{each.__name__}`" not in page[each.code]] == []


def test_each_error_says_what_to_do_next():
    assert [each.__name__ for each in classes() if not each.hint.endswith(".")] == []


def test_a_contract_s_docstring_names_its_codes():
    doc: Any = Contract.__doc__
    assert {code for code in said() if code.startswith("contract.")} - set(re.findall(r"`([a-z.]+)`", doc)) == {
        "contract.missing"  # that one is the flow's
    }
