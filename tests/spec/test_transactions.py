"""`run.transact`: the application's own rows and the journal in one transaction, exactly once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import apsw
import asyncpg
import pytest
from asyncpg.exceptions import InterfaceError

import remit
from remit import Contract
from remit.store.protocol import Store
from remit.store.sqlite import SqliteStore
from remit.store.units import Unit
from remit.store.url import store_for
from tests.spec.conftest import Storage
from tests.support.clock import MovedClock
from tests.support.moving import Moving
from tests.support.till import Order, Till

OPS = "user:ops"
DEFERRED = "DEFERRABLE INITIALLY DEFERRED"


@dataclass
class Booking:
    account: str
    amount: int


class Broken(Exception):
    pass


def ledger_of(kind: str, fails: Callable[[Booking], None] = lambda booking: None) -> remit.Transaction[int]:
    """The application's own table, written in the way of that database."""

    @remit.transaction(name="book", business_key="account")
    def plain(connection: Any, booking: Booking) -> int:
        connection.execute("CREATE TABLE IF NOT EXISTS booked (account TEXT, amount INTEGER)")
        connection.execute("INSERT INTO booked VALUES (?, ?)", (booking.account, booking.amount))
        fails(booking)
        return int(connection.execute("SELECT count(*) FROM booked").get)

    @remit.transaction(name="book", business_key="account")
    async def awaited(connection: Any, booking: Booking) -> int:
        await connection.execute("CREATE TABLE IF NOT EXISTS booked (account text, amount int8)")
        await connection.execute("INSERT INTO booked VALUES ($1, $2)", booking.account, booking.amount)
        fails(booking)
        return int(await connection.fetchval("SELECT count(*) FROM booked"))

    chosen: remit.Transaction[int] = awaited if kind == "postgres" else plain
    return chosen


def flow_of(book: remit.Transaction[int], **rules: Any) -> remit.Flow[int]:
    @remit.flow(contract=Contract(version="1", resume="anyone", **rules))
    async def booking(run: remit.Run, amount: int) -> int:
        return await run.transact(book, Booking(f"a{amount}", amount))

    return booking


async def booked(rt: remit.Runtime, kind: str) -> int:
    """How many rows the application has, read through another transaction that counts and rolls back."""
    counted: list[int] = []

    def plain(connection: Any) -> None:
        there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'booked'").get
        counted.append(connection.execute("SELECT count(*) FROM booked").get if there else 0)
        raise Broken

    async def awaited(connection: Any) -> None:
        there = await connection.fetchval("SELECT to_regclass('booked')")
        counted.append(await connection.fetchval("SELECT count(*) FROM booked") if there else 0)
        raise Broken

    with pytest.raises(Broken):
        await rt._ready().store.transact(awaited if kind == "postgres" else plain, limit_ms=5_000)
    return counted[0]


async def test_rows_and_journal_are_one_commit(database: Storage):  # proves: FX-6
    flow = flow_of(ledger_of(database.kind))
    async with database.open() as rt:
        assert (await rt.run(flow, 5, id="r")).value == 1
        assert (await rt.run(flow, 5, id="r")).value == 1  # recalled, not booked again
        assert await booked(rt, database.kind) == 1
        [told] = await rt.effects("r")
        assert (told.call, told.state, told.outcome, told.calls) == ("book", "ok", 1, 1)
        kinds = [line.kind for line in (await rt.explain("r")).timeline.lines]
        assert kinds[2:5] == ["GateJudged", "EffectIntended", "EffectSettled"]
        assert await rt.verify("r") is None


async def test_what_is_left_of_one_that_rolled_back_books_nothing_beside_the_other_way(database: Storage):
    # proves: FX-6, FX-11
    gone, left = threading.Event(), asyncio.Event()
    threads: list[threading.Thread] = []
    tasks: list[asyncio.Task[Any]] = []

    @remit.transaction(name="online", business_key="account")
    def plain(connection: Any, booking: Booking) -> int:
        def write() -> None:
            gone.wait(10)
            with suppress(apsw.Error):
                connection.execute("INSERT INTO booked VALUES ('late', 1)")

        connection.execute("CREATE TABLE IF NOT EXISTS booked (account TEXT, amount INTEGER)")
        threads.append(threading.Thread(target=write))
        threads[0].start()
        raise Broken

    @remit.transaction(name="online", business_key="account")
    async def awaited(connection: Any, booking: Booking) -> int:
        async def write() -> None:
            await left.wait()
            with suppress(InterfaceError):
                await connection.execute("INSERT INTO booked VALUES ('late', 1)")

        await connection.execute("CREATE TABLE IF NOT EXISTS booked (account text, amount int8)")
        tasks.append(asyncio.create_task(write()))
        raise Broken

    by_hand = ledger_of(database.kind)

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def booking(run: remit.Run, amount: int) -> int:
        try:
            return await run.transact(awaited if database.kind == "postgres" else plain, Booking("a", amount))
        except remit.EffectFailed:
            return await run.transact(by_hand, Booking("a", amount))

    async with database.open() as rt:
        assert (await rt.run(booking, 5, id="r")).value == 1
        gone.set()
        left.set()
        await asyncio.gather(*tasks)
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert await booked(rt, database.kind) == 1
        assert [(told.call, told.state) for told in await rt.effects("r")] == [
            ("online", "did_not_happen"),
            ("book", "ok"),
        ]


