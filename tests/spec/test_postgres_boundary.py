"""What a unit on Postgres rests on: fences, keys and ceilings, and that nobody ever waits in a circle for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from remit.errors import LeaseLost, Moved
from remit.facts.announced import AskOpened
from remit.facts.names import AUTHORITY
from remit.store.marks import Announce, CloseAsk, Fence, FreeKey, Mark, OpenAsk, Reserve, TakeKey, Unreserve
from remit.store.postgres import PostgresStore
from remit.store.postgres import writer as postgres_writer
from remit.store.postgres.rows import Q
from remit.store.rows import AskFilter
from remit.store.schema import migrations
from remit.store.units import Unit
from tests.contract.boundary import holder
from tests.spec.test_postgres_store import outside, store, waiting
from tests.support.journal import TENANT, Hand, fence_of, open_held, open_run, read_stored, read_view
from tests.support.postgres_proxy import proxy_before

__all__ = ["outside", "store"]  # fixtures


@pytest.fixture
async def authority(store: PostgresStore) -> Hand:
    """The journal that fences others."""
    return Hand(store, await open_run(store, AUTHORITY, worker=None))


@pytest.fixture
async def rival(store: PostgresStore, postgres_database: str) -> AsyncIterator[PostgresStore]:
    """Another process at the same ledger. After `store`, which made it."""
    rival = PostgresStore(postgres_database)
    await rival.open()
    yield rival
    await rival.close()


def effect(hand: Hand, authority: Hand | None = None, *marks: Mark) -> Unit:
    """Two entries, as a judgement and its intention; fenced where an authority is given."""
    unit = hand.step()
    unit.entries += hand.step().entries
    unit.head_after, unit.seq_after = hand.pen.head, hand.pen.seq
    unit.fence = None if authority is None else fence_of(authority)
    unit.marks = marks
    return unit


async def answers(store: PostgresStore, *units: Unit) -> list[str]:
    """One batch: "" for what was written, or why it was not."""
    before = store.counters.commits
    made = await asyncio.gather(*(store.append(unit) for unit in units), return_exceptions=True)
    assert store.counters.commits == before + 1
    return [_told(answer) for answer in made]


def _told(answer: object) -> str:
    if isinstance(answer, Moved):
        return answer.what
    if isinstance(answer, LeaseLost):
        return "lease"
    assert answer is None, answer
    return ""


# -- fences and lane post ---------------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may go the long way."""

    async def refuse(*_: Any) -> Any:
        raise AssertionError("it went the long way")

    monkeypatch.setattr(postgres_writer, "write_locked", refuse)


async def test_a_batch_of_effects_is_one_statement_with_a_reason_for_each(store, authority, outside, short):
    names = ("fine", "head", "epoch", "lease", "authority", "post", "both", "plain", "settled")
    hands = {name: await open_held(store, name) for name in names}
    hands["head"].step()  # sealed and never written: what follows does not fit
    await outside.execute("UPDATE remit.run SET epoch = 2 WHERE run = 'epoch'")
    await outside.execute("UPDATE remit.run SET lease_until = 1 WHERE run IN ('lease', 'both')")
    await outside.execute("UPDATE remit.run SET post_head = head WHERE run = 'post'")
    units = {name: effect(hand, authority) for name, hand in hands.items()}
    units["authority"].fence = units["both"].fence = Fence(authority.row.run_key, b"\7" * 32)
    for name in ("post", "fine"):
        units[name].post_head = hands[name].row.post_head
    units["plain"].fence = None
    units["settled"] = Hand(store, hands["settled"].row).start()  # of an epoch that the row does not have any more
    told = dict(zip(names, await answers(store, *units.values()), strict=True))
    lost = {"head", "epoch", "lease", "both", "settled"}
    reasons = {"authority": "authority", "post": "post"}
    assert told == {name: "lease" if name in lost else reasons.get(name, "") for name in names}
    assert {row["run"] for row in await outside.fetch("SELECT run FROM remit.run WHERE seq > 2")} == {"fine", "plain"}
    assert await outside.fetchval("SELECT count(*) FROM remit.entry WHERE seq > 2") == 4


async def test_a_lone_effect_is_told_why(store, authority, outside, short):  # proves: GATE-2
    hand = await open_held(store, "po-1")
    unit = effect(hand, authority)
    await outside.execute("UPDATE remit.run SET head = sha256(head) WHERE run = $1", AUTHORITY)
    assert await answers(store, unit) == ["authority"]
    await outside.execute("UPDATE remit.run SET head = $2 WHERE run = $1", AUTHORITY, authority.pen.head)
    assert await answers(store, unit) == [""]


