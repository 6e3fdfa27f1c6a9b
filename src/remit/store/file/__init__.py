"""File: one JSON document for small and visible work. `store.py` is the store; the other modules are its parts."""

from remit.store.file.store import FileStore

__all__ = ["FileStore"]
