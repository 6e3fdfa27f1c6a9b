"""Edits of stored rows, as the attacks name them: each makes a function that changes a ledger in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from remit.facts import kinds
from remit.facts.entry import HEADER, Entry, Identity, Lane, Pen, entry_hash
from remit.facts.fact import Fact
from tests.attack.siege import NEIGHBOUR, VICTIM, Edit
from tests.support.journal import SALT
from tests.support.vault import Kept, Ledger, renumbered

Rows = Callable[[list[Entry]], list[Entry]]


def header(seq: int, within: Lane = "main", /, **fields: Any) -> Edit:
    """Other fields in one header, written as canonically as Remit writes it."""
    return _entry(within, seq, lambda e: replace(e, header=HEADER.write(replace(HEADER.read(e.header), **fields))))


def raw(seq: int, part: str, old: bytes, new: bytes, lane: Lane = "main") -> Edit:
    """Other bytes in `header`, `body` or `value`; what they replace has to be there."""

    def change(entry: Entry) -> Entry:
        data: bytes = getattr(entry, part)
        assert old in data
        return replace(entry, **{part: data.replace(old, new, 1)})

    return _entry(lane, seq, change)


def parts(seq: int, lane: Lane = "main", **found: bytes | None) -> Edit:
    """Other bytes in place of a whole body, salt or value; None for NULL."""
    return _entry(lane, seq, lambda entry: replace(entry, **found))


def columns(**found: Any) -> Edit:
    """Other values in the run's row."""

    def edit(ledger: Ledger) -> None:
        ledger[VICTIM].row.update(found)

    return edit


def shifted(**by: int) -> Edit:
    """Numbers in the run's row, moved by so much."""

    def edit(ledger: Ledger) -> None:
        for name, amount in by.items():
            ledger[VICTIM].row[name] += amount

    return edit


def order(*seqs: int, lane: Lane = "main", is_renumbered: bool = True) -> Edit:
    """The lane made of these of its entries, in this order. is_renumbered: the store's own seqs show no gap."""

    def edit(ledger: Ledger) -> None:
        entries = ledger[VICTIM].lane(lane)
        entries[:] = _numbered([entries[seq - 1] for seq in seqs], is_renumbered)

    return edit


def borrowed(seq: int, *, lane: Lane = "main", of: int, from_lane: Lane = "main") -> Edit:
    """Entry `seq` made a copy of entry `of` of the neighbour."""

    def edit(ledger: Ledger) -> None:
        ledger[VICTIM].lane(lane)[seq - 1] = replace(ledger[NEIGHBOUR].lane(from_lane)[of - 1], lane=lane, seq=seq)

    return edit


def linked(after: int, *facts: Fact, lane: Lane = "main", rest: int | None = None) -> Edit:
    """Entries that are sealed as Remit would, linked behind entry `after`; those from `rest` on follow. The row stays.

    rest: None drops what stood behind.
    """

    def edit(ledger: Ledger) -> None:
        entries = ledger[VICTIM].lane(lane)
        pen = pen_after(ledger[VICTIM], after, lane)
        forged = [seal(pen, fact) for fact in facts]
        entries[:] = renumbered([*entries[:after], *forged, *(entries[rest - 1 :] if rest is not None else ())])

    return edit


def resealed(after: int, *facts: tuple[int, Fact], lane: Lane = "main") -> Edit:
    """Behind entry `after` these facts, each under its epoch, and the row's head at their end: a chain that holds."""
    return _resealed(after, lane, [(epoch, partial(_sealed, fact)) for epoch, fact in facts])


def resealed_bytes(after: int, kind: str, body: bytes) -> Edit:
    """The same with one entry of any kind and body, which need not be one that Remit would write."""
    return _resealed(after, "main", [(1, lambda pen: pen.seal(kind, body, at=0, name="x", value=(SALT, b"1")))])


def pen_after(kept: Kept, seq: int, lane: Lane = "main", *, epoch: int = 1) -> Pen:
    """The pen of an attacker who knows the format: it goes on behind any entry of a stored lane."""
    last = kept.lane(lane)[seq - 1]
    was = HEADER.read(last.header)
    identity = Identity(was.ledger, was.tenant, was.run, was.gen, kept.row["flow"])
    number = epoch if lane == "main" else 0
    return Pen(identity, lane=lane, by=was.by, epoch=number, head=entry_hash(last.header), seq=seq)


def seal(pen: Pen, fact: Fact, *, name: str | None = "decide", value: bytes = b'"approved"') -> Entry:
    """A forged entry: a step's outcome unless the fact is another one."""
    is_call = isinstance(fact, kinds.StepDone | kinds.StepFailed | kinds.ValueDrawn | kinds.RaceWon)
    has_value = not isinstance(fact, kinds.AttemptStarted | kinds.RaceWon)
    salted = (SALT, value) if has_value else None
    return pen.seal(type(fact).__name__, kinds.write(fact), at=0, name=name if is_call else None, value=salted)


def _entry(lane: Lane, seq: int, change: Callable[[Entry], Entry]) -> Edit:
    def edit(ledger: Ledger) -> None:
        entries = ledger[VICTIM].lane(lane)
        entries[seq - 1] = change(entries[seq - 1])

    return edit


def _sealed(fact: Fact, pen: Pen) -> Entry:
    return seal(pen, fact)


def _resealed(after: int, lane: Lane, seals: list[tuple[int, Callable[[Pen], Entry]]]) -> Edit:
    def edit(ledger: Ledger) -> None:
        kept = ledger[VICTIM]
        entries = kept.lane(lane)
        del entries[after:]
        for epoch, write in seals:
            pen = pen_after(kept, len(entries), lane, epoch=epoch)
            entries.append(write(pen))
            kept.row |= {"head": pen.head, "seq": pen.seq} if lane == "main" else _post_end(pen)

    return edit


def _post_end(pen: Pen) -> dict[str, Any]:
    return {"post_head": pen.head, "post_seq": pen.seq}


def _numbered(entries: list[Entry], is_renumbered: bool) -> list[Entry]:
    return renumbered(entries) if is_renumbered else entries
