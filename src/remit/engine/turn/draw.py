"""Draws: the time, random numbers and new ids, recorded by name.

One that has a name of its own is found by that, whatever else is drawn. The others of a kind
are counted: one more in front of them takes the value of the first. A draw that the
journal does not have is drawn and rides on the next append: nothing that depends on it
can be durable before it is.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from remit.authority.moments import datetime_of
from remit.clock import Clock
from remit.engine.turn.attempt import Attempt
from remit.errors.called import called
from remit.facts.kinds import ValueDrawn, write
from remit.facts.value import Codec, codec_for

_system = random.SystemRandom()
_datetime, _float, _uuid = codec_for(datetime), codec_for(float), codec_for(uuid.UUID)


def now(attempt: Attempt, name: str, clock: Clock) -> datetime:
    """Aware datetime in UTC, to the microsecond."""
    value: datetime = _draw(attempt, name, "now", _datetime, lambda: datetime_of(clock.now()))
    return value


def random_number(attempt: Attempt, name: str) -> float:
    """At least 0.0, less than 1.0."""
    value: float = _draw(attempt, name, "random", _float, _system.random)
    return value


def new_uuid(attempt: Attempt, name: str) -> uuid.UUID:
    """A random UUID (version 4)."""
    value: uuid.UUID = _draw(attempt, name, "uuid", _uuid, uuid.uuid4)
    return value


def _draw(
    attempt: Attempt, name: str, source: Literal["now", "random", "uuid"], codec: Codec[Any], fresh: Callable[[], Any]
) -> Any:
    attempt.check_open()
    recorded = attempt.ridden.get(name)
    if recorded is not None:
        assert recorded.value is not None  # the fold saw to it
        return codec.read(recorded.value, where=called(name))
    data, value = codec.write(fresh(), where=called(name))
    attempt.ride("ValueDrawn", write(ValueDrawn(source=source)), name=name, value=data)
    return value
