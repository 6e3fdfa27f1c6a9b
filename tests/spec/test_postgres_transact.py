"""Rows of an application and a unit in one commit on Postgres: both are there, or neither is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Any

import asyncpg
import pytest
from asyncpg.exceptions import InterfaceError, PostgresError

from remit.errors import CommitUnknown, LeaseLost, Moved, Refused, StoreUnavailable
from remit.store.marks import Fence, Reserve
from remit.store.postgres import PostgresStore
from remit.store.postgres import link as postgres_link
from remit.store.postgres import transact as postgres_transact
from remit.store.postgres.locked import write_locked
from remit.store.units import Unit
from tests.spec.test_postgres_store import outside, waiting
from tests.support.journal import Hand, open_held, open_run, read_stored, read_view
from tests.support.postgres import name_of
from tests.support.postgres_proxy import Proxy, proxy_before

__all__ = ["outside"]  # a fixture

LIMIT_MS = 5_000


@pytest.fixture
async def proxy(postgres_database: str) -> AsyncIterator[Proxy]:
    async with proxy_before(postgres_database) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: Proxy, outside: asyncpg.Connection) -> AsyncIterator[PostgresStore]:
    """Through the proxy, beside an application with a table of its own."""
    await outside.execute("CREATE TABLE invoice (number int8 PRIMARY KEY)")
    store = PostgresStore(proxy.url)
    await store.open()
    yield store
    await store.close()


async def invoices(outside: asyncpg.Connection) -> list[int]:
    return [row["number"] for row in await outside.fetch("SELECT number FROM invoice ORDER BY 1")]


async def insert(connection: asyncpg.Connection, number: int = 1) -> None:
    await connection.execute("INSERT INTO invoice VALUES ($1)", number)


async def transact(store: PostgresStore, unit: Unit, number: int = 1, *, limit_ms: int = LIMIT_MS) -> None:
    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection, number)
        return unit

    await store.transact(build, limit_ms=limit_ms)


async def is_refused_as_ended(store, hand, build, outside) -> None:
    """Nothing of it stands, and what comes next over the same store does."""
    with pytest.raises(Refused) as refused:
        await store.transact(build, limit_ms=LIMIT_MS)
    assert refused.value.code == "transact.ended"
    assert await invoices(outside) == []
    await transact(store, Hand(store, (await read_stored(store, hand.row.run_key)).row).step())
    assert await invoices(outside) == [1]


async def test_both_are_written_in_one_commit(store, outside):  # proves: FX-6
    hand = await open_held(store, "po-1")
    seen: list[Any] = []

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        seen.append((await invoices(outside), (await read_stored(store, hand.row.run_key)).row.seq))
        return hand.step()

    await store.transact(build, limit_ms=LIMIT_MS)
    assert seen == [([], 2)]
    assert await invoices(outside) == [1]
    assert len((await read_view(store, hand.row.run_key)).calls) == 1


async def test_neither_is_where_the_unit_is_refused(store, outside):  # proves: FX-6, OWN-3
    hand = await open_held(store, "po-1")
    authority = await open_run(store, "remit:authority", worker=None)
    unit = hand.step()
    unit.fence = Fence(authority.run_key, b"\7" * 32)
    with pytest.raises(Moved) as moved:
        await transact(store, unit)
    assert moved.value.what == "authority"
    unit.fence, unit.marks = Fence(authority.run_key, authority.head), (Reserve("day", 2, 1),)
    with pytest.raises(Moved) as moved:
        await transact(store, unit)
    assert moved.value.what == "ceiling"
    await outside.execute("UPDATE remit.run SET epoch = 2")
    with pytest.raises(LeaseLost):
        await transact(store, unit)
    assert await invoices(outside) == []
    assert (await read_stored(store, hand.row.run_key)).row.seq == 2
    assert store.counters.lost == 3


async def test_what_it_raises_comes_out_and_nothing_was_written(store, outside):  # proves: FX-6
    hand = await open_held(store, "po-1")

    class Aside(BaseException):
        """As a signal that steers a flow."""

    for raised in (ValueError("no"), Aside()):

        async def build(connection: asyncpg.Connection, raised: BaseException = raised) -> Unit:
            await insert(connection)
            raise raised

        with pytest.raises(type(raised)) as caught:
            await store.transact(build, limit_ms=LIMIT_MS)
        assert caught.value is raised
    await insert(outside, 7)
    with pytest.raises(asyncpg.UniqueViolationError):
        await transact(store, hand.step(), 7)
    assert await invoices(outside) == [7]
    assert (await read_stored(store, hand.row.run_key)).row.seq == 2


async def test_one_that_is_late_wrote_nothing(store, outside):  # proves: FX-6
    hand = await open_held(store, "po-1")

    async def sleep_there(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        await connection.execute("SELECT pg_sleep(60)")
        return hand.step()

    async def wait_here(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass  # it does not heed that it was stopped
        return hand.step()

    async def keep_the_loop(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        end = time.monotonic() + 0.15
        while time.monotonic() < end:
            pass
        return hand.step()

    for build in (sleep_there, wait_here, keep_the_loop):
        with pytest.raises(Refused) as refused:
            await store.transact(build, limit_ms=100)
        assert refused.value.code == "transact.late", build
    assert await invoices(outside) == []
    again = Hand(store, (await read_stored(store, hand.row.run_key)).row)
    await transact(store, again.step())
    assert await invoices(outside) == [1]


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN"])
async def test_one_that_ends_the_transaction_itself_wrote_nothing(store, outside, ending):  # proves: FX-6
    hand = await open_held(store, "po-1")

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        await connection.execute(ending)
        return hand.step()

    await is_refused_as_ended(store, hand, build, outside)


async def test_one_that_hides_a_failure_of_a_statement_wrote_nothing(store, outside):  # proves: FX-6
    hand = await open_held(store, "po-1")

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        try:
            await insert(connection)
        except asyncpg.UniqueViolationError:
            pass
        return hand.step()

    with pytest.raises(Refused) as refused:
        await store.transact(build, limit_ms=LIMIT_MS)
    assert refused.value.code == "transact.ended"
    assert await invoices(outside) == []


# -- what is left of it when it is over -------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_is_written_over_it_when_it_is_over(store, outside, fails):  # proves: FX-6
    hand = await open_held(store, "po-1")
    kept: list[Callable[[], Awaitable[Any]]] = []

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection, 1)
        execute, prepared = connection.execute, await connection.prepare("INSERT INTO invoice VALUES (3)")
        cursor = await connection.cursor("INSERT INTO invoice VALUES (4) RETURNING number")
        inner = connection.transaction()
        await inner.start()
        kept.extend((lambda: insert(connection, 2), lambda: execute("INSERT INTO invoice VALUES (2)")))
        kept.extend((prepared.fetch, lambda: cursor.fetch(1), inner.rollback, inner.commit, connection.reset))
        kept.append(lambda: connection.copy_records_to_table("invoice", records=[(5,)]))
        if fails:
            raise ZeroDivisionError
        return hand.step()

    async def late(connection: asyncpg.Connection | None = None) -> None:
        for write in kept:
            with pytest.raises(InterfaceError):
                await write()

    async def build_again(connection: asyncpg.Connection) -> Unit:
        await late()
        return Hand(store, (await read_stored(store, hand.row.run_key)).row).step()

    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        await store.transact(build, limit_ms=LIMIT_MS)
    await late()
    await store.transact(build_again, limit_ms=LIMIT_MS)
    assert await invoices(outside) == ([] if fails else [1])


async def test_nothing_is_written_over_it_between_its_return_and_the_commit(store, outside, monkeypatch):
    # proves: FX-6
    hand = await open_held(store, "po-1")
    given: list[asyncpg.Connection] = []
    raised: list[type[Exception]] = []

    async def look(connection: Any, *rest: Any) -> Any:
        for sql in ("INSERT INTO invoice VALUES (2)", "ROLLBACK", "COMMIT"):
            try:
                await given[0].execute(sql)
            except InterfaceError as exc:
                raised.append(type(exc))
        return await write_locked(connection, *rest)

    async def build(connection: asyncpg.Connection) -> Unit:
        given.append(connection)
        await insert(connection, 1)
        return hand.step()

    monkeypatch.setattr(postgres_transact, "write_locked", look)
    await store.transact(build, limit_ms=LIMIT_MS)
    assert (await invoices(outside), len(raised)) == ([1], 3)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_statement_that_is_still_under_way_writes_nothing(store, outside, fails):  # proves: FX-6
    hand = await open_held(store, "po-1")
    tasks: list[asyncio.Task[Any]] = []
    failure = TimeoutError("as a call to somewhere else")

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection, 1)
        writes = "WITH asleep AS MATERIALIZED (SELECT pg_sleep(0.3)) INSERT INTO invoice SELECT 2 FROM asleep"
        tasks.append(asyncio.create_task(connection.execute(writes)))
        await asyncio.sleep(0.05)
        if fails:
            raise failure
        return hand.step()

    with pytest.raises(TimeoutError if fails else Refused) as refused:
        await store.transact(build, limit_ms=LIMIT_MS)
    await asyncio.wait(tasks)
    assert isinstance(tasks[0].exception(), PostgresError | InterfaceError)
    if isinstance(refused.value, Refused):
        assert (refused.value.code, "under way" in refused.value.message) == ("transact.ended", True)
    else:
        assert refused.value is failure
    await outside.fetch("SELECT 1 FROM remit.run FOR UPDATE NOWAIT")  # nothing is left at the server
    assert await invoices(outside) == []
    await transact(store, Hand(store, (await read_stored(store, hand.row.run_key)).row).step())
    assert await invoices(outside) == [1]


AFTERWARDS = [
    "ROLLBACK",
    "COMMIT",
    "ROLLBACK; BEGIN",
    "ROLLBACK; SET search_path = public",
    "ROLLBACK; RESET ALL",
    "ROLLBACK; RESET default_transaction_read_only",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; ROLLBACK",
    "SET default_transaction_read_only = off; COMMIT",
    "ROLLBACK AND CHAIN",
]


@pytest.mark.parametrize("ending", [*AFTERWARDS, "reset", "discard"])
async def test_what_it_writes_when_it_has_ended_the_transaction_is_refused(store, outside, ending):  # proves: FX-6
    hand = await open_held(store, "po-1")

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection, 7)
        if ending == "reset":
            await connection.reset()
        elif ending == "discard":
            await connection.execute("ROLLBACK")
            await connection.execute("DISCARD ALL")
        else:
            for statement in ending.split("; "):
                with suppress(asyncpg.ForeignKeyViolationError):
                    await connection.execute(statement)
        with nullcontext() if "CHAIN" in ending else pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("INSERT INTO invoice VALUES (1)")
        return hand.step()

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # asyncpg tells it of a reset in a transaction
    await is_refused_as_ended(store, hand, build, outside)


async def test_what_was_refused_after_its_end_is_told_by_that(store, outside):  # proves: FX-6
    hand = await open_held(store, "po-1")

    async def build(connection: asyncpg.Connection) -> Unit:
        await connection.execute("ROLLBACK")
        await insert(connection)
        return hand.step()

    with pytest.raises(Refused) as refused:
        await store.transact(build, limit_ms=LIMIT_MS)
    assert (refused.value.code, "before its function returned" in refused.value.message) == ("transact.ended", True)
    assert await invoices(outside) == []


async def test_a_session_is_used_again_only_after_a_clean_commit(store, outside):  # proves: FX-6
    old = (await open_held(store, "po-1")).row
    pids: list[int] = []

    async def build(connection: asyncpg.Connection, number: int) -> Unit:
        pids.append(await connection.fetchval("SELECT pg_backend_pid()"))
        await connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
        await insert(connection, number)
        row = old if number == 3 else (await read_stored(store, old.run_key)).row
        return Hand(store, row).step()

    await store.transact(lambda c: build(c, 1), limit_ms=LIMIT_MS)
    session = store._transactions._link._connection
    assert await session.fetchval("SHOW default_transaction_read_only") == "on"
    await store.transact(lambda c: build(c, 2), limit_ms=LIMIT_MS)
    with pytest.raises(asyncpg.UniqueViolationError):
        await store.transact(lambda c: build(c, 2), limit_ms=LIMIT_MS)
    assert session.is_closed()
    with pytest.raises(LeaseLost):
        await store.transact(lambda c: build(c, 3), limit_ms=LIMIT_MS)
    await store.transact(lambda c: build(c, 4), limit_ms=LIMIT_MS)
    assert [pids.index(pid) for pid in pids] == [0, 0, 0, 3, 4]
    assert await invoices(outside) == [1, 2, 4]


# -- what it may do, and what it is told ------------------------------------------------------------------------------


async def test_constraints_are_looked_at_early_by_their_names(store, outside):  # proves: FX-6
    await outside.execute(
        "ALTER TABLE invoice ADD of int8 CONSTRAINT of_invoice REFERENCES invoice DEFERRABLE INITIALLY DEFERRED"
    )
    hand = await open_held(store, "po-1")

    async def build(connection: asyncpg.Connection, which: str) -> Unit:
        await connection.execute("INSERT INTO invoice VALUES (1, 1)")
        await connection.execute(f"SET CONSTRAINTS {which} IMMEDIATE")
        return hand.step()

    with pytest.raises(Refused) as refused:
        await store.transact(lambda c: build(c, "ALL"), limit_ms=LIMIT_MS)
    assert refused.value.code == "transact.ended"
    assert "SET CONSTRAINTS ALL" in refused.value.message and "Name the constraints" in refused.value.hint
    assert await invoices(outside) == []
    await store.transact(lambda c: build(c, "of_invoice"), limit_ms=LIMIT_MS)
    assert await invoices(outside) == [1]


async def test_one_that_was_made_read_only_is_told(store, outside):  # proves: FX-6
    hand = await open_held(store, "po-1")

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        await connection.execute("SET TRANSACTION READ ONLY")
        return hand.step()

    with pytest.raises(Refused) as refused:
        await store.transact(build, limit_ms=LIMIT_MS)
    assert (refused.value.code, "read-only" in refused.value.message) == ("transact.ended", True)
    assert await invoices(outside) == []


@pytest.mark.parametrize("sql", ["SET ROLE {}", "SET LOCAL ROLE {}", "SET SESSION AUTHORIZATION {}"])
async def test_rows_are_written_as_whom_it_says_and_the_unit_as_ourselves(store, outside, postgres_database, sql):
    # proves: FX-6
    role = f"{name_of(postgres_database)}_app"
    await outside.execute(f'CREATE ROLE "{role}"; GRANT ALL ON invoice TO "{role}"')
    await outside.execute("ALTER TABLE invoice ADD by text DEFAULT current_user")
    hand = await open_held(store, "po-1")
    before: list[str] = []

    async def build(connection: asyncpg.Connection, number: int) -> Unit:
        before.append(await connection.fetchval("SELECT current_user"))
        await connection.execute(sql.format(f'"{role}"'))
        await insert(connection, number)
        return Hand(store, (await read_stored(store, hand.row.run_key)).row).step()

    try:
        for number in (1, 2):
            await store.transact(lambda c, number=number: build(c, number), limit_ms=LIMIT_MS)
        assert [row["by"] for row in await outside.fetch("SELECT by FROM invoice")] == [role, role]
        assert len(set(before)) == 1 and role not in before
    finally:
        await outside.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')


async def test_a_role_that_the_database_starts_with_is_kept(store, outside, postgres_database):  # proves: FX-6
    name = name_of(postgres_database)
    role = f"{name}_owner"
    await outside.execute(f'CREATE ROLE "{role}" SUPERUSER; ALTER DATABASE "{name}" SET role = "{role}"')
    hand = await open_held(store, "po-1")
    seen: list[str] = []

    async def build(connection: asyncpg.Connection) -> Unit:
        seen.append(await connection.fetchval("SELECT current_user"))
        await connection.execute("SET ROLE NONE")
        return Hand(store, (await read_stored(store, hand.row.run_key)).row).step()

    try:
        for _ in range(2):
            await store.transact(build, limit_ms=LIMIT_MS)
        assert seen == [role, role]
    finally:
        await outside.execute(f'ALTER DATABASE "{name}" RESET role; RESET ROLE; DROP ROLE "{role}"')


async def test_a_savepoint_of_its_own_is_its_own_affair(store, outside):
    hand = await open_held(store, "po-1")

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        with pytest.raises(asyncpg.UniqueViolationError):
            async with connection.transaction():
                await insert(connection)
        await insert(connection, 2)
        return hand.step()

    await store.transact(build, limit_ms=LIMIT_MS)
    assert await invoices(outside) == [1, 2]


async def test_a_constraint_that_is_looked_at_last_is_the_application_s_own(store, outside):
    await outside.execute("ALTER TABLE invoice ADD of int8 REFERENCES invoice DEFERRABLE INITIALLY DEFERRED")
    hand = await open_held(store, "po-1")

    async def build(connection: asyncpg.Connection) -> Unit:
        await connection.execute("INSERT INTO invoice VALUES (1, 2)")
        return hand.step()

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await store.transact(build, limit_ms=LIMIT_MS)
    assert await invoices(outside) == []
    assert (await read_stored(store, hand.row.run_key)).row.seq == 2


async def test_it_has_the_application_s_settings_and_leaves_no_trace(store, outside, postgres_database):
    name = name_of(postgres_database)
    await outside.execute(f'ALTER DATABASE "{name}" SET search_path = shop; CREATE SCHEMA shop')
    await outside.execute("CREATE TABLE shop.basket (id int8)")
    hand = await open_held(store, "po-1")
    role = f"{name}_role"
    await outside.execute(f'CREATE ROLE "{role}"; GRANT ALL ON SCHEMA shop, public, remit TO "{role}"')
    seen: list[dict[str, str]] = []

    async def build(connection: asyncpg.Connection) -> Unit:
        names = ("search_path", "enable_nestloop", "role", "timezone")
        seen.append({n: await connection.fetchval("SELECT current_setting($1)", n) for n in names})
        await connection.execute("INSERT INTO basket VALUES (1)")
        await connection.execute("SET timezone = 'Asia/Tokyo'; SET search_path = nowhere")
        await connection.execute(f'SET ROLE "{role}"; RESET ROLE')
        return hand.step()

    try:
        for _ in range(2):
            await store.transact(build, limit_ms=LIMIT_MS)
        assert seen[0] == seen[1]
        assert (seen[0]["search_path"], seen[0]["enable_nestloop"], seen[0]["role"]) == ("shop", "on", "none")
        assert await outside.fetchval("SELECT count(*) FROM shop.basket") == 2
    finally:
        await outside.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')


@pytest.mark.parametrize(("before", "commit"), [("off", "on"), ("remote_apply", "remote_apply")])
async def test_its_commit_is_durable_whatever_the_database_or_the_application_set(
    store, outside, postgres_database, monkeypatch, before, commit
):  # proves: FX-6, RUN-3
    await outside.execute(f'ALTER DATABASE "{name_of(postgres_database)}" SET synchronous_commit = {before}')
    hand = await open_held(store, "po-1")
    seen: list[str] = []

    async def look(connection: Any, *rest: Any) -> Any:
        for setting in ("synchronous_commit", "search_path", "enable_nestloop"):
            seen.append(await connection.fetchval("SELECT pg_catalog.current_setting($1)", setting))
        return await write_locked(connection, *rest)

    async def build(connection: asyncpg.Connection) -> Unit:
        await insert(connection)
        if before == "off":
            await connection.execute("SET synchronous_commit = off; SET search_path = nowhere")
        return hand.step()

    monkeypatch.setattr(postgres_transact, "write_locked", look)
    await store.transact(build, limit_ms=LIMIT_MS)
    assert seen == [commit, "pg_catalog", "off"]


async def test_a_batch_that_waits_is_written_after_it(store, outside):  # proves: FX-6
    hand, other = await open_held(store, "po-1"), await open_held(store, "po-2")
    written: list[str] = []

    async def build(connection: asyncpg.Connection) -> Unit:
        appends.append(asyncio.create_task(append()))
        await insert(connection)
        written.append("transaction")
        return hand.step()

    async def append() -> None:
        await store.append(other.step())
        written.append("batch")

    appends: list[asyncio.Task[None]] = []
    await asyncio.gather(*(store.transact(build, limit_ms=LIMIT_MS) for _ in range(1)))
    await appends[0]
    assert written == ["transaction", "batch"]


async def test_two_who_want_the_same_rows_take_turns(store, outside, postgres_database):  # proves: FX-6, FX-5
    rival = PostgresStore(postgres_database)
    await rival.open()
    hands = [await open_held(store, "po-1"), await open_held(rival, "po-2")]

    async def build(connection: asyncpg.Connection, hand: Hand) -> Unit:
        await connection.execute("INSERT INTO invoice VALUES (1) ON CONFLICT (number) DO UPDATE SET number = 1")
        unit = hand.step()
        unit.marks = (Reserve("day", 6, 10),)
        return unit

    made = await asyncio.gather(
        store.transact(lambda c: build(c, hands[0]), limit_ms=LIMIT_MS),
        rival.transact(lambda c: build(c, hands[1]), limit_ms=LIMIT_MS),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in made) == ["Moved", "NoneType"]
    assert await store.read_used("default", "day") == 6
    await rival.close()


# -- answers that are lost --------------------------------------------------------------------------------------------


async def first(store: PostgresStore) -> Hand:
    """Once, so that all statements are prepared and what is counted below is one transaction."""
    hand = await open_held(store, "po-1")
    await transact(store, hand.step(), 100)
    return hand


ANSWERS = 11  # clean, BEGIN, begin, insert, transaction, settings, lock, append, end, COMMIT; and one beyond


@pytest.mark.parametrize("number", range(1, ANSWERS + 1))
async def test_both_or_neither_wherever_an_answer_was_cut(store, proxy, outside, number):  # proves: FX-6, RUN-3
    hand = await first(store)
    proxy.lose_answers(after=number - 1)
    try:
        await transact(store, hand.step(), 1)
    except StoreUnavailable:
        is_written = False
    else:
        is_written = True
    assert proxy.lost == (number < ANSWERS)
    assert is_written == (number >= ANSWERS - 1)  # only the answer to COMMIT comes too late to stop anything
    await outside.fetch("SELECT 1 FROM remit.run FOR UPDATE NOWAIT")  # nothing is left at the server that holds it
    assert (1 in await invoices(outside)) == is_written
    assert (await read_stored(store, hand.row.run_key)).row.seq == 3 + is_written
    await transact(store, Hand(store, (await read_stored(store, hand.row.run_key)).row).step(), 2)


async def test_a_commit_that_nobody_can_tell_of_is_unknown(store, proxy, outside, monkeypatch):  # proves: FX-6, RUN-3
    hand = await first(store)
    monkeypatch.setattr(postgres_link, "PATIENCE_S", 0)
    proxy.lose_answers(after=ANSWERS - 2, then_close=True)
    with pytest.raises(CommitUnknown):
        await transact(store, hand.step(), 1)
    proxy.is_closed = False
    assert await invoices(outside) == [1, 100]


async def test_a_caller_who_goes_away_leaves_both_or_neither(store, outside):  # proves: FX-6
    hand = await open_held(store, "po-1")
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM remit.run FOR UPDATE")
        caller = asyncio.create_task(transact(store, hand.step()))
        await waiting(outside, 1)
        caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller

    async def build(connection: asyncpg.Connection) -> Unit:  # alone, so the one that was begun is over
        await insert(connection, 2)
        return Hand(store, (await read_stored(store, hand.row.run_key)).row).step()

    await store.transact(build, limit_ms=LIMIT_MS)
    assert await invoices(outside) == [1, 2]
    assert len((await read_view(store, hand.row.run_key)).calls) == 2
