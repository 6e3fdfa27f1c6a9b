"""Alphabets: which letters can pass for Latin ones, and which nobody takes for one.

Of the alphabets that are written beside Latin the letters are known that look like none of its. What is not known to
look like none can pass for one: what Unicode gets tomorrow is no gap.
"""

from __future__ import annotations

import unicodedata

# Scripts, and signs for units, by the first word of their names, that honest text writes into a Latin word: those that
# are written without blanks, and those that take up a foreign word with an ending of their own. No other script is.
JOINED = frozenset(
    [
        "BALINESE",
        "BENGALI",
        "BOPOMOFO",
        "CJK",
        "DEVANAGARI",
        "ETHIOPIC",
        "GUJARATI",
        "GURMUKHI",
        "HALFWIDTH",
        "HANGUL",
        "HIRAGANA",
        "IDEOGRAPHIC",
        "JAVANESE",
        "KANNADA",
        "KATAKANA",
        "KATAKANA-HIRAGANA",
        "KHMER",
        "LAO",
        "MALAYALAM",
        "MEETEI",
        "MICRO",
        "MODIFIER",
        "MONGOLIAN",
        "MYANMAR",
        "NEW",
        "OHM",
        "ORIYA",
        "SINHALA",
        "SUNDANESE",
        "SYRIAC",
        "TAI",
        "TAMIL",
        "TELUGU",
        "THAANA",
        "THAI",
        "TIBETAN",
        "VERTICAL",
        "YI",
    ]
)
# Scripts in use of which no letter is drawn like a Latin one, beside those.
_PLAIN = JOINED | {"", "ALEF", "ARABIC", "BET", "DALET", "GEORGIAN", "GIMEL", "HEBREW", "HENTAIGANA"}
# Letters of today's Greek, Cyrillic and Armenian that nobody takes for a Latin one.
_PLAIN_LETTERS = frozenset(
    "ΓΔΘΛΞΠΣΦΨΩβγδεζηθλμξπσςτφψω"
    "БГДЖЗИЙЛПФЦЧШЩЪЫЬЭЮЯбвгджзийклмнптфцчшщъыьэюя"
    "ЂђЄєЉљЊњЋћЏџҐґҒғҖҗҚқҢңӨөҰұҲҳҶҷҸҹӘә"
    "ԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՎՏՐՑՒՓՔՖաբգդեզէըթժիլխծկձղճմնշչպջռվտրւփքֆև"
) - frozenset("ԶՏզգռք")
_ALPHABETS = frozenset({"ARMENIAN", "CYRILLIC", "GREEK"})
# Other scripts that people write today. Their own texts are ordinary, but for words of twins alone.
_WRITTEN = frozenset(
    [
        "ADLAM",
        "BAMUM",
        "BATAK",
        "CANADIAN",
        "CHAKMA",
        "CHAM",
        "CHEROKEE",
        "HANIFI",
        "KAYAH",
        "LEPCHA",
        "LIMBU",
        "LISU",
        "MANDAIC",
        "MENDE",
        "MIAO",
        "MRO",
        "NEWA",
        "NKO",
        "NYIAKENG",
        "OL",
        "OSAGE",
        "PAHAWH",
        "PAU",
        "SAMARITAN",
        "SAURASHTRA",
        "SORA",
        "SYLOTI",
        "TIFINAGH",
        "TOTO",
        "VAI",
        "WANCHO",
    ]
)
LIVING = _ALPHABETS | _WRITTEN  # scripts that have letters like Latin ones, and names of their own today
# Letters of these that are drawn like a Latin one.
_TWINS = frozenset(
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"  # Lisu
    "ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏃᏎᏏᏒᏔᏙᏚᏞᏟᏢᏦᏧᏴ"  # Cherokee
    "ⲟⲞⲥⲤⲣⲢⲎⲒⲔⲘⲚⲦⲬ"  # Coptic
)


def script_of(letter: str) -> str:
    """The first word of its name, "" where it has none."""
    return unicodedata.name(letter, "").partition(" ")[0]


def can_pass(letter: str, *, is_beside_latin: bool) -> bool:
    """Whether a letter that is no Latin one can be taken for one.

    is_beside_latin: whether the text has Latin letters. Where it has none, it may be a text of the letter's own script.
    """
    script = script_of(letter)
    if script in _PLAIN:
        return False
    if script in _ALPHABETS:
        bare = unicodedata.normalize("NFD", letter)[0]
        return bare not in _PLAIN_LETTERS and (is_beside_latin or bare == letter)
    return is_beside_latin or script not in _WRITTEN or letter.upper() in _TWINS or letter in _TWINS
