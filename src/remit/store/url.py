"""Which store a URL means. Each is imported only when it is asked for."""

from __future__ import annotations

from remit.clock import Clock
from remit.errors import Refused
from remit.store.protocol import Store


def store_for(url: str, *, clock: Clock | None = None) -> Store:
    """The store behind a URL, not yet opened.

    `memory:`, `file:state.json`, `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://host/database`.
    Raises Refused `url.refused`.
    """
    scheme, colon, rest = url.partition(":")
    if url == "memory:":
        from remit.store.memory import MemoryStore

        return MemoryStore(clock=clock)
    if scheme == "file" and rest:
        from remit.store.file import FileStore

        return FileStore(rest, clock=clock)
    if scheme == "sqlite":
        from remit.store.sqlite import SqliteStore

        return SqliteStore(url, clock=clock)
    if scheme in ("postgresql", "postgres") and rest.startswith("//"):
        from remit.store.postgres import PostgresStore

        return PostgresStore(url, clock=clock)
    shown = f"{scheme}:..." if colon else url  # what follows may hold a password
    raise Refused(
        f"{shown!r} is not a place for a store; nothing was opened.",
        code="url.refused",
        hint="Use `memory:`, `file:state.json`, `sqlite:///name.db` or `postgresql://host/database`.",
    )
