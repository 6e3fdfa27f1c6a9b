"""Models: pydantic's part in a value, as JSON's own types and back.

Pydantic is optional and is never imported from here: a value or an annotation that is a
model has brought it along.
"""

from __future__ import annotations

from typing import Any

import msgspec

from remit.facts.compare import is_model

_encode = msgspec.json.Encoder(order="sorted").encode


def plain(value: Any) -> Any:
    """A pydantic model as JSON's own types, by its aliases. Raises TypeError for anything else."""
    if not is_model(type(value)):
        raise TypeError(f"a {type(value).__qualname__} has no stored form")
    dumped = value.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)  # comparing tells
    return _arranged(value, dumped)


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


def _arranged(value: Any, dumped: Any) -> Any:
    """`dumped`, with its sets in one order; pydantic writes them in the order of their hashes."""
    if isinstance(value, (set, frozenset)) and isinstance(dumped, list):
        return sorted(dumped, key=_encode)
    if isinstance(value, (list, tuple)) and isinstance(dumped, list) and len(value) == len(dumped):
        return [_arranged(*pair) for pair in zip(value, dumped)]  # noqa: B905 - equal lengths were just seen
    if isinstance(value, dict) and isinstance(dumped, dict) and len(value) == len(dumped):
        pairs = zip(value.values(), dumped.items())  # noqa: B905 - equal lengths were just seen
        return {key: _arranged(item, inside) for item, (key, inside) in pairs}
    if is_model(type(value)) and isinstance(dumped, dict):
        fields = type(value).__pydantic_fields__
        names = {field.serialization_alias or name: name for name, field in fields.items()}
        return {
            key: _arranged(getattr(value, names[key]), inside) if key in names else inside
            for key, inside in dumped.items()
        }
    return dumped