async def test_a_journal_that_fences_can_not_move_until_the_commit_is_over(store, authority, outside):  # proves: GATE-2
    hands = [await open_held(store, f"r-{i}") for i in range(2)]
    for marks in ((), (Reserve("pay", 1, 5),)):
        async with outside.transaction():
            await outside.execute("SELECT 1 FROM remit.run WHERE run = 'r-1' FOR UPDATE")
            batch = asyncio.gather(*(store.append(effect(hand, authority, *marks)) for hand in hands))
            await waiting(outside, 1)
            move = "SELECT 1 FROM remit.run WHERE run = $1 FOR NO KEY UPDATE SKIP LOCKED"
            share = "SELECT 1 FROM remit.run WHERE run = $1 FOR SHARE SKIP LOCKED"
            assert await outside.fetchval(share, AUTHORITY) == 1
            assert await outside.fetchval(move, AUTHORITY) is None
        await batch


async def test_a_move_that_is_under_way_is_waited_for_and_seen(store, authority, outside):  # proves: GATE-2
    hands = [await open_held(store, f"r-{i}") for i in range(2)]
    for marks in ((), (Reserve("pay", 1, 5),)):
        units = [effect(Hand(store, (await read_stored(store, h.row.run_key)).row), authority, *marks) for h in hands]
        async with outside.transaction():
            await outside.execute("UPDATE remit.run SET head = sha256(head) WHERE run = $1", AUTHORITY)
            batch = asyncio.create_task(answers(store, *units))
            await waiting(outside, 1)
        assert await batch == ["authority", "authority"]
        await outside.execute("UPDATE remit.run SET head = $2 WHERE run = $1", AUTHORITY, authority.pen.head)
    assert await outside.fetchval("SELECT count(*) FROM remit.ceiling") == 0


async def test_a_grant_in_the_same_batch_comes_first(store, authority):  # proves: GATE-2
    hand = await open_held(store, "po-1")
    unit, grant = effect(hand, authority), authority.step()
    assert await answers(store, unit, grant) == ["authority", ""]
    held = await open_held(store, "held")  # a journal that is held fences no other way
    unit = effect(Hand(store, (await read_stored(store, hand.row.run_key)).row), held)
    assert await answers(store, unit, held.step()) == ["authority", ""]


async def test_a_journal_of_authority_is_locked_before_every_run_whatever_their_keys(store, outside):
    older, hand = await open_held(store, "older"), await open_held(store, "po-1")
    authority = Hand(store, await open_run(store, AUTHORITY, worker=None))
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM remit.run WHERE run_key = $1 FOR UPDATE", older.row.run_key)
        batch = asyncio.create_task(answers(store, older.step(), hand.step(), authority.step()))
        await waiting(outside, 1)
        sql = "SELECT run FROM remit.run FOR UPDATE SKIP LOCKED"
        assert [row["run"] for row in await outside.fetch(sql)] == ["older", "po-1"]
    assert await batch == ["", "", ""]


async def test_an_act_may_be_fenced_by_the_journal_that_it_extends(store, authority):
    unit = effect(authority, authority)
    unit.fence = Fence(authority.row.run_key, authority.row.head)
    assert await answers(store, unit) == [""]


# -- keys and ceilings ------------------------------------------------------------------------------------------------


async def test_a_unit_that_is_refused_leaves_room_for_those_after_it(store, authority, outside):
    hands = [await open_held(store, f"r-{i}") for i in range(5)]
    await outside.execute("UPDATE remit.run SET lease_until = 1 WHERE run = 'r-0'")
    told = await answers(
        store,
        effect(hands[0], authority, TakeKey("k", "pay"), Reserve("day", 9, 10)),  # without its lease
        effect(hands[1], authority, TakeKey("k", "pay"), Reserve("day", 11, 10)),  # over the ceiling: no key either
        effect(hands[2], authority, TakeKey("k", "pay"), Reserve("day", 6, 10)),
        effect(hands[3], authority, Reserve("day", 4, 10), TakeKey("k", "pay")),  # without the key: no amount either
        effect(hands[4], authority, Reserve("day", 4, 10)),
    )
    assert told == ["lease", "ceiling", "", "business", ""]
    assert await holder(store, "k") == ("r-2", "pay")
    assert await store.read_used(TENANT, "day") == 10
    assert [(await read_stored(store, hand.row.run_key)).row.seq for hand in hands] == [2, 2, 4, 2, 4]


