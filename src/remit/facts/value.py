"""Values: what a flow gets back on replay is what it got the first time, or it was refused at once.

    write   encode, decode, compare; answers the bytes and the decoded twin
    read    decode the same bytes by the same type, or by one that has grown since

The caller goes on with the twin, so the first run already sees what a replay will see.
A type that changed since may have more fields, with defaults, and none less: what is stored is read whole or not.
Bytes are JSON in UTF-8, keys in code-point order, no spaces. The type comes from the
function's annotation and from nowhere else: stored bytes name no class, and nothing is
ever imported because stored bytes say so.

Kept: types and contents at every place, text as given, integers of up to 4,300 digits,
the scale of a Decimal, the sign of zero, the offset of a datetime. Not kept: the order of
a dict's keys (they come back sorted) and the name of a time zone (only its offset).
"""

from __future__ import annotations

import copy
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from remit.errors import DeclarationRefused, ValueRefused, ValueUnreadable
from remit.facts import model, order
from remit.facts.compare import at_key, difference, is_model, same, same_native, set_inside
from remit.facts.fault import complaint, fault, located
from remit.facts.shape import holds_set
from remit.facts.stated import unstated
from remit.facts.unread import Strange, first_unread, stating

T = TypeVar("T")

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()
_NO_TYPE = (Any, object, inspect.Parameter.empty, typing.NoReturn, getattr(typing, "Never", typing.NoReturn))
_NATIVE = (
    msgspec.inspect.AnyType,
    msgspec.inspect.NoneType,
    msgspec.inspect.BoolType,
    msgspec.inspect.IntType,
    msgspec.inspect.FloatType,
    msgspec.inspect.StrType,
    msgspec.inspect.ListType,
    msgspec.inspect.DictType,
    msgspec.inspect.TypedDictType,
    msgspec.inspect.UnionType,
)
# Bytes of anybody's making, which would be written without a look at them.
_PLAIN = (dict, list, tuple, str, int, float, bool, type(None))
_UNSTATED_HINT = (
    "Let the type state every field by its name: no `omit_defaults`, `exclude`, `init=False` or private attribute, "
    "no `array_like` and no NamedTuple."
)
_UNSTEADY_HINT = "Let the type read the same bytes as the same value each time, whatever the clock or a table says."
_UNORDERED = "a set has another order in each process"
_UNORDERED_HINT = "Give a sorted list: its order is the same in every process."
_UNTYPED_HINT = "Annotate the return type, or return JSON's own types only."
_OWN_TYPE_HINT = "Give JSON's own types only, or an instance of a dataclass or model whose fields come back the same."
_NAMED = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.TypedDictType,
    msgspec.inspect.CustomType,
)
_UNSAFE = (msgspec.inspect.RawType, msgspec.inspect.MemoryViewType, msgspec.inspect.ExtType)


