"""What SQLite adds to the contract of the boundary: older files, lists that stay fast, and what a batch costs."""

from __future__ import annotations

import time
from pathlib import Path

import apsw
import pytest

from remit.store.marks import Reserve
from remit.store.rows import AskFilter
from remit.store.schema import migrations
from remit.store.sqlite import SqliteStore
from remit.store.sqlite.rows import Q
from remit.store.units import Unit
from tests.contract.boundary import fates, open_authority, resting
from tests.support.aged import age
from tests.support.journal import Hand, fence_of, open_held, read_view

OPEN, CLOSED = 100_000, 1_000_000
FEW_CLOSED = 20_000


@pytest.fixture
async def store(tmp_path: Path):
    store = SqliteStore(tmp_path / "runs.db")
    await store.open()
    yield store
    await store.close()


async def test_a_file_of_schema_1_is_migrated_and_what_it_had_goes_on(tmp_path: Path):  # proves: RUN-19
    source = SqliteStore(tmp_path / "new.db")
    await source.open()
    hand = await open_held(source, "po-1")
    await source.append(hand.step())
    await source.close()
    age(tmp_path / "new.db", tmp_path / "old.db", schema=1)

    store = SqliteStore(tmp_path / "old.db")
    await store.open()

    assert (store.ledger.origin, store.ledger.schema) == (source.ledger.origin, len(migrations("sqlite")))
    assert len((await read_view(store, hand.row.run_key)).calls) == 1
    unit = resting(hand, Reserve("a", 1, 1))
    assert await fates(store, unit) == ["written"]
    await store.close()


@pytest.mark.parametrize("closed", [FEW_CLOSED, pytest.param(CLOSED, marks=pytest.mark.slow)])
async def test_the_inbox_is_read_at_once_however_many_questions_there_are(store: SqliteStore, closed: int):
    # proves: APR-1
    await open_held(store, "po-1")
    fill(store, closed)
    role = AskFilter("default", role="role-7", limit=20)
    rare = AskFilter("default", role="rare", limit=20)

    page = await store.list_asks(role)
    assert [row.number for row in page] == sorted(row.number for row in page)
    assert (len(page), {row.roles for row in page}) == (20, {("role-7", "everybody")})
    later = AskFilter("default", role="role-7", limit=20, after=page[-1].number)
    for which in (AskFilter("default"), role, later, rare, AskFilter("default", after=closed + OPEN - 50)):
        assert await fastest(store, which) < 0.005
    (only,) = await store.list_asks(rare)
    assert await store.read_ask("default", only.ask) == only


async def fastest(store: SqliteStore, which: AskFilter) -> float:
    """Seconds of the best of five, so that a busy machine doesn't decide."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        await store.list_asks(which)
        taken.append(time.perf_counter() - began)
    return min(taken)


def fill(store: SqliteStore, closed: int) -> None:
    """Closed questions first, as the years leave them; every open one has a role of its own and one of everybody's."""
    db = store._writer._connection
    with db:
        db.executemany(
            "INSERT INTO remit_ask (tenant, ask, run_key, run, call, roles, asked_at, until)"
            " VALUES ('default', ?, 1, 'po-1', 'pay', ?, 1, 2)",
            (
                (f"a-{n}", '["rare"]' if n == closed + OPEN - 1 else f'["role-{n % 50}","everybody"]')
                for n in range(closed + OPEN)
            ),
        )
        db.execute(
            "INSERT INTO remit_ask_open (number, tenant, role) SELECT number, 'default', r.value"
            """ FROM remit_ask, json_each(json_insert(roles, '$[#]', '')) r WHERE number > ?""",
            (closed,),
        )


@pytest.mark.parametrize("name", ["close_ask", "read_ask", "read_key", "free_key", "unreserve"])
async def test_a_mark_goes_through_no_table(store: SqliteStore, name: str):
    bindings = (None,) * (3 if "?3" in Q[name] else 2)
    steps = [str(row[3]) for row in store._reader.execute("EXPLAIN QUERY PLAN " + Q[name], bindings)]

    assert steps and not [step for step in steps if step.startswith("SCAN")]


async def test_a_batch_of_effects_looks_at_the_authority_once(store: SqliteStore):  # proves: GATE-2
    """And is written by the same few statements as a batch of steps."""
    authority = await open_authority(store)
    hands = [await open_held(store, f"po-{i}") for i in range(50)]
    plain = await statements(store, [hand.step() for hand in hands])
    fenced = await statements(store, [resting(hand, fence=fence_of(authority)) for hand in hands])

    assert fenced == plain | {Q["read_ends"]: 1}
    assert sum(fenced.values()) < len(hands) * 3


async def statements(store: SqliteStore, units: list[Unit]) -> dict[str, int]:
    """How often each statement ran, `executemany` counted for each of its rows."""
    seen: dict[str, int] = {}

    def trace(_: object, sql: str, __: object) -> bool:
        seen[sql] = seen.get(sql, 0) + 1
        return True

    store._writer._connection.exec_trace = trace
    try:
        assert set(await fates(store, *units)) == {"written"}
    finally:
        store._writer._connection.exec_trace = None
    return seen


async def test_an_entry_that_can_not_be_kept_takes_its_marks_with_it(store: SqliteStore):  # proves: LOG-4
    hand, other = await open_held(store, "po-1"), await open_held(store, "po-2")
    db = apsw.Connection(store.path)
    db.execute("INSERT INTO remit_entry VALUES (?, 0, 3, x'', x'', NULL, NULL)", (hand.row.run_key,))
    db.close()
    unit = resting(hand, Reserve("a", 5, 10))

    with pytest.raises(Exception, match="entries beyond the end of its row"):
        await store.append(unit)

    assert await store.read_used("default", "a") == 0
    assert await fates(store, resting(Hand(store, other.row), Reserve("a", 10, 10))) == ["lease"]
    assert await fates(store, resting(other, Reserve("a", 10, 10))) == ["written"]
