"""The payload: what somebody is asked about, as JSON behind a bar, every character of it visible or named.

Where a yes does not bind what stands there, a line of ours says so before it: no line without a bar is the agent's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group

from remit.authority.called import written_text
from remit.authority.leaves import Path, path_text
from remit.faces.cli.inert import Quoted, cell
from remit.faces.cli.say import Shown

_BOUND: Path = ()
_SHOWN_BYTES_MAX = 1_600
# A text in JSON, also one that is cut off; what is left of an escape at the end is not taken along.
_TEXT = re.compile(r'"((?:[^"\\]|\\u[0-9a-f]{4}|\\[^u])*)(?:("|\Z)|\\(?:u[0-9a-f]{0,3})?\Z)')


def payload(value: Any, immaterial: Sequence[str]) -> Shown:
    """A request whole. immaterial: fields of it that a yes does not bind."""
    fields = {tuple(field.split(".")) for field in immaterial}
    parts: list[Shown] = []
    quoted: list[str] = []
    for place, text in _written(value, fields):
        if place:
            parts += [Quoted(quoted), cell(f"  {path_text(place)} may still change; a yes does not bind it:", "yellow")]
            quoted = []
        quoted.append(text)
    return Group(*parts, Quoted(quoted))


def beginning(raw: bytes) -> str:
    """As much of a request's bytes as a line can show, each text in it with what may deceive as its escape."""
    text = raw[:_SHOWN_BYTES_MAX].decode("utf-8", "ignore")
    return _TEXT.sub(lambda found: _text(json.loads(f'"{found[1]}"')).removesuffix('"') + (found[2] or ""), text)


def compact(value: Any) -> str:
    """On one line. The indentation that is left out is ours: within a text nothing is changed."""
    return " ".join(text.lstrip(" ") for _, text in _written(value, set()))


def _written(value: Any, open_: set[tuple[str, ...]], place: Path = (), end: str = "") -> Iterator[tuple[Path, str]]:
    """A value as JSON, line by line. What may deceive stands there as the escape that names it: P\\u0430yPal.

    open_: places that a yes does not bind; the first line of each has it beside, all others have none.
    """
    if isinstance(value, str):
        yield _BOUND, _text(value) + end
    elif value and isinstance(value, dict):
        items = [((*place, key), f"{_text(key)}: ", item) for key, item in value.items()]
        yield from _nested("{", items, "}" + end, open_)
    elif value and isinstance(value, list):
        yield from _nested("[", [((*place, at), "", item) for at, item in enumerate(value)], "]" + end, open_)
    else:
        yield _BOUND, json.dumps(value) + end


def _nested(
    opening: str, items: list[tuple[Path, str, Any]], closing: str, open_: set[tuple[str, ...]]
) -> Iterator[tuple[Path, str]]:
    yield _BOUND, opening
    for count, (place, before, item) in enumerate(items, 1):
        is_open = place in open_
        (_, first), *rest = _written(item, set() if is_open else open_, place, "," if count < len(items) else "")
        yield place if is_open else _BOUND, f"  {before}{first}"
        yield from ((inner, f"  {text}") for inner, text in rest)
    yield _BOUND, closing


def _text(text: str) -> str:
    return '"' + "".join(written_text(text)) + '"'
