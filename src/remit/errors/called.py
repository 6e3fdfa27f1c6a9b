"""Called: how the name of a call stands within a sentence of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

NAME_CHARACTERS_MAX = 20

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


def _part(segment: str) -> str:
    found = _COUNTED.fullmatch(segment)
    name, count = (found["name"], found["count"] or "") if found is not None else (segment, "")
    if _PLAIN.fullmatch(name):
        return segment
    text = [json.dumps(character, ensure_ascii=not character.isprintable())[1:-1] for character in name]
    end = "…" if len(text) > NAME_CHARACTERS_MAX else ""
    return f'"{"".join(text[:NAME_CHARACTERS_MAX])}{end}"{count}'
