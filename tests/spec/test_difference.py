"""The difference that an approver is shown: complete, exact in its types, and honest about characters."""

from __future__ import annotations

import copy
import doctest
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from remit.authority import difference as difference_module
from remit.authority import suspicious as suspicious_module
from remit.authority.difference import Change, Difference, difference, shown_digest
from remit.authority.leaves import leaves_of, path_text, value_of
from remit.authority.suspicious import suspicious
from remit.faces.documents import suspects_of
from remit.facts.judgement import Bound

encode = msgspec.json.Encoder(order="sorted").encode
decode = msgspec.json.decode


def lines(old: Any, new: Any, immaterial: list[str] | None = None) -> list[tuple[str, str | None, str | None]]:
    found = difference(encode(old), encode(new), immaterial or [])
    return [(change.path, change.old, change.new) for change in found.changes]


def test_each_change_has_a_path_and_both_values_and_the_rest_is_counted():  # proves: APR-5
    old = {"amount": 3_800_000, "lines": [{"sku": "A-1", "n": 1}], "note": "soon", "to": "Acme"}
    new = {"amount": 2_500_000, "lines": [{"sku": "A-1", "n": 2}], "note": "now", "to": "Acme"}
    assert difference(encode(old), encode(new), ["note"]) == Difference(
        (
            Change(("amount",), "3800000", "2500000", True),
            Change(("lines", 0, "n"), "1", "2", True),
            Change(("note",), '"soon"', '"now"', False),
        ),
        unchanged=2,
    )
    assert difference(encode(old), encode(old), ["note"]) == Difference((), unchanged=5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1, 1.0),
        (1, "1"),
        (1, True),
        (0, False),
        (None, "null"),
        (None, {}),
        ([], {}),
        (0.0, -0.0),
        ("", None),
        ("a", "a\u200b"),
    ],
)
def test_what_looks_alike_and_is_not_is_a_change(old: Any, new: Any):  # proves: APR-5
    assert lines({"x": old}, {"x": new}) == [("$.x", encode(old).decode(), encode(new).decode())]


def test_null_is_not_absent():  # proves: APR-5
    assert lines({"x": None, "y": 1}, {"y": 1}) == [("$.x", "null", None)]
    assert lines({"y": 1}, {"x": None, "y": 1}) == [("$.x", None, "null")]


def test_items_of_lists_are_compared_by_position():  # proves: APR-5
    assert lines([1, 2, 3], [2, 3]) == [("$[0]", "1", "2"), ("$[1]", "2", "3"), ("$[2]", "3", None)]


def test_a_value_that_becomes_a_container_is_shown_leaf_by_leaf():  # proves: APR-5
    assert lines({"x": 5}, {"x": {"a": [1], "b": 2}}) == [
        ("$.x", "5", None),
        ("$.x.a[0]", None, "1"),
        ("$.x.b", None, "2"),
    ]
    assert lines({"x": {"a": 1}}, {"x": {}}) == [("$.x", None, "{}"), ("$.x.a", "1", None)]
    assert lines({"0": 1}, [1]) == [("$[0]", None, "1"), ('$["0"]', "1", None)]


def test_keys_and_positions_can_be_told_apart_in_a_path():  # proves: APR-5
    assert path_text(("lines", 0, "amount")) == "$.lines[0].amount"
    assert path_text(("0", "a.b", "a]", "", "dаta")) == '$["0"]["a.b"]["a]"][""]["d\\u0430ta"]'
    assert path_text(()) == "$"


def test_whoever_never_looked_is_shown_all():  # proves: APR-5
    assert difference(None, b'{"a":1,"b":[]}') == Difference(
        (Change(("a",), None, "1", True), Change(("b",), None, "[]", True)), unchanged=0
    )


def test_deep_and_large_requests_are_compared_to_the_end():  # proves: APR-5
    deep: Any = 1
    for _ in range(190):
        deep = {"a": [deep]}
    deeper = copy.deepcopy(deep)
    place = deeper
    while isinstance(place["a"][0], dict):
        place = place["a"][0]
    place["a"][0] = 2
    [(path, old, new)] = lines(deep, deeper)
    assert (path.count(".a[0]"), old, new) == (190, "1", "2")
    wide = {f"k{number}": number for number in range(20_000)}
    assert lines(wide, {**wide, "k19999": 0}) == [("$.k19999", "19999", "0")]
    text = "x" * 100_000
    assert lines({"t": text + "a"}, {"t": text + "b"}) == [("$.t", f'"{text}a"', f'"{text}b"')]


