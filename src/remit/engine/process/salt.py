"""Salts: sixteen random bytes for each value, drawn from the system many at a time.

Each draw lets other threads in for a moment, and a step would pay for that with more than
the bytes cost. What was drawn is used once, and by no process but the one that drew it.
"""

from __future__ import annotations

import os

from remit.facts.entry import SALT_BYTES

_AT_ONCE = 256
_drawn: list[bytes] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)


def draw_salt() -> bytes:
    """16 bytes that nobody can guess."""
    try:
        return _drawn.pop()
    except IndexError:
        data = os.urandom(SALT_BYTES * _AT_ONCE)
        first, *others = (data[at : at + SALT_BYTES] for at in range(0, len(data), SALT_BYTES))
        _drawn.extend(others)
        return first
