"""Plain: a run and its journal as plain JSON types, for stores whose content people look at.

    a run     {"tenant": ..., "run": ..., "gen": 1, "flow": ..., "by": ..., "status": ..., "code": ...,
               "quarantined": false, "opened_at": ..., "window_end": ..., "head": hex, "seq": ..., "post_head": hex,
               "post_seq": ..., "epoch": ..., "worker": null, "lease_until": 0, "main": [entry...], "post": [entry...]}
    an entry  {"header": text, "body": text, "salt": hex, "value": text}

Header, body and value are JSON already. They stand here as text and not as objects, because
their bytes are hashed: a tool that sorts keys or writes 1.0 as 1 must not reach into them.
`salt` and `value` are left out where there is none; a value that is not UTF-8 stands under
`value_base64`. An entry's seq is its place in its lane. Times are microseconds UTC.

What is read is checked for its form alone. Whether it is what was written, the chain says.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from remit.facts.entry import Entry, Lane
from remit.store.rows import RunRow
from remit.store.state import KeptRun


class Unreadable(ValueError):
    """Not a run in this form."""


class PlainEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    header: str
    body: str
    salt: str | None = None
    value: str | None = None
    value_base64: str | None = None


class PlainRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A run's row without its key, which is the store's affair."""

    tenant: str
    run: str
    gen: int
    flow: str
    by: str
    status: str
    code: str
    quarantined: bool
    opened_at: int
    window_end: int
    head: str
    seq: int
    post_head: str
    post_seq: int
    epoch: int
    worker: str | None
    lease_until: int


class PlainRun(PlainRow, frozen=True, forbid_unknown_fields=True, kw_only=True):
    main: list[PlainEntry]
    post: list[PlainEntry]


_ROW_FIELDS = tuple(name for name in PlainRow.__struct_fields__ if name not in ("head", "post_head"))


def plain_row(row: RunRow) -> PlainRow:
    same: dict[str, Any] = {name: getattr(row, name) for name in _ROW_FIELDS}
    return PlainRow(head=row.head.hex(), post_head=row.post_head.hex(), **same)


def plain_entry(entry: Entry) -> PlainEntry:
    salt = None if entry.salt is None else entry.salt.hex()
    header, body = entry.header.decode(), entry.body.decode()
    if entry.value is None:
        return PlainEntry(header, body, salt)
    try:
        return PlainEntry(header, body, salt, entry.value.decode())
    except UnicodeDecodeError:
        return PlainEntry(header, body, salt, None, b64encode(entry.value).decode())


def plain_run(row: RunRow, main: Sequence[Entry], post: Sequence[Entry]) -> dict[str, Any]:
    """A run as dicts and lists that nobody else holds."""
    lanes = {"main": [plain_entry(e) for e in main], "post": [plain_entry(e) for e in post]}
    made: dict[str, Any] = msgspec.to_builtins({**msgspec.structs.asdict(plain_row(row)), **lanes})
    return made


def kept_run(run: PlainRun, run_key: int) -> KeptRun:
    """The run that a document tells. Raises Unreadable."""
    try:
        same: dict[str, Any] = {name: getattr(run, name) for name in _ROW_FIELDS}
        head, post_head = bytes.fromhex(run.head), bytes.fromhex(run.post_head)
        row = RunRow(run_key=run_key, head=head, post_head=post_head, **same)
        return KeptRun(row, _lane("main", run.main), _lane("post", run.post))
    except ValueError as exc:  # not hex, not base64, a lone surrogate
        raise Unreadable(f"run {run.run!r}: {exc}") from None


def _lane(lane: Lane, entries: list[PlainEntry]) -> list[Entry]:
    return [_entry(lane, seq, entry) for seq, entry in enumerate(entries, 1)]


def _entry(lane: Lane, seq: int, entry: PlainEntry) -> Entry:
    salt = None if entry.salt is None else bytes.fromhex(entry.salt)
    value = None if entry.value is None else entry.value.encode()
    if entry.value_base64 is not None:
        if value is not None:
            raise ValueError("an entry has two values")
        value = b64decode(entry.value_base64, validate=True)
    return Entry(lane, seq, entry.header.encode(), entry.body.encode(), salt, value)