def test_immaterial_is_a_field_with_all_below_it_and_nothing_beside_it():  # proves: APR-1, APR-5
    old = {"note": {"a": [1]}, "notes": 1, "order": {"note": 1}}
    new = {"note": {"a": [2]}, "notes": 2, "order": {"note": 2}}
    found = {change.path: change.is_material for change in difference(encode(old), encode(new), ["note"]).changes}
    assert found == {"$.note.a[0]": False, "$.notes": True, "$.order.note": True}


keys = st.text(max_size=3) | st.sampled_from(["0", "a", "a.b", "note"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)


def applied(old: bytes | None, changes: tuple[Change, ...]) -> bytes:
    leaves = {} if old is None else leaves_of(old)
    for change in changes:
        assert leaves.get(change.place) == change.old
        if change.old is not None:
            del leaves[change.place]
    leaves.update({change.place: change.new for change in changes if change.new is not None})
    return value_of(leaves)


@given(st.none() | values.map(encode), values.map(encode))
def test_the_changes_applied_to_the_old_request_give_the_new_one(old: bytes | None, new: bytes):  # proves: APR-5
    found = difference(old, new, ["note"])
    assert applied(old, found.changes) == new
    assert found.unchanged + len([change for change in found.changes if change.new is not None]) == len(leaves_of(new))
    assert (found.changes == ()) is (old == new)
    assert all(change.old != change.new for change in found.changes)


@given(values)
def test_a_value_is_its_leaves(value: Any):
    assert value_of(leaves_of(encode(value))) == encode(value)


BOUND = Bound(effect="pay", request="r1", shown="s1")
ANOTHER: dict[str, Any] = {
    "connector": "c2",
    "contract": "c2",
    "effect": "refund",
    "evidence": {"quote": "e2"},
    "immaterial": ["note"],
    "material": "m2",
    "policy": "p2",
    "policy_set": 9,
    "request": "r2",
    "roles": [["cfo"]],
    "version": "2",
    "within": 7,
}


def test_what_is_shown_has_one_digest_and_any_other_thing_has_another():  # proves: APR-1
    salt = b"salt of 16 bytes"
    first = shown_digest(BOUND, b'{"amount":5}', call="pay#2", salt=salt)
    assert len(first) == 64
    assert first == shown_digest(replace(BOUND, shown="s2"), b'{"amount":5}', call="pay#2", salt=salt)
    assert {field.name for field in fields(Bound)} == {*ANOTHER, "shown"}
    others = [
        shown_digest(replace(BOUND, **{name: value}), b'{"amount":5}', call="pay#2", salt=salt)
        for name, value in ANOTHER.items()
    ]
    others += [
        shown_digest(BOUND, b'{"amount":6}', call="pay#2", salt=salt),
        shown_digest(BOUND, b'{"amount":5}', call="pay", salt=salt),
        shown_digest(BOUND, b'{"amount":5}', call="pay#2", salt=b"another salt 16b"),
    ]
    assert len({first, *others}) == 1 + len(others)


@pytest.mark.parametrize(
    ("text", "code", "trick"),
    [
        ("pay 5\u202e00", "U+202E", "direction"),
        ("\u2066x", "U+2066", "direction"),
        ("\u200fx", "U+200F", "direction"),
        ("Ac\u200bme", "U+200B", "invisible"),
        ("Ac\u200dme", "U+200D", "invisible"),
        ("Ac\u00adme", "U+00AD", "invisible"),
        ("\ufeffAcme", "U+FEFF", "invisible"),
        ("Ac\u3164me", "U+3164", "invisible"),
        ("Acme\ufe0f", "U+FE0F", "invisible"),
        ("Acme\U000e0100", "U+E0100", "invisible"),
        ("Acme\ue000", "U+E000", "invisible"),
        ("Acme\U000e0061", "U+E0061", "tag"),
        ("Acme\x1b[2K", "U+001B", "control"),
        ("Acme\r", "U+000D", "control"),
        ("Acme\x00", "U+0000", "control"),
        ("Acme\x9b2K", "U+009B", "control"),
        ("1\u00a0000", "U+00A0", "space"),
        ("a\u2028b", "U+2028", "space"),
        ("5\u0660", "U+0660", "digit"),
        ("5\uff10", "U+FF10", "digit"),
        ("5\u2070", "U+2070", "digit"),
        ("5\u0336", "U+0336", "mark"),
        ("5\u20e0", "U+20E0", "mark"),
        ("P\u0430t", "U+0430", "look-alike"),
        ("\u0391cme", "U+0391", "look-alike"),
        ("\u15c5cme", "U+15C5", "look-alike"),  # Canadian syllabics
        ("\u2d54cme", "U+2D54", "look-alike"),  # Tifinagh
        ("\U00010300cme", "U+10300", "look-alike"),  # Old Italic
        ("\uff21cme", "U+FF21", "look-alike"),
        ("\U0001d400cme", "U+1D400", "look-alike"),
        ("\u212aent", "U+212A", "look-alike"),
    ],
)
def test_a_character_that_deceives_is_found_and_named(text: str, code: str, trick: str):  # proves: APR-5
    [found] = suspicious(text)
    assert (found.code, found.trick) == (code, trick)
    assert text[found.position] == chr(int(code[2:], 16))


def test_a_word_that_only_passes_for_a_latin_one_is_found_beside_latin_words():  # proves: APR-5
    assert [found.position for found in suspicious("pay \u0441\u043e\u0440 now")] == [4, 5, 6]
    assert suspicious("\u0441\u043e\u0440, \u0436\u0434\u0438") == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("\u0410\u0421\u041c\u0415", ["U+0410", "U+0421", "U+041C", "U+0415"]),
        ("\u0410\u0421\u041c\u0415-24", ["U+0410", "U+0421", "U+041C", "U+0415"]),
        ("\ua4ee\ua4da\ua4df\ua4f0", ["U+A4EE", "U+A4DA", "U+A4DF", "U+A4F0"]),
        ("Goo\u0261le", ["U+0261"]),
        ("F\u0131delity", ["U+0131"]),
        ("GB29 1\u066c000", ["U+066C"]),
        ("1\u201a000", ["U+201A"]),
    ],
)
def test_a_word_or_number_that_passes_for_another_is_found_also_alone(text: str, codes: list[str]):  # proves: APR-5
    assert [found.code for found in suspicious(text)] == codes


