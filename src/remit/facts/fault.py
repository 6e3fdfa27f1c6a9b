"""Faults: why a value can't be stored, and where inside it. The slow path, walked only after a refusal."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from remit.facts.compare import DEPTH_MAX, parts, shown
from remit.facts.model import plain

_loose = msgspec.json.Encoder(enc_hook=plain).encode
_sorted = msgspec.json.Encoder(order="sorted", enc_hook=plain).encode
_ACCOUNT = re.compile(
    r"(?P<reason>.*?)"
    r"(?: - in `(?P<inside>[^`]*)`)?"  # what a model says of a place inside itself
    r"(?: - at `(?P<key>key` in `)?(?P<path>\$.*)`)?"
)
_STEP = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<place>\d+)\]|(?P<unnamed>\[\.\.\.\])")

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
    try:
        text = " ".join(str(error).encode("utf-8", "backslashreplace").decode().split()) or type(error).__qualname__
    except Exception:
        text = f"{type(error).__qualname__}, whose text could not be made"
    text = text if len(text) <= 400 else text[:397] + "..."
    return text.rstrip(".")


def located(value: Any, error: Exception, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> Place:
    """Where `value` does not fit its type, by the account of the encoder or the decoder that raised `error`."""
    refusing = next((each for each in (_loose, _sorted, encode) if _objection(each, value)), None)
    if refusing is not None and _objection(encode, value):
        return _innermost(value, refusing)
    match = _ACCOUNT.fullmatch(complaint(error))
    if match is None or match["path"] is None:
        inside = match["inside"] if match and match["inside"] else ""
        return "$" + inside, match["reason"] if match else complaint(error)
    path = match["path"]
    if "[...]" in path:
        path = _named_keys(msgspec.json.decode(encode(value)), path, decode) or path
    return path + (match["inside"] or ""), f"a key: {match['reason']}" if match["key"] else match["reason"]


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
        return f"{type(value).__qualname__} is not one of JSON's own types; annotate its type"
    return None


def _reason_of_key(key: Any, is_typed: bool) -> str | None:
    if isinstance(key, str) and not _is_text(key):
        return f"the key {shown(key)} has a lone surrogate"
    if not is_typed and type(key) is not str:
        return f"the key {shown(key)} is not text and would come back as text; annotate the type of the dict"
    reason = _reason(key, is_typed)
    return f"of the key {shown(key)}, {reason}," if reason else None


def _objection(encode: Callable[[Any], bytes], value: Any) -> str | None:
    try:
        encode(value)
    except Exception as exc:  # also what the user's own type raises
        return complaint(exc)
    return None


def _innermost(value: Any, encode: Callable[[Any], bytes]) -> Place:
    """The smallest part of `value` that can't be encoded, while all that is inside it can."""
    path, depth = "$", 0
    while depth <= DEPTH_MAX:
        bad = next(((segment, item) for segment, item in parts(value) if _objection(encode, item)), None)
        if bad is None:
            break
        path, value, depth = path + bad[0], bad[1], depth + 1
    if isinstance(value, dict):
        for key in value:
            if _objection(encode, {key: None}):
                return path, f"the key {shown(key)} can't be told from text when it comes back"
    return path, _objection(encode, value) or "it can't be encoded"


def _named_keys(root: Any, path: str, decode: Callable[[bytes], Any]) -> str | None:
    """`path` with the keys that the decoder left out ("[...]"), found by keeping one key of each dict at a time."""
    node: Any = root
    named = "$"
    key: str | int
    for step in _STEP.finditer(path[1:]):
        try:
            if step["unnamed"]:
                key = _only_bad_key(root, node, decode)
                segment = next(segment for segment, _ in parts({key: None}))
            else:
                key = step["field"] if step["field"] else int(step["place"])
                segment = step[0]
            node, named = node[key], named + segment
        except (LookupError, TypeError, StopIteration):
            return None
    return named


def _only_bad_key(root: Any, node: dict[str, Any], decode: Callable[[bytes], Any]) -> str:
    items = dict(node)
    for key, item in items.items():
        node.clear()
        node[key] = item
        try:
            decode(msgspec.json.encode(root))
        except Exception:  # the same complaint as before, now of one key only
            return key
    raise LookupError("no single key is at fault")


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
