"""SQLite: the embedded default. `store.py` is the store; the other modules are its parts."""

from remit.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
