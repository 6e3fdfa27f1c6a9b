"""Questions and announcements on Postgres: numbers that rise for whoever reads, and lists that stay cheap."""

from __future__ import annotations

import asyncio

import pytest

from remit.facts.announced import AskOpened, RunStopped, kind_of
from remit.store.marks import Announce, CloseAsk, OpenAsk
from remit.store.postgres import PostgresStore
from remit.store.postgres.rows import Q
from remit.store.rows import AskFilter
from tests.spec.test_postgres_boundary import answers, effect, rival
from tests.spec.test_postgres_store import outside, store, waiting
from tests.support.journal import TENANT, Hand, open_held
from tests.support.postgres_proxy import proxy_before

__all__ = ["outside", "rival", "store"]  # fixtures

TOLD = (Announce(AskOpened(ask="a")), Announce(RunStopped(code="approval_needed", status="waiting")))


async def test_who_has_read_up_to_a_number_never_finds_a_lower_one_afterwards(store, rival, outside):
    hands = {p: [await open_held(p, f"{n}-{i}") for i in range(4)] for n, p in enumerate((store, rival))}
    seen: list[int] = []
    is_over = asyncio.Event()

    async def announce(process: PostgresStore, hand: Hand) -> None:
        for turn in range(10):
            ask = OpenAsk(f"{hand.row.run}/{turn}", "pay", ("x",), 1, 2)
            await process.append(effect(hand, None, Announce(AskOpened(ask=ask.ask)), ask))

    async def read() -> None:
        while not is_over.is_set():
            seen.extend(row.number for row in await store.read_outbox(TENANT, seen[-1] if seen else 0, 1_000))

    reader = asyncio.create_task(read())
    await asyncio.gather(*(announce(process, hand) for process, mine in hands.items() for hand in mine))
    is_over.set()
    await reader
    seen.extend(row.number for row in await store.read_outbox(TENANT, seen[-1], 1_000))
    assert seen == [row["number"] for row in await outside.fetch("SELECT number FROM remit.outbox ORDER BY number")]
    assert len(seen) == 80


async def test_whose_number_is_higher_waits_until_the_lower_one_can_be_read(store, outside):
    hand = await open_held(store, "po-1")
    for marks in (
        (Announce(AskOpened(ask="a")),),
        (Announce(AskOpened(ask="a")), CloseAsk("never")),
        (OpenAsk("a", "pay", ("x",), 1, 2),),
    ):
        async with outside.transaction():
            await outside.execute(Q["lock_numbers"])  # as another process that announces
            append = asyncio.create_task(store.append(effect(hand, None, *marks)))
            await waiting(outside, 1)
        await append


async def test_an_announcement_is_written_by_the_statement_that_writes_its_entries(store):  # proves: APR-11
    hands = [await open_held(store, f"po-{number}") for number in range(3)]
    units = [effect(hand, None, *TOLD) for hand in hands]
    units[1].epoch = 9
    seen: list[str] = []
    connection = store._link._connection
    connection.add_query_logger(lambda query: seen.append(query.query))

    assert await answers(store, *units) == ["", "lease", ""]

    assert seen == [Q["append_told"]]
    rows = await store.read_outbox(TENANT, 0, 9)
    assert [(row.run, row.kind) for row in rows] == [
        (run, kind_of(mark.told)) for run in ("po-0", "po-2") for mark in TOLD
    ]


@pytest.mark.parametrize("number", range(1, 4))
async def test_it_is_told_once_wherever_the_answer_was_cut(postgres_database, number):  # proves: APR-11
    async with proxy_before(postgres_database) as proxy:
        store = PostgresStore(proxy.url)
        await store.open()
        hands = [await open_held(store, f"po-{number}") for number in range(2)]
        proxy.lose_answers(after=number - 1)
        assert await answers(store, *(effect(hand, None, *TOLD) for hand in hands)) == ["", ""]
        assert [row.run for row in await store.read_outbox(TENANT, 0, 9)] == ["po-0"] * 2 + ["po-1"] * 2
        await store.close()


async def test_a_question_that_is_asked_anew_is_open_again_for_those_it_names_now(store):
    hand = await open_held(store, "po-1")
    await store.append(effect(hand, None, OpenAsk("a", "pay", ("old", "both"), 1, 2)))
    await store.append(
        effect(hand, None, CloseAsk("a"), OpenAsk("a", "pay", ("new", "both"), 3, 4), Announce(AskOpened(ask="a")))
    )
    found = {role: await store.list_asks(AskFilter(TENANT, role)) for role in ("old", "new", "both", None)}
    assert [len(asks) for asks in found.values()] == [0, 1, 1, 1]
    (ask,) = found["new"]
    assert (ask.roles, ask.asked_at, ask.is_open) == (("new", "both"), 3, True)
    await store.append(effect(hand, None, OpenAsk("b", "pay", ("new",), 1, 2), CloseAsk("b"), CloseAsk("never")))
    closed = await store.read_ask(TENANT, "b")
    assert closed is not None and not closed.is_open
    assert await store.list_asks(AskFilter(TENANT, "new")) == [ask]


async def test_the_inbox_is_read_in_the_order_of_its_index_however_young_the_tables_are(store):
    for name, values in {
        "list_asks": (TENANT, "x", 0, 20),
        "read_ask": (TENANT, "x"),
        "read_outbox": (TENANT, 0, 20),
    }.items():
        rows = await store._read(lambda c, name=name, values=values: c.fetch("EXPLAIN " + Q[name], *values))
        plan = "\n".join(row[0] for row in rows)
        assert "Index" in plan and not any(word in plan for word in ("Seq Scan", "Bitmap", "Sort")), plan
