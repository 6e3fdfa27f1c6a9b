"""Models: pydantic's part in a value, as JSON's own types and back.

Pydantic is optional and is never imported from here: a value or an annotation that is a
model has brought it along. It writes a set in the order of its hashes, wherever the set stands,
and a field under whatever name its alias or a serializer gives it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from remit.facts.compare import is_model
from remit.facts.placed import placed

_encode = msgspec.json.Encoder(order="sorted").encode


def plain(value: Any) -> Any:
    """A pydantic model as JSON's own types, by its aliases. Raises TypeError for anything else."""
    if not is_model(type(value)):
        raise TypeError(f"a {type(value).__qualname__} has no stored form")
    dumped = value.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)  # comparing tells
    return arranged(value, dumped)


def restore(type_: type, stored: Any) -> Any:
    """The pydantic model that `plain` made `stored` from. Raises ValueError where it does not fit."""
    assert is_model(type_), "a codec is only made of types that can be restored"
    try:
        return type_.model_validate_json(_encode(stored))  # type: ignore[attr-defined]
    except ValueError as exc:
        found: list[Any] = exc.errors() if hasattr(exc, "errors") else []
        if not found:
            raise
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found[0]["loc"])
        raise ValueError(f"{found[0]['msg']} - in `{place}`") from None  # the decoder adds where the model is


def arranged(value: Any, dumped: Any) -> Any:
    """`dumped`, which pydantic made of `value`, with each of its sets in one order, the innermost first."""
    if is_model(type(value)) and type(value).__pydantic_root_model__:
        return arranged(value.root, dumped)
    if isinstance(value, (list, tuple, set, frozenset)) and isinstance(dumped, list):
        if len(value) == len(dumped):
            dumped = [arranged(*pair) for pair in zip(value, dumped)]  # noqa: B905 - equal lengths were just seen
        return sorted(dumped, key=_encode) if isinstance(value, (set, frozenset)) else dumped
    if not isinstance(dumped, dict) or (found := placed(value, dumped, plain)) is None:
        return dumped
    items = {key: item for _, item, key in found}
    return {key: arranged(items[key], inside) if key in items else inside for key, inside in dumped.items()}
