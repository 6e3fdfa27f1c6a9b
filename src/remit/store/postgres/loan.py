"""Loan: a connection that is handed out for one transaction, and taken back when the code it was given to returns.

It is taken back as asyncpg's pool takes one back: what was handed out raises from then on, and so does everything that
was made over it, prepared statements, cursors and savepoints. What is in the middle of a statement by then keeps the
connection to itself: the next of our own statements raises InterfaceError, and none of it was sent.
"""

from __future__ import annotations

from typing import Any

from asyncpg.pool import PoolConnectionProxy


class Loan:
    """Begins when it is made. transaction: of the connection, and begun. handed_out: what may be given away."""

    def __init__(self, connection: Any, transaction: Any) -> None:
        self._connection, self._transaction = connection, transaction
        holder: Any = _Holder(connection)
        self.handed_out: Any = PoolConnectionProxy(holder, connection)

    def end(self) -> None:
        """From here on the connection and the transaction are ours alone."""
        self.handed_out._detach()
        self._connection._pool_release_ctr += 1
        self._transaction._con_release_ctr = self._connection._pool_release_ctr


class _Holder:
    """Stands where a pool would; its connections forget types and statements together, and this one forgets alone."""

    def __init__(self, connection: Any) -> None:
        self._pool, self._connection = self, connection

    def _drop_statement_cache(self) -> None:
        self._connection._drop_local_statement_cache()

    def _drop_type_cache(self) -> None:
        self._connection._drop_local_type_cache()
