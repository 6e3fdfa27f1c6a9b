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


def dated(at: int) -> str:
    """In words, to the second: also what somebody wrote by hand, who may have put any number there.

    >>> dated(1_000_000), dated(2**63 - 1)
    ('1970-01-01 00:00:01 UTC', '9223372036854775807 µs after 1970')
    """
    try:
        return f"{datetime_of(at):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{at} µs after 1970"


def microseconds_of(moment: datetime) -> int:
    """The same back, of any aware datetime."""
    return (moment - _EPOCH) // MICROSECOND  # and not by way of UTC, in which the last hours of 9999 are no date
