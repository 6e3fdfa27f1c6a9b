"""Tables: what the databases lay out alike.

A large value would make every walk over the entries a walk over it, so it stands in a table of
its own, under the place of its entry: it is that run's and goes with it. The entry then has a
salt and no value.
"""

from __future__ import annotations

from remit.facts.entry import Entry

INLINE_BYTES_MAX = 256 * 1024  # a longer value stands beside its entry


def is_large(entry: Entry) -> bool:
    """Whether its value stands beside it."""
    return entry.value is not None and len(entry.value) > INLINE_BYTES_MAX
