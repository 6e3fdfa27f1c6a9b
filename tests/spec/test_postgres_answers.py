"""Answers that are lost: what was written is found, what was not is written once, and no third thing is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

import remit
from remit.clock import SystemClock
from remit.engine.process.hours import JUMP_US
from remit.errors import CommitUnknown, LeaseLost, StoreUnavailable
from remit.store.postgres import PostgresStore
from remit.store.postgres import connection as postgres_connection
from remit.store.postgres import link as postgres_link
from remit.store.rows import RunRow
from remit.store.units import Claim, Opening, Renewal
from tests.support.journal import LEASE_MS, TENANT, WORKER, Hand, open_held, opening, read_stored, read_view
from tests.support.postgres_proxy import Proxy, proxy_before
from tests.support.till import OPEN


@pytest.fixture
async def proxy(postgres_database: str) -> AsyncIterator[Proxy]:
    async with proxy_before(postgres_database) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[PostgresStore]:
    """Through the proxy."""
    store = PostgresStore(proxy.url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def outside(postgres_database: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else at the same database, not through the proxy."""
    connection = await asyncpg.connect(postgres_database)
    yield connection
    await connection.close()


class Heard(PostgresStore):
    """has_heard: an opening was answered."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.has_heard = asyncio.Event()

    async def open_run(self, opening: Opening) -> RunRow | None:
        row = await super().open_run(opening)
        self.has_heard.set()
        return row


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is looked for once."""
    monkeypatch.setattr(postgres_link, "PATIENCE_S", 0)
    monkeypatch.setattr(postgres_link, "TRIES", 1)


async def eventually(fact: Callable[[], Awaitable[bool]]) -> None:
    """Returns when it is so; fails when it is not in time."""
    async with asyncio.timeout(20):
        while not await fact():
            await asyncio.sleep(0)


# -- written, and the answer lost -------------------------------------------------------------------------------------


async def test_a_unit_whose_answer_was_lost_is_found_written(store, proxy):  # proves: RUN-3, LOG-1
    hand = await open_held(store, "po-1")
    proxy.lose_answers()
    await store.append(hand.step())
    assert proxy.lost == 1
    await store.append(hand.step())
    assert list((await read_view(store, hand.row.run_key)).calls) == ["s-3", "s-4"]


async def test_each_unit_of_a_batch_whose_answer_was_lost_hears_its_own(store, proxy):  # proves: RUN-3, OWN-3
    hands = [await open_held(store, f"r-{i}") for i in range(4)]
    hands[2].step()  # sealed and never written: what follows does not fit
    proxy.lose_answers()
    made = await asyncio.gather(*(store.append(hand.step()) for hand in hands), return_exceptions=True)
    assert proxy.lost == 1
    assert [type(answer) for answer in made] == [LeaseLost if i == 2 else type(None) for i in range(4)]
    for i, hand in enumerate(hands):
        assert len((await read_view(store, hand.row.run_key)).calls) == (0 if i == 2 else 1)


async def test_a_run_whose_opening_was_not_answered_is_found_made(store, proxy):  # proves: RUN-11
    taken = await store.open_run(opening(store, "taken"))
    proxy.lose_answers()
    wishes = [opening(store, name, worker=WORKER, value=b'"mine"') for name in ("po-1", "taken")]
    row, other = await asyncio.gather(*(store.open_run(wish) for wish in wishes))
    assert proxy.lost == 1 and other is None
    assert row == await store.read_row(TENANT, "po-1")
    assert (row.epoch, row.worker) == (1, WORKER)
    assert await store.read_row(TENANT, "taken") == taken
    assert (await read_view(store, row.run_key)).input == b'"mine"'


async def test_an_opening_that_others_took_up_before_its_answer_came_says_who_holds_it(
    store, proxy, outside
):  # proves: RUN-11, OWN-3
    """Its lease is not the one that it asked for, and ends at no time of its own."""
    await store.open_run(opening(store, "first"))  # the statement is prepared
    proxy.lose_answers(then_close=True)
    making = asyncio.create_task(store.open_run(opening(store, "po-1", worker=WORKER)))
    await eventually(lambda: outside.fetchval("SELECT count(*) = 2 FROM remit.run"))
    await outside.execute("UPDATE remit.run SET epoch = 2, worker = 'w-2', lease_until = 7 WHERE run = 'po-1'")
    proxy.is_closed = False
    row = await making
    assert (row.epoch, row.worker, row.lease_until) == (2, "w-2", 7)
    assert row == await store.read_row(TENANT, "po-1")


