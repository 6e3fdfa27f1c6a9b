"""Transactions as a user declares them: rows of the application's own, written with the journal.

The other side is a database that commits both or neither, so there is no doubt to declare a rule
for, and no key that somebody would have to remember.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast, overload

from remit.engine.declared.flow import is_async
from remit.engine.declared.outward import Outward, refused
from remit.facts.names import check_effect_name
from remit.facts.value import codec_given, codec_of_parameter, codec_of_return

T = TypeVar("T")


class Transaction(Outward[T]):
    """Rows of the application's own that are written with the journal. Made by `@remit.transaction`."""

    called_by = "transact"

    def __init__(
        self, name: str, fn: Callable[..., Any], *, version: str, business_key: str | None, recorded_as: str
    ) -> None:
        self.name, self.fn = check_effect_name(name, "transaction name"), fn
        self.version, self.business_key = version, business_key
        self.check_function()
        self.is_async = is_async(fn)
        parameters = list(inspect.signature(fn).parameters.values())
        if len(parameters) != 2 or any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
            raise refused(name, "parameters", "it takes the connection and one request: `def book(connection, order)`")
        self.request_codec = codec_of_parameter(fn, 1)
        self.codec = codec_given(codec_of_return(fn), f"What transaction {name!r} returns")
        self.tell("transaction", "", recorded_as, {"connector": "transaction"})
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<transaction {self.name}>"


class DeclareTransaction(Protocol):
    """What makes a transaction of a function, asynchronous or not; its outcome keeps its type."""

    @overload
    def __call__(self, fn: Callable[..., Coroutine[Any, Any, T]], /) -> Transaction[T]: ...
    @overload
    def __call__(self, fn: Callable[..., T], /) -> Transaction[T]: ...


@overload
def transaction(fn: Callable[..., Coroutine[Any, Any, T]], /) -> Transaction[T]: ...
@overload
def transaction(fn: Callable[..., T], /) -> Transaction[T]: ...
@overload
def transaction(
    *, name: str | None = None, version: str = "1", business_key: str | None = None, recorded_as: str = ""
) -> DeclareTransaction: ...
def transaction(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    business_key: str | None = None,
    recorded_as: str = "",
) -> Any:
    """Declare a function that writes the application's own rows, in the database that holds the journal.

    It is given the connection (apsw's, in plain code; asyncpg's, in an async function) and the request. It must not
    end the transaction, and may take a sixth of the lease. recorded_as: as of an effect. Raises DeclarationRefused.
    """

    def declare(function: Callable[..., Any]) -> Transaction[Any]:
        declared = str(name or getattr(function, "__name__", ""))
        return Transaction(declared, function, version=version, business_key=business_key, recorded_as=recorded_as)

    return cast(DeclareTransaction, declare) if fn is None else declare(fn)
