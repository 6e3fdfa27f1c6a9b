"""Somebody who knows the format wrote: bytes in another spelling, and chains that hold and tell what can't have been.

The attacker here computes every hash, and the row's head, as Remit would. What is left to
find is that no writer writes such bytes, and that no run moves like that.
"""

from __future__ import annotations

import pytest

import remit
from remit.facts.kinds import AttemptStarted, QuarantineLifted, RunEnded, RunOpened, RunParked, StepDone
from remit.facts.rules import ContractPin
from tests.attack.edits import header, parts, raw, resealed, resealed_bytes
from tests.attack.siege import DECIDED, FETCHED, NEIGHBOUR, OPENED, PARKED, VICTIM, Edit, Siege
from tests.spec.conftest import Storage

Attack = tuple[str, str, str, Edit]

DONE = StepDone(took=9)
AGAIN = AttemptStarted(contract="c0" * 32, version="1", worker="4711-a1")
COMPLETED = RunEnded(status="completed")
LIFTED = QuarantineLifted(gen=1, run=VICTIM)
PIN = ContractPin(resume=["anyone"], risk="low", version="1", window=1)
OPENED_AGAIN = RunOpened(by="service:local", contract=PIN, flow="payment", window_end=1)
DEEP = b"[" * 10_000
HUGE = b"1" + b"0" * 5_000

MOVES: list[Attack] = [
    ("a step done before any attempt", "chain.move", "main 2", resealed(OPENED, (0, DONE))),
    ("a decision taken twice", "chain.move", "main 5", resealed(DECIDED, (1, DONE))),
    ("a step done while the run waits", "chain.move", "main 7", resealed(PARKED, (1, DONE))),
    ("a step done after the end", "chain.move", "main 6", resealed(DECIDED, (1, COMPLETED), (1, DONE))),
    ("an attempt after the end", "chain.move", "main 6", resealed(DECIDED, (1, COMPLETED), (2, AGAIN))),
    ("an end while the run waits", "chain.move", "main 7", resealed(PARKED, (1, COMPLETED))),
    ("an attempt under the same epoch", "chain.move", "main 7", resealed(PARKED, (1, AGAIN))),
    ("an attempt under a lower epoch", "chain.move", "main 8", resealed(PARKED, (3, AGAIN), (2, AGAIN))),
    ("an entry under an old epoch", "chain.move", "main 8", resealed(PARKED, (2, AGAIN), (1, COMPLETED))),
    ("an entry under an epoch to come", "chain.move", "main 5", resealed(DECIDED, (2, COMPLETED))),
    ("a run opened twice", "chain.move", "main 5", resealed(DECIDED, (1, OPENED_AGAIN))),
    (
        "a decision that is to be taken again",
        "chain.move",
        "main 5",
        resealed(DECIDED, (1, RunParked(calls=["decide"], code="step.failed", waits_for="repair"))),
    ),
    ("a quarantine lifted in the run's own journal", "chain.move", "main 5", resealed(DECIDED, (1, LIFTED))),
    ("a step in lane post", "chain.move", "post 3", resealed(2, (0, DONE), lane="post")),
]


def body(title: str, kind: str, data: bytes) -> Attack:
    return title, "chain.malformed", "main 5", resealed_bytes(DECIDED, kind, data)


def frame(title: str, old: bytes, new: bytes) -> Attack:
    return title, "chain.malformed", "main 3", raw(FETCHED, "header", old, new)


def value(title: str, data: bytes) -> Attack:
    return title, "chain.hash", "main 4", parts(DECIDED, value=data)


BODIES = [
    body("a space in a body", "StepDone", b'{"took": 9}'),
    body("keys of a body in another order", "StepFailed", b'{"took":9,"error":"OSError"}'),
    body("a key twice in a body", "StepDone", b'{"took":8,"took":9}'),
    body("1.0 for 1 in a body", "StepDone", b'{"took":1.0}'),
    body("2**53+1 as a float in a body", "StepDone", b'{"took":9007199254740993.0}'),
    body("NaN in a body", "StepDone", b'{"took":NaN}'),
    body("infinity in a body", "StepDone", b'{"took":1e999}'),
    body("an integer of 5,001 digits in a body", "StepDone", b'{"took":%b}' % HUGE),
    body("a depth of 10,000 in a body", "StepDone", b'{"took":%b}' % DEEP),
    body("a depth of 10,000 under a name that is not known", "StepDone", b'{"a":%b' % DEEP),
    body("an unknown field in a body", "StepDone", b'{"signed":true,"took":9}'),
    body("a lone surrogate in a body", "StepFailed", b'{"error":"\\ud800","took":9}'),
    body("nothing for a body", "StepDone", b""),
]

