"""The timeline: what a journal says, entry by entry, for people. Nothing is executed.

A journal that does not verify is shown as well, up to the first wrong entry as verified
and from there on as what it claims. So a reader can see what was changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from remit.canonical import Malformed
from remit.errors import RemitError, Tampered
from remit.facts import chain
from remit.facts.entry import HEADER, Entry, Identity


@dataclass(frozen=True, slots=True)
class Line:
    """One entry.

    at: microseconds UTC, 0 where the header can't be read. value: bytes as stored, None where there is none.
    is_verified: the entry and all before it in its lane are what was written.
    """

    lane: str
    seq: int
    at: int
    kind: str
    name: str
    by: str
    epoch: int
    body: dict[str, Any]
    value: bytes | None
    is_verified: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """All entries of a run, lane main before lane post; `problem` is why the journal did not verify, or None."""

    lines: list[Line]
    problem: RemitError | None


def read_timeline(identity: Identity, heads: chain.Heads, main: Sequence[Entry], post: Sequence[Entry]) -> Timeline:
    """The timeline of a stored journal, whatever state it is in."""
    problem: RemitError | None = None
    wrong = {"main": len(main) + 1, "post": len(post) + 1}
    try:
        chain.verify(identity, heads, main, post)
    except Tampered as exc:
        problem = exc
        wrong[exc.lane or "main"] = exc.seq
        if exc.lane == "main":
            wrong["post"] = 0
    except RemitError as exc:
        problem = exc
    lines = [_line(entry, place, wrong[entry.lane]) for lane in (main, post) for place, entry in enumerate(lane, 1)]
    return Timeline(lines, problem)


def _line(entry: Entry, place: int, wrong: int) -> Line:
    is_verified = place < wrong
    try:
        header = HEADER.read(entry.header)
        body = msgspec.json.decode(entry.body)
    except (Malformed, msgspec.MsgspecError, UnicodeError, RecursionError):
        return Line(entry.lane, entry.seq, 0, "(unreadable)", "", "", 0, {}, entry.value, False)
    told = body if isinstance(body, dict) else {}
    name, by = header.name or "", header.by
    return Line(entry.lane, entry.seq, header.at, header.kind, name, by, header.epoch, told, entry.value, is_verified)