@pytest.mark.parametrize(
    "beside", ["\u0436", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440", "\u0416 \u0421"]
)
def test_what_stands_beside_a_look_alike_excuses_nothing(beside: str):  # proves: APR-5
    payee = "\u0410\u0421\u041c\u0415"
    for payload in ({"payee": payee, "note": beside}, {"payee": payee, beside: 1}, {"all": [beside, {payee: beside}]}):
        assert sum(count for (_, _, _, trick), count in suspects_of(payload).items() if trick == "look-alike") == 4


def test_a_document_in_another_script_is_not_suspicious():
    document = {
        "Плательщик": "ООО Ромашка",
        "Сумма": "1200,00 руб.",
        "Νόμισμα": ["Ευρώ", {"Σχόλιο": "ΑΝ ΟΧΙ, πες μου"}],
    }
    assert suspects_of(document) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Acme Ltd., £38,000.00",
        "line one\n\tline two",
        "Zürich, naïve, e\u0301",
        "Привет, мир",
        "Ελλάδα",
        "東京 株式会社",
        "ไทย",
        "שלום",
        "µ",
    ],
)
def test_ordinary_text_of_any_language_is_not_suspicious(text: str):
    assert suspicious(text) == []


@given(st.text())
def test_any_text_can_be_looked_at(text: str):
    found = suspicious(text)
    assert [each.position for each in found] == sorted({each.position for each in found})
    assert all(f"U+{ord(text[each.position]):04X}" == each.code for each in found)


@pytest.mark.parametrize("module", [difference_module, suspicious_module])
def test_the_examples_run(module: Any):
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 0
