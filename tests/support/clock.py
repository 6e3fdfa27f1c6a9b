"""A clock that is moved by hand: in a test no time passes unless the test says so.

It never ticks by itself, so nothing has to sleep, and it can be set back, because wall
clocks are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class MovedClock:
    """A `remit.clock.Clock` that stands still between moves. Starts on Monday 5 January 2026, 09:00 UTC."""

    def __init__(self, start: datetime = START) -> None:
        self._now = (start - _EPOCH) // _MICROSECOND

    def now(self) -> int:
        """Integer microseconds since 1970, UTC."""
        return self._now

    def move(self, by: timedelta) -> int:
        """Move by that much, backwards if it is negative; returns the new time in microseconds."""
        self._now += by // _MICROSECOND
        return self._now
