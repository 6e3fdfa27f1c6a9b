"""Called: how the name of a call stands within a sentence of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

NAME_CHARACTERS_MAX = 20
CUT = "…"  # stands for the rest of a name

_PLAIN = re.compile(r"[A-Za-z0-9_.%-]{1,64}")  # no sentence can be told in these
_PLAIN_PATH = re.compile(rf"{_PLAIN.pattern}(#[0-9]+)?(/{_PLAIN.pattern}(#[0-9]+)?)*")  # what most calls have
_COUNTED = re.compile(r"(?P<name>.*?)(?P<count>#[0-9]+)?", re.DOTALL)


def called(call: str) -> str:
    """A call's path: each part of it that is not plain in quotes and cut, because a branch is named by somebody's data.

    >>> called("supplier-a/pay#2")
    'supplier-a/pay#2'
    >>> called("ACME was paid. See also ACME/pay")
    '"ACME was paid. See a…"/pay'
    """
    return call if _PLAIN_PATH.fullmatch(call) else "/".join(map(_part, call.split("/")))


def all_called(calls: Iterable[str]) -> str:
    """Several of them: `pay, "ACME Ltd."/pay`."""
    return ", ".join(map(called, calls))


def counted(segment: str) -> tuple[str, str]:
    """A part of a path without its count, and that: `pay` and `#2`; "" for the first of its name."""
    found = _COUNTED.fullmatch(segment)
    assert found is not None, "it matches everything"
    return found["name"], found["count"] or ""


def _part(segment: str) -> str:
    name, count = counted(segment)
    if _PLAIN.fullmatch(name):
        return segment
    text, end = name[:NAME_CHARACTERS_MAX], CUT if len(name) > NAME_CHARACTERS_MAX else ""
    return f'"{json.dumps(text, ensure_ascii=not text.isprintable())[1:-1]}{end}"{count}'
