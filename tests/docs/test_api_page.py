"""docs/reference/api.md has everything that `import remit` gives, with what it takes: docs/adr/0024."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest

import remit
from remit.engine.people.asks import Standing
from tests.docs.pages import ROOT, read, table

PAGE = "reference/api.md"
WRITTEN = (remit.Contract, remit.Rule, remit.Approval, remit.Ceiling, remit.Step)  # by hand, unlike other classes
MADE = {"Effect", "Flow", "Run", "Runtime", "SyncRun", "Transaction"}  # by what stands under another heading
PARAMETERS: dict[str, Callable[..., Any]] = {
    "What an effect declares": remit.effect,
    "What a contract declares": remit.Contract,
    "What a rule demands": remit.Rule,
    "What an approval demands": remit.Approval,
    "What a ceiling bounds": remit.Ceiling,
}
INNER = {"RunView"}  # its fields are the journal's, and only some of them are for others


def shown(default: object) -> str:
    """A default as the page has it; what has no short form is said there in words."""
    text = repr(default)
    return "{}" if text == "<factory>" else "..." if default is ... or len(text) > 40 else text


def parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(call).parameters.values() if each.name != "self"]


class Said:
    """A default, which a signature shows by its `repr`."""

    def __init__(self, default: object) -> None:
        self.text = shown(default)

    def __repr__(self) -> str:
        return self.text


def signature(name: str, call: Callable[..., Any]) -> str:
    """As Python tells it, without types: `name(a, /, *, b=1)`."""
    bare = [
        each.replace(annotation=each.empty, default=each.default if each.default is each.empty else Said(each.default))
        for each in parameters(call)
    ]
    return f"{name}{inspect.Signature(bare)}"


def defaults(call: Callable[..., Any]) -> dict[str, str]:
    """Of each parameter that has a name for the caller; "" where it has none."""
    named = [each for each in parameters(call) if each.name != "fn"]
    return {each.name: "" if each.default is each.empty else shown(each.default) for each in named}


def calls(kind: type) -> set[str]:
    found = inspect.getmembers(kind, inspect.isfunction)
    hidden = ("_", "open", "close")
    return {signature(name, call) for name, call in found if not name.startswith(hidden) and not name.endswith("_sync")}


def told(*headings: str) -> list[str]:
    """First cells of all tables under these headings."""
    text = read(PAGE)
    found = []
    for heading in headings:
        part = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
        found += re.findall(r"^\| `([^`]*\([^`]*\))` \|", part, re.MULTILINE)
    assert found
    return found


def test_everything_that_remit_gives_stands_on_the_page():
    text = read(PAGE)
    assert [name for name in remit.__all__ if not re.search(rf"`{name}\b", text)] == []


def test_each_call_stands_there_as_python_tells_it():
    functions = {name: getattr(remit, name) for name in remit.__all__ if inspect.isfunction(getattr(remit, name))}
    functions |= {kind.__name__: kind for kind in WRITTEN}
    wanted = {signature(name, call) for name, call in functions.items()}
    runtime = {line for line in told("A runtime") if not line.startswith("open(")}
    page = {*told("Declaring", "A list of steps"), *(set(told("A runtime")) - runtime)}
    assert page == wanted


def test_each_call_of_a_run_and_of_a_runtime_stands_there():
    assert set(told("In a flow")) == calls(remit.Run) | calls(remit.SyncRun)
    assert calls(remit.Run) <= calls(remit.SyncRun)
    assert {line for line in told("A runtime") if not line.startswith("open(")} == calls(remit.Runtime)
    assert all(
        f"`run.{name}`" in read(PAGE) for name, _ in inspect.getmembers(remit.Run, lambda x: type(x) is property)
    )


@pytest.mark.parametrize("heading", PARAMETERS)
def test_each_parameter_of_a_declaration_stands_there_with_its_default(heading: str):
    assert {row[0]: row[1] for row in table(PAGE, heading)} == defaults(PARAMETERS[heading])


def test_each_parameter_of_open_stands_there_with_its_default():
    part = read(PAGE).partition("parameter of `open`")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? ?\| ", part, re.M)) == defaults(remit.open)


def given() -> dict[str, type]:
    """The types of what is given: no errors, and none that a caller makes."""
    found = {name: getattr(remit, name) for name in remit.__all__ if isinstance(getattr(remit, name), type)}
    by_hand = {kind.__name__ for kind in WRITTEN} | MADE
    return {name: kind for name, kind in found.items() if not issubclass(kind, BaseException) and name not in by_hand}


def fields_of(kind: type) -> list[str]:
    if issubclass(kind, enum.Enum):
        return [member.name for member in kind]
    own = [each.name for each in fields(kind)] if is_dataclass(kind) else [*getattr(kind, "__struct_fields__", ())]
    own = own or [*getattr(kind, "_fields", ())]
    own += [name for name, _ in inspect.getmembers(kind, lambda member: isinstance(member, property))]
    return [name for name in own if not name.startswith("_")]


@pytest.mark.parametrize("name", given())
def test_each_type_of_what_is_given_stands_there_with_its_fields(name: str):
    rows = {row[0]: re.findall(r"`(\w+)`", f"`{row[1]}`") for row in table(PAGE, "What is given")}
    there = fields_of(given()[name])
    if name in INNER:
        assert rows[name] and set(rows[name]) <= set(there)
    else:
        assert rows[name] == there
    assert set(rows) == set(given())


def test_each_state_of_a_question_stands_there():
    assert [row[0] for row in table(PAGE, "How a question stands")] == list(get_args(Standing))


def test_a_twin_takes_what_its_call_takes():
    for name, call in inspect.getmembers(remit.Runtime, inspect.iscoroutinefunction):
        if not name.startswith("_") and name not in ("open", "close"):
            assert signature("", getattr(remit.Runtime, f"{name}_sync")) == signature("", call), name


def test_the_page_is_reached_from_the_first_pages():
    assert "reference/api.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "reference/api.md" in read("start.md")
