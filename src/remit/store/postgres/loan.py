"""Loan: a connection that is handed out for one transaction, and taken back when the code it was given to returns.

It is taken back as asyncpg's pool takes one back: what was handed out raises from then on, and so does everything that
was made over it, prepared statements, cursors and savepoints. What is in the middle of a statement by then keeps the
connection to itself: the next of our own statements raises InterfaceError, and none of it was sent.

What asyncpg keeps for a connection goes with it: type codecs, listeners and loggers. So our own statements are read
as asyncpg reads them, and nothing that one function set is met by the next.
"""

from __future__ import annotations

from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

_asyncpg: Any = asyncpg  # its classes carry no annotations
_Proxy: Any = PoolConnectionProxy


class Lent(_asyncpg.Connection):  # type: ignore[misc]  # a class of asyncpg, see above
    """A connection that knows which types were looked for by their names, so that their codecs can be taken away."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._named: list[tuple[int, str, str]] = []

    def forget(self) -> None:
        """What code that is not ours set on this side of the connection; nothing is sent."""
        for kept in (self._listeners, self._log_listeners, self._termination_listeners, self._query_loggers):
            kept.clear()
        if self._named:
            for oid, name, schema in self._named:
                self._protocol.get_settings().remove_python_codec(oid, name, schema)
            self._named.clear()
            self.forget_statements()

    def forget_statements(self) -> None:
        """What was prepared is prepared anew."""
        self._drop_local_type_cache()
        self._drop_local_statement_cache()

    async def _introspect_type(self, typename: str, schema: str) -> Any:
        found = await super()._introspect_type(typename, schema)
        self._named.append((found["oid"], typename, schema))
        return found


class Loan:
    """Begins when it is made. transaction: of the connection, and begun. handed_out: what may be given away."""

    def __init__(self, connection: Any, transaction: Any) -> None:
        self._connection, self._transaction = connection, transaction
        holder: Any = _Holder(connection)
        self.handed_out: Any = _HandedOut(holder, connection)

    @property
    def was_closed(self) -> bool:
        """By the code that it was given to."""
        return bool(self.handed_out.was_closed)

    def end(self) -> None:
        """From here on the connection and the transaction are ours alone."""
        self.handed_out._detach()
        self._connection._pool_release_ctr += 1
        self._transaction._con_release_ctr = self._connection._pool_release_ctr
        if not self._connection.is_closed():
            self._connection.forget()


class _HandedOut(_Proxy):  # type: ignore[misc]
    """Knows whether it was closed by whoever has it."""

    __slots__ = ("was_closed",)

    def __init__(self, holder: Any, connection: Any) -> None:
        super().__init__(holder, connection)
        self.was_closed = False

    async def close(self, *, timeout: float | None = None) -> None:
        self.was_closed = self.was_closed or self._con is not None
        await super().close(timeout=timeout)

    def terminate(self) -> None:
        self.was_closed = self.was_closed or self._con is not None
        super().terminate()


class _Holder:
    """Stands where a pool would; its connections forget types and statements together, and this one forgets alone."""

    def __init__(self, connection: Any) -> None:
        self._pool, self._connection = self, connection

    def _drop_statement_cache(self) -> None:
        self._connection._drop_local_statement_cache()

    def _drop_type_cache(self) -> None:
        self._connection._drop_local_type_cache()
