"""Called: a call's path within a line of ours, and the texts in it that are the agent's.

A branch is named by somebody's data, and so may a question of the flow's own be. Such a name stands in quotes, cut, and
with what may deceive as the escape that names it: it can't end our sentence, nor say one of its own.
"""

from __future__ import annotations

import re

from remit.faces.cli.payload import written_text

NAME_CHARACTERS_MAX = 20

_OURS = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")  # as code names its functions
_COUNTED = re.compile(r"(?P<name>.*?)(?P<count>#[0-9]+)?", re.DOTALL)


def call_name(call: str) -> str:
    """A call's path, for a line without the bar: `"ACME Ltd."/pay#2`."""
    *branches, last = call.split("/")
    return "/".join([*map(_named, branches), _named(last, is_branch=False)])


def evidence_name(name: str) -> str:
    """The name of evidence, for a line without the bar: as code names it, or quoted and cut."""
    return _named(name, is_branch=False)


def principal_name(name: str) -> str:
    """A principal for a line without the bar: what in it may deceive as its escape, one with a blank in quotes."""
    text = "".join(written_text(name))
    return f'"{text}"' if " " in name else text


def whole_names(call: str) -> list[str]:
    """Of a path that is cut in such a line the names that are the agent's, whole, to stand behind the bar."""
    if "…" not in call_name(call):
        return []
    return ["".join(written_text(each)) for each in call.split("/")]


def _named(segment: str, *, is_branch: bool = True) -> str:
    found = _COUNTED.fullmatch(segment)
    name, count = (found["name"], found["count"] or "") if found is not None else (segment, "")
    if not is_branch and _OURS.fullmatch(name):
        return name + count
    text = written_text(name)
    end = "…" if len(text) > NAME_CHARACTERS_MAX else ""
    return f'"{"".join(text[:NAME_CHARACTERS_MAX])}{end}"{count}'