async def test_what_raises_rolls_back_leaves_no_doubt_and_may_run_again(database: Storage):  # proves: FX-6, FX-11
    trouble = [Broken("no money")]

    def fails(_: Booking) -> None:
        if trouble:
            raise trouble.pop()

    flow = flow_of(ledger_of(database.kind, fails))
    async with database.open() as rt:
        with pytest.raises(remit.EffectFailed) as failed:
            await rt.run(flow, 5, id="r")
        assert (failed.value.code, failed.value.detail) == ("effect.did_not_happen", "no money")
        assert await booked(rt, database.kind) == 0
        assert [told.state for told in await rt.effects("r")] == ["did_not_happen"]
        assert (await rt.resume("r", flow)).value == 1
        assert await booked(rt, database.kind) == 1


async def test_a_function_that_ends_the_transaction_itself_writes_nothing(database: Storage):  # proves: FX-6
    @remit.transaction(name="book")
    def plain(connection: Any, booking: Booking) -> int:
        connection.execute("CREATE TABLE booked (account TEXT, amount INTEGER)")
        connection.execute("COMMIT")
        return 1

    @remit.transaction(name="book")
    async def awaited(connection: Any, booking: Booking) -> int:
        await connection.execute("CREATE TABLE booked (account text, amount int8)")
        await connection.execute("COMMIT")
        return 1

    flow = flow_of(awaited if database.kind == "postgres" else plain)
    async with database.open() as rt:
        with pytest.raises(remit.EffectFailed) as failed:
            await rt.run(flow, 5, id="r")
        assert failed.value.code == "effect.did_not_happen"
        assert await booked(rt, database.kind) == 0


async def test_one_that_takes_longer_than_its_part_of_the_lease_is_rolled_back(database: Storage):  # proves: FX-6
    late = asyncio.Event()

    @remit.transaction(name="book")
    def plain(connection: Any, booking: Booking) -> int:
        connection.execute("CREATE TABLE booked (account TEXT, amount INTEGER)")
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        return int(connection.execute(endless).get)

    @remit.transaction(name="book")
    async def awaited(connection: Any, booking: Booking) -> int:
        await connection.execute("CREATE TABLE booked (account text, amount int8)")
        await late.wait()
        return 1

    flow = flow_of(awaited if database.kind == "postgres" else plain)
    async with database.open(lease_ms=3_000) as rt:
        with pytest.raises(remit.EffectFailed) as failed:
            await rt.run(flow, 5, id="r")
        assert failed.value.error_type == "remit.errors.Refused"
        assert await booked(rt, database.kind) == 0


