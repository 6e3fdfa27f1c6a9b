"""Unread: what stands in stored JSON and goes nowhere in the value that is read of it.

    first_unread   the first such place, as the type itself shows it
    stating        a value as JSON that states every field, also one that its type leaves out at its default

No type is described here, for a type may read in any way: behind an alias, a union, a validator. What was read is
written again and laid beside what is stored. A name that stands in both was read, and one that came is a field that
was added. One that is gone may have been read under another name. Then the value is another where something else stood
there; where nothing else can stand there, what stood there stands under a name that came.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from remit.facts import model

Path = tuple[str | int, ...]
Strange = tuple[Path, list[str]]  # where the key is, and the names that are known there

NAMES_MAX = 32

_decode = msgspec.json.Decoder().decode
_NOTHING = object()


class _Gone(NamedTuple):
    """A place of stored JSON that is not written again. can_ask: it is no part of a text; another can stand there."""

    path: Path
    item: Any
    around: Path  # what is written there instead has its place in this
    instead: list[Any]
    known: list[str]
    can_ask: bool


def first_unread(stored: Any, again: Callable[[Any], Any]) -> Strange | None:
    """The first place in `stored` that says nothing to the type, with the names that it has there; None if none.

    stored: decoded JSON. again: what the type writes of what it reads of such; it raises where it can't read it.
    It is asked once for each name that is gone, not for each place of it, and once for all where they are many.
    """
    written = again(stored)
    gone = _gone(stored, written)
    if not gone:
        return None
    twice = written, again(stored)  # a default that is drawn anew says nothing of what stands in the bytes
    by_name: dict[Any, list[_Gone]] = {}
    for each in gone:
        by_name.setdefault(_name(each), []).append(each)
    for asked in by_name.values() if len(by_name) <= NAMES_MAX else [gone]:
        if unread := _ignored(asked, stored, twice, again):
            return unread[0].path, unread[0].known
    return None


def stating(value: Any) -> Any:
    """`value` as JSON's own types, with each field of its structs, whatever its default."""
    if isinstance(value, msgspec.Struct):
        told = value.__struct_config__
        fields = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        items = {
            key: stating(getattr(value, name)) for name, key in fields if getattr(value, name) is not msgspec.UNSET
        }
        tag = {} if told.tag is None else {str(told.tag_field): told.tag}
        return [*tag.values(), *items.values()] if told.array_like else tag | items
    if isinstance(value, list | tuple | set | frozenset):
        return [stating(item) for item in value]
    if isinstance(value, dict):
        keys = msgspec.to_builtins(dict.fromkeys(value), str_keys=True)
        return dict(zip(keys, map(stating, value.values()), strict=True))
    if dataclasses.is_dataclass(value):
        return {field.name: stating(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return msgspec.to_builtins(value, enc_hook=model.plain, str_keys=True)


def _gone(stored: Any, written: Any) -> list[_Gone]:
    """The places of `stored` that are not in `written`, first one first. Each place is looked at once."""
    found: list[_Gone] = []
    waiting: list[tuple[Path, Any, Any, bool]] = [((), stored, written, True)]
    while waiting:
        path, old, new, can_ask = waiting.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            came = [item for key, item in new.items() if key not in old]
            for key, item in old.items():
                if key not in new:
                    found.append(_Gone((*path, key), item, path, came, sorted(new), can_ask))
            waiting += [((*path, key), item, new[key], can_ask) for key, item in old.items() if key in new]
        elif isinstance(old, list) and isinstance(new, list):
            waiting += [((*path, place), *both, can_ask) for place, both in enumerate(zip(old, new))]  # noqa: B905 - one may be longer
            for place in range(len(new), len(old)):
                found.append(_Gone((*path, place), old[place], path, [], [], can_ask))
        elif isinstance(old, dict | list):
            found.append(_Gone(path, old, path, [new], [], can_ask))
        elif old != new and (inside := (_text_inside(old), _text_inside(new))) != (None, None):
            waiting.append((path, *inside, False))
    return sorted(found, key=lambda each: [(isinstance(step, str), step) for step in each.path])


def _text_inside(item: Any) -> Any:
    """What a text says that is JSON itself; None for any other."""
    if not isinstance(item, str) or item[:1] not in ("{", "["):
        return None
    try:
        return _decode(item)
    except msgspec.DecodeError:
        return None


def _name(gone: _Gone) -> str | None:
    last = gone.path[-1] if gone.path else None
    return last if isinstance(last, str) else None


def _ignored(asked: list[_Gone], stored: Any, twice: tuple[Any, Any], again: Callable[[Any], Any]) -> list[_Gone]:
    """Those at which something else makes no difference. twice: what is written of `stored`, one time and another."""
    if inside_text := [each for each in asked if not each.can_ask]:
        return inside_text
    written, wandering = twice
    try:
        other = again(_altered(stored, _as_tree(each.path for each in asked)))
    except MemoryError:
        raise
    except Exception:  # it was looked at, in one place at least
        return [each for each in asked if _leaves([each.item]) - _leaves(each.instead)]
    found = []
    for each in asked:
        at_hand = _at(written, each.around)
        moved = _parting(at_hand, _at(other, each.around)) - _parting(at_hand, _at(wandering, each.around))
        if moved < _leaves([each.item]).total():
            found.append(each)
    return found


def _as_tree(paths: Iterable[Path]) -> dict[Any, Any]:
    """Paths, none of which goes on from another, by their steps; {} where one ends."""
    tree: dict[Any, Any] = {}
    for path in paths:
        at = tree
        for step in path:
            at = at.setdefault(step, {})
    return tree


def _altered(item: Any, places: dict[Any, Any] | None) -> Any:
    """The same JSON with every leaf under these places another one. places: {} for all of it, None for none."""
    if places is None:
        return item
    if isinstance(item, dict) and item:
        return {key: _altered(inside, places.get(key) if places else {}) for key, inside in item.items()}
    if isinstance(item, list) and item:
        return [_altered(inside, places.get(place) if places else {}) for place, inside in enumerate(item)]
    return _another(item)


def _another(leaf: Any) -> Any:
    """Something else of the same kind, where there is any."""
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int | float):
        return leaf + 1 if leaf + 1 != leaf else leaf / 2
    if isinstance(leaf, str) and leaf[-1:].isdecimal() and leaf.isascii():
        return f"{leaf[:-1]}{(int(leaf[-1]) + 1) % 10}"
    return f"{leaf}?" if isinstance(leaf, str) else "?"


def _leaves(items: Iterable[Any]) -> Counter[tuple[type, Any]]:
    """What stands at the ends of JSON, each with how often. What is empty is an end."""
    found: Counter[tuple[type, Any]] = Counter()
    waiting = list(items)
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list) and item:
            waiting += item.values() if isinstance(item, dict) else item
        else:
            found[type(item), item if isinstance(item, str | int | float) else None] += 1
    return found


def _parting(a: Any, b: Any) -> int:
    """In how many leaves two part."""
    count = 0
    waiting = [(a, b)]
    while waiting:
        a, b = waiting.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            waiting += [(a.get(key, _NOTHING), b.get(key, _NOTHING)) for key in {**a, **b}]
        elif isinstance(a, list) and isinstance(b, list):
            long = max(len(a), len(b))
            waiting += zip([*a, *[_NOTHING] * (long - len(a))], [*b, *[_NOTHING] * (long - len(b))], strict=True)
        elif type(a) is not type(b) or a != b:
            count += max(1, *(_leaves([side]).total() for side in (a, b)))
    return count


def _at(item: Any, path: Path) -> Any:
    for step in path:
        if isinstance(item, dict) and isinstance(step, str):
            item = item.get(step, _NOTHING)
        elif isinstance(item, list) and isinstance(step, int) and step < len(item):
            item = item[step]
        else:
            return _NOTHING
    return item
