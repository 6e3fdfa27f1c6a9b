"""Text and bytes that mean something elsewhere: to pickle, to SQL, to a terminal. Here they are text and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import remit
from remit.engine.process.outcome import detail_of
from remit.facts.kinds import StepDone
from tests.attack.edits import parts, pen_after, seal
from tests.attack.siege import AMOUNT, DECIDED, FETCHED, OPEN, VICTIM, Siege, noted_in
from tests.spec.conftest import Storage
from tests.support.vault import Ledger

INJECTIONS = [
    "x'; DROP TABLE remit_run; --",
    "x'); DELETE FROM remit.entry; --",
    "' OR '1'='1",
    '" OR ""="',
    "%",
    "_",
    "pay_7%",
    "$1",
    "?1",
    "\\'; SELECT 1; --",
]

UNSEEN = [
    "pay\n7",
    "pay\r\n7",
    "\x1b[2Jpay",
    "pay\x00",
    "pay\x7f",
    "pay\x9b2J",
    "pay\u202e7",
    "pay\u200b7",
    "pay\u2028",
    "pay\u3164",
    "pay\ufe0f",
    "pay\u2800",
]


def payloads(mark: Path) -> dict[str, bytes]:
    call = b'"os.system","py/tuple":["touch %b"]' % str(mark).encode()
    return {
        "pickle": b"cposix\nsystem\n(S'touch %b'\ntR." % str(mark).encode(),  # its protocol 0, by hand
        "jsonpickle": b'{"py/object":%b}' % call,
        "a type and its arguments": b'{"@type":%b}' % call,
        "yaml": b'"!!python/object/apply:os.system [touch %b]"' % str(mark).encode(),
    }


@pytest.mark.parametrize("kind", ["pickle", "jsonpickle", "a type and its arguments", "yaml"])
async def test_a_value_that_is_code_elsewhere_is_refused_as_an_edit(on_sqlite: Siege, tmp_path, kind):  # proves: LOG-4
    mark = tmp_path / "mark"
    await on_sqlite.refuses(parts(DECIDED, value=payloads(mark)[kind]), "chain.hash", "main 4")
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["pickle", "jsonpickle", "a type and its arguments", "yaml"])
async def test_a_value_that_is_code_elsewhere_is_never_run(siege: Siege, tmp_path, kind):  # proves: RUN-12, LOG-4
    """Even where the chain was computed anew around it: it is JSON of the step's type, or it can't be read."""
    mark = tmp_path / "mark"
    await siege.prepare()
    ledger = await siege.vault.read()
    put(ledger, payloads(mark)[kind])
    await siege.vault.write(ledger)
    siege.desk.is_closed = False

    async with siege.place.open() as rt:
        if kind == "yaml":
            assert (await rt.run(siege.desk.flow, AMOUNT, id=VICTIM)).value.startswith("!!python")
        else:
            with pytest.raises(remit.RemitError) as refused:
                await rt.run(siege.desk.flow, AMOUNT, id=VICTIM)
            assert (refused.value.code, siege.desk.ran.count("decide")) == ("value.unreadable", 2)
        await rt.explain(VICTIM)
    assert not mark.exists()


async def test_a_type_and_its_arguments_are_a_plain_dict(siege: Siege, tmp_path):  # proves: RUN-12
    mark = tmp_path / "mark"
    given = {"py/object": "os.system", "py/reduce": [f"touch {mark}"]}

    @remit.step
    async def decide() -> Any:
        return given

    @remit.flow(contract=OPEN)
    async def payment(run: remit.Run) -> Any:
        return await run.step(decide)

    async with siege.place.open() as rt:
        assert (await rt.run(payment, id="pay-7")).value == given
        assert (await rt.run(payment, id="pay-7")).value == given
    assert not mark.exists()


async def test_sql_in_ids_and_filters_is_literal(lasting: Storage):  # proves: C32
    siege = Siege(lasting)
    siege.desk.is_closed = False
    async with lasting.open() as rt:
        for text in INJECTIONS:
            who = text.replace(" ", "/**/")  # no principal's name has a blank
            await rt.run(siege.desk.flow, AMOUNT, id=text, by=f"agent:{who}", behalf=f"user:{who}")
        for text in INJECTIONS:
            assert [row.run for row in await rt.list(prefix=text)] == [text]
            assert await rt.list(flow=text) == []
            with pytest.raises(remit.Refused) as refused:
                await rt.list(status=text)
            assert refused.value.code == "status.unknown"
            assert (await rt.show(text)).view.opened.behalf == "user:" + text.replace(" ", "/**/")
            assert await rt.verify(text) is None
        assert [row.run for row in await rt.list()] == INJECTIONS[::-1]
    async with lasting.open(tenant="' OR '1'='1") as rt:
        assert await rt.list() == []


async def test_sql_in_the_reason_of_a_lift_is_literal(siege: Siege):  # proves: LOG-3
    await siege.prepare()
    whole = await siege.vault.read()
    wrong = await siege.vault.read()
    parts(FETCHED, value=b"1")(wrong)
    await siege.vault.write(wrong)
    reason = "'); UPDATE remit_run SET quarantined = 0; --\n\x1b[2J"
    async with siege.place.open() as rt:
        with pytest.raises(remit.Tampered):
            await rt.resume(VICTIM, siege.desk.flow)
    whole[VICTIM].row["quarantined"] = True
    await siege.vault.write({VICTIM: whole[VICTIM]})
    async with siege.place.open() as rt:
        await rt.lift(VICTIM, by="user:dana", reason=reason)
        assert len(await noted_in(rt)) == 2
        assert detail_of((await rt.read("remit:incidents")).main[-1].value) == reason


@pytest.mark.parametrize("text", UNSEEN, ids=ascii)
async def test_what_cannot_be_seen_is_refused_in_names_and_nothing_is_made(on_sqlite: Siege, text):  # proves: C32
    desk = on_sqlite.desk
    async with on_sqlite.place.open() as rt:
        for ask in (
            rt.run(desk.flow, AMOUNT, id=text),
            rt.start(desk.flow, AMOUNT, id=text),
            rt.run(desk.flow, AMOUNT, id="pay-1", by=f"agent:{text}"),
            rt.run(desk.flow, AMOUNT, id="pay-1", behalf=f"user:{text}"),
        ):
            with pytest.raises(remit.IdRefused) as refused:
                await ask
            assert refused.value.code == "id.refused"
            assert str(refused.value).isprintable()
        assert await rt.list() == []
    with pytest.raises(remit.IdRefused):
        on_sqlite.place.open(tenant=text)
    assert desk.ran == []


async def test_what_a_step_says_is_kept_as_it_was_said(lasting: Storage):  # proves: RUN-6
    """Line ends and escapes are stored; whoever shows them makes them inert."""
    words = "first\nCRITICAL remit: all is well\x1b[2J\u202e\x00"

    @remit.step
    async def shout() -> str:
        raise OSError(words)

    @remit.flow(contract=OPEN)
    async def loud(run: remit.Run) -> None:
        await run.step(shout)

    async with lasting.open() as rt:
        with pytest.raises(remit.StepError) as failed:
            await rt.run(loud, id="loud-1")
        assert failed.value.detail == words
        assert (await rt.why("loud-1")).failures[0].detail == words
        assert await rt.verify("loud-1") is None


def put(ledger: Ledger, value: bytes) -> None:
    """The decision made anew with another value, after it an attempt that died, and the row's head at that end."""
    kept = ledger[VICTIM]
    pen = pen_after(kept, FETCHED)
    kept.main[FETCHED:] = [seal(pen, StepDone(took=9), value=value)]
    kept.row |= {"head": pen.head, "seq": pen.seq, "status": "running", "code": ""}
