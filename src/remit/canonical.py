"""Canonical JSON: one meaning, one byte string.

    UTF-8, keys in code-point order, the shortest escapes, no spaces,
    integers only, below 2**53 in size, defaults left out.

A reader refuses bytes that this module would have written differently (another order,
a space, a key twice, 1.0 for 1), because two byte strings with one meaning would be two
hashes for one fact. The check is the plainest there is: decode, write again, compare.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec

_encoder = msgspec.json.Encoder(order="sorted")

encode = _encoder.encode

INTEGER_MAX = 2**53 - 1

Integer = Annotated[int, msgspec.Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]  # what every field of a form is that counts

T = TypeVar("T", bound=msgspec.Struct)


class Malformed(ValueError):
    """Bytes that are not canonical JSON of the expected form."""


class Form(Generic[T]):
    """Reads and writes one struct type as canonical JSON."""

    def __init__(self, type_: type[T]) -> None:
        names = [f.encode_name for f in msgspec.structs.fields(type_)]
        assert names == sorted(names), f"fields of {type_.__name__} must stand in code-point order"
        self._decode = msgspec.json.Decoder(type_).decode
        self.read_own = self._decode  # what this process wrote a moment ago need not be written again to compare

    def read(self, data: bytes) -> T:
        """The struct that `data` says. Raises Malformed, whatever the bytes are."""
        try:
            value = self._decode(data)
            if _encoder.encode(value) == data:
                return value
        except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError) as exc:
            raise Malformed(ascii(str(exc))[1:-1]) from None  # it quotes the bytes, and may end in a log
        raise Malformed("the bytes are not in canonical form")

    def write(self, value: T) -> bytes:
        """The canonical bytes of `value`. An integer over INTEGER_MAX is a programmer's mistake."""
        return _encoder.encode(value)
