"""Faults: why a value can't be stored, and where inside it. The slow path, walked only after a refusal."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from remit.facts.compare import DEPTH_MAX, parts, shown

Place = tuple[str, str]  # path, reason


def fault(value: Any, *, is_typed: bool) -> Place | None:
    """The first thing inside `value` that no type could bring back, as (path, reason).

    is_typed: False where no annotation says what the value comes back as.
    """
    return _search(value, "$", (), is_typed)


def complaint(error: Exception) -> str:
    """What `error` says, in one line that can be stored and printed."""
    if isinstance(error, RecursionError):
        return f"it is nested too deep (more than {DEPTH_MAX} levels)"
    text = " ".join(str(error).encode("utf-8", "backslashreplace").decode().split()) or type(error).__qualname__
    text = text if len(text) <= 400 else text[:397] + "..."
    return text.rstrip(".")


def _search(value: Any, path: str, above: tuple[int, ...], is_typed: bool) -> Place | None:
    reason = _reason(value, is_typed)
    if reason:
        return path, reason
    if id(value) in above:
        return path, "it holds itself"
    if len(above) > DEPTH_MAX:
        return _shortened(path), f"it is nested too deep (more than {DEPTH_MAX} levels)"
    if isinstance(value, dict):
        for key in value:
            reason = _reason_of_key(key, is_typed)
            if reason:
                return path, reason
    if isinstance(value, (str, bytes, int, float)):
        return None
    for segment, item in parts(value):
        found = _search(item, path + segment, (*above, id(value)), is_typed)
        if found:
            return found
    return None


def _reason(value: Any, is_typed: bool) -> str | None:
    """What is wrong with a value by itself, whatever is inside it."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value!r} is not a finite number"
    if isinstance(value, str) and not _is_text(value):
        return f"the text {shown(value)} has a lone surrogate"
    if isinstance(value, int) and value.bit_length() > 4096 and not _is_written(value):
        return "the integer has too many digits"
    if isinstance(value, decimal.Decimal) and not value.is_finite():
        return f"{value!r} is not a finite number"
    if isinstance(value, datetime.datetime) and value.utcoffset() is None:
        return "the datetime has no time zone"
    if not is_typed and type(value) not in (dict, list, str, int, float, bool, type(None)):
        return f"a {type(value).__qualname__} is not one of JSON's own types; annotate the type that it comes back as"
    return None


def _reason_of_key(key: Any, is_typed: bool) -> str | None:
    if isinstance(key, str) and not _is_text(key):
        return f"the key {shown(key)} has a lone surrogate"
    if not is_typed and type(key) is not str:
        return f"the key {shown(key)} is not text and would come back as text; annotate the type of the dict"
    reason = _reason(key, is_typed)
    return f"of the key {shown(key)}, {reason}," if reason else None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_written(number: int) -> bool:
    try:
        str(number)
    except ValueError:
        return False
    return True


def _shortened(path: str, length_max: int = 80) -> str:
    return path if len(path) <= length_max else path[: length_max - 3] + "..."