@pytest.mark.parametrize("is_over", [True, False], ids=["ended it", "are at it"])
async def test_who_opened_a_run_that_others_took_up_meanwhile_goes_by_what_they_did(
    proxy, outside, postgres_database, is_over: bool
):  # proves: OWN-3, GATE-8
    """And learns no time from their lease."""
    ran, begun, let_go = list[str](), asyncio.Event(), asyncio.Event()

    @remit.step
    async def work(who: str) -> str:
        ran.append(who)
        if who == "other":
            begun.set()
            await let_go.wait()
        return who

    def flow_of(who: str) -> remit.Flow[str]:
        @remit.flow(contract=OPEN, name="f")
        async def flow(run: remit.Run) -> str:
            return str(await run.step(work, who))

        return flow

    store = Heard(proxy.url)
    async with remit.open(store, lease_ms=1_000) as cut_off, remit.open(postgres_database, lease_ms=600_000) as other:
        await cut_off.run(flow_of("first"), id="first")
        store.has_heard.clear()
        proxy.lose_answers(then_close=True)
        opened = asyncio.create_task(cut_off.run(flow_of("cut off"), id="r"))
        await eventually(lambda: outside.fetchval("SELECT count(*) = 1 FROM remit.run WHERE run = 'r'"))
        going_on = asyncio.create_task(other.run(flow_of("other"), id="r"))  # when the lease is over
        await begun.wait()
        if is_over:
            let_go.set()
            await going_on
        proxy.is_closed = False
        await store.has_heard.wait()
        let_go.set()
        assert (await opened).value == (await going_on).value == "other"
        assert ran == ["first", "other"]
        assert abs(cut_off._ready().clock.latest() - SystemClock().now()) < JUMP_US // 10
        assert (await cut_off.run(flow_of("next"), id="next")).status == "completed"


@pytest.mark.parametrize("answers", range(1, 10))
async def test_a_transaction_is_found_out_wherever_it_was_cut(store, proxy, answers):  # proves: RUN-3, LOG-1
    hand = await open_held(store, "po-1")
    post = Hand(store, hand.row, lane="post")
    proxy.lose_answers(after=answers - 1)
    await asyncio.gather(store.append(hand.step()), store.append(post.signal()), store.open_run(opening(store, "po-2")))
    assert proxy.lost == (answers <= 8)  # BEGIN, lock, main, post, open, COMMIT, and two statements prepared
    view = await read_view(store, hand.row.run_key)
    assert list(view.calls) == ["s-3"]
    assert (await read_stored(store, hand.row.run_key)).row.post_seq == 1
    assert await store.read_row(TENANT, "po-2") is not None


# -- not written ------------------------------------------------------------------------------------------------------


async def test_a_backend_that_is_terminated_during_a_commit_wrote_nothing_and_it_is_written_anew(
    store, outside
):  # proves: RUN-3, LOG-1
    hands = [await open_held(store, f"r-{i}") for i in range(2)]
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM remit.run FOR UPDATE")
        batch = asyncio.gather(*(store.append(hand.step()) for hand in hands))
        (pid,) = await waiting(outside, but=[])
        await outside.execute("SELECT pg_terminate_backend($1)", pid)
        await waiting(outside, but=[pid])
    await batch
    for hand in hands:
        assert list((await read_view(store, hand.row.run_key)).calls) == ["s-3"]


async def test_a_statement_that_still_runs_when_its_connection_is_cut_is_ended_first(
    store, proxy, outside
):  # proves: RUN-3, OWN-3
    hand = await open_held(store, "po-1")
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM remit.run FOR UPDATE")
        append = asyncio.create_task(store.append(hand.step()))
        (pid,) = await waiting(outside, but=[])
        proxy.cut()
        await waiting(outside, but=[pid])
        assert pid not in {row["pid"] for row in await outside.fetch("SELECT pid FROM pg_stat_activity")}
    await append
    assert list((await read_view(store, hand.row.run_key)).calls) == ["s-3"]


async def test_a_lost_answer_does_not_bring_back_a_lease_that_was_taken(store, outside):  # proves: OWN-3
    hand = await open_held(store, "po-1")
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM remit.run FOR UPDATE")
        append = asyncio.create_task(store.append(hand.step()))
        (pid,) = await waiting(outside, but=[])
        await outside.execute("SELECT pg_terminate_backend($1)", pid)
        await waiting(outside, but=[pid])
        await outside.execute("UPDATE remit.run SET epoch = 2, worker = 'w-2'")
    with pytest.raises(LeaseLost):
        await append
    assert (await read_stored(store, hand.row.run_key)).row.seq == 2


async def test_what_another_wrote_in_its_place_is_not_taken_for_its_own(store, proxy):  # proves: LOG-1, OWN-3
    hand = await open_held(store, "po-1")
    rival = Hand(store, (await read_stored(store, hand.row.run_key)).row)
    await store.append(rival.step(b'"rival"'))
    proxy.lose_answers()
    with pytest.raises(LeaseLost):
        await store.append(hand.step(b'"mine"'))
    assert proxy.lost == 1
    assert [call.value for call in (await read_view(store, hand.row.run_key)).calls.values()] == [b'"rival"']


async def test_an_idle_connection_that_was_closed_is_made_anew(store, outside):
    hand = await open_held(store, "po-1")
    renewer = await store.renewer()
    await outside.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'remit' AND datname = $1",
        await outside.fetchval("SELECT current_database()"),
    )
    await store.append(hand.step())
    assert await renewer.renew(WORKER, [Renewal(hand.row.run_key, 1)], lease_ms=LEASE_MS) == {
        hand.row.run_key: hand.row.post_head
    }
    assert len((await read_view(store, hand.row.run_key)).calls) == 1
    await renewer.close()


