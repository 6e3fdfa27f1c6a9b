"""The rows of a run were edited: refused at its next resume with one code, set aside, everybody else goes on.

What a reader of the format would refuse stands in `tests/vectors/`. Here each edit is
made in the database of a run that waits, and what Remit does about it is looked at as
a whole: `Siege.refuses` says what that is.
"""

from __future__ import annotations

import copy

import pytest

import remit
from remit.facts.entry import value_digest
from remit.facts.kinds import SignalSent, StepDone
from tests.attack.edits import borrowed, columns, header, linked, order, parts, raw, shifted
from tests.attack.siege import DECIDED, FAILED, FETCHED, NEIGHBOUR, OPENED, PARKED, STARTED, VICTIM, Edit, Siege
from tests.spec.conftest import storage_of
from tests.support.vault import Ledger, Vault

Attack = tuple[str, str, str, Edit]
DONE = StepDone(took=9)
SEALED = value_digest(b"salt of 16 bytes", b"9")

FIELDS: list[Attack] = [
    ("the time in a header", "chain.hash", "main 4", header(FETCHED, at=1)),
    ("the author in a header", "chain.hash", "main 4", header(FETCHED, by="user:mallory")),
    ("the epoch in a header", "chain.hash", "main 4", header(FETCHED, epoch=2)),
    ("the epoch in a header, to one that can't be stated", "chain.malformed", "main 3", header(FETCHED, epoch=2**53)),
    ("the time in a header, likewise", "chain.malformed", "main 3", header(FETCHED, at=-(2**53))),
    ("the kind in a header", "chain.malformed", "main 3", header(FETCHED, kind="StepFailed")),
    ("the kind in a header, to none there is", "chain.hash", "main 4", header(FETCHED, kind="StepDreamt")),
    ("the name in a header", "chain.hash", "main 4", header(FETCHED, name="decide")),
    ("the version in a header", "chain.hash", "main 4", header(FETCHED, v=2)),
    ("the body's digest in a header", "chain.hash", "main 3", header(FETCHED, body="00" * 32)),
    ("the value's digest in a header", "chain.hash", "main 3", header(FETCHED, value="00" * 32)),
    ("the link in a header", "chain.hash", "main 3", header(FETCHED, prev="00" * 32)),
    ("the lane in a header", "chain.hash", "main 3", header(FETCHED, lane="post")),
    ("the place in a header", "chain.hash", "main 3", header(FETCHED, seq=7)),
    ("the run in a header", "chain.genesis", "main 3", header(FETCHED, run=NEIGHBOUR)),
    ("the tenant in a header", "chain.genesis", "main 3", header(FETCHED, tenant="other")),
    ("the generation in a header", "chain.genesis", "main 3", header(FETCHED, gen=2)),
    ("the deployment in a header", "chain.genesis", "main 3", header(FETCHED, ledger="00" * 16)),
    ("the time in the first header", "chain.hash", "main 2", header(OPENED, at=1)),
    ("the time in the last header", "chain.head", "main 6", header(PARKED, at=1)),
    ("the body that opened it", "chain.hash", "main 1", raw(OPENED, "body", b'"risk":"', b'"risk":"x')),
    ("the body of an attempt", "chain.hash", "main 2", raw(STARTED, "body", b'"version":"1', b'"version":"2')),
    ("the body of a step", "chain.hash", "main 3", parts(FETCHED, body=b'{"took":0}')),
    ("the body of the last entry", "chain.hash", "main 6", raw(PARKED, "body", b'"calls":["pay"],', b"")),
    ("a denial in a value", "chain.hash", "main 4", raw(DECIDED, "value", b"denied", b"approved")),
    ("the input", "chain.hash", "main 1", parts(OPENED, value=b"9")),
    ("the input with its digest", "chain.genesis", "main 1", header(OPENED, value=SEALED)),
    ("the words of a failure", "chain.hash", "main 5", raw(FAILED, "value", b"closed", b"open")),
    ("a salt", "chain.hash", "main 4", parts(DECIDED, salt=b"s" * 16)),
    ("a value blanked without an erasure on record", "chain.hash", "main 4", parts(DECIDED, salt=None, value=None)),
    ("a value blanked, its salt left", "chain.hash", "main 4", parts(DECIDED, value=None)),
    ("a salt blanked, its value left", "chain.hash", "main 4", parts(DECIDED, salt=None)),
    ("a value put where there is none", "chain.hash", "main 2", parts(STARTED, salt=b"s" * 16, value=b"1")),
]

