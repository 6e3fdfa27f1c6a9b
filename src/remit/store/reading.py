"""Reading: a store of which nothing can be changed, for whoever only wants to know.

What may be asked is listed. Anything else is refused, a method that is added later among it:
that nothing is written then rests on no care of the code that is given such a store.
"""

from __future__ import annotations

from typing import Any, cast

from remit.store.protocol import Store

READS = frozenset(
    {
        "keeps_own",
        "ledger",
        "list_asks",
        "list_rows",
        "now",
        "peek",
        "read_ask",
        "read_key",
        "read_outbox",
        "read_row",
        "read_run",
        "read_used",
        "read_worker",
        "transacts",
        "url",
    }
)


class _Reading:
    """Hands on what only reads."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        assert name in READS, f"`{name}` of a store that is only read"
        return getattr(self._store, name)


def reading(store: Store) -> Store:
    """The same store, to be read. Any other use of it is a programmer's mistake, an AssertionError."""
    return cast(Store, _Reading(store))
