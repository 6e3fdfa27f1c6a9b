"""docs/reference/runtime.md has each call of a runtime with what it gives, and what a call gives stands in `remit`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

import remit
from tests.docs.pages import table

PAGE = "reference/runtime.md"
TABLES = ("Running", "Looking", "People")
CALL = re.compile(r"`?(\w+)\(")

# Parts of what is given that belong to the journal's form: read by who knows it, and named by nobody else.
INNER = {"Entry", "Principal", "Question"}


def calls() -> dict[str, Callable[..., Any]]:
    """The public calls of a runtime, but for opening and closing it and the twins."""
    found = inspect.getmembers(remit.Runtime, inspect.iscoroutinefunction)
    return {name: call for name, call in found if not name.startswith("_") and name not in ("open", "close")}


def types_in(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for part in get_args(annotation):
        yield from types_in(part)


def given(call: Callable[..., Any]) -> set[type]:
    """What it gives, or gives several of."""
    returned = inspect.signature(call, eval_str=True).return_annotation
    return {each for each in types_in(returned) if each not in (list, type(None)) and isinstance(each, type)}


def rows() -> dict[str, str]:
    return {name: row[1] for heading in TABLES for row in table(PAGE, heading) for name in CALL.findall(row[0])}


def test_each_call_stands_on_the_page_with_what_it_gives():
    wanted = {name: " ".join(sorted(each.__name__ for each in given(call))) for name, call in calls().items()}
    assert rows() == wanted


@pytest.mark.parametrize("call", calls().values(), ids=calls())
def test_what_a_call_gives_and_what_stands_in_it_can_be_named(call: Callable[..., Any]):
    ours = {each for each in given(call) if each.__module__.startswith("remit.")}
    parts = {
        part
        for each in ours
        if is_dataclass(each) or hasattr(each, "_fields")
        for annotation in get_type_hints(each).values()
        for part in types_in(annotation)
        if part.__module__.startswith("remit.")
    }
    for each in ours | parts:
        assert each.__name__ in INNER or getattr(remit, each.__name__) is each, each


def test_each_call_has_a_twin_for_plain_code():
    assert sorted(name for name in calls() if not hasattr(remit.Runtime, f"{name}_sync")) == []
