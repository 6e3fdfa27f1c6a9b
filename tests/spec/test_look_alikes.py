"""What looks like a letter, a digit or what parts digits, in whatever script: named inside Latin words and numbers."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from remit.authority.suspicious import suspicious

# Letters and numerals that Unicode's table of confusables (confusables.txt) folds to one of ASCII, and NFKC does not.
AS_LETTERS = (
    "\u0131\u0184\u018d\u0196\u01a6\u01bd\u01c0\u0251\u0261\u0263\u0269\u026a\u026f\u028b\u028f\u037a\u037f"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1\u03b3\u03b9"
    "\u03bd\u03bf\u03c1\u03c3\u03c5\u03d2\u03dc\u03f1\u03f2\u03f3\u03f9\u03fa\u0405\u0406\u0408\u0410\u0412"
    "\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u042c\u0430\u0433\u0435\u043e\u0440\u0441"
    "\u0443\u0445\u0455\u0456\u0458\u0461\u0474\u0475\u04ae\u04af\u04bb\u04bd\u04c0\u04cf\u0501\u050c\u051b"
    "\u051c\u051d\u054d\u054f\u0555\u0561\u0563\u0566\u0570\u0578\u057c\u057d\u0581\u0584\u0585\u0b20\u0d20"
    "\u101d\u10e7\u10ff\u1200\u12d0\u13a0\u13a1\u13a2\u13a5\u13a9\u13aa\u13ab\u13ac\u13b3\u13b7\u13bb\u13bd"
    "\u13c0\u13c2\u13c3\u13cf\u13d2\u13d4\u13d5\u13d9\u13da\u13de\u13df\u13e2\u13e6\u13e7\u13f3\u13f4\u142f"
    "\u144c\u146d\u146f\u1472\u148d\u14aa\u1541\u157c\u157d\u1587\u15af\u15b4\u15c5\u15de\u15ea\u15f0\u15f7"
    "\u16b7\u16c1\u16d5\u16d6\u1d04\u1d0f\u1d11\u1d1c\u1d20\u1d21\u1d22\u1d26\u1d83\u1d8c\u1e9d\u1eff\u1fbe"
    "\u213d\u2c85\u2c8e\u2c92\u2c94\u2c98\u2c9a\u2c9e\u2c9f\u2ca2\u2ca3\u2ca4\u2ca5\u2ca6\u2ca8\u2cac\u2cd0"
    "\u2d38\u2d39\u2d4f\u2d54\u2d55\u2d5d\u3007\ua4d0\ua4d1\ua4d2\ua4d3\ua4d4\ua4d6\ua4d7\ua4d9\ua4da\ua4dc"
    "\ua4dd\ua4df\ua4e0\ua4e1\ua4e2\ua4e3\ua4e6\ua4e7\ua4ea\ua4eb\ua4ec\ua4ee\ua4f0\ua4f2\ua4f3\ua4f4\ua647"
    "\ua6df\ua731\ua798\ua799\ua79f\ua7b2\ua7b3\ua7b4\uab32\uab35\uab3d\uab47\uab48\uab4e\uab52\uab5a\uab75"
    "\uab81\uab83\uab93\uaba9\uabaa\uabaf\U00010282\U00010286\U00010287\U0001028a\U00010290\U00010292"
    "\U00010295\U00010296\U00010297\U000102a0\U000102a1\U000102a2\U000102a5\U000102ab\U000102b0\U000102b1"
    "\U000102b2\U000102b4\U000102cf\U000102f5\U00010301\U00010302\U00010309\U00010311\U00010315\U00010317"
    "\U00010320\U00010322\U00010404\U00010415\U0001041b\U00010420\U0001042c\U0001043d\U00010448\U000104b4"
    "\U000104c2\U000104ce\U000104ea\U000104f6\U00010513\U00010516\U00010518\U0001051c\U0001051d\U00010525"
    "\U00010526\U00010527\U00011706\U0001170a\U0001170e\U0001170f\U000118a0\U000118a2\U000118a3\U000118a4"
    "\U000118a6\U000118a9\U000118ae\U000118b2\U000118b5\U000118b8\U000118bc\U000118c0\U000118c1\U000118c2"
    "\U000118c3\U000118c4\U000118c8\U000118d7\U000118d8\U000118dc\U000118ec\U000118ef\U000118f2\U00016f08"
    "\U00016f0a\U00016f16\U00016f28\U00016f35\U00016f3a\U00016f40\U00016f42\U00016f43"
)
AS_DIGITS = (
    "\u01a7\u01b7\u01bc\u021c\u0222\u0223\u03e8\u0417\u0431\u04e0\u13ce\u13ee\u14bf\u2cca\u2ccc\u2cd2\ua644"
    "\ua6ef\ua75a\ua76a\ua76e\ua7ab\U0001031a\U000104d2\U000118ac\U000118af\U000118bb\U000118c6\U000118ca"
    "\U000118cc\U000118d5\U000118d6\U00016f3b"
)
# Letters of Latin alphabets of Europe that are no ASCII letter with marks.
EUROPEAN = "ÆæÐðØøÞþßẞĐđĦħŁłŊŋŒœŦŧǤǥ"
KEPT = "\u013f\u0140\u0149"  # with a dot or an apostrophe beside an ASCII letter


def lettered() -> list[str]:
    """All letters and numerals but ideographs and Hangul syllables."""
    points = (chr(point) for point in range(0x80, sys.maxunicode))
    return [c for c in points if unicodedata.category(c)[0] in "LN" and "IDEOGRAPH-" not in unicodedata.name(c, "")]


def is_named(text: str, character: str) -> bool:
    return f"U+{ord(character):04X}" in [found.code for found in suspicious(text)]


@pytest.mark.parametrize("character", AS_LETTERS, ids=lambda c: f"{ord(c):04X}")
def test_what_is_drawn_like_a_latin_letter_is_named_inside_a_latin_word(character: str):  # proves: APR-5
    for word in (f"Ac{character}me", f"{character}cme", f"Acm{character}", f"GB{character}{character}29"):
        assert is_named(word, character), ascii(word)


@pytest.mark.parametrize("character", AS_DIGITS, ids=lambda c: f"{ord(c):04X}")
def test_what_is_drawn_like_a_digit_is_named_between_digits(character: str):  # proves: APR-5
    assert is_named(f"5{character}00", character) and is_named(f"1{character}{character}2", character)


def test_no_numeral_but_ascii_s_and_fractions_stands_beside_ascii_without_being_named():  # proves: APR-5
    numerals = [c for c in lettered() if unicodedata.category(c)[0] == "N"]
    missed = [c for c in numerals if not all(is_named(text, c) for text in (f"1{c}00", f"DE{c}{c}1", f"A{c}", f"{c}5"))]
    assert {c for c in missed if "FRACTION" not in unicodedata.name(c)} == set()
    assert len(numerals) > 1_000


def test_no_latin_letter_but_accented_ones_and_those_of_europe_stands_anywhere_without_being_named():  # proves: APR-5
    latin = [c for c in lettered() if unicodedata.name(c, "").startswith(("LATIN", "FULLWIDTH LATIN", "MATHEMATICAL"))]
    missed = {c: unicodedata.normalize("NFKD", c) for c in latin if not is_named(c, c)}
    bare = {c: [part for part in parts if unicodedata.category(part) != "Mn"] for c, parts in missed.items()}
    assert {part for parts in bare.values() for part in parts if not part.isascii()} <= set(EUROPEAN + "\u00b7\u02bc")
    assert set(EUROPEAN + KEPT) <= missed.keys() and "\u01fc" in missed and "\u1ebf" in missed


def test_no_modifier_parts_two_digits_without_being_named():  # proves: APR-5
    modifiers = [c for c in lettered() if unicodedata.name(c, "").startswith("MODIFIER LETTER")]
    assert [c for c in modifiers if not is_named(f"1{c}000", c)] == [] and len(modifiers) > 100


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Paypa\u01c0", [("U+01C0", "look-alike")]),
        ("Paypa\u0196", [("U+0196", "look-alike")]),
        ("DE\u3007\u3007123", [("U+3007", "digit")] * 2),
        ("100\u3007\u5186", [("U+3007", "digit")]),  # yen: ten times as many
        ("5\ua78f000", [("U+A78F", "look-alike")]),
        ("http\ua789//acme", [("U+A789", "look-alike")]),
        ("1\u02bc000", [("U+02BC", "digit")]),
        ("\u0421\u0443\u043c\u043c\u0430 5\u041e0 \u0440\u0443\u0431.", [("U+041E", "digit")]),
        ("1\u04170", [("U+0417", "digit")]),
        ("Acm\u0c02e", [("U+0C02", "look-alike")]),
        ("12\u0a8330", [("U+0A83", "look-alike")]),
        ("Acm\u1200e", [("U+1200", "look-alike")]),
        ("1\u0b200", [("U+0B20", "look-alike")]),
        ("\U0001d6b8ay", [("U+1D6B8", "look-alike")]),
    ],
)
def test_a_numeral_a_click_and_a_dot_that_are_not_what_they_seem_are_named(text: str, found: list[tuple[str, str]]):
    # proves: APR-5
    assert [(each.code, each.trick) for each in suspicious(text)] == found


@pytest.mark.parametrize(
    "text",
    [
        "二〇二四年一月一日、〇〇株式会社",
        "請求書3枚（Eメールで送付）、iPhone用ケース、PCノート",
        "5丁目3ノ2、 1ー2ー3、 2024年11月30日",
        "NTT東日本のATMで3万5000円",
        "丨 一 丶",
        "Đường số 5, phường Bến Nghé, Quận 1, ơ ư",
        unicodedata.normalize("NFD", "Nguyễn Văn Đức trả 5.000.000 ₫"),
        "Zażółć gęślą jaźń, 1 234,50 zł",
        "5ο Δημοτικό Σχολείο, 1.200,50 €",
        "доска 10х20 см, 5б класс, 3Б",
        "ООО «Ромашка», кв. 30, стр. 3а",
        "мʼята, п'ять",
        "Apple을 2024년 3월에, OK ㅇㅇ",
        "ABC은행 5만원",
        "โอน5000บาทผ่านATMได้",
        "ATMमें 5000 रुपये, नमः, अं",
        "Facebookဝယ် ဝန်ဆောင်မှု",
        "ATMൽ 500 രൂപ, ഠാണാ",
        "የCOVID ክትባት ሀገር",
        "Þórður, Ærø, Œuvre, Straße, Łódź, Ħal, Ŋ",
        "5½ cups, ¾",
        "Señor, Ångström, čaj, ǆ",
        "İstanbul, ışık",
        "5 µm, 3 k\u2126",
        "1444هـ 1.000 ريال",
        "שלום 5 ימים",
    ],
)
def test_ordinary_text_names_nobody(text: str):  # proves: APR-5
    assert suspicious(text) == []


def named(text: str) -> str:
    """What of it is named."""
    return "".join(text[found.position] for found in suspicious(text))


@pytest.mark.parametrize(
    "word",
    [
        "\u0391\u03f9\u0395",  # with a lunate sigma
        "\u03fd\u0391",
        "\u0410\u04af\u0430",
        "\u04ae\u04af",
        "\u0501\u0461",
        "\uab7a\uabaf\uab87\uab7c",  # Cherokee, small
        "\u13aa\u13df\u13b7\u13ac",
        "\u2c80\u2ca4\u2c98\u2c88",  # Coptic
        "\ua4ee\ua4da\ua4df\ua4f0",
        "\U00010300\U00010302\U0001030c\U00010304",  # Old Italic
        "\U000118a0\U000118c2",  # Warang Citi
        "\U00010429\U0001042f",  # Deseret
    ],
)
@pytest.mark.parametrize("around", ["{}", "{} Ltd", "pay {}, now", "{}-24"])
def test_a_word_of_letters_that_can_all_pass_for_latin_ones_is_named(word: str, around: str):  # proves: APR-5
    assert named(around.format(word)) == word


PLAIN = ("GEORGIAN", "ETHIOPIC", "MYANMAR", "MALAYALAM", "ORIYA", "IDEOGRAPHIC")
ORDINARY = "\u03b3\u03c3\u0433\u042c\u0561\u054f\u057c"
# No numerals, and no letters that are written beside Latin words.
APART = [c for c in AS_LETTERS if c.isalpha() and unicodedata.name(c).split()[0] not in PLAIN and c not in ORDINARY]


@pytest.mark.parametrize("character", APART, ids=lambda c: f"{ord(c):04X}")
def test_a_word_of_what_is_drawn_like_latin_letters_is_named_beside_latin_words(character: str):  # proves: APR-5
    assert named(f"{character} Ltd").startswith(character) and named(f"pay {character * 3}") == character * 3


@pytest.mark.parametrize("script", ["TIFINAGH", "VAI", "OSAGE", "RUNIC", "GOTHIC", "CARIAN", "LYCIAN"])
def test_a_word_of_a_script_that_nobody_knows_to_look_otherwise_is_named_beside_latin_words(script: str):
    # proves: APR-5
    letters = [c for c in lettered() if c.isalpha() and unicodedata.name(c, "").startswith(f"{script} ")]
    assert [c for c in letters if named(f"{c}{c} Ltd") != c * 2] == [] and len(letters) > 20


@pytest.mark.parametrize(
    ("text", "deceiving"),
    [
        ("1234567\u0431", "\u0431"),
        ("\u04311234567", "\u0431"),
        ("\u041700 EUR", "\u0417"),
        ("\u041700", "\u0417"),
        ("\u041700 \u0440\u0443\u0431\u043b\u0435\u0439", "\u0417"),  # in a Russian text, in front of a number
        ("GB29 NWBK \u0417016", "\u0417"),
        ("100\u03bf", "\u03bf"),
        ("5\u0445", "\u0445"),
        ("10\u0445", "\u0445"),
        ("A1\u04af", "\u04af"),
    ],
)
def test_a_letter_that_passes_for_one_of_a_number_is_named_at_its_ends(text: str, deceiving: str):  # proves: APR-5
    assert named(text) == deceiving


@pytest.mark.parametrize(
    ("text", "deceiving"),
    [
        ("acme\u2024com", "\u2024"),
        ("acme.com\u2024", "\u2024"),
        ("acme\uff0ecom", "\uff0e"),
        ("acme\ufe52com", "\ufe52"),
        ("acme\uff0dcorp", "\uff0d"),
        ("acme\uff3fcorp", "\uff3f"),
        ("acme\u3002com", "\u3002"),
        ("acme\u06d4com", "\u06d4"),
        ("acme\u055dcom", "\u055d"),
        ("pay\uff20acme.com", "\uff20"),
        ("acme\u201acom", "\u201a"),
        ("https:\u2044\u2044acme.com", "\u2044\u2044"),
        ("https:\u2215\u2215acme.com", "\u2215\u2215"),
        ("acme\u2236443", "\u2236"),
    ],
)
def test_a_sign_that_passes_for_one_of_ascii_is_named_beside_it(text: str, deceiving: str):  # proves: APR-5
    assert named(text) == deceiving


@pytest.mark.parametrize(
    "text",
    [
        "Съешь ещё этих булок, д. 5б, кв. 3а, АС",
        "Её",
        "Її, ў",
        "Монгол улсын үр, үү",
        "Ναί, ά, Τα νέα, 21ο Γυμνάσιο, 1.200,50 €",
        "Սա Հայաստան է",
        "ᏣᎳᎩ ꭳꮃꭹ ᎪᎢ",
        "ᐃᓄᒃᑎᑐᑦ ⵜⴰⵎⴰⵣⵉⵖⵜ",
        "1444ه, 5 ლარი",
        "中文：3张，Q＆A、A・B。ATM（现金）",
        "中文 A：B A／B",
        "Invoice from Ромашка, Δ = 5, β-version, π",
        "O’Neil – “Smith” — paral·lel, l’été, 10×20, 5 µm, 1⁄2, a→b, a•b, …and",
        "Na⁺",
        "Zürich £5 €5 ₪5 100₪5 🎉 ßł",
    ],
)
def test_ordinary_letters_and_signs_of_any_script_name_nobody(text: str):  # proves: APR-5
    assert named(text) == ""