class Codec(Generic[T]):
    """How the values of one annotated type become bytes and come back the same.

    type_: an annotation; Any, object or a missing one means JSON's own types only.
    Raises DeclarationRefused for a type that has no stored form.
    """

    __slots__ = (
        "_decode",
        "_encode",
        "_has_names",
        "_is_given",
        "_leaves_out",
        "_same",
        "info",
        "is_typed",
        "type_name",
    )

    def __init__(self, type_: Any = Any) -> None:
        self._encode: Callable[[Any], bytes] = _encoder.encode
        self._decode: Callable[[bytes], Any] = _decoder.decode
        self._same: Callable[[Any, Any], bool] = same_native
        self.info: msgspec.inspect.Type = msgspec.inspect.AnyType()  # what stands in a value, for whoever compares
        self._has_names = False  # so that a stored name may be none of its own
        self._leaves_out = False  # so that a field that was read may not be written
        self._is_given = False  # to a flow, which goes through no set
        self.is_typed = not any(type_ is nothing for nothing in _NO_TYPE)
        self.type_name = _type_name(type_) if self.is_typed else "JSON"
        if self.is_typed:
            self._specialise(type_)

    def given(self) -> Codec[T]:
        """One like it that also refuses each value with a set inside. What JSON has by itself holds none."""
        if self._same is same_native:
            return self
        other = copy.copy(self)
        other._is_given = True
        return other

    def write(self, value: T, *, where: str = "", hint: str | None = None) -> tuple[bytes, T]:
        """The bytes of `value`, and the twin that those bytes come back as.

        where: what the value is of, for the error's text: "step fetch_quote#2".
        hint: what to do about a refusal, where the value is not what a function returned.
        Raises ValueRefused with the path inside the value; nothing was written.
        """
        try:
            data = self._encode(value)
            twin: T = self._decode(data)
            is_same = self._same(value, twin)
            set_at = set_inside(twin) if is_same and self._is_given else None
        except MemoryError:
            raise
        except Exception as exc:  # also what the user's own type raises: its reason must name step and path
            raise self._refusal(value, exc, where, hint) from exc
        if set_at is not None:
            raise ValueRefused(_UNORDERED, path=set_at, where=where, hint=_UNORDERED_HINT)
        if is_same:
            return data, twin
        raise self._refusal(value, twin, where, hint)

    def write_whole(self, value: T, *, where: str = "", hint: str | None = None) -> bytes:
        """The bytes of what is judged, shown and approved: they state each field of it, whatever its default.

        Raises ValueRefused as `write` does, and for a field that does not stand in the bytes by its name.
        """
        data, twin = self.write(value, where=where, hint=hint)
        if self._same is not same_native and (found := unstated(twin, _decoder.decode(data))) is not None:
            path, why = found
            raise ValueRefused(why, path=path, where=where, hint=_UNSTATED_HINT)
        return data

    def read(self, data: bytes, *, where: str = "") -> T:
        """The value that `write` made `data` from. What it has since, and the bytes have not, has its default.

        Raises ValueUnreadable, whatever the bytes are, and where they have a name that the type has not: what stands
        there would be lost in silence. They are left as they are.
        """
        try:
            twin: T = self._decode(data)
            is_whole = not self._has_names or self._encode(twin) == data
            strange = None if is_whole else first_unread(_decoder.decode(data), self._written)
            set_at = set_inside(twin) if self._is_given else None
        except MemoryError:
            raise
        except Exception as exc:  # also what the user's own type raises
            raise ValueUnreadable(complaint(exc), type_name=self.type_name, where=where) from exc
        if strange is not None:
            raise ValueUnreadable(_unknown(strange), type_name=self.type_name, where=where, strange=strange)
        if set_at is not None:
            why = f"{_UNORDERED} at {set_at}"
            raise ValueUnreadable(why, type_name=self.type_name, where=where, hint=_UNORDERED_HINT)
        return twin

    def read_exactly(self, data: bytes, *, where: str = "") -> T:
        """The value of bytes that are judged or approved: it says what they say, and would be written as they are.

        Raises ValueUnreadable as `read` does, and where the type reads them as something else than it did.
        """
        twin = self.read(data, where=where)
        try:
            again = self._encode(twin) if self.is_typed else data
            if again == data:
                return twin
            found = difference(_decoder.decode(data), _decoder.decode(again))
        except MemoryError:
            raise
        except Exception as exc:
            raise ValueUnreadable(complaint(exc), type_name=self.type_name, where=where) from exc
        path, reason = found or ("$", "it would be written in another way")
        why = f"it reads as something else by now: {reason} at {path}"
        raise ValueUnreadable(why, type_name=self.type_name, where=where, hint=_UNSTEADY_HINT)

    def _written(self, stored: Any) -> Any:
        """What is written of decoded JSON once it is read, each field stated, decoded as well."""
        twin = self._decode(_encoder.encode(stored))
        return order.arrange(self.info, stating(twin)) if self._leaves_out else _decoder.decode(self._encode(twin))

    def _specialise(self, type_: Any) -> None:
        try:
            info = msgspec.inspect.type_info(type_)
            within = _everything(info)
            self._decode = msgspec.json.Decoder(type_, dec_hook=model.restore).decode
        except Exception as exc:  # names that can't be resolved, unions that can't be told apart
            raise DeclarationRefused(f"Values of type {self.type_name} can't be stored: {exc}.") from exc
        self.info = info
        self.is_typed = not isinstance(info, msgspec.inspect.AnyType)  # a bare type variable says nothing
        for part in within:
            if isinstance(part, msgspec.inspect.CustomType) and not is_model(part.cls):
                name = _type_name(part.cls)
            elif isinstance(part, _UNSAFE):
                name = type(part).__name__.removesuffix("Type")
            elif isinstance(part, msgspec.inspect.DictType) and not order.is_key(part.key_type):
                name = f"a dict with keys of {type(part.key_type).__name__.removesuffix('Type')}"
            else:
                continue
            raise DeclarationRefused(f"Values of type {self.type_name} can't be stored: {name} has no stored form.")
        self._has_names = any(isinstance(part, _NAMED) for part in within)
        structs = [part.cls for part in within if isinstance(part, msgspec.inspect.StructType)]
        self._leaves_out = any(struct.__struct_config__.omit_defaults for struct in structs)
        if all(isinstance(part, _NATIVE) for part in within):
            keys = [part.key_type for part in within if isinstance(part, msgspec.inspect.DictType)]
            if all(isinstance(key, (msgspec.inspect.StrType, msgspec.inspect.AnyType)) for key in keys):
                return
        self._same = same
        self._encode = msgspec.json.Encoder(order="sorted", enc_hook=model.plain).encode
        if any(order.is_unordered(part) for part in within):
            self._encode = functools.partial(_encode_arranged, info)

    def _refusal(self, value: Any, twin_or_error: Any, where: str, hint: str | None) -> ValueRefused:
        try:
            found = fault(value, is_typed=self.is_typed)
            if found is None and isinstance(twin_or_error, Exception):
                found = located(value, twin_or_error, self._encode, self._decode)
            elif found is None:
                found = difference(value, twin_or_error)
        except MemoryError:
            raise
        except Exception as exc:  # even looking fails: the stack is used up, or the user's own type raises
            found = "$", complaint(exc)
        path, reason = found or ("$", "it would not come back the same")
        return ValueRefused(reason, path=path, where=where, hint=hint or (None if self.is_typed else _UNTYPED_HINT))