PLACES: list[Attack] = [
    ("two entries swapped", "chain.hash", "main 3", order(1, 2, 4, 3, 5, 6)),
    ("an entry removed from the middle", "chain.hash", "main 3", order(1, 2, 4, 5, 6)),
    ("an entry removed, its gap left", "chain.hash", "main 3", order(1, 2, 4, 5, 6, is_renumbered=False)),
    ("the opening removed", "chain.genesis", "main 1", order(2, 3, 4, 5, 6)),
    ("an entry put in twice", "chain.hash", "main 5", order(1, 2, 3, 4, 4, 5, 6)),
    ("an entry inserted that links back", "chain.hash", "main 5", linked(FETCHED, DONE, rest=DECIDED)),
    ("an entry of another run in its place", "chain.genesis", "main 4", borrowed(DECIDED, of=DECIDED)),
    ("a tail spliced on, as long as the old one", "chain.head", "main 6", linked(FETCHED, DONE, DONE, DONE)),
    ("a tail spliced on, longer than the old one", "chain.head", "main 7", linked(FETCHED, *[DONE] * 4)),
    ("a tail spliced on, shorter than the old one", "run.truncated", "main 6", linked(FETCHED, DONE, DONE)),
    ("an entry appended past the row", "chain.head", "main 7", linked(PARKED, DONE)),
    ("the last entry cut off", "run.truncated", "main 6", order(1, 2, 3, 4, 5)),
    ("all cut off from the decision on", "run.truncated", "main 4", order(1, 2, 3)),
    ("all entries deleted, the row left", "run.truncated", "main 1", order()),
]

POSTED: list[Attack] = [
    ("a value in lane post", "chain.hash", "post 1", raw(1, "value", b"wait", b"go on", lane="post")),
    ("a body in lane post", "chain.hash", "post 2", parts(2, lane="post", body=b'{"a":1}')),
    ("a header in lane post", "chain.hash", "post 2", header(1, "post", by="user:mallory")),
    ("the last header in lane post", "chain.head", "post 2", header(2, "post", by="user:mallory")),
    ("messages swapped", "chain.hash", "post 1", order(2, 1, lane="post")),
    ("the first message removed", "chain.hash", "post 1", order(2, lane="post")),
    ("the last message removed", "run.truncated", "post 2", order(1, lane="post")),
    ("all messages removed", "run.truncated", "post 1", order(lane="post")),
    ("a message appended past the row", "chain.head", "post 3", linked(2, SignalSent(), lane="post")),
    ("a message replaced", "chain.head", "post 2", linked(1, SignalSent(), lane="post")),
    ("a message of another run", "chain.genesis", "post 1", borrowed(1, lane="post", of=1, from_lane="post")),
]

ROW: list[Attack] = [
    ("head", "chain.head", "main 6", columns(head=b"\0" * 32)),
    ("head, to no hash at all", "chain.head", "main 6", columns(head=b"")),
    ("seq, higher", "run.truncated", "main 7", shifted(seq=1)),
    ("seq, lower", "chain.head", "main 6", shifted(seq=-1)),
    ("post_head", "chain.head", "post 2", columns(post_head=b"\0" * 32)),
    ("post_seq, higher", "run.truncated", "post 3", shifted(post_seq=1)),
    ("post_seq, lower", "chain.head", "post 2", shifted(post_seq=-1)),
    ("flow", "chain.genesis", "main 1", columns(flow="refund")),
    ("gen", "chain.genesis", "main 1", columns(gen=2)),
    ("status, to completed", "run.index", "main 6", columns(status="completed")),
    ("status, to one there is not", "run.index", "main 6", columns(status="approved")),
    ("code", "run.index", "main 6", columns(code="")),
    ("by", "run.index", "main 6", columns(by="user:mallory")),
    ("opened_at", "run.index", "main 6", shifted(opened_at=-1)),
    ("window_end, later", "run.index", "main 6", shifted(window_end=1)),
    ("epoch, below the folded one", "run.index", "main 6", columns(epoch=0)),
    ("epoch, to the last that can be stated", "run.index", "main 6", columns(epoch=2**53 - 1)),
    ("epoch, to the last that a database can hold", "run.index", "main 6", columns(epoch=2**63 - 1)),
]