async def test_what_is_given_back_leaves_no_row(store, outside):
    hand = await open_held(store, "po-1")
    await store.append(effect(hand, None, TakeKey("k", "pay"), Reserve("day", 5, 10), Reserve("run", 5, 10)))
    await store.append(effect(hand, None, TakeKey("k", "pay"), Unreserve("day", 7), FreeKey("other")))
    assert await holder(store, "k") == ("po-1", "pay")
    await store.append(effect(hand, None, FreeKey("k"), Unreserve("run", 2), Unreserve("never", 3)))
    assert await outside.fetchval("SELECT count(*) FROM remit.business_key") == 0
    assert [tuple(row) for row in await outside.fetch("SELECT scope, used FROM remit.ceiling")] == [("run", 3)]
    other = await open_held(store, "po-2")
    await store.append(effect(hand, None, TakeKey("mine", "pay")))
    await store.append(effect(other, None, FreeKey("mine")))
    assert await holder(store, "mine") == ("po-1", "pay")
    taken = effect(other, None, TakeKey("k", "pay"), FreeKey("k"), TakeKey("k", "refund"))
    assert await answers(store, taken, effect(hand, None, TakeKey("k", "pay"))) == ["", "business"]
    assert await holder(store, "k") == ("po-2", "refund")


async def test_an_amount_that_fits_no_column_is_over_every_ceiling(store):
    hand = await open_held(store, "po-1")
    unit = effect(hand, None, Reserve("day", 2**63, 2**70))
    assert await answers(store, unit) == ["ceiling"]
    unit.marks = (Reserve("day", 2**63 - 1, 2**70),)
    assert await answers(store, unit) == [""]


@pytest.mark.parametrize("marks", [(TakeKey("a", "c"), TakeKey("b", "c")), (Reserve("a", 1, 9), Reserve("b", 1, 9))])
async def test_keys_and_ceilings_are_locked_in_order_whatever_the_order_of_the_wishes(store, outside, marks):
    table = "business_key" if isinstance(marks[0], TakeKey) else "ceiling"
    column = "key" if isinstance(marks[0], TakeKey) else "scope"
    hands = [await open_held(store, f"r-{i}") for i in range(3)]
    await store.append(effect(hands[0], None, *marks))
    lock = f"SELECT 1 FROM remit.{table} WHERE {column} = $1 FOR UPDATE"
    async with outside.transaction():
        await outside.execute(lock, "a")
        batch = asyncio.create_task(
            answers(store, *(effect(h, None, m) for h, m in zip(hands[1:], marks[::-1], strict=True)))
        )
        await waiting(outside, 1)
        await outside.execute(f"{lock} NOWAIT", "b")  # it waits for "a", so it can't hold a later one
    assert await batch == (["business"] * 2 if table == "business_key" else [""] * 2)


async def test_two_processes_with_effects_and_grants_in_reverse_order_never_wait_in_a_circle(
    store, rival, authority, monkeypatch
):  # proves: GATE-2, FX-5
    failed: list[BaseException] = []
    monkeypatch.setattr(postgres_writer, "is_worth_another_try", failed.append)
    rows = [await open_run(store, f"r-{i}", worker=None) for i in range(6)]

    def marks(turn: int, number: int) -> tuple[Mark, ...]:
        paid: tuple[Mark, ...] = (TakeKey(f"k-{number}", "pay"), Reserve(f"s-{number % 3}", 1, 10**6))
        told: tuple[Mark, ...] = (OpenAsk(f"a-{turn}-{number}", "pay", ("x", "y"), 1, 2), Announce(AskOpened(ask="a")))
        freed: tuple[Mark, ...] = (FreeKey(f"k-{number}"), CloseAsk(f"a-{turn - 1}-{number}"))
        return ((), paid, told, freed + paid + told)[turn % 4]

    async def batch(turn: int, process: PostgresStore, order: list[Any], ends: Any) -> list[Any]:
        fence = Hand(process, ends)
        wishes = []
        for row in order:
            one, other = Hand(process, row), Hand(process, row, lane="post")
            unit = one.step(b"%d" % id(process))
            unit.fence, unit.marks = Fence(ends.run_key, ends.head), marks(turn, row.run_key)
            wishes.append(process.append(unit))
            if turn % 3 == 0:
                left = other.signal(name=f"p-{turn}-{id(process)}")
                left.fence = unit.fence
                wishes.append(process.append(left))
        if turn % 5 == 0:
            wishes.append(process.append(fence.step(b"%d" % id(process))))
        return await asyncio.gather(*wishes, return_exceptions=True)

    for turn in range(60):
        stored = [(await read_stored(store, row.run_key)).row for row in rows]
        ends = (await read_stored(store, authority.row.run_key)).row
        both = await asyncio.gather(batch(turn, store, stored, ends), batch(turn, rival, stored[::-1], ends))
        told = [_told(answer) for made in both for answer in made]
        assert set(told) <= {"", "lease", "authority", "business"}, told
        assert "" in told
    assert failed == []


