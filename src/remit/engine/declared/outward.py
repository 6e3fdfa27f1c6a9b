"""Outward: what an effect and a transaction have in common, and which function each of them is.

What is recorded under a name belongs to the function that did it, so that has to be told in two ways:

    function    in words that another process finds again: they stand in the intention
    is_one      in this process, where two may have the same words: by code, and by all that was captured
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, Generic, Literal, NoReturn, TypeVar

from remit.authority.named import content, function_text
from remit.authority.rule import path_fault
from remit.canonical import encode
from remit.engine.declared.flow import yields
from remit.errors import CallRefused, DeclarationRefused, IdRefused
from remit.facts.names import check_id
from remit.facts.unseen import is_unseen
from remit.facts.value import Codec

T = TypeVar("T")

_CONNECTOR_TAG = b"remit/connector/1\n"


class Outward(Generic[T]):
    """What a run does at the boundary, as the gate sees it: by name and version, with a request as bytes."""

    name: str
    fn: Callable[..., Any]
    version: str
    connector: str  # digest of where it goes
    bare: str  # which function it is, whatever it says of itself
    function: str  # the same as its intention has it: with the other side that it names, or as it says
    told: str  # which one it is, for people
    is_told_apart: bool  # it says which one it is, or which other side it talks to
    is_side_named: bool  # the latter
    called_by: Literal["effect", "transact"]  # the call of a run that makes it
    business_key: str | None
    request_codec: Codec[Any]
    codec: Codec[Any]

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises CallRefused, wherever it is called: a thread may know nothing of the run that it works for.

        The plain function, for tests, is `fn`.
        """
        raise CallRefused(
            f"{self.name!r} was called directly, where no gate would be asked and nothing recorded; nothing was done.",
            code="call.direct",
            hint=f"Call it from a flow, `run.{self.called_by}({self.name}, request)`. In tests of its function call "
            f"that, `{self.name}.fn(...)`.",
        )

    def is_same(self, other: Outward[Any]) -> bool:
        """Whether both are one function to one other side, of which the same is said."""
        return self is other or (self.connector == other.connector and self.is_one(other))

    def is_one(self, other: Outward[Any]) -> bool:
        """Whether both are one function, though made anew: then what it captured is the same, too.

        A connector that is named says which side it is, whatever was captured.
        """
        if self is other:
            return True
        if self.told != other.told or _codes(self.fn) != _codes(other.fn):
            return False
        return self.is_side_named or _brought(self.fn) == _brought(other.fn)

    def check_function(self) -> None:
        """Raises DeclarationRefused."""
        fn: object = self.fn
        if not callable(fn) or yields(fn):
            raise refused(self.name, "function", "it needs a function that returns one outcome")
        try:
            check_id(self.version, "version")
        except IdRefused as refusal:
            raise refused(self.name, "version", f"its version is text ({refusal.message.partition(';')[0]})") from None
        if self.business_key is not None and (fault := path_fault(self.business_key)):
            raise refused(self.name, "business_key", fault)

    def tell(self, what: str, connector: str, recorded_as: str, said: dict[str, object]) -> None:
        """Note which function it is, and where it goes. said: of the other side. Raises DeclarationRefused."""
        if not _is_seen(connector):
            raise refused(self.name, "connector", f"connector is text that names the other side, and not {connector!a}")
        if not _is_seen(recorded_as):
            raise refused(self.name, "recorded_as", f"recorded_as is text that names a function, not {recorded_as!a}")
        self.bare = function_text(self.fn)
        self.function = recorded_as or (f"{self.bare} to {connector}" if connector else self.bare)
        self.told = f"{what} {self.bare}" + (f" to {connector!a}" if connector else "")
        self.is_side_named, self.is_told_apart = bool(connector), bool(connector or recorded_as)
        self.connector = connector_digest(self.function, said)


def connector_digest(function: str, told: dict[str, object]) -> str:
    """Digest of where an effect goes: its function, and what it says of the other side."""
    return sha256(_CONNECTOR_TAG + encode({**told, "function": function})).hexdigest()


def refused(name: str, field: str, what: str) -> DeclarationRefused:
    """The error for one wrong part of a declared effect."""
    return DeclarationRefused(f"Effect {name!r} can't be declared: {what}.", code=f"effect.{field}")


def _is_seen(text: object) -> bool:
    """Whether it is text of which everything is seen."""
    return isinstance(text, str) and text.isprintable() and not any(map(is_unseen, text))


def _codes(fn: object) -> object:
    """What a function does, as compiled; of an object that can be called nothing is known but which object it is."""
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__code__", None)


def _brought(fn: object) -> list[object]:
    """What a function brings along besides its code: the very objects, by their identity, but for plain values."""
    if isinstance(fn, partial):
        named = [each for pair in sorted(fn.keywords.items()) for each in pair]
        return [*_brought(fn.func), "partial", *map(_known, (*fn.args, *named))]
    if not hasattr(fn, "__code__"):
        return [id(fn)]  # an object that can be called
    cells = [content(cell) for cell in getattr(fn, "__closure__", None) or ()]
    given = [*(getattr(fn, "__defaults__", None) or ()), *(getattr(fn, "__kwdefaults__", None) or {}).values()]
    around = (getattr(fn, "__globals__", None), getattr(fn, "__self__", None))
    return [*map(id, around), *map(_known, (*cells, *given))]


def _known(each: object) -> object:
    """A plain value as it is: of True, 1 and 1.0 none is the other, nor is 0.0 of -0.0."""
    plain = type(each) in (str, bytes, int, float, bool, type(None))
    return (type(each), repr(each)) if plain else id(each)
