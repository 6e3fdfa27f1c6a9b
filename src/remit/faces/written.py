"""Written rules: files that people write, read here, because the pure rooms touch no disk."""

from __future__ import annotations

from pathlib import Path

from remit.authority.contract import Contract
from remit.authority.written import contract_from_toml
from remit.errors import DeclarationRefused, Refused


def load_contract(path: str | Path) -> Contract:
    """The contract that a TOML file declares: `@remit.flow(contract=remit.load_contract("purchase.toml"))`.

    path: from the current folder on. Raises DeclarationRefused: `contract.file` where the file can't be read,
    `contract.toml` naming the place of what can't be understood, and all that Contract raises.
    """
    try:
        text = text_of(Path(path), code="contract.file")
    except Refused as refusal:
        raise DeclarationRefused(refusal.message, code=refusal.code, hint=refusal.hint) from refusal
    return contract_from_toml(text)


def text_of(path: Path, *, code: str) -> str:
    """What stands in a file, as text, without the mark that some editors begin it with. Raises Refused under `code`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as exc:
        hint = "Correct the path, or write the file as UTF-8."
        raise Refused(f"{str(path)!r} can't be read: {exc}; nothing was done.", code=code, hint=hint) from exc
