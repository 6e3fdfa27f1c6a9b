"""Saying: one answer per command, as a person reads it or as one JSON document."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from remit.errors import RemitError
from remit.faces.cli.inert import cell, inert

STATUS_STYLES = {
    "completed": "green",
    "running": "cyan",
    "queued": "cyan",
    "waiting": "yellow",
    "in_doubt": "bold yellow",
    "failed": "red",
    "abandoned": "red",
    "expired": "red",
    "cancelled": "red",
    "quarantined": "bold white on red",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Voice:
    """Where answers go: the terminal, or standard output as JSON."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self.console = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)

    def answer(self, document: Any, *shown: RenderableType) -> None:
        """The answer of a command: `document` with --json, `shown` without."""
        if self.is_json:
            json.dump(document, sys.stdout, ensure_ascii=True, indent=2, default=plain)
            sys.stdout.write("\n")
            return
        for part in shown:
            self.console.print(part, soft_wrap=isinstance(part, Text))  # a value is copied whole, not in pieces

    def complain(self, error: RemitError) -> None:
        """An error: code, what was done, what to do next."""
        if self.is_json:
            told = {"code": error.code, "message": error.message, "hint": error.hint}
            json.dump({"error": told}, sys.stdout, ensure_ascii=True, indent=2)
            sys.stdout.write("\n")
            return
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        console.print(cell(f"error: {error.code}", "bold red"))
        console.print(cell(f"  {error.message}"))
        console.print(cell(f"  {error.hint}", "dim"))


def table(*columns: str, narrow: int = 0) -> Table:
    """A table whose last column takes the room that is left; the first `narrow` ones are never folded."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(columns[:-1]):
        made.add_column(name, overflow="fold", no_wrap=place < narrow)
    made.add_column(columns[-1], overflow="fold", ratio=1)
    return made


def time_of(at: int) -> str:
    """Microseconds UTC as ISO 8601, to the second."""
    return moment(at).strftime("%Y-%m-%d %H:%M:%SZ") if at else ""


def hour_of(at: int) -> str:
    """The same without its date."""
    return moment(at).strftime("%H:%M:%S") if at else ""


def moment(at: int) -> datetime:
    """Microseconds UTC as an aware datetime; the end of time where it lies beyond."""
    try:
        return _EPOCH + timedelta(microseconds=at)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def span(us: int) -> str:
    """A length of time in microseconds, for people."""
    if us < 1_000:
        return f"{us} µs"
    if us < 1_000_000:
        return f"{us / 1_000:.1f} ms"
    return f"{us / 1_000_000:.1f} s" if us < 120_000_000 else inert(timedelta(seconds=us // 1_000_000))


def plain(value: Any) -> Any:
    """What `json` does not know by itself."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
