"""Leaves: a JSON value taken apart into the places that hold something, and put together again.

A leaf is a scalar or an empty container, written as JSON text with the path that leads to it, so
1, 1.0, "1", true, null and nothing at all are six things. Two values are equal exactly where
their leaves are, which is why a comparison of leaves can't overlook anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from remit.canonical import encode

Path = tuple[str | int, ...]  # keys and positions from the root
Leaves = dict[Path, str]  # path -> JSON text

_decode = msgspec.json.Decoder().decode


def leaves_of(data: bytes) -> Leaves:
    """The leaves of a value, in the order of its canonical bytes. data: JSON, as values are stored."""
    return dict(_walk(_decode(data), ()))


def value_of(leaves: Mapping[Path, str]) -> bytes:
    """The canonical JSON that has these leaves; b"" where there are none. Positions close up over gaps."""
    return encode(_build(leaves.items(), 0)) if leaves else b""


def covers(fields: Sequence[str], path: Path) -> bool:
    """Whether one of these fields ("note", "order.comment") is this place, or holds it."""
    return any(path[: len(names)] == names for names in (tuple(field.split(".")) for field in fields))


def path_text(path: Path) -> str:
    """A path for people, in which names and positions can be told apart: $.lines[3].amount, $["odd key"]."""
    text = "$"
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if part.isascii() and part.isidentifier() else f"[{json.dumps(part)}]"
    return text


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if value and isinstance(value, dict):
        for key in sorted(value):
            yield from _walk(value[key], (*path, key))
    elif value and isinstance(value, list):
        for place, item in enumerate(value):
            yield from _walk(item, (*path, place))
    else:
        yield path, encode(value).decode()


def _build(leaves: Any, depth: int) -> Any:
    """The value below one place. leaves: (path, text), all with the same first `depth` parts."""
    parts: dict[str | int, list[tuple[Path, str]]] = {}
    for path, text in leaves:
        if len(path) == depth:
            return _decode(text)
        parts.setdefault(path[depth], []).append((path, text))
    if isinstance(next(iter(parts)), int):
        return [_build(below, depth + 1) for _, below in sorted(parts.items())]
    return {key: _build(below, depth + 1) for key, below in parts.items()}
