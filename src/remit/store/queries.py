"""Queries: every statement stands in an .sql file, under a name and a line of purpose.

A file is a row of blocks; a block begins with its name and ends at the next one:

    -- name: advance
    -- Move the end of lane main, if head, epoch and lease are as the unit says.
    UPDATE run SET ...;

Values are bound, never written into a statement.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def load_queries(dialect: str) -> dict[str, str]:
    """The statements of `sql/<dialect>/queries.sql` by name, without comments and the closing semicolon."""
    text = files("remit.store").joinpath("sql", dialect, "queries.sql").read_text("utf-8")
    return parse_queries(text)


def parse_queries(text: str) -> dict[str, str]:
    """Blocks by name.

    >>> parse_queries("-- name: one\\n-- The number one.\\nSELECT 1;")
    {'one': 'SELECT 1'}
    """
    parts = _NAME.split(text)[1:]
    found: dict[str, str] = {}
    for name, block in zip(parts[::2], parts[1::2], strict=True):
        lines = [line for line in block.strip().splitlines() if line.strip()]
        assert name not in found, f"two statements are named {name}"
        assert lines[0].startswith("-- "), f"{name} does not say what it is for"
        found[name] = "\n".join(line for line in lines if not line.startswith("--")).removesuffix(";")
    return found