def each(attacks: list[Attack]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("attack", attacks, ids=[title for title, *_ in attacks])


@each(FIELDS)
async def test_an_edited_field_of_an_entry_is_refused(on_sqlite: Siege, attack: Attack):  # proves: LOG-2, LOG-3, LOG-4
    _, code, where, edit = attack
    await on_sqlite.refuses(edit, code, where)


@each(PLACES)
async def test_entries_that_were_moved_are_refused(on_sqlite: Siege, attack: Attack):  # proves: LOG-2, LOG-3, LOG-4
    _, code, where, edit = attack
    await on_sqlite.refuses(edit, code, where)


@each(POSTED)
async def test_an_edited_lane_post_is_refused(on_sqlite: Siege, attack: Attack):  # proves: LOG-2, LOG-3, LOG-4
    _, code, where, edit = attack
    await on_sqlite.refuses(edit, code, where)


@each(ROW)
async def test_an_edited_column_of_the_row_is_refused(on_sqlite: Siege, attack: Attack):  # proves: LOG-2, LOG-3, LOG-4
    _, code, where, edit = attack
    await on_sqlite.refuses(edit, code, where)


@pytest.mark.parametrize("attacks", [FIELDS, PLACES, POSTED, ROW], ids=["fields", "places", "lane post", "row"])
async def test_every_store_answers_alike(siege: Siege, attacks: list[Attack]):  # proves: LOG-2, LOG-3, LOG-4
    expected = {title: (code, where) for title, code, where, _ in attacks}
    assert await siege.answers(attacks) == expected


async def test_what_an_edited_column_says_is_told_beside_what_the_journal_says(on_sqlite: Siege):  # proves: LOG-3
    await on_sqlite.prepare()
    whole = await on_sqlite.vault.read()
    for edit, words in (
        (columns(status="completed"), "the row's status says completed, the journal waiting."),
        (columns(code=""), "the row's code says nothing, the journal step.failed."),
        (shifted(window_end=1), "the row's window_end says 20"),
    ):
        wrong = copy.deepcopy(whole)
        edit(wrong)
        await on_sqlite.vault.write(wrong)
        async with on_sqlite.place.open() as rt:
            found = await rt.verify(VICTIM)
        assert found is not None and words in found.message and "(" not in found.message


async def test_a_run_that_was_renamed_is_refused(siege: Siege):  # proves: LOG-2, LOG-3, LOG-4
    await siege.refuses(columns(run="pay-9"), "chain.genesis", "main 1", called="pay-9")


async def test_a_journal_that_was_moved_to_another_run_is_refused(siege: Siege):  # proves: LOG-2, LOG-3, LOG-4
    """Row and entries of the neighbour, whole and consistent, under the victim's id."""

    def edit(ledger: Ledger) -> None:
        victim, neighbour = ledger[VICTIM], ledger[NEIGHBOUR]
        same = {key: victim.row[key] for key in ("run_key", "run")}
        victim.row = neighbour.row | same
        victim.main, victim.post = list(neighbour.main), list(neighbour.post)

    await siege.refuses(edit, "chain.genesis", "main 1")


async def test_a_run_that_was_copied_from_another_deployment_is_refused(siege: Siege, tmp_path):  # proves: LOG-2, LOG-4
    """The same id, flow and input, opened and recorded elsewhere."""
    elsewhere = storage_of("sqlite", tmp_path / "elsewhere", lambda: "")
    (tmp_path / "elsewhere").mkdir()
    await Siege(elsewhere).prepare()
    copied = (await Vault(elsewhere.make(None)).read())[VICTIM]

    def edit(ledger: Ledger) -> None:
        victim = ledger[VICTIM]
        victim.row = copied.row | {"run_key": victim.row["run_key"]}
        victim.main, victim.post = copied.main, copied.post

    await siege.refuses(edit, "chain.genesis", "main 1")


async def test_a_large_value_that_was_edited_where_it_is_kept_apart_is_refused(database):  # proves: LOG-2, LOG-4
    siege = Siege(database)
    big = "x" * 300_000

    @remit.step
    async def draft() -> str:
        return big

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def letter(run: remit.Run) -> None:
        await run.step(draft)
        raise OSError("not sent")

    async def is_refused() -> str:
        async with database.open() as rt:
            with pytest.raises(remit.RemitError) as refused:
                await rt.run(letter, id="l-1")
        return refused.value.code

    assert await is_refused() == "step.failed"
    table = "remit.large_value" if database.kind == "postgres" else "remit_large_value"
    await siege.vault.sql(f"UPDATE {table} SET value = $1", b'"y' + big[1:].encode() + b'"')
    assert [await is_refused() for _ in range(2)] == ["chain.hash", "run.quarantined"]