@pytest.mark.parametrize("marks", [(), (Reserve("day", 1, 5),)])
async def test_who_crosses_later_stands_in_line_behind_a_grant_that_waits(
    store, rival, authority, outside, marks
):  # proves: GATE-2
    """Or a grant would wait as long as there are two who cross: those who share a row don't heed who wants it alone."""
    hand = await open_held(rival, "po-1")
    unit = effect(hand, authority, *marks)
    async with outside.transaction():
        await outside.execute(Q["share_fences"], [authority.row.run_key])
        grant = asyncio.create_task(store.append(authority.step()))
        await waiting(outside, 1)
        crossing = asyncio.create_task(answers(rival, unit))
        await waiting(outside, 2)
    await grant
    assert await crossing == ["authority"]


# -- lost answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(1, 16))
async def test_what_was_reserved_is_what_the_entries_say_wherever_the_answer_was_cut(postgres_database, number):
    async with proxy_before(postgres_database) as proxy:
        store = PostgresStore(proxy.url)
        await store.open()
        authority = Hand(store, await open_run(store, AUTHORITY, worker=None))
        hands = [await open_held(store, f"r-{i}") for i in range(3)]
        told: tuple[Mark, ...] = (OpenAsk("a", "pay", ("x",), 1, 2), Announce(AskOpened(ask="a")))
        units = [effect(hand, authority, TakeKey("k", "pay"), Reserve("day", 4, 10), *told) for hand in hands[:2]]
        units.append(effect(hands[2], authority, Reserve("day", 7, 10)))
        proxy.lose_answers(after=number - 1)
        made = [_told(a) for a in await asyncio.gather(*map(store.append, units), return_exceptions=True)]
        assert made == ["", "business", "ceiling"]
        assert len((await read_view(store, hands[0].row.run_key)).calls) == 2
        assert await store.read_used(TENANT, "day") == 4
        assert await holder(store, "k") == ("r-0", "pay")
        assert len(await store.read_outbox(TENANT, 0, 10)) == len(await store.list_asks(AskFilter(TENANT))) == 1
        await store.close()


# -- schema and plans -------------------------------------------------------------------------------------------------


async def test_a_database_of_schema_1_is_migrated_and_what_it_had_goes_on(outside, postgres_database):  # proves: RUN-19
    first = migrations("postgres")[0]
    await outside.execute(first.sql)
    await outside.execute("INSERT INTO remit.migration VALUES (1, $1, 0)", first.name)
    await outside.execute("INSERT INTO remit.ledger VALUES (1, repeat('a', 32), 0, 'database')")
    store = PostgresStore(postgres_database)
    await store.open()
    assert (store.ledger.origin, store.ledger.schema) == ("a" * 32, migrations("postgres")[-1].number)
    hand = await open_held(store, "po-1")
    assert await answers(store, effect(hand, None, TakeKey("k", "pay"))) == [""]
    noted = [number for (number,) in await outside.fetch("SELECT number FROM remit.migration ORDER BY 1")]
    assert noted == [migration.number for migration in migrations("postgres")]
    await store.close()


async def test_marks_are_planned_for_full_tables_while_they_are_empty(store):
    connection = store._link._connection
    assert connection is not None
    none: list[Any] = []
    for name, values in {
        "share_fences": (none,),
        "lock_runs": (none, None),
        "read_ends": (none, None),
        "drop_keys": (none, none),
        "drop_ceilings": (none, none),
        "close_asks": (none, none),
        "hold_keys": (none, none),
        "hold_ceilings": (none, none),
        "set_keys": (*[none] * 5,),
        "set_ceilings": (*[none] * 3,),
        "open_ask": (TENANT, "a", 1, "r", "c", none, 1, 2),
    }.items():
        plan = "\n".join(row[0] for row in await connection.fetch("EXPLAIN " + Q[name], *values))
        assert "Seq Scan" not in plan and "Nested Loop" not in plan, plan


async def test_ceilings_and_runs_are_written_beside_their_old_versions(store, authority, outside):
    hands = [await open_held(store, f"r-{i}") for i in range(10)]
    for _ in range(20):
        await asyncio.gather(*(store.append(effect(h, authority, Reserve(h.row.run, 1, 99))) for h in hands))
    await store.close()  # its backend tells what it counted when it goes
    sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'remit' AND relname = $1"
    for table in ("run", "ceiling"):
        async with asyncio.timeout(20):
            while (seen := await outside.fetchrow(sql, table))["n_tup_upd"] < 200:
                await asyncio.sleep(0)
        assert seen["n_tup_hot_upd"] >= 0.9 * seen["n_tup_upd"], (table, seen)
