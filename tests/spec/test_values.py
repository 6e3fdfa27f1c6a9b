"""Values: what is written comes back with the same types and contents, or it is refused with its path.

The cases C26 to C28 and C30 are here; C29 belongs to the errors of steps.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import functools
import inspect
import json
import math
import subprocess
import sys
import typing
import uuid
import zoneinfo
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as some

from remit.errors import DeclarationRefused, ValueRefused, ValueUnreadable
from remit.facts.compare import DEPTH_MAX, difference, same, same_native
from remit.facts.value import codec_for, codec_of_parameter, codec_of_return

T = TypeVar("T")
UTC = dt.UTC
NAN = float("nan")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.StrEnum):
    ON = "on"


class Ratio(enum.Enum):
    HALF = 0.5


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Line:
    sku: str
    amount: Decimal
    note: str | None = None
    more: Any = None


@dataclasses.dataclass
class Order:
    lines: list[Line]
    taken: dt.datetime
    total: Decimal = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.total = sum((line.amount for line in self.lines), Decimal(0))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    x: int
    y: int = 0


@dataclasses.dataclass(eq=False)
class Uncompared:
    x: int
    hidden: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass
class Caching:
    x: int

    @functools.cached_property
    def twice(self) -> int:
        return self.x * 2


@dataclasses.dataclass
class Started:
    x: int
    w: dataclasses.InitVar[int] = 0


@dataclasses.dataclass
class Drifting:
    x: int

    def __post_init__(self) -> None:
        self.x += 1


@dataclasses.dataclass
class Failing:
    x: int

    def __post_init__(self) -> None:
        if self.x == 13:
            raise KeyError("thirteen")


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T


@dataclasses.dataclass
class Node:
    name: str
    next: Optional[Node] = None  # noqa: UP045 - as text, it can't be resolved with |


class Cat(msgspec.Struct, tag=True, rename="camel"):
    lives_left: int


class Dog(msgspec.Struct, tag=True, omit_defaults=True):
    tricks: set[str] = set()


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Options(TypedDict, total=False):
    depth: int
    names: list[str]


class Part(pydantic.BaseModel):
    unit_price: Decimal = pydantic.Field(alias="unitPrice")
    tags: frozenset[str] = frozenset()


class Invoice(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    parts: list[Part]
    due: dt.date
    rate: float = 0.0


class Secret(pydantic.BaseModel):
    token: pydantic.SecretStr


@dataclasses.dataclass
class Basket:
    invoice: Invoice
    by_name: dict[str, Part]


Cents = NewType("Cents", int)
Small = Annotated[int, msgspec.Meta(le=9)]
LONDON = zoneinfo.ZoneInfo("Europe/London")
EARLY = dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30)))
PART = Part(unitPrice=Decimal("1.10"), tags=frozenset({"b", "a", "c"}))
INVOICE = Invoice(parts=[PART], due=dt.date(2024, 1, 1), rate=-0.0).model_copy(update={"seen": True})

NATIVES = ["", 0, False, [], {}, None, True, 1, 1.0, 0.0, -0.0, "0", 10**400, -(10**40), 2**63, 5e-324, 1e22, 0.1 + 0.2]

KEPT: list[tuple[Any, Any]] = [
    (str, ""),
    (int, -(10**4000)),
    (bool, False),
    (float, -0.0),
    (None, None),
    (list, [1, "a", [None]]),
    (dict, {"b": 1, "a": {"c": []}}),
    (dict[str, Any], {"x": [1, 2.5, True]}),
    (Order, Order([Line("a", Decimal("1.10")), Line("b", Decimal("1E+3"), note="n")], EARLY)),
    (Place, Place(x=1, y=-1)),
    (Uncompared, Uncompared(1, hidden=7)),
    (Box[int], Box(3)),
    (Box[tuple[int, ...]], Box((1, 2))),
    (Node, Node("a", Node("b"))),
    (Cat | Dog, Cat(lives_left=9)),
    (list[Cat | Dog], [Dog(tricks={"sit", "roll"}), Cat(1), Dog()]),
    (Colour, Colour.GREEN),
    (Level, Level.HIGH),
    (Mode, Mode.ON),
    (Rights, Rights.READ | Rights.WRITE),
    (dt.datetime, EARLY),
    (dt.datetime, dt.datetime.max.replace(tzinfo=UTC)),
    (dt.date, dt.date(1, 1, 1)),
    (dt.time, dt.time(23, 59, 59, 1)),
    (dt.time, dt.time(1, 2, tzinfo=UTC)),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=1)),
    (dt.timedelta, dt.timedelta.max),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("1E+3")),
    (Decimal, Decimal("-0.00")),
    (uuid.UUID, uuid.UUID(int=5)),
    (bytes, bytes(range(256))),
    (bytearray, bytearray(b"\0\xff")),
    (set[int], {3, 1, 2}),
    (set[Colour], {Colour.RED, Colour.GREEN}),
    (frozenset[Place], frozenset({Place(x=1), Place(x=2)})),
    (set[frozenset[int]], {frozenset({1}), frozenset({2, 3})}),
    (set[int | str], {1, "1"}),
    (tuple, (1, "a", None)),
    (tuple[int, ...], ()),
    (tuple[int, str], (1, "1")),
    (Point, Point(1, 2.0)),
    (int | str | None, "1"),
    (list[int] | dict[str, int] | None, {"a": 1}),
    (Literal["a", 1], 1),
    (Options, {"names": ["n"]}),
    (Cents, 5),
    (Small, 9),
    (dict[int, str], {10: "b", 2: "a"}),
    (dict[Colour, set[tuple[str, int]]], {Colour.RED: {("a", 1), ("b", 0)}}),
    (dict[uuid.UUID, Decimal], {uuid.UUID(int=1): Decimal("0.0")}),
    (dict[dt.date, bool], {dt.date(2024, 1, 1): True}),
    (Sequence[int], [1]),
    (Mapping[str, float], {"a": 1.0}),
    (Part, PART),
    (Invoice, INVOICE),
    (Invoice | None, None),
    (Basket, Basket(INVOICE, {"p": PART})),
    (list[Invoice], [INVOICE, INVOICE]),
]

native = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.integers(-(10**60), 10**60)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=20,
)


def spelled(value: Any) -> Any:
    """A JSON value with each type said aloud, so that True is not 1, nor -0.0 0.0."""
    if isinstance(value, dict):
        return {key: spelled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [spelled(item) for item in value]
    return type(value).__name__, repr(value)


def refused(type_: Any, value: Any) -> ValueRefused:
    with pytest.raises(ValueRefused) as caught:
        codec_for(type_).write(value, where="step fetch_quote#2")
    assert "step fetch_quote#2" in str(caught.value)
    assert str(caught.value).encode()  # the refusal itself can be printed and stored
    return caught.value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def keyed(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"k": value}
    return value


def chained(depth: int) -> Node | None:
    node = None
    for _ in range(depth):
        node = Node("n", node)
    return node


# What JSON has by itself


@given(native)
def test_a_json_value_comes_back_with_the_same_type_at_every_place(value):  # proves: RUN-12
    codec = codec_for(Any)

    data, twin = codec.write(value)

    assert spelled(twin) == spelled(value)
    assert spelled(codec.read(data)) == spelled(value)


@given(native, native)
def test_two_different_json_values_are_never_taken_for_the_same(a, b):  # proves: RUN-12
    assert same_native(a, b) == (spelled(a) == spelled(b))
    assert same(a, b) == (spelled(a) == spelled(b))


@pytest.mark.parametrize("inside", [lambda v: v, lambda v: [v], lambda v: {"k": v}, lambda v: {"k": [{"k": v}]}])
@pytest.mark.parametrize(
    ("a", "b"),
    [(True, 1), (0, False), (1, 1.0), (0.0, -0.0), (Level.LOW, 1), (Mode.ON, "on"), ((1,), [1]), (None, NAN)],
)
def test_what_python_calls_equal_is_still_told_apart_at_any_place(a, b, inside):  # proves: RUN-12, C26
    for one, other in ((a, b), (b, a)):
        assert not same(inside(one), inside(other))
        assert not same_native(inside(one), inside(other))
        assert not same(Box(inside(one)), Box(inside(other)))
        assert not same(Place(x=inside(one)), Place(x=inside(other)))


@given(native)
def test_a_json_value_is_written_in_one_way_only(value):  # proves: RUN-12
    data, twin = codec_for(Any).write(value)

    assert codec_for(Any).write(twin)[0] == data
    assert json.loads(data) == value  # any reader of JSON can read it


@pytest.mark.parametrize("value", NATIVES, ids=repr)
def test_empty_and_false_things_stay_different_things(value):  # proves: RUN-12, C26
    twin = codec_for(Any).write(value)[1]

    assert [spelled(other) == spelled(twin) for other in NATIVES] == [other is value for other in NATIVES]


def test_text_is_kept_as_given():  # proves: RUN-12, C27
    for text in ("a\x00b", "\\u0000", "\u2028\x7f\ufeff", "e\u0301", "\U0010ffff", "\r\n"):
        data, twin = codec_for(Any).write({text: text})
        assert twin == {text: text} == codec_for(Any).read(data)
    assert codec_for(Any).write("a\x00b")[0] == rb'"a\u0000b"'
    assert codec_for(Any).write(r"\u0000")[0] == rb'"\\u0000"'


def test_keys_are_written_in_code_point_order_and_come_back_so():  # proves: RUN-12
    data, twin = codec_for(Any).write({"\U0001f600": 1, "\uffff": 2, "z": 3, "é": 4})

    assert data == '{"z":3,"é":4,"\uffff":2,"\U0001f600":1}'.encode()
    assert list(twin) == ["z", "é", "\uffff", "\U0001f600"]


# Types


@pytest.mark.parametrize(("type_", "value"), KEPT, ids=[repr(type_)[:60] for type_, _ in KEPT])
def test_a_typed_value_comes_back_the_same(type_, value):  # proves: RUN-12, C28
    codec = codec_for(type_)

    data, twin = codec.write(value)
    again = codec.read(data)

    assert type(twin) is type(value)
    assert same(value, twin) and same(twin, again)
    assert repr(twin) == repr(again)
    assert codec.write(again)[0] == data


def test_a_field_that_the_constructor_does_not_take_is_kept():  # proves: C28
    order = Order([Line("a", Decimal("2.50"))], EARLY)

    assert codec_for(Order).write(order)[1].total == Decimal("2.50")


def test_a_pydantic_model_is_stored_under_its_aliases():  # proves: C28
    data, twin = codec_for(Part).write(PART)

    assert data == b'{"tags":["a","b","c"],"unitPrice":"1.10"}'
    assert twin.unit_price.as_tuple() == Decimal("1.10").as_tuple()


def test_a_time_in_a_named_zone_keeps_its_instant_and_its_offset():  # proves: C28
    repeated = dt.datetime(2024, 10, 27, 1, 30, tzinfo=LONDON, fold=1)

    for time in (repeated, repeated.replace(fold=0)):
        twin = codec_for(dt.datetime).write(time)[1]
        assert twin.utcoffset() == time.utcoffset()
        assert twin.timestamp() == time.timestamp()
        assert twin.replace(tzinfo=None) == time.replace(tzinfo=None, fold=0)


def test_what_a_class_computes_from_its_fields_does_not_stand_in_the_way():
    value = Caching(4)
    assert value.twice == 8

    assert codec_for(Caching).write(value)[1].twice == 8


def test_a_set_has_the_same_bytes_in_every_process():  # proves: RUN-12
    # A set comes in the order of its hashes, and those of text change with the seed.
    program = (
        "from tests.spec.test_values import *\n"
        "values = [(set[str], set('abcdefgh')), (set[Colour], set(Colour)), (Part, PART),\n"
        "          (set[tuple[str, int]], {(c, 1) for c in 'abcdefgh'}), (frozenset[Mode | int], frozenset({1, 2})),\n"
        "          (set[frozenset[str]], {frozenset(w) for w in ('ab', 'cd', 'abc', 'e')}),\n"
        "          (dict[Colour, set[Colour]], {c: set(Colour) for c in Colour}),\n"
        "          (list[Cat | Dog], [Dog(set('xyz'))])]\n"
        "print([codec_for(t).write(v)[0] for t, v in values])\n"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in (0, 1, 2)
    }

    assert len(seen) == 1


# Refusals, each with its path

REFUSED: list[tuple[str, Any, Any, str, str]] = [
    ("nan", Any, {"lines": [1, {"amount": NAN}]}, "$.lines[1].amount", "not a finite number"),
    ("infinity", float, math.inf, "$", "not a finite number"),
    ("nan where None may be", float | None, NAN, "$", "not a finite number"),
    ("nan in a model", list[Invoice], [INVOICE.model_copy(update={"rate": NAN})], "$[0].rate", "not a finite number"),
    ("Decimal NaN", Line, Line("a", Decimal("NaN")), "$.amount", "not a finite number"),
    ("Decimal infinity", dict[str, Decimal], {"a b": Decimal("-Infinity")}, '$["a b"]', "not a finite number"),
    ("a lone surrogate", Any, {"a": ["x\ud800"]}, "$.a[0]", r"'x\ud800' has a lone surrogate"),
    ("a lone surrogate in a key", Any, {"a": {"\udfff": 1}}, "$.a", r"key '\udfff' has a lone surrogate"),
    ("a lone surrogate in a field", Order, Order([Line("\ud800", Decimal(1))], EARLY), "$.lines[0].sku", "surrogate"),
    ("a key that is not text", Any, {"a": {1: 2}}, "$.a", "key 1 is not text"),
    ("a key that is not text, typed", dict, {"a": {1: 2}}, "$.a", "key 1 can't be told from text"),
    ("a key of another type", dict[int, str], {True: "x"}, "$", "key True"),
    ("a key that would change its type", dict[str, int], {Mode.ON: 1}, "$", "would come back as 'on'"),
    ("a tuple without a type", Any, {"a": (1,)}, "$.a", "annotate"),
    ("a set without a type", Any, [{1}], "$[0]", "annotate"),
    ("bytes without a type", Any, b"x", "$", "annotate"),
    ("a datetime without a type", Any, {"at": EARLY}, "$.at", "annotate"),
    ("an object without a type", Any, [PART], "$[0]", "annotate"),
    ("a dict of another class", Any, collections.OrderedDict(a=1), "$", "annotate"),
    ("an enum without a type", Any, {"a": Level.LOW}, "$.a", "annotate"),
    ("a tuple where anything may be", Line, Line("a", Decimal(1), more=[(1,)]), "$.more[0]", "a tuple would come back"),
    ("a set that has no order", Line, Line("a", Decimal(1), more=set(Colour)), "$.more", "not supported"),
    ("a number that nothing stores", Line, Line("a", Decimal(1), more={"k": 1j}), "$.more.k", "complex"),
    ("a key that nothing stores", Line, Line("a", Decimal(1), more={"k": {(1, 2): 3}}), "$.more.k", "key (1, 2)"),
    ("a list for a tuple", tuple[int, ...], [1], "$", "a list would come back as a tuple"),
    ("a tuple for a list", dict[str, list[int]], {"a": (1,)}, "$.a", "a tuple would come back as a list"),
    ("an integer for a float", list[float], [1.0, 1], "$[1]", "an int would come back as a float"),
    ("a float for an integer", list[int], [1, 1.0], "$[1]", "got `float`"),
    ("a truth for an integer", dict[str, dict[str, int]], {"a": {"b": 1}, "c": {"d": True}}, "$.c.d", "got `bool`"),
    ("a text for an integer", dict[str, dict[str, int]], {"a": {"b": 1}, "c d": {"e": "f"}}, '$["c d"].e', "got `str`"),
    ("a subclass for its base", list[int], [Level.LOW], "$[0]", "a Level would come back as an int"),
    ("a base for its subclass", Mode, "on", "$", "a str would come back as a Mode"),
    ("a naive datetime", Order, Order([], dt.datetime(2024, 1, 1)), "$.taken", "no time zone"),
    ("an offset with seconds", dt.datetime, EARLY.replace(tzinfo=dt.timezone(dt.timedelta(seconds=1))), "$", "back as"),
    ("a time whose offset needs a date", dt.time, dt.time(1, tzinfo=LONDON), "$", "back as"),
    ("a field too many", Options, {"depth": 1, "width": 2}, "$.width", "not come back"),
    ("a value out of bounds", list[Small], [9, 10], "$[1]", "<= 9"),
    ("a value that its class changes", list[Drifting], [Drifting(1)], "$[0].x", "2 would come back as 3"),
    ("an integer of 5,000 digits", Any, [10**5000], "$[0]", "too many digits"),
    ("a model that is not valid", list[Part], [Part.model_construct(unit_price="x")], "$[0].unitPrice", "decimal"),
    ("a secret", list[Secret], [Secret(token=pydantic.SecretStr("x"))], "$[0].token", "come back as"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "path", "reason"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_would_not_come_back_is_refused_with_its_path(type_, value, path, reason):  # proves: RUN-12, C27, C28
    refusal = refused(type_, value)

    assert refusal.path == path
    assert reason in refusal.reason
    assert refusal.code == "value.refused"


@pytest.mark.parametrize("number", [NAN, math.inf, -math.inf])
@given(before=some.lists(native, max_size=3), key=some.sampled_from(["a", "b"]))
def test_no_number_that_is_not_finite_is_ever_written(number, before, key):  # proves: RUN-12
    assert refused(Any, {key: [*before, number]}).path == f"$.{key}[{len(before)}]"
    assert refused(dict[str, list[Any]], {key: [*before, number]}).path == f"$.{key}[{len(before)}]"


def test_without_an_annotation_the_hint_is_to_write_one():
    assert "Annotate the return type" in refused(Any, (1, 2)).hint


def test_an_attribute_that_is_no_field_is_refused():  # proves: C28
    value = Uncompared(1)
    value.extra = 9  # type: ignore[attr-defined]

    assert refused(Uncompared, value).path == "$.extra"


def test_a_field_that_the_class_leaves_out_of_its_own_comparison_is_compared():  # proves: C28
    assert not same(Uncompared(1, hidden=1), Uncompared(1, hidden=2))
    assert difference(Box(Uncompared(1)), Box(Uncompared(2))) == ("$.inside.x", "1 would come back as 2")


def test_a_class_that_fails_while_it_is_made_again_is_a_refusal():
    value = Failing(1)
    value.x = 13

    assert "thirteen" in refused(Failing, value).reason


def test_the_scale_of_a_decimal_and_the_sign_of_a_zero_are_part_of_the_value():  # proves: RUN-12
    assert not same(Decimal("1.10"), Decimal("1.1"))
    assert not same(-0.0, 0.0)
    assert not same_native([-0.0], [0.0])
    assert not same(EARLY, EARLY.astimezone(UTC))
    assert not same({1: "a"}, {True: "a"})
    assert not same(frozenset({1}), frozenset({True}))


def test_depth_has_a_limit_that_does_not_depend_on_the_stack_of_the_day():  # proves: RUN-12
    for type_ in (Any, list):
        data, _ = codec_for(type_).write(nested(DEPTH_MAX))
        assert codec_for(type_).read(data) == nested(DEPTH_MAX)
        assert "too deep" in refused(type_, nested(DEPTH_MAX + 1)).reason
        assert "too deep" in refused(type_, nested(10_000)).reason
    for depth in (DEPTH_MAX + 1, 10_000):
        assert "too deep" in refused(Node, chained(depth)).reason
        assert "too deep" in refused(Any, keyed(depth)).reason
        assert "too deep" in refused(dict[int, Any], {1: keyed(depth)}).reason


def test_a_value_that_holds_itself_is_refused():  # proves: RUN-12
    knot: dict[str, Any] = {"a": []}
    knot["a"].append(knot)
    loop = Node("a")
    loop.next = loop

    assert (refused(Any, knot).path, refused(Any, knot).reason) == ("$.a[0]", "it holds itself")
    assert refused(Node, loop).path == "$.next"


def test_a_refusal_near_the_end_of_the_stack_is_still_a_refusal():
    def down(levels: int) -> None:
        if levels:
            down(levels - 1)
        else:
            assert "too deep" in refused(Any, nested(10_000)).reason

    down(sys.getrecursionlimit() - len(inspect.stack(0)) - 100)


# Reading


@pytest.mark.parametrize(
    "data",
    [b"", b"NaN", b"-Infinity", b"1e400", b"[" * 10_000, b'{"a":' * 10_000, b'"\xff"', rb'"\ud800"', b"[1,]", b"1 2"],
    ids=lambda data: repr(data[:12]),
)
@pytest.mark.parametrize("type_", [Any, list[Node], Invoice])
def test_bytes_that_are_no_value_are_unreadable_and_nothing_worse(type_, data):  # proves: RUN-12
    with pytest.raises(ValueUnreadable):
        codec_for(type_).read(data)


@given(some.binary(max_size=40))
def test_no_bytes_at_all_make_reading_fail_in_another_way(data):
    for type_ in (Any, Order, Invoice, dict[int, set[Colour]]):
        try:
            codec_for(type_).read(data)
        except ValueUnreadable as refusal:
            assert refusal.code == "value.unreadable"


def test_a_type_that_changed_since_names_the_type_and_the_step():  # proves: C30
    data, _ = codec_for(Place).write(Place(x=1))
    kept = bytes(data)

    with pytest.raises(ValueUnreadable) as caught:
        codec_for(Order).read(data, where="step place_order#1")

    assert (caught.value.type_name, caught.value.where) == ("Order", "step place_order#1")
    assert data == kept


def test_stored_bytes_name_no_class_and_import_nothing():  # proves: C30
    data, _ = codec_for(Basket).write(Basket(INVOICE, {}))
    assert b"Basket" not in data and b"test_values" not in data

    hostile = b'{"__class__":"os.system","__reduce__":["antigravity"],"py/object":"antigravity.geohash"}'
    assert type(codec_for(Any).read(hostile)) is dict
    assert "antigravity" not in sys.modules


# Declaring


class Plain:
    pass


@pytest.mark.parametrize(
    ("type_", "named"),
    [
        (Plain, "Plain"),
        (list[Plain], "Plain"),
        (complex, "complex"),
        (Ratio, "Enums"),
        (Started, "InitVar"),
        (Order | Place, "union"),
        (dt.datetime | str, "union"),
        (Invoice | int, "union"),
        (dict[bool, int], "keys of Bool"),
        (dict[Place, int], "keys of Dataclass"),
        (dict[int | None, int], "keys of Union"),
        (collections.deque, "deque"),
        (msgspec.Raw, "Raw"),
        (list[memoryview], "MemoryView"),
        (Callable, "Callable"),
    ],
    ids=repr,
)
def test_a_type_without_a_stored_form_is_refused_when_it_is_declared(type_, named):  # proves: RUN-12
    with pytest.raises(DeclarationRefused) as caught:
        codec_for(type_)

    assert named in str(caught.value)


def returns_place(run: object, where: Place, tags: set[str]) -> Place: ...  # type: ignore[empty-body]
def returns_unknown(run: object, where: Place) -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
def takes_unknown(run: Missing, where: Place) -> Place: ...  # type: ignore[name-defined,empty-body]  # noqa: F821
def returns_nothing(run: object) -> None: ...
def says_nothing(run, where): ...
def returns_later() -> Awaitable[tuple[int, int]]: ...  # type: ignore[empty-body]
async def returns_place_later() -> Annotated[Place, "where"]: ...  # type: ignore[empty-body]


class Called:
    def __call__(self, where: Place) -> tuple[int, ...]: ...  # type: ignore[empty-body]

    def method(self, where: Place) -> Colour: ...  # type: ignore[empty-body]


@functools.wraps(returns_place)
def wrapped(*args: Any) -> Any: ...


def test_the_type_of_a_result_is_its_annotation():  # proves: RUN-12
    place = Place(x=3)

    for fn in (returns_place, takes_unknown, returns_place_later, wrapped, functools.partial(returns_place, None)):
        assert codec_of_return(fn).write(place)[1] == place
    assert codec_of_return(returns_nothing).write(None)[0] == b"null"
    assert codec_of_return(returns_later).write((1, 2))[1] == (1, 2)
    assert codec_of_return(Called()).write((1,))[1] == (1,)
    assert codec_of_return(Called().method).write(Colour.RED)[1] is Colour.RED
    assert codec_of_return(says_nothing).type_name == "JSON"
    assert codec_of_return(len).type_name == "JSON"


def test_the_type_of_an_input_is_its_annotation():  # proves: RUN-12
    assert codec_of_parameter(returns_place, 1).write(Place(x=1))[1] == Place(x=1)
    assert codec_of_parameter(returns_place, 2).write({"a"})[1] == {"a"}
    assert codec_of_parameter(Called().method, 0).type_name == "Place"
    assert codec_of_parameter(says_nothing, 1).type_name == "JSON"
    with pytest.raises(DeclarationRefused):
        codec_of_parameter(returns_nothing, 1)


def test_a_name_that_can_not_be_resolved_is_refused_when_it_is_declared():
    with pytest.raises(DeclarationRefused) as caught:
        codec_of_return(returns_unknown)

    assert "returns_unknown" in str(caught.value) and "Missing" in str(caught.value)


def test_a_class_inside_a_function_is_found_where_the_function_uses_it():
    @dataclasses.dataclass
    class Inner:
        x: int

    def uses(run: object) -> Inner:
        return Inner(later)

    assert codec_of_return(uses).type_name.endswith("Inner")  # while `later` has no value yet
    later = 1
    assert uses(None) == codec_of_return(uses).write(Inner(1))[1]


def test_one_type_has_one_codec():
    assert codec_for(list[int]) is codec_for(list[int])
    assert codec_for(Any) is codec_for(Any)
    assert codec_for(Annotated[int, ["unhashable"]]).write(1) == (b"1", 1)
    assert codec_for(typing.List[int]).write([1])[1] == [1]  # noqa: UP006