def codec_for(type_: Any) -> Codec[Any]:
    """The codec of `type_`, made once. Raises DeclarationRefused for a type that has no stored form."""
    try:
        return _codec_made_once(type_)
    except TypeError:  # an annotation that can't be hashed
        return Codec(type_)


def codec_of_return(fn: Callable[..., Any]) -> Codec[Any]:
    """The codec of what `fn` returns, or what awaiting it returns. Raises DeclarationRefused."""
    return codec_for(_awaited(_annotation(fn, "return")))


def codec_given(codec: Codec[T], what: str) -> Codec[T]:
    """The same codec, of what a flow is given back. what: it is of, as a sentence begins with it.

    Raises DeclarationRefused where a set can stand in it: each process has an order of its own for that, and calls
    that are made in that order would be given what is recorded of one another. Where the type hides that, the codec
    refuses each value that holds one.
    """
    if holds_set(codec.info):
        why = f"{what} has type {codec.type_name}, in which {_UNORDERED}"
        raise DeclarationRefused(f"{why}; nothing was declared.", hint=_UNORDERED_HINT)
    return codec.given()


def codec_of_value(value: object) -> Codec[Any]:
    """The codec of a value's own type, so that a model is kept as one; plain data has one for all."""
    kind = type(value)
    return codec_for(Any if kind in _PLAIN else kind)


def write_own(value: object, *, where: str) -> bytes:
    """The bytes of evidence, or of what a person is shown: no annotation says its type, so it is the value's own.

    Raises ValueRefused as `Codec.write_whole` does, and DeclarationRefused for a type that has no stored form.
    """
    return codec_of_value(value).write_whole(value, where=where, hint=_OWN_TYPE_HINT)


def codec_of_parameter(fn: Callable[..., Any], index: int) -> Codec[Any]:
    """The codec of the parameter of `fn` at `index`, from 0, self not counted. Raises DeclarationRefused."""
    parameters = list(inspect.signature(fn).parameters.values())
    if not 0 <= index < len(parameters):
        raise DeclarationRefused(f"{_type_name(fn)} has no parameter number {index}.")
    return codec_for(_annotation(fn, parameters[index].name))


@functools.lru_cache(maxsize=1024, typed=True)
def _codec_made_once(type_: Any) -> Codec[Any]:
    return Codec(type_)


def _unknown(strange: Strange) -> str:
    path = "$" + "".join(f"[{key}]" if isinstance(key, int) else at_key(key) for key in strange[0])
    return f"it has {path}, which the type has not"


def _encode_arranged(info: msgspec.inspect.Type, value: Any) -> bytes:
    loose = msgspec.json.encode(value, enc_hook=model.plain)
    return _encoder.encode(order.arrange(info, _decoder.decode(loose)))


def _everything(info: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    """`info` and all types inside it, each once; a type may hold itself."""
    found: dict[int, msgspec.inspect.Type] = {}
    waiting = [info]
    while waiting:
        part = waiting.pop()
        if id(part) not in found:
            found[id(part)] = part
            waiting.extend(order.children(part))
    return list(found.values())


def _annotation(fn: Callable[..., Any], name: str) -> Any:
    """One annotation of `fn`, resolved; names in the others may be unknown, for they don't matter here."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isroutine(fn) and not inspect.isclass(fn):
        fn = type(fn).__call__  # an object that can be called has its annotations there
    fn = inspect.unwrap(fn)
    raw = getattr(fn, "__annotations__", {}).get(name, Any)
    lone = types.SimpleNamespace(__annotations__={name: raw})
    try:
        hints = typing.get_type_hints(lone, getattr(fn, "__globals__", {}), _nonlocals(fn), include_extras=True)
    except Exception as exc:  # an annotation as text is code, and may raise anything
        what = "return type" if name == "return" else f"parameter {name}"
        raise DeclarationRefused(
            f"The {what} of {_type_name(fn)} is annotated {raw!r}, which can't be resolved: {exc}.",
            hint="Import or define the name at module level, not under TYPE_CHECKING or inside a function.",
        ) from exc
    return hints[name]


def _nonlocals(fn: object) -> dict[str, Any]:
    """What a function sees of the functions around it; a variable that has no value yet is left out."""
    if not isinstance(fn, types.FunctionType):
        return {}
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # the function around it has not come there
    return found


def _awaited(type_: Any) -> Any:
    origin, inside = typing.get_origin(type_), typing.get_args(type_)
    if origin is not None and inside and getattr(origin, "__name__", "") in ("Coroutine", "Awaitable"):
        return inside[-1]
    return type_


def _type_name(type_: Any) -> str:
    if typing.get_origin(type_) is None and hasattr(type_, "__qualname__"):
        return str(type_.__qualname__)
    return repr(type_).replace("typing.", "")
