"""Postgres: for many machines. `store.py` is the store; the other modules are its parts."""

from remit.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
