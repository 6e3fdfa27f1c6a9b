"""docs/reference/errors.md names every code that the source can raise, and no other."""

from __future__ import annotations

import re
from typing import Any

from remit import errors
from remit.authority import answers, gate, policy
from remit.authority.contract import Contract
from remit.engine.turn import halt
from tests.docs.pages import ROOT, read, section, table

PAGE = "reference/errors.md"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
GATE = [ROOT / "src/remit/authority" / name for name in ("gate.py", "answers.py")]
LITERAL = re.compile(r'\bcode\s*=\s*"([a-z_]+(?:\.[a-z_]+)*)"')
CHAIN = re.compile(r'"((?:chain|run)\.[a-z]+)"')
CONTRACT = re.compile(r'_refused\("([a-z]+)"')
EFFECT = re.compile(r'refused\(\w+(?:\.name)?, "(\w+)"|\("(\w+)", self\.')
FINDING = re.compile(r'"((?:objective|identity|authority|ceiling|evidence|policy|effects|duplicates|approval)\.\w+)"')
PARKED = re.compile(r'Parked\("\w+", "([a-z_.]+)"')
ROW = re.compile(r"^\| `([a-z_.]+)` \| ([^|]*) \|", re.MULTILINE)


def classes(root: type[errors.RemitError] = errors.RemitError) -> list[type[errors.RemitError]]:
    """Remit's own: users may derive theirs, and tests do."""
    own = (child for child in root.__subclasses__() if child.__module__.startswith("remit."))
    return [root, *(each for child in own for each in classes(child))]


def raised() -> set[str]:
    """Codes of classes, and those that are given where an error is made."""
    found = {each.code for each in classes()}
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        found |= set(LITERAL.findall(text)) - OUTCOMES
        if {"facts", "engine"} & set(path.parts):
            found |= {code for code in CHAIN.findall(text) if not code.startswith("run.") or code in TAMPERED}
        if path.stem == "contract":
            found |= {f"contract.{field}" for field in CONTRACT.findall(text)}
        if path.stem in ("outward", "sink", "rows"):
            found |= {f"effect.{field}" for fields in EFFECT.findall(text) for field in fields if field}
    return found | {f"policy.{part}" for part in ("form", *policy._KEYS)} | {"effect.did_not_happen"}


OUTCOMES = {"denied"}
TAMPERED = {"run.truncated", "run.index"}  # the other words with `run.` are names of calls: run.now, run.first


def said() -> dict[str, str]:
    return dict(ROW.findall(read(PAGE).partition("\n## Outcome codes")[0]))


def findings() -> dict[str, tuple[str, str]]:
    """Code -> check, and what it asks for."""
    return {code: (check, asks) for code, check, asks, _ in table(PAGE, "Findings of the gate")}


def test_each_code_stands_on_the_page_and_no_other():
    assert sorted(said()) == sorted(raised())


def test_each_class_stands_beside_its_own_code():
    page = said()
    assert [each.__name__ for each in classes() if f"`{each.__name__}`" not in page[each.code]] == []


def test_each_error_says_what_to_do_next():
    assert [each.__name__ for each in classes() if not each.hint.endswith(".")] == []


def test_each_finding_of_the_gate_stands_on_the_page_and_no_other():
    there = {code for path in GATE for code in FINDING.findall(path.read_text(encoding="utf-8"))}
    there |= {code for _, code in answers._BOUND_FIELDS}
    there |= {"idempotency.conflict", "clock.regressed"}
    assert set(findings()) == there


def test_each_abandonment_has_its_outcome_code_and_status_on_the_page():
    rows = [row for row in re.findall(r"^\| `(\w+)` \| (\w+) \| [^|]*\|$", section(PAGE, "Outcome codes"), re.M)]
    said_of = dict(rows)
    there = {gate.outcome_of(code) for code, (_, asks) in findings().items() if asks == "abandon"}
    assert set(said_of) == there
    assert {code: halt.ended(code, "").fact.status for code in said_of} == said_of


def test_what_each_check_asks_for_is_what_the_gate_gives():
    """Of single findings; a check that gathers several gives one and the same for all of them."""
    source = (ROOT / "src/remit/authority/gate.py").read_text(encoding="utf-8")
    single = re.findall(r'_no\(\s*"(\w+)", "(\w+)", "([\w.]+)"', source)
    assert len(single) > 10
    assert [(check, asks, code) for check, asks, code in single if findings()[code] != (check, asks)] == []
    gathered = dict(re.findall(r'_no_for\("(\w+)", "(\w+)"', source))
    assert {asks for check, asks in findings().values() if check == "identity"} == {gathered["identity"]}
    assert {asks for check, asks in findings().values() if check == "authority"} == {gathered["authority"]}


def test_each_code_that_a_run_is_parked_with_stands_on_the_page():
    parked = {code for path in SOURCES for code in PARKED.findall(path.read_text(encoding="utf-8"))}
    assert {code for code in parked if f"`{code}`" not in read(PAGE)} == set()


def test_a_contract_s_docstring_names_its_codes():
    doc: Any = Contract.__doc__
    assert {code for code in said() if code.startswith("contract.")} - set(re.findall(r"`([a-z.]+)`", doc)) == {
        "contract.missing",  # that one is the flow's
        "contract.file",  # and that one is `remit.load_contract`'s
    }