async def test_one_that_waited_until_what_let_it_pass_was_over_makes_nothing(
    database: Storage, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-6, GATE-8
    """The database may let a transaction wait: for a file that is held, or for its turn."""
    clock = MovedClock()
    flow = flow_of(ledger_of(database.kind), window=timedelta(minutes=2))
    async with database.open(clock=clock, lease_ms=600_000) as rt:
        store = rt._ready().store
        transact = store.transact

        async def late(build: Callable[..., Any], *, limit_ms: int) -> None:
            clock.move(timedelta(minutes=5))
            await transact(build, limit_ms=limit_ms)

        monkeypatch.setattr(store, "transact", late)
        assert (await rt.run(flow, 5, id="r")).status == "expired"
        monkeypatch.undo()
        assert await booked(rt, database.kind) == 0 and await rt.effects("r") == []


IN_TWO_MINUTES = remit.Approval({"director"}, timedelta(minutes=2))
HUNDRED_A_DAY = remit.Ceiling("amount", max=100, per="day")
EVE = datetime(2026, 1, 5, 23, 58, tzinfo=UTC)


class Lingering:
    """A transaction that is at it for five minutes, once, by a clock of its own."""

    def __init__(self, kind: str, **contract: Any) -> None:
        self.clock, self.times, self.kind = MovedClock(EVE), 0, kind
        book = ledger_of(kind, self._linger)

        @remit.flow(contract=Contract(version="1", resume="anyone", **contract))
        async def booking(run: remit.Run) -> int:
            run.evidence("quote", 1, as_of=EVE, fresh_for=timedelta(minutes=2))
            return await run.transact(book, Booking("a", 100))

        self.flow = booking

    def _linger(self, _: Booking) -> None:
        self.times += 1
        if self.times == 1:
            self.clock.move(timedelta(minutes=5))

    def open(self, database: Storage) -> remit.Runtime:
        return database.open(clock=self.clock, lease_ms=600_000)

    async def came_to_nothing(self, rt: remit.Runtime) -> bool:
        """Its rows were rolled back, and nothing says that it was intended."""
        return (self.times, await booked(rt, self.kind), await rt.effects("r")) == (1, 0, [])


async def test_a_yes_that_is_over_when_its_function_returns_books_nothing(database: Storage):  # proves: FX-6, APR-2
    late = Lingering(database.kind, effects={"book": remit.Rule(approval=IN_TWO_MINUTES)})
    async with late.open(database) as rt:
        await rt.grant("user:dana", "director", by=OPS)
        await rt.run(late.flow, id="r")
        [first] = await rt.inbox()
        await rt.decide(first.id, "approve", by="user:dana", seen=first.version)
        assert (await rt.run(late.flow, id="r")).waits_for == "approval"
        assert await late.came_to_nothing(rt) and (await rt.ask(first.id)).state == "void"
        [anew] = await rt.inbox()
        await rt.decide(anew.id, "approve", by="user:dana", seen=anew.version)
        assert (await rt.run(late.flow, id="r")).value == 1
        assert await rt.verify("r") is None


async def test_a_window_that_is_over_when_the_function_returns_ends_the_run(database: Storage):  # proves: FX-6, GATE-8
    late = Lingering(database.kind, window=timedelta(minutes=2))
    async with late.open(database) as rt:
        assert (await rt.run(late.flow, id="r")).status == "expired"
        assert await late.came_to_nothing(rt)


async def test_evidence_that_is_over_when_the_function_returns_books_nothing(database: Storage):  # proves: FX-6, GATE-2
    late = Lingering(database.kind, effects={"book": remit.Rule(evidence={"quote"})})
    async with late.open(database) as rt:
        assert (await rt.run(late.flow, id="r")).code == "evidence_expired"
        assert await late.came_to_nothing(rt)


async def test_what_is_booked_past_midnight_counts_on_the_day_of_its_commit(database: Storage):  # proves: FX-6, FX-12
    late = Lingering(database.kind, effects={"book": remit.Rule(ceiling=HUNDRED_A_DAY)})
    async with late.open(database) as rt:
        assert (await rt.run(late.flow, id="r")).value == 1
        assert (late.times, await booked(rt, database.kind)) == (2, 1)
        used = rt._ready().store.read_used
        assert [await used("default", f"book.amount/day/2026-01-0{day}") for day in (5, 6)] == [0, 100]


async def test_one_that_rolled_back_and_was_given_up_is_not_made_again(tmp_path: Path):  # proves: FX-6, FX-10
    made: list[Booking] = []
    store, calls = Moving(SqliteStore(f"sqlite:///{tmp_path / 'runs.db'}")), list[asyncio.Future[int]]()

    def fails_once(booking: Booking) -> None:
        made.append(booking)
        if len(made) == 1:
            raise Broken("once")

    book = ledger_of("sqlite", fails_once)

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def impatient(run: remit.Run) -> str:
        calls.append(asyncio.ensure_future(run.transact(book, Booking("a", 1))))
        await asyncio.wait(calls)
        assert calls[0].cancelled()
        return "gone on"

    async with remit.open(cast(Store, store)) as rt:

        async def give_up() -> None:
            calls[0].cancel()
            await asyncio.wait(calls)
            await rt.grant("user:a", "clerk", by=OPS)

        await rt.grant("user:b", "clerk", by=OPS)
        store.meanwhile = give_up
        assert (await rt.run(impatient, id="r")).value == "gone on"
        assert await rt.verify("r") is None
    assert len(made) == 1


async def test_at_high_risk_and_on_a_store_without_rows_it_is_refused(storage: Storage):  # proves: FX-6
    flow = flow_of(ledger_of(storage.kind), risk="high")
    low = flow_of(ledger_of("sqlite"))
    async with storage.open() as rt:
        with pytest.raises(remit.CallRefused) as refused:
            await rt.run(flow, 5, id="r")
        assert refused.value.code == "transact.risk"
        assert "on the disk before it is called" in refused.value.hint and "acknowledged" not in refused.value.hint
        if storage.kind != "sqlite":
            with pytest.raises(remit.CallRefused) as refused:
                await rt.run(low, 5, id="s")
            assert refused.value.code == ("transact.function" if storage.kind == "postgres" else "transact.store")


async def test_the_gate_stands_before_a_transaction_as_before_every_effect(database: Storage):  # proves: FX-6, GATE-1
    rule = remit.Rule(
        approval=remit.Approval({"director"}, timedelta(hours=1)), ceiling=remit.Ceiling("amount", max=100, per="run")
    )
    flow = flow_of(ledger_of(database.kind), effects={"book": rule})
    async with database.open() as rt:
        await rt.grant("user:dana", "director", by=OPS)
        over = await rt.run(flow, 101, id="over")
        assert (over.status, over.code) == ("failed", "ceiling_exceeded")
        assert (await rt.run(flow, 100, id="r")).code == "approval_needed"
        assert await booked(rt, database.kind) == 0
        [ask] = await rt.inbox()
        await rt.decide(ask.id, "approve", by="user:dana", seen=ask.version)
        assert (await rt.resume("r", flow)).value == 1
        other = await rt.run(flow, 100, id="again")  # the same account from another run
        assert (other.status, other.code) == ("failed", "idempotency_conflict")
        assert await booked(rt, database.kind) == 1


class Panic(BaseException):
    """As a library's that is not to be caught by `except Exception`."""


@pytest.mark.parametrize("ends", [StopIteration, SystemExit, KeyboardInterrupt, Panic], ids=lambda kind: kind.__name__)
def test_what_would_end_the_writer_rolls_back_like_any_failure(ends: type[BaseException], database: Storage):
    # proves: FX-6
    """In a thread, because a KeyboardInterrupt in the main thread is a Ctrl-C, whoever raised it."""

    def fails(_: Booking) -> None:
        raise ends

    async def go() -> None:
        flow = flow_of(ledger_of(database.kind, fails))
        async with database.open() as rt:
            with pytest.raises(remit.EffectFailed):
                await rt.run(flow, 5, id="r")
            assert await booked(rt, database.kind) == 0
            other = await rt.run(flow_of(ledger_of(database.kind)), 6, id="other")
            assert other.value == 1  # the writer still answers

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, go()).result()


