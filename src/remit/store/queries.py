"""Queries: every statement stands in an .sql file, under a name and a line of purpose.

A file is a row of blocks; a block begins with its name and ends at the next one:

    -- part: held
    -- Nobody else has moved it.
    head = :head_before AND quarantined = 0

    -- name: advance
    -- Move the end of lane main, if head, epoch and lease are as the unit says.
    UPDATE run SET ... WHERE {held};

A part is text that several statements have in common: it takes the place of its name in
braces, in the blocks that come after it. Values are bound, never written into a statement.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_BLOCK = re.compile(r"^-- (name|part): (\w+)$", re.MULTILINE)
_BRACES = re.compile(r"\{(\w+)\}")


@cache
def load_queries(dialect: str) -> dict[str, str]:
    """The statements of `sql/<dialect>/queries.sql` by name, without comments and the closing semicolon."""
    text = files("remit.store").joinpath("sql", dialect, "queries.sql").read_text("utf-8")
    return parse_queries(text)


def parse_queries(text: str) -> dict[str, str]:
    """Statements by name.

    >>> parse_queries("-- part: n\\n-- Small.\\n1, 2\\n-- name: one\\n-- Numbers.\\nSELECT {n};")
    {'one': 'SELECT 1, 2'}
    """
    blocks = _BLOCK.split(text)[1:]
    found: dict[str, str] = {}
    parts: dict[str, str] = {}
    for kind, name, block in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
        lines = [line for line in block.strip().splitlines() if line.strip()]
        assert name not in found and name not in parts, f"two blocks are named {name}"
        assert lines[0].startswith("-- "), f"{name} does not say what it is for"
        bare = "\n".join(line for line in lines if not line.startswith("--")).removesuffix(";")
        whole = _BRACES.sub(lambda match: parts[match[1]], bare)
        (found if kind == "name" else parts)[name] = whole
    return found
