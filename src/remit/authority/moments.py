"""Moments: points in time, which facts hold as whole microseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from remit.authority.durations import MICROSECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def datetime_of(at: int) -> datetime:
    """As an aware datetime in UTC. Raises OverflowError beyond the year 9999.

    >>> datetime_of(1_000_000)
    datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
    """
    return _EPOCH + timedelta(microseconds=at)


def microseconds_of(moment: datetime) -> int:
    """The same back, of any aware datetime."""
    return (moment.astimezone(UTC) - _EPOCH) // MICROSECOND