def test_ctrl_c_in_a_transaction_ends_the_program(database: Storage):  # proves: FX-6
    def press(_: Booking) -> None:
        signal.raise_signal(signal.SIGINT)
        raise OSError("a thread hears nothing of it")

    async def go() -> None:
        async with database.open() as rt:
            await rt.run(flow_of(ledger_of(database.kind, press)), 5, id="r")

    async def look() -> None:
        async with database.open() as rt:
            assert await booked(rt, database.kind) == 0

    before = signal.signal(signal.SIGINT, lambda number, frame: signal.default_int_handler(number, frame))
    try:
        with pytest.raises(KeyboardInterrupt):  # at once, where `asyncio.run` has no handler of its own
            asyncio.run(go())
    finally:
        signal.signal(signal.SIGINT, before)
    asyncio.run(look())


async def test_a_transaction_that_asks_the_runtime_is_refused_and_holds_nobody_up(tmp_path: Any):  # proves: FX-6
    loop = asyncio.get_running_loop()

    @remit.transaction(name="book")
    def book(connection: Any, booking: Booking) -> int:
        asyncio.run_coroutine_threadsafe(rt.grant("user:dana", "director", by=OPS), loop).result()
        return 1

    async with remit.open(f"sqlite:///{tmp_path / 'runs.db'}") as rt:
        with pytest.raises(remit.EffectFailed) as failed:
            await asyncio.wait_for(rt.run(flow_of(book), 5, id="r"), 20)
        assert failed.value.error_type == "remit.errors.CallRefused"
        assert await rt.grant("user:dana", "director", by=OPS)


async def own_tables(database: Storage, url: str) -> None:
    """An application's tables, of which one is looked at in COMMIT alone."""
    if database.kind == "postgres":
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE public.invoice (id int PRIMARY KEY)")
        await connection.execute(f"CREATE TABLE public.line (of int REFERENCES public.invoice {DEFERRED})")
        await connection.close()
    else:
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as file:
            file.execute("CREATE TABLE invoice (id INTEGER PRIMARY KEY)")
            file.execute(f"CREATE TABLE line (of INTEGER REFERENCES invoice (id) {DEFERRED})")


