"""Facts: the form of everything that a body may hold.

A field that has its default is left out of the bytes, so a later version may add one
without making an old entry unreadable. Fields stand in code-point order, because that is
the order in which they are hashed.

A fact holds text, numbers and facts and never itself, so the collector of cycles need not walk it:
of runs that are under way by the hundred, whose judgements are many small facts, it walked little else.
"""

from __future__ import annotations

import msgspec


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The body of an entry, or a part of one."""