FRAMES = [
    frame("a space in a header", b'"seq":3', b'"seq": 3'),
    frame("keys of a header in another order", b'"epoch":1,"gen":1', b'"gen":1,"epoch":1'),
    frame("a key twice in a header", b'"seq":3', b'"seq":3,"seq":3'),
    frame("1.0 for 1 in a header", b'"epoch":1,', b'"epoch":1.0,'),
    frame("2**53+1 as a float in a header", b'"epoch":1,', b'"epoch":9007199254740993.0,'),
    frame("NaN in a header", b'"epoch":1,', b'"epoch":NaN,'),
    frame("an integer of 5,001 digits in a header", b'"epoch":1,', b'"epoch":%b,' % HUGE),
    frame("a depth of 10,000 in a header", b'"epoch":1,', b'"epoch":%b,' % DEEP),
    frame("an unknown field in a header", b'"epoch":1,', b'"epoch":1,"extra":1,'),
    frame("an escape that is not needed in a header", b'"name":"fetch', b'"name":"\\u0066etch'),
    frame("pickle for a header", b'{"at"', b'\x80\x04K\x01.{"at"'),
]

VALUES = [
    value("a space before a value", b' "denied"'),
    value("an escape that is not needed in a value", b'"\\u0064enied"'),
    value("NaN for a value", b"NaN"),
    value("a depth of 10,000 for a value", DEEP),
]

SPELLINGS = [*BODIES, *FRAMES, *VALUES]


def each(attacks: list[Attack]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("attack", attacks, ids=[title for title, *_ in attacks])


@each(MOVES)
async def test_a_chain_that_holds_and_moves_wrong_is_refused(on_sqlite: Siege, attack: Attack):  # proves: LOG-2, LOG-4
    _, code, where, edit = attack
    await on_sqlite.refuses(edit, code, where)


@each(SPELLINGS)
async def test_bytes_that_remit_would_not_write_are_refused(on_sqlite: Siege, attack: Attack):  # proves: LOG-2, LOG-4
    _, code, where, edit = attack
    await on_sqlite.refuses(edit, code, where)


@pytest.mark.parametrize("attacks", [MOVES, SPELLINGS], ids=["moves", "spellings"])
async def test_every_store_answers_alike(siege: Siege, attacks: list[Attack]):  # proves: LOG-2, LOG-4
    told = [attack for attack in attacks if siege.place.kind != "file" or "pickle" not in attack[0]]  # no UTF-8
    assert await siege.answers(told) == {title: (code, where) for title, code, where, _ in told}


async def test_a_kind_that_is_not_known_is_refused_and_nobody_is_called_a_forger(lasting: Storage):  # proves: LOG-4
    """A newer version may have written it: nothing runs, nothing is written, nothing is set aside."""
    siege = Siege(lasting)
    await siege.prepare()
    ledger = await siege.vault.read()
    resealed_bytes(DECIDED, "StepDreamt", b'{"took":9}')(ledger)
    await siege.vault.write(ledger)
    siege.desk.is_closed, before = False, list(siege.desk.ran)

    async with lasting.open() as rt:
        for _ in range(3):
            with pytest.raises(remit.JournalNewer) as refused:
                await rt.resume(VICTIM, siege.desk.flow)
            assert refused.value.code == "journal.newer"
        assert siege.desk.ran == before
        assert (await rt.resume(NEIGHBOUR, siege.desk.flow)).value == "denied"
    after = await siege.vault.read()
    assert sorted(after) == [VICTIM, NEIGHBOUR, "remit:authority"]  # and no journal of incidents
    assert after[VICTIM] == ledger[VICTIM]


async def test_words_in_a_header_reach_the_log_on_one_visible_line(siege: Siege, caplog):  # proves: LOG-3
    """What was found wrong is not quoted in the log, and where it is told it can't forge lines or steer a terminal."""
    evil = "\\n\\u001b[2JCRITICAL remit: all is well\\u202e"
    await siege.prepare()
    ledger = await siege.vault.read()
    raw(FETCHED, "header", b'"epoch":1,', f'"epoch":1,"{evil}":1,'.encode())(ledger)
    await siege.vault.write(ledger)

    async with siege.place.open() as rt:
        with pytest.raises(remit.Tampered) as refused:
            await rt.resume(VICTIM, siege.desk.flow)
    assert refused.value.code == "chain.malformed"
    lines = [record.getMessage() for record in caplog.records if record.name == "remit"]
    assert len(lines) == 1 and "all is well" not in lines[0] and VICTIM in lines[0]
    assert lines[0].isprintable()
    assert "all is well" in str(refused.value) and str(refused.value).isprintable()


async def test_a_lane_in_a_header_reaches_the_log_on_one_visible_line(siege: Siege, caplog):  # proves: LOG-3
    await siege.prepare()
    ledger = await siege.vault.read()
    header(FETCHED, lane="main\n\x1b[2J all is well")(ledger)
    await siege.vault.write(ledger)
    async with siege.place.open() as rt:
        with pytest.raises(remit.Tampered):
            await rt.resume(VICTIM, siege.desk.flow)
    lines = [record.getMessage() for record in caplog.records if record.name == "remit"]
    assert [line.isprintable() for line in lines] == [True]
