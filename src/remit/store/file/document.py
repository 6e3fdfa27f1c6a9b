"""The document of a `file:` store: one JSON object, a line for each entry.

    {"remit":2,
    "ledger":{"origin":"32 hex digits","made_at":...,"clock":"database"},
    "run_key_next":2,
    "workers":{"4711-9f3a1c5e7b20-1":{"host":...,"started_at":...}},
    "business_keys":[{"tenant":...,"key":...,"run_key":1,"run":"po-1041","call":...}],
    "ceilings":[{"tenant":...,"scope":...,"used":...}],
    "asks":[{"number":1,"tenant":...,"ask":...,"run_key":1,"call":...,"roles":[...],...,"is_open":true}],
    "outbox":[{"number":1,"tenant":...,"run":"po-1041","kind":...,"data":text,"at":...}],
    "runs":{
    "1":{"tenant":"default","run":"po-1041",...,"main":[
    {"header":"{...}","body":"{...}","salt":"...","value":"{...}"}
    ],"post":[]}
    }}

Runs stand under their key; `plain.py` says what a run and an entry look like. Line breaks
are for the reader's eye: any tool may write the same JSON in another shape. A document of form 1 lacks what stands
between the workers and the runs; it is read, and written in this form when it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from remit.errors import FIND_OUT, StoreRefused
from remit.facts.entry import Entry, Lane
from remit.store.beside import Beside
from remit.store.plain import PlainRun, Unreadable, kept_run, plain_entry, plain_row
from remit.store.plain_beside import PlainAnnouncement, PlainAsk, PlainCeiling, PlainKey, kept_beside, plain_beside
from remit.store.rows import RunRow, WorkerRow
from remit.store.state import Draft, State

FORM = 2

_encode = msgspec.json.encode


class PlainLedger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    origin: str
    made_at: int
    clock: Literal["database", "given"]


class _PlainWorker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    host: str
    started_at: int


class _Form(msgspec.Struct, frozen=True):
    remit: int


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    remit: int
    ledger: PlainLedger
    run_key_next: int
    workers: dict[str, _PlainWorker]
    business_keys: list[PlainKey] = []
    ceilings: list[PlainCeiling] = []
    asks: list[PlainAsk] = []
    outbox: list[PlainAnnouncement] = []
    runs: dict[str, PlainRun]


def read_document(data: bytes, path: str) -> tuple[PlainLedger, State, int]:
    """What a document tells, and its form. Raises StoreRefused `store.broken` or `store.newer`."""
    try:
        form = msgspec.json.decode(data, type=_Form).remit
        if form > FORM:
            raise StoreRefused(
                f"Nothing was changed: {path} has form {form} and this version knows {FORM}.",
                code="store.newer",
                hint="Use the version of Remit that wrote it, or a later one.",
            )
        return *_read(msgspec.json.decode(data, type=_Document)), form
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise StoreRefused(
            f"Nothing was changed: {path} is not a document of Remit's, or not a whole one: {exc}.",
            code="store.broken",
            hint=f"{FIND_OUT}; restore it. Or give Remit a file of its own; one of an unreleased version is not read.",
        ) from None


def _read(document: _Document) -> tuple[PlainLedger, State]:
    if document.remit not in range(1, FORM + 1) or len(bytes.fromhex(document.ledger.origin)) != 16:
        raise Unreadable("its first fields are not as they were written")
    state = State()
    for key, run in sorted((_run_key(text), run) for text, run in document.runs.items()):
        if (run.tenant, run.run, run.gen) in state.ids:
            raise Unreadable(f"run {run.run!r} stands there twice")
        state.keep(kept_run(run, key))
    if document.run_key_next < state.run_key_next:
        raise Unreadable(f"the next run key would be {document.run_key_next}")
    state.run_key_next = document.run_key_next
    for name, worker in document.workers.items():
        state.workers[name] = WorkerRow(name, worker.host, worker.started_at)
    state.beside = kept_beside(document.business_keys, document.ceilings, document.asks, document.outbox, state.runs)
    return document.ledger, state


def _run_key(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or text[0] == "0":
        raise Unreadable(f"{text!r} is not a run key")
    return int(text)


class DocumentWriter:
    """Writes documents of one state. What was written before is kept as bytes, so that only what is new is encoded."""

    def __init__(self, ledger: PlainLedger) -> None:
        self._ledger = ledger
        self._rows: dict[int, tuple[RunRow, bytes]] = {}
        self._lanes: dict[tuple[int, Lane], list[bytes]] = {}
        self._beside: bytes | None = None

    def write(self, state: State, draft: Draft) -> bytes:
        """The document of what would be believed if the draft were merged."""
        workers = {name: _PlainWorker(w.host, w.started_at) for name, w in (state.workers | draft.workers).items()}
        keys = [*state.runs, *draft.opened.values()]
        head = b'{"remit":%d,\n"ledger":%b,\n"run_key_next":%d,\n"workers":%b,\n%b,\n"runs":{' % (
            FORM,
            _encode(self._ledger),
            state.run_key_next + len(draft.opened),
            _encode(workers),
            self._beside_of(state, draft),
        )
        runs = b",".join(b'\n"%d":%b' % (key, self._run(state, draft, key)) for key in keys)
        return b"%b%b\n}}\n" % (head, runs)

    def _beside_of(self, state: State, draft: Draft) -> bytes:
        """Encoded anew only after it changed; a draft may yet fail, so what it changes is not kept."""
        if draft.beside:
            self._beside = None
            return _beside_bytes(draft.beside)
        if self._beside is None:
            self._beside = _beside_bytes(state.beside)
        return self._beside

    def _run(self, state: State, draft: Draft, key: int) -> bytes:
        row = draft.rows.get(key) or state.runs[key].row
        main, post = self._lane(state, draft, key, "main"), self._lane(state, draft, key, "post")
        return b'%b,"main":%b,"post":%b}' % (self._row(key, row), main, post)

    def _row(self, key: int, row: RunRow) -> bytes:
        """The row's object, without its closing brace."""
        known = self._rows.get(key)
        if known is None or known[0] is not row:
            known = self._rows[key] = (row, _encode(plain_row(row))[:-1])
        return known[1]

    def _lane(self, state: State, draft: Draft, key: int, lane: Lane) -> bytes:
        kept = state.runs.get(key)
        lines = self._lanes.setdefault((key, lane), [])
        if kept is not None:
            lines.extend(_lines(kept.lane(lane)[len(lines) :]))
        # A draft may yet fail: what it adds is kept once it is believed.
        added = list(_lines(draft.added.get((key, lane), ())))
        return b"[\n%b\n]" % b",\n".join(lines + added) if lines or added else b"[]"


def _beside_bytes(beside: Beside) -> bytes:
    return b",\n".join(
        b"%b:%b" % (_encode(name), b"[\n%b\n]" % b",\n".join(map(_encode, rows)) if rows else b"[]")
        for name, rows in plain_beside(beside).items()
    )


def _lines(entries: Iterable[Entry]) -> Iterable[bytes]:
    return (_encode(plain_entry(entry)) for entry in entries)
