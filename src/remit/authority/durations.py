"""Durations: how long something lasts, as text for people ("72h") and as whole microseconds for facts."""

from __future__ import annotations

import re
from datetime import timedelta

MICROSECOND = timedelta(microseconds=1)

DAY_US = 86_400_000_000

_UNITS_US = {"d": DAY_US, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}
_WRITTEN = re.compile(r"([0-9]{1,9})([dhms])")


def duration_us(text: str) -> int | None:
    """Microseconds of "5d", "72h", "30m" or "90s"; None where it is not written like that."""
    written = _WRITTEN.fullmatch(text)
    return int(written[1]) * _UNITS_US[written[2]] if written else None


def duration_text(us: int) -> str:
    """The shortest of these forms that says it exactly: 259_200_000_000 is "3d"; "1500000us" where none does."""
    for unit, size in _UNITS_US.items():
        if us and us % size == 0:
            return f"{us // size}{unit}"
    return f"{us}us"
