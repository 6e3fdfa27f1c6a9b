"""Pages of the documentation, as tests read them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_CODE = re.compile(r"`([^`]*)`")


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next heading of any level."""
    match = re.search(rf"^##+ {re.escape(heading)}$\n(.*?)(?=^##+ |\Z)", read(page), re.MULTILINE | re.DOTALL)
    assert match, f"{page} has no section {heading!r}"
    return match[1]


def table(page: str, heading: str) -> list[tuple[str, ...]]:
    """The rows of the first table under a heading. A cell that is one piece of code loses its marks."""
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    rows = [tuple(_bare(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]) for line in lines[2:]]
    assert rows, f"{page} has no table under {heading!r}"
    return rows


def _bare(cell: str) -> str:
    cell = cell.strip()
    code = _CODE.fullmatch(cell)
    return code[1] if code else cell