# -- nobody can say ---------------------------------------------------------------------------------------------------


async def test_a_server_that_is_gone_before_anything_was_sent_is_unavailable(store, proxy, impatient):  # proves: RUN-3
    hand = await open_held(store, "po-1")
    renewer = await store.renewer()
    proxy.is_closed = True
    proxy.cut()
    link = store._link._connection
    assert link is not None

    async def is_noticed() -> bool:
        return bool(link.is_closed())

    await eventually(is_noticed)
    unit = hand.step()
    for act in (
        lambda: store.append(unit),
        lambda: store.open_run(opening(store, "new")),
        lambda: store.claim(Claim(hand.row.run_key, 1, "w-2", LEASE_MS)),
        lambda: store.read_row(TENANT, "po-1"),
        lambda: store.now(),
        lambda: renewer.renew(WORKER, [Renewal(hand.row.run_key, 1)], lease_ms=LEASE_MS),
    ):
        with pytest.raises(StoreUnavailable):
            await act()
    proxy.is_closed = False
    await store.append(unit)
    assert len((await read_view(store, hand.row.run_key)).calls) == 1
    await renewer.close()


async def test_a_server_that_takes_a_commit_and_is_gone_leaves_it_unknown(
    store, proxy, outside, impatient
):  # proves: RUN-3, LOG-1
    hand = await open_held(store, "po-1")
    proxy.lose_answers(then_close=True)
    with pytest.raises(CommitUnknown) as unknown:
        await store.append(hand.step())
    assert unknown.value.code == "commit.unknown"
    proxy.is_closed = False
    assert len((await read_view(store, hand.row.run_key)).calls) == 1  # it was, and nobody had said so


async def test_an_answer_that_is_lost_twice_is_unknown(store, proxy, outside):  # proves: RUN-3
    hand = await open_held(store, "po-1")
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM remit.run FOR UPDATE")
        append = asyncio.create_task(store.append(hand.step()))
        (first,) = await waiting(outside, but=[])
        proxy.cut()
        await waiting(outside, but=[first])
        proxy.cut()
        with pytest.raises(CommitUnknown):
            await append


async def test_a_claim_or_a_release_whose_answer_was_lost_is_unknown(store, proxy):  # proves: OWN-1
    hand = await open_held(store, "po-1")
    assert not await store.release(999, 1)  # so that the statement is prepared on a connection of the pool
    proxy.lose_answers()
    with pytest.raises(CommitUnknown):
        await store.release(hand.row.run_key, 1)
    row = await store.read_row(TENANT, "po-1")
    assert row is not None and row.worker is None
    assert not await store.claim(Claim(999, 1, "w-2", LEASE_MS))
    proxy.lose_answers()
    with pytest.raises(CommitUnknown):
        await store.claim(Claim(row.run_key, 1, "w-2", LEASE_MS))
    row = await store.read_row(TENANT, "po-1")
    assert row is not None and (row.epoch, row.worker) == (2, "w-2")


async def test_a_read_whose_answer_was_lost_is_asked_again(store, proxy):
    hand = await open_held(store, "po-1")
    before = await read_stored(store, hand.row.run_key)
    proxy.lose_answers()
    assert await read_stored(store, hand.row.run_key) == before
    assert proxy.lost == 1


async def test_another_ledger_at_the_other_end_is_not_written_to(store, outside, impatient):  # proves: LOG-1
    hand = await open_held(store, "po-1")
    await outside.execute("UPDATE remit.ledger SET origin = repeat('0', 32)")
    await outside.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'remit' AND datname = $1",
        await outside.fetchval("SELECT current_database()"),
    )
    link = store._link._connection
    assert link is not None

    async def is_noticed() -> bool:
        return bool(link.is_closed())

    await eventually(is_noticed)
    with pytest.raises(StoreUnavailable) as refused:
        await store.append(hand.step())
    assert refused.value.code == "store.moved"
    assert await outside.fetchval("SELECT seq FROM remit.run") == 2


async def waiting(connection: asyncpg.Connection, *, but: list[int]) -> list[int]:
    """The backends of this database that wait for a lock, one or more, besides those."""
    sql = """SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND NOT pid = ANY($1::int[])"""
    async with asyncio.timeout(20):
        while True:
            await connection.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees the same all the time
            found = [row["pid"] for row in await connection.fetch(sql, but)]
            if found:
                return found
            await asyncio.sleep(0)


async def test_a_server_that_answers_nothing_is_a_lost_one(proxy, impatient, monkeypatch):  # proves: RUN-3
    """Nothing is cut and nothing is refused: only the time says so, by one timer for all that is asked."""
    monkeypatch.setattr(postgres_connection, "ANSWER_S", 0.3)
    store = PostgresStore(proxy.url)
    await store.open()
    hand = await open_held(store, "po-1")
    await store.append(hand.step(b"1"))
    proxy.hold_answers()
    proxy.is_closed = True
    async with asyncio.timeout(20):
        with pytest.raises(CommitUnknown):
            await store.append(hand.step(b"2"))
    await store.close()
