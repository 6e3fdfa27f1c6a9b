"""Called: names that data may give, within a line of ours: a call's path, evidence, a run, a principal.

A branch is named by somebody's data, and so may a run or a question of the flow's own be. What could be read as text
stands in quotes, cut, and with what may deceive as the escape that names it: it can't end our sentence, nor say one of
its own.

    call_name       a path where somebody decides: each branch in quotes
    evidence_name   as code names it, or in quotes
    id_name         a run or a principal: as it is, unless it could be read as text
    whole_names     those of a question that are cut, to stand behind the bar
    whole_name      one of them
"""

from __future__ import annotations

import json
import re

from remit.authority.suspicious import suspicious
from remit.errors.called import CUT, NAME_CHARACTERS_MAX, counted

PLAIN_CHARACTERS_MAX = 64  # of what has no blank: it says no sentence

_OURS = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")  # as code names its functions
_SEGMENTS_MAX = 4


def call_name(call: str) -> str:
    """A call's path, for a line without the bar: `"ACME Ltd."/pay#2`."""
    *branches, last = call.split("/")
    named = [*map(_named, branches), _named(last, is_branch=False)]
    return "/".join(named if len(named) <= _SEGMENTS_MAX else [*named[:2], CUT, *named[-2:]])


def evidence_name(name: str) -> str:
    """The name of evidence, for a line without the bar: as code names it, or quoted and cut."""
    return _named(name, is_branch=False)


def id_name(name: str) -> str:
    """A run's id or a principal, for a line without the bar; of one that is cut with how long it is.

    >>> id_name("po-1041"), id_name("po 1041"), id_name("I-7: approved by user:cfo")
    ('po-1041', '"po 1041"', '"I-7: approved by use…" (25 characters)')
    """
    is_plain, text = _is_plain(name), written_text(name)
    shown, is_cut = _cut(text, PLAIN_CHARACTERS_MAX if is_plain else NAME_CHARACTERS_MAX)
    told = f" ({len(name)} characters)" if is_cut else ""
    return f"{shown}{told}" if is_plain else f'"{shown}"{told}'


def principal_name(name: str) -> str:
    """A principal for a line without the bar: what in it may deceive as its escape, one with a blank in quotes."""
    return f'"{whole_name(name)}"' if " " in name else whole_name(name)


def whole_names(call: str, *ids: str) -> list[str]:
    """Those that are cut in such a line, whole, to stand behind the bar: ids, and all names of a path."""
    cut = [name for name in ids if CUT in id_name(name)]
    cut += call.split("/") if CUT in call_name(call) else []
    return [*map(whole_name, cut)]


def whole_name(name: str) -> str:
    """A name, to stand behind the bar: all of it, with what may deceive as its escape."""
    return "".join(written_text(name))


def written_text(text: str) -> list[str]:
    """Each character of a text as it stands in JSON; one that may deceive as its escape."""
    marked = {suspect.position for suspect in suspicious(text)}
    return [json.dumps(c, ensure_ascii=n in marked)[1:-1] for n, c in enumerate(text)]


def _is_plain(name: str) -> bool:
    return " " not in name and whole_name(name) == name


def _named(segment: str, *, is_branch: bool = True) -> str:
    name, count = counted(segment)
    if not is_branch and _OURS.fullmatch(name):
        return name + count
    shown, _ = _cut(written_text(name), NAME_CHARACTERS_MAX)
    return f'"{shown}"{count}'


def _cut(text: list[str], most: int) -> tuple[str, bool]:
    is_cut = len(text) > most
    return "".join(text[:most]) + (CUT if is_cut else ""), is_cut
