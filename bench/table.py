"""The table: figure, measured, raw beside it, target, and whether it was reached; or the same as JSON."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from bench.figures import NO_STORE
from bench.measure import Measured, cpus
from bench.raw import postgres_version

_HEADINGS = ("figure", "store", "measured", "(least-most)", "raw beside", "target", "")


Machine = dict[str, Any]


def machine(server: str | None) -> Machine:
    """What the figures are measured on. server: URL of the Postgres that takes part."""
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "postgres": asyncio.run(postgres_version(server)) if server is not None else None,
        "processors": cpus(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def as_json(measured: Sequence[Measured], on: Machine) -> str:
    lines = [
        {
            "figure": one.figure.key,
            "text": one.figure.text.strip(),
            "store": one.store,
            "unit": one.figure.unit,
            "median": one.median,
            "least": one.least,
            "most": one.most,
            "repetitions": one.count,
            "raw": one.raw,
            "raw_of": one.figure.raw,
            "target": one.figure.target.get(one.store),
            "reached": one.is_reached,
            "quiet": one.is_quiet,
        }
        for one in measured
    ]
    return msgspec.json.format(msgspec.json.encode({"machine": on, "figures": lines})).decode()


def as_text(measured: Sequence[Measured], on: Machine) -> str:
    rows = [_HEADINGS, *(_cells(one) for one in measured)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    where = ", ".join(f"{key} {value}" for key, value in on.items() if value is not None)
    repetitions = max((one.count for one in measured), default=0)
    notes = [f"Medians of {repetitions}, each in a new process on an empty store ({where})."]
    if not all(one.is_quiet for one in measured):
        notes.append("* Others were at work on this machine: measure again, or compare with what is beside it.")
    return "\n".join([*lines, "", *notes])


def _cells(one: Measured) -> tuple[str, ...]:
    figure = one.figure
    target = figure.target.get(one.store)
    word = "at least" if figure.is_least else "at most"
    return (
        figure.text,
        "" if one.store == NO_STORE else one.store,
        f"{_number(one.median, figure.digits)} {figure.unit}".strip(),
        f"({_number(one.least, figure.digits)}-{_number(one.most, figure.digits)})",
        "" if one.raw is None else f"{_number(one.raw, figure.digits)} ({figure.raw})",
        "" if target is None else f"{word} {_number(target, figure.digits)}",
        {True: "reached", False: "missed", None: ""}[one.is_reached] + ("" if one.is_quiet else " *"),
    )


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"
