"""What only Postgres can get wrong: who is let in, what its settings are, and plans."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from remit.errors import LeaseLost, Refused, StoreRefused, StoreUnavailable, Tampered
from remit.store.postgres import PostgresStore
from remit.store.postgres import connection as postgres_connection
from remit.store.postgres import rows as postgres_rows
from remit.store.postgres import writer as postgres_writer
from remit.store.postgres.connection import PLANS, SETTINGS, check_url
from remit.store.postgres.rows import Q
from remit.store.rows import RunRow
from remit.store.units import Claim, Move, Renewal
from tests.support.journal import (
    LEASE_MS,
    TENANT,
    WORKER,
    Hand,
    open_held,
    open_run,
    opening,
    read_stored,
    read_view,
    view_of,
)
from tests.support.postgres import name_of, url_of


@pytest.fixture
async def store(postgres_database: str) -> AsyncIterator[PostgresStore]:
    """By the database's own clock."""
    store = PostgresStore(postgres_database)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def outside(postgres_database: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database."""
    connection = await asyncpg.connect(postgres_database)
    yield connection
    await connection.close()


async def code_of(store: PostgresStore) -> str:
    """The code with which it refuses to open."""
    with pytest.raises((Refused, StoreRefused, StoreUnavailable)) as refused:
        await store.open()
    return refused.value.code


# -- opening ----------------------------------------------------------------------------------------------------------


async def test_a_newer_schema_is_refused_and_left_as_it_is(store, outside, postgres_database):  # proves: RUN-19
    await outside.execute("INSERT INTO remit.migration VALUES (9999, 'from_the_future', 0)")
    before = await outside.fetch("SELECT * FROM remit.ledger, remit.migration ORDER BY number")
    assert await code_of(PostgresStore(postgres_database)) == "store.newer"
    assert await outside.fetch("SELECT * FROM remit.ledger, remit.migration ORDER BY number") == before


async def test_a_schema_of_another_program_is_refused_and_left_as_it_is(outside, postgres_database):
    await outside.execute("CREATE SCHEMA remit; CREATE TABLE remit.invoice (id int8)")
    assert await code_of(PostgresStore(postgres_database)) == "store.foreign"
    assert [row["relname"] for row in await outside.fetch(Q["read_tables"])] == ["invoice"]


async def test_it_lives_beside_an_application(outside, postgres_database):
    await outside.execute("CREATE TABLE run (mine text); CREATE TABLE entry (mine text)")
    store = PostgresStore(postgres_database)
    await store.open()
    await open_held(store, "po-1")
    await store.close()
    assert await outside.fetchval("SELECT count(*) FROM run") == 0


async def test_many_who_open_a_new_database_at_once_make_one_ledger(postgres_database, outside):
    stores = [PostgresStore(postgres_database) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    assert len({store.ledger.origin for store in stores}) == 1
    assert await outside.fetchval("SELECT count(*) FROM remit.migration") == stores[0].ledger.schema
    for store in stores:
        await store.close()


async def test_what_is_not_there_is_said_to_be_missing(postgres_url):
    assert await code_of(PostgresStore(url_of(postgres_url, "nowhere"))) == "store.missing"


async def test_a_server_that_does_not_answer_is_unavailable(tmp_path):
    assert await code_of(PostgresStore(f"postgresql:///any?host={tmp_path}")) == "store.unavailable"


async def test_a_url_that_says_nothing_is_refused():
    ports = ("postgresql://127.0.0.1:99999/db", "postgresql:///db?host=127.0.0.1&port=99999")
    brackets = ("postgresql://dana:s3cret@[::1/db", "postgresql://dana:s3cret@a[b]/db")
    for url in ("mysql://host/db", "/path", "postgresql://host:port/db", *ports, *brackets):
        with pytest.raises(Refused) as refused:
            await PostgresStore(url).open()
        assert refused.value.code == "url.refused", url
        assert "s3cret" not in str(refused.value)
    for url in ports:
        with pytest.raises(Refused) as refused:
            await PostgresStore(url).exists()
        assert refused.value.code == "url.refused", url


async def test_a_password_is_shown_nowhere(tmp_path):
    for url in (
        f"postgresql://dana:s3cret@/db?host={tmp_path}",
        f"postgresql://dana@/db?host={tmp_path}&password=s3cret",
        "postgresql://dana:s3cret@host:port/db",
    ):
        assert "s3cret" not in check_url(url)
        with pytest.raises((Refused, StoreUnavailable)) as refused:
            await PostgresStore(url).open()
        assert "s3cret" not in str(refused.value)
    assert check_url("postgresql://dana:s3cret@host:5433/db?sslmode=require") == (
        "postgresql://dana@host:5433/db?sslmode=require"
    )


async def test_a_database_that_can_not_hold_every_id_is_refused(postgres_url):
    name = name_of(postgres_url) + "_latin"
    server = await asyncpg.connect(postgres_url)
    await server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'")
    try:
        assert await code_of(PostgresStore(url_of(postgres_url, name))) == "store.setting"
    finally:
        await server.execute(f"DROP DATABASE {name}")
        await server.close()


async def test_a_user_who_may_only_read_and_write_is_enough_once_it_is_made(store, outside, postgres_database):
    role = name_of(postgres_database)
    await outside.execute(
        f"""CREATE ROLE "{role}" LOGIN; GRANT USAGE ON SCHEMA remit TO "{role}";
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA remit TO "{role}";"""
    )
    least = PostgresStore(postgres_database.replace("user=postgres", f"user={role}"))
    try:
        await least.open()
        hand = await open_held(least, "po-1")
        await least.append(hand.step())
        await least.close()
    finally:
        await outside.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')


async def test_a_user_who_may_not_make_the_schema_is_told(outside, postgres_database):
    role = name_of(postgres_database)
    await outside.execute(f'CREATE ROLE "{role}" LOGIN')
    try:
        url = postgres_database.replace("user=postgres", f"user={role}")
        assert await code_of(PostgresStore(url)) == "store.unwritable"
    finally:
        await outside.execute(f'DROP ROLE "{role}"')


# -- settings ---------------------------------------------------------------------------------------------------------


async def test_the_database_s_own_defaults_do_not_weaken_a_commit(outside, postgres_database):  # proves: RUN-3
    name = name_of(postgres_database)
    for setting in (
        "synchronous_commit = off",
        "default_transaction_isolation = 'serializable'",
        "search_path = 'public'",
        "statement_timeout = '1ms'",
    ):
        await outside.execute(f'ALTER DATABASE "{name}" SET {setting}')
    store = PostgresStore(postgres_database)
    await store.open()
    hand = await open_held(store, "po-1")
    await store.append(hand.step())
    await read_view(store, hand.row.run_key)
    renewer = await store.renewer()
    wanted = SETTINGS | {"synchronous_commit": "on"}
    connections: list[Any] = [store._link._connection, renewer._link._connection]  # type: ignore[attr-defined]
    for connection in connections:
        seen = {key: await connection.fetchval("SELECT current_setting($1)", key) for key in wanted}
        assert seen == wanted
    await renewer.close()
    pooled = await store._read(lambda c: c.fetchval("SELECT current_setting('synchronous_commit')"))
    assert pooled == "on"
    await store.close()


async def test_a_stricter_commit_is_left_as_it_is(outside, postgres_database):
    await outside.execute(f'ALTER DATABASE "{name_of(postgres_database)}" SET synchronous_commit = remote_apply')
    store = PostgresStore(postgres_database)
    await store.open()
    assert await store._read(lambda c: c.fetchval("SELECT current_setting('synchronous_commit')")) == "remote_apply"
    await store.close()


# -- the database's clock ---------------------------------------------------------------------------------------------


async def test_leases_are_judged_by_the_database_s_clock(store, outside):  # proves: OWN-1, OWN-3
    before = await outside.fetchval(Q["read_now"])
    hands = [await open_held(store, f"r-{i}") for i in range(3)]
    assert store.ledger.clock == "database"
    after = await store.now()
    for hand in hands:
        assert before <= hand.row.lease_until - LEASE_MS * 1_000 <= after
    await outside.execute(
        "UPDATE remit.run SET lease_until = (extract(epoch FROM clock_timestamp()) * 1000000)::int8 WHERE run <> 'r-2'"
    )
    with pytest.raises(LeaseLost):
        await store.append(hands[0].step())
    made = await asyncio.gather(store.append(hands[1].step()), store.append(hands[2].step()), return_exceptions=True)
    assert [type(answer) for answer in made] == [LeaseLost, type(None)]
    won = await store.claim(Claim(hands[0].row.run_key, 1, "w-2", LEASE_MS))
    assert won is not None and won.lease_until > after
    assert await store.claim(Claim(hands[2].row.run_key, 1, "w-2", LEASE_MS)) is None
    renewer = await store.renewer()
    renewed = await renewer.renew(WORKER, [Renewal(h.row.run_key, 1) for h in hands], lease_ms=2 * LEASE_MS)
    assert renewed.keys() == {hands[1].row.run_key, hands[2].row.run_key}
    row = await store.read_row(TENANT, "r-2")
    assert row is not None and row.lease_until >= after + 2 * LEASE_MS * 1_000
    await renewer.close()


# -- batches ----------------------------------------------------------------------------------------------------------


async def test_a_batch_of_everything_is_one_commit_with_an_answer_for_each(store):  # proves: RUN-3, OWN-3, LOG-1
    hands = [await open_held(store, f"r-{i}") for i in range(4)]
    post = Hand(store, hands[0].row, lane="post")
    hands[3].step()  # sealed and never written: what follows does not fit
    ended, large = hands[1].end(), b'"' + b"x" * 600_000 + b'"'
    before = store.counters.commits
    made: list[Any] = await asyncio.gather(
        store.append(hands[0].step()),
        store.append(post.signal()),
        store.append(ended),
        store.append(hands[2].step(large)),
        store.append(hands[3].step()),
        store.open_run(opening(store, "new", value=large)),
        store.open_run(opening(store, "r-0")),
        return_exceptions=True,
    )
    assert store.counters.commits == before + 1
    assert [type(answer) for answer in made[:5]] == [type(None)] * 4 + [LeaseLost]
    assert made[5].run == "new" and made[6] is None
    views = [await read_view(store, hand.row.run_key) for hand in hands]
    assert [len(view.calls) for view in views] == [1, 0, 1, 0]
    assert (await read_view(store, made[5].run_key)).input == large
    assert len((await read_stored(store, hands[0].row.run_key)).post) == 1


async def test_each_unit_of_a_batch_is_held_to_head_epoch_lease_and_quarantine(store, outside):  # proves: OWN-3, LOG-3
    names = ("head", "epoch", "lease", "aside", "fine")
    hands = {name: await open_held(store, name) for name in names}
    hands["head"].step()  # sealed and never written: what follows does not fit
    await outside.execute("UPDATE remit.run SET epoch = 2 WHERE run = 'epoch'")
    await outside.execute("UPDATE remit.run SET lease_until = 1 WHERE run = 'lease'")
    await outside.execute("UPDATE remit.run SET quarantined = true WHERE run = 'aside'")
    wishes = [store.append(hands[name].step()) for name in names]
    made = await asyncio.gather(*wishes, return_exceptions=True)
    assert [type(answer) for answer in made] == [LeaseLost] * 4 + [type(None)]
    assert await outside.fetch("SELECT run FROM remit.run WHERE seq > 2") == [("fine",)]
    assert await outside.fetchval("SELECT count(*) FROM remit.entry WHERE seq > 2") == 1


async def test_units_with_and_without_a_move_share_a_statement(store):  # proves: RUN-3
    hands = [await open_held(store, f"r-{i}") for i in range(3)]
    units = [hand.step() for hand in hands]
    units[1].move = Move("waiting", "step.failed", release=True)
    await asyncio.gather(*(store.append(unit) for unit in units))
    rows = [(await read_stored(store, hand.row.run_key)).row for hand in hands]
    assert [(row.status, row.code, row.worker) for row in rows] == [
        ("running", "", WORKER),
        ("waiting", "step.failed", None),
        ("running", "", WORKER),
    ]


async def test_entries_beyond_the_end_of_a_row_are_found_and_disturb_nobody_else(store, outside):  # proves: LOG-3
    one, two = await open_held(store, "po-1"), await open_held(store, "po-2")
    await outside.execute("INSERT INTO remit.entry VALUES ($1, 0, 3, '', '')", one.row.run_key)
    wishes = [store.append(hand.step()) for hand in (one, two)]
    made: list[Any] = await asyncio.gather(*wishes, return_exceptions=True)
    assert [type(answer) for answer in made] == [Tampered, type(None)]
    assert made[0].code == "chain.head"
    assert (await read_stored(store, one.row.run_key)).row.seq == 2


async def test_a_run_that_is_deleted_while_a_batch_waits_for_it_is_not_made_anew(store, outside):  # proves: LOG-1
    hands = [await open_held(store, f"r-{i}") for i in range(3)]
    renewer = await store.renewer()
    async with outside.transaction():
        await outside.execute("DELETE FROM remit.run WHERE run_key = $1", hands[0].row.run_key)
        batch = asyncio.gather(*(store.append(hand.step()) for hand in hands), return_exceptions=True)
        leases = [Renewal(hand.row.run_key, 1) for hand in hands]
        renewal = asyncio.create_task(renewer.renew(WORKER, leases, lease_ms=LEASE_MS))
        await waiting(outside, 2)
    assert [type(answer) for answer in await batch] == [LeaseLost, type(None), type(None)]
    assert (await renewal).keys() == {hand.row.run_key for hand in hands[1:]}
    assert await outside.fetch("SELECT run FROM remit.run ORDER BY 1") == [("r-1",), ("r-2",)]
    await renewer.close()


async def test_a_row_that_somebody_holds_stops_nobody_else_for_long(
    postgres_database, outside, monkeypatch
):  # proves: RUN-3
    monkeypatch.setitem(postgres_connection.SETTINGS, "lock_timeout", "100ms")
    store = PostgresStore(postgres_database)
    await store.open()
    held, free = await open_held(store, "held"), await open_held(store, "free")
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM remit.run WHERE run_key = $1 FOR UPDATE", held.row.run_key)
        unit = held.step()
        made = await asyncio.gather(store.append(unit), store.append(free.step()), return_exceptions=True)
    assert isinstance(made[0], StoreUnavailable) and made[0].code == "store.busy"
    assert made[1] is None
    await store.append(unit)
    await store.close()


async def test_processes_that_write_the_same_rows_at_once_never_wait_in_a_circle(
    store, postgres_database, monkeypatch
):  # proves: OWN-3, LOG-1
    rivals = [store, PostgresStore(postgres_database)]
    await rivals[1].open()
    renewer = await store.renewer()
    rows = [await open_run(store, f"r-{i}", worker=None) for i in range(12)]
    failed: list[BaseException] = []
    monkeypatch.setattr(postgres_writer, "is_worth_another_try", failed.append)

    def appends(turn: int, rival: PostgresStore, order: list[RunRow]) -> list[Any]:
        return [rival.append(Hand(rival, row).step(b"%d" % id(rival), name=f"t-{turn}")) for row in order]

    def openings(turn: int, rival: PostgresStore, order: list[RunRow]) -> list[Any]:
        return [rival.open_run(opening(rival, f"n-{turn}-{row.run}", value=b"%d" % id(rival))) for row in order]

    def posts(turn: int, rival: PostgresStore, order: list[RunRow]) -> list[Any]:
        return [rival.append(Hand(rival, row, lane="post").signal(name=f"p-{turn}-{id(rival)}")) for row in order[:6]]

    for turn in range(40):
        stored = [(await read_stored(store, row.run_key)).row for row in rows]
        kinds = [(appends,), (openings,), (posts,), (appends, openings, posts)][turn % 4]
        wishes = [renewer.renew(WORKER, [Renewal(row.run_key, 1) for row in reversed(rows)], lease_ms=LEASE_MS)]
        for rival, order in zip(rivals, (stored, stored[::-1]), strict=True):
            wishes += [wish for kind in kinds for wish in kind(turn, rival, order)]
        made = await asyncio.gather(*wishes, return_exceptions=True)
        assert {type(answer).__name__ for answer in made} <= {"NoneType", "LeaseLost", "RunRow", "dict"}, made
    assert failed == []
    for row in rows:
        assert (await read_stored(store, row.run_key)).row.seq == 21
    await renewer.close()
    await rivals[1].close()


@pytest.mark.parametrize("kind", ["main", "post", "both", "renew"])
async def test_rows_are_locked_by_run_key_whatever_the_order_of_the_wishes(store, outside, kind):  # proves: OWN-3
    hands = [await open_held(store, f"r-{i}") for i in range(4)]
    keys = [hand.row.run_key for hand in hands]
    renewer = await store.renewer()
    wishes: list[Any] = []
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM remit.run WHERE run_key = $1 FOR UPDATE", keys[0])
        if kind in ("main", "both"):
            wishes += [store.append(hand.step()) for hand in hands[::-1]]
        if kind in ("post", "both"):
            wishes += [store.append(Hand(store, hand.row, lane="post").signal()) for hand in hands[::-1]]
        if kind == "renew":
            wishes = [renewer.renew(WORKER, [Renewal(key, 1) for key in keys[::-1]], lease_ms=LEASE_MS)]
        batch = asyncio.gather(*wishes)
        await waiting(outside, 1)
        # It waits for the first row, so it can't hold a later one.
        await outside.execute("SELECT 1 FROM remit.run WHERE run_key > $1 FOR UPDATE NOWAIT", keys[0])
    await batch
    await renewer.close()


async def test_new_ids_are_taken_in_order_whatever_the_order_of_the_wishes(store, outside):  # proves: RUN-11
    await open_run(store, "seed")
    copy = """INSERT INTO remit.run (tenant, run, gen, flow, "by", status, code, quarantined, opened_at, window_end,
            head, seq, post_head, post_seq, epoch, lease_until)
        SELECT tenant, $1, gen, flow, "by", status, code, quarantined, opened_at, window_end,
            head, seq, post_head, post_seq, epoch, lease_until FROM remit.run WHERE run = 'seed'"""
    await outside.execute("SET lock_timeout = '200ms'")
    transaction = outside.transaction()
    await transaction.start()
    await outside.execute(copy, "a")
    batch = asyncio.gather(*(store.open_run(opening(store, run)) for run in ("c", "b", "a")))
    await waiting(outside, 1)
    await outside.execute(copy, "b")  # it waits for "a", so it can't have taken a later one
    await transaction.rollback()
    assert [row.run for row in await batch if row is not None] == ["c", "b", "a"]


# -- reading ----------------------------------------------------------------------------------------------------------


async def test_a_run_is_read_in_one_snapshot(store):  # proves: LOG-1
    hand = await open_held(store, "po-1")

    class Late:
        """A connection beside which the run is written to, right after its row was read."""

        def __init__(self, connection: Any) -> None:
            self.transaction, self.fetch = connection.transaction, connection.fetch
            self._fetchrow = connection.fetchrow

        async def fetchrow(self, *query: Any) -> Any:
            row = await self._fetchrow(*query)
            await store.append(hand.step())
            return row

    late: Any = Late
    stored = await store._read(lambda c: postgres_rows.read_run(late(c), hand.row.run_key))
    assert (stored.row.seq, len(stored.main)) == (2, 2)
    view_of(store, stored)
    assert (await read_stored(store, hand.row.run_key)).row.seq == 3


# -- plans ------------------------------------------------------------------------------------------------------------


async def test_hot_statements_are_planned_for_a_full_table_while_it_is_empty(store):
    connection = store._link._connection
    assert connection is not None
    assert {name: await connection.fetchval("SELECT current_setting($1)", name) for name in PLANS} == PLANS
    head = (1, b"", b"", 1, 1)
    keys, none = "{}", list[Any]()
    ends, entries = (keys, none, none, keys), (keys, keys, none, none, none, none)
    append = (*ends, keys, none, none, keys, None, *entries, keys, keys, none)
    for name, values in {
        "append": append,
        "append_told": (*append, keys, none, none),
        "append_one": (*head, None, None, False, None, b"", b"", b"", b"", None),
        "append_post": (*ends, *entries),
        "renew": (none, none, WORKER, 1, None),
        "find_units": (none, none, none),
        "open_runs": (*[none] * 10, None, *[none] * 4, keys, keys, none),
    }.items():
        plan = "\n".join(row[0] for row in await connection.fetch("EXPLAIN " + Q[name], *values))
        assert "Seq Scan" not in plan and "Nested Loop" not in plan, plan
        assert "Index" in plan or name == "open_runs", plan


async def waiting(connection: Any, count: int) -> None:
    """Returns when so many others of this database wait for a lock."""
    sql = """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    async with asyncio.timeout(20):
        while await connection.fetchval(sql) < count:
            await connection.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees the same all the time