@remit.transaction(name="book")
def line_on_sqlite(connection: Any, invoice: int) -> None:
    connection.execute("INSERT INTO line VALUES (?)", (invoice,))


@remit.transaction(name="book")
async def line_on_postgres(connection: Any, invoice: int) -> None:
    await connection.execute("INSERT INTO public.line VALUES ($1)", invoice)


@remit.transaction(name="book")
def cancelled_on_sqlite(connection: Any, invoice: int) -> None:
    raise asyncio.CancelledError("a helper was cancelled")


@remit.transaction(name="book")
async def cancelled_on_postgres(connection: Any, invoice: int) -> None:
    raise asyncio.CancelledError("a helper was cancelled")


@pytest.mark.parametrize(
    "book",
    [
        {"sqlite": line_on_sqlite, "postgres": line_on_postgres},
        {"sqlite": cancelled_on_sqlite, "postgres": cancelled_on_postgres},
    ],
    ids=["refused in COMMIT", "cancelled inside"],
)
async def test_what_rolls_back_is_recorded_before_the_flow_hears_of_it_whatever_rolled_it_back(
    database: Storage, book: dict[str, remit.Transaction[None]]
):  # proves: FX-6, RUN-4
    is_mended: list[bool] = []

    def report() -> str:
        if not is_mended:
            raise OSError("mail down")
        return "told"

    @remit.effect
    async def elsewhere(invoice: int, *, key: str) -> None:
        return None

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def booking(run: remit.Run) -> str:
        try:
            await run.transact(book[database.kind], 99)
        except remit.EffectDidNotHappen:
            await run.effect(elsewhere, 99)
        told: str = await run.step(report)
        return told

    async with database.open() as rt:
        await own_tables(database, database.make(None))
        with pytest.raises(remit.StepError, match="mail down"):
            await rt.run(booking, id="r")
        assert [(each.call, each.state) for each in await rt.effects("r")] == [
            ("book", "did_not_happen"),
            ("elsewhere", "ok"),
        ]
        is_mended.append(True)
        assert (await rt.run(booking, id="r")).value == "told"
        assert await rt.verify("r") is None


async def test_a_run_that_only_settles_ends_at_a_transaction_that_would_be_refused():  # proves: FX-6, FX-10
    till = Till()
    till.next(till.pay_and_raise(ConnectionError("no answer")))
    till.probe_says = ConnectionError("the bank's query is down")
    pay = till.effect(doubt="probe")

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def both(run: remit.Run) -> int:
        await run.effect(pay, Order())
        return await run.transact(ledger_of("memory"), Booking("a", 1))  # this store has no rows of ours

    async with remit.open("memory:") as rt, asyncio.timeout(30):
        assert (await rt.run(both, id="r")).status == "in_doubt"
        await rt.cancel("r", by=OPS)
        till.probe_says = None
        outcome = await rt.run(both, id="r")
        assert (outcome.status, "Done before: pay." in outcome.reason) == ("cancelled", True)


class Slow:
    """A store that is given the settlement of an effect, and takes its time before it lets it stand in line."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, unit: Unit) -> None:
        if unit.entries and b'"kind":"EffectSettled"' in unit.entries[0].header:
            for _ in range(50):
                await asyncio.sleep(0)
        await self._inner.append(unit)


async def test_a_transaction_does_not_come_before_what_its_run_wrote_before_it(
    database: Storage,
):  # proves: FX-6, OWN-3
    """It was sealed behind a settlement that still stood in line, and its run was taken for somebody else's."""
    book, has_paid = ledger_of(database.kind), asyncio.Event()

    @remit.effect
    async def pay(amount: int, *, key: str) -> int:
        has_paid.set()
        return amount

    @remit.flow(contract=Contract(version="1", resume="anyone"))
    async def both(run: remit.Run) -> list[int]:
        async def booked_beside() -> int:
            await has_paid.wait()
            outcome: int = await run.transact(book, Booking("a", 1))
            return outcome

        return list(await asyncio.gather(run.effect(pay, 5), booked_beside()))

    async with remit.open(cast(Store, Slow(store_for(database.make(None), clock=None)))) as rt:
        assert (await rt.run(both, id="r")).value == [5, 1]
        assert await rt.verify("r") is None
        assert await booked(rt, database.kind) == 1
