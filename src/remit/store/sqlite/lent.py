"""Lent: a connection that knows whether the code that it was lent to changed it.

A connection of SQLite's can't be cleaned: a function that hid one of SQLite's own is not brought back by taking it
away, and nobody tells which collations there are. So it is noted that something was changed, and such a connection is
lent to nobody else. What says nothing about the connection is listed here, and everything else is a change: a method
that a later `apsw` has is one until it is known.

What would meet our own statements is taken off before them: tracers, converters, hooks. Limits are put back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import apsw

# They read, or write rows; old spellings too.
_CHANGES_NOTHING = {
    "aclose",
    "backup",
    "blob_open",
    "blobopen",
    "cache_flush",
    "cache_stats",
    "cacheflush",
    "changes",
    "close",
    "column_metadata",
    "cursor",
    "data_version",
    "db_filename",
    "execute",
    "executemany",
    "fts5_tokenizer_available",
    "get_autocommit",
    "get_exec_trace",
    "get_row_trace",
    "getautocommit",
    "getexectrace",
    "getrowtrace",
    "interrupt",
    "last_insert_rowid",
    "pragma",
    "read",
    "readonly",
    "release_memory",
    "serialize",
    "sqlite3_pointer",
    "sqlite3pointer",
    "status",
    "table_exists",
    "total_changes",
    "totalchanges",
    "txn_state",
    "vfsname",
}
# By the name without its underscores, which is how it was spelt of old: how it is taken off.
_OFF: dict[str, tuple[str, tuple[Any, ...]]] = {
    name.replace("_", ""): (name, (0,) if name == "trace_v2" else (None,))
    for name in (
        "preupdate_hook",
        "set_commit_hook",
        "set_profile",
        "set_progress_handler",
        "set_rollback_hook",
        "set_update_hook",
        "set_wal_hook",
        "trace_v2",
    )
}
_LIMITS = frozenset(limit for limit in apsw.mapping_limits.values() if isinstance(limit, int))
_PLAIN = {"row_trace": None, "exec_trace": None, "convert_binding": None, "convert_jsonb": None}


class Lent(apsw.Connection):
    """changed: methods by which it was changed, each with the `id` that it was given, and attributes that were set.

    limits: SQLite's, by their numbers, as they were when it was opened: one that was changed is lent to nobody else.
    """

    changed: set[tuple[str, Any]]
    limits: dict[int, int]

    def __init__(self, *given: Any, **named: Any) -> None:
        self.__dict__["changed"] = set()
        super().__init__(*given, **named)
        self.__dict__["limits"] = {number: apsw.Connection.limit(self, number) for number in _LIMITS}

    def __setattr__(self, name: str, value: Any) -> None:
        self.changed.add((name, None))
        super().__setattr__(name, value)

    def take_off(self) -> None:
        """What would meet our own statements, and the end of the transaction."""
        for name, value in _PLAIN.items():
            super().__setattr__(name, value)
        super().__setattr__("cursor_factory", apsw.Cursor)
        if any(name == "limit" for name, _ in self.changed):
            for number, limit in self.limits.items():
                apsw.Connection.limit(self, number, limit)
        for name, ident in self.changed:
            off = _OFF.get(name.replace("_", ""))
            if off is not None:
                getattr(apsw.Connection, off[0])(self, *off[1], **({} if ident is None else {"id": ident}))


def _noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def noted(self: Lent, *given: Any, **named: Any) -> Any:
        self.changed.add((name, named.get("id")))
        return method(self, *given, **named)

    return noted


for _name, _method in vars(apsw.Connection).items():
    if not _name.startswith("_") and callable(_method) and _name not in _CHANGES_NOTHING:
        setattr(Lent, _name, _noting(_name, _method))
