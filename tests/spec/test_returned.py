"""Returned: what a function gives back may still have to be awaited, and what was never awaited was never sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import remit
from remit import Contract, Step
from remit.errors import StoreClosed
from tests.spec.conftest import Storage

OPEN = Contract(version="1", resume="anyone")

Send = Callable[[], str]


class Request:
    """As many clients have it: it is sent when it is awaited."""

    def __init__(self, send: Send, gives: object = None) -> None:
        self._send, self._gives = send, gives

    def __await__(self) -> Generator[Any, None, Any]:
        yield from asyncio.sleep(0).__await__()
        sent = self._send()
        return sent if self._gives is None else self._gives


async def coroutine(send: Send) -> str:
    await asyncio.sleep(0)
    return send()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def future_of(loop: asyncio.AbstractEventLoop, send: Send) -> asyncio.Future[str]:
    """One of asyncio's, which is there when the loop comes to it."""
    future: asyncio.Future[str] = loop.create_future()
    loop.call_soon_threadsafe(lambda: future.set_result(send()))
    return future


GIVES: dict[str, Callable[[Send, asyncio.AbstractEventLoop, ThreadPoolExecutor], Any]] = {
    "a coroutine": lambda send, _loop, _pool: coroutine(send),
    "a client's request": lambda send, _loop, _pool: Request(send),
    "one that gives another": lambda send, _loop, _pool: Request(lambda: "", Request(send)),
    "a future of asyncio's": lambda send, loop, _pool: future_of(loop, send),
    "a future of a pool": lambda send, _loop, pool: pool.submit(send),
}


@pytest.fixture
def paid() -> list[str]:
    return []


def _sending(paid: list[str], invoice: str = "i-1") -> Send:
    def send() -> str:
        paid.append(invoice)
        return "paid"

    return send


def buying(pay: remit.Effect[Any]) -> remit.Flow[Any]:
    @remit.flow(contract=OPEN)
    async def buy(run: remit.Run) -> Any:
        return await run.effect(pay, "i-1")

    return buy


@pytest.mark.parametrize("timeout", [None, timedelta(seconds=60)], ids=["at any time", "in time"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("kind", GIVES)
async def test_an_effect_is_settled_when_what_it_returned_was_awaited(
    kind: str, is_async: bool, timeout: timedelta | None, paid: list[str], pool: ThreadPoolExecutor
):  # proves: FX-1, FX-2
    """It had been settled as done, and nothing was sent."""
    loop = asyncio.get_running_loop()

    @remit.effect(name="pay", timeout=timeout)
    def plain(invoice: str, *, key: str) -> Any:
        return GIVES[kind](_sending(paid, invoice), loop, pool)

    @remit.effect(name="pay", timeout=timeout)
    async def on_the_loop(invoice: str, *, key: str) -> Any:
        return GIVES[kind](_sending(paid, invoice), loop, pool)

    async with remit.open("memory:") as rt:
        for _ in range(2):
            assert (await rt.run(buying(on_the_loop if is_async else plain), id="r")).value == "paid"
        (done,) = await rt.effects("r")
    assert (done.state, done.calls, paid) == ("ok", 1, ["i-1"])


@pytest.mark.parametrize("kind", GIVES)
async def test_a_step_has_the_outcome_behind_what_it_returned(
    kind: str, paid: list[str], pool: ThreadPoolExecutor
):  # proves: RUN-10
    loop = asyncio.get_running_loop()

    def plain() -> Any:
        return GIVES[kind](_sending(paid), loop, pool)

    async def on_the_loop() -> Any:
        return GIVES[kind](_sending(paid), loop, pool)

    @remit.flow(contract=OPEN)
    async def looks(run: remit.Run) -> list[str]:
        return [await run.step(plain), await run.step(on_the_loop)]

    async with remit.open("memory:") as rt:
        assert (await rt.run(looks, id="r")).value == ["paid", "paid"]


def test_a_step_of_a_list_has_the_update_behind_what_it_returned():  # proves: RUN-10
    def plain(state: dict[str, Any]) -> Any:
        return Request(lambda: "", {"plain": 1})

    async def on_the_loop(state: dict[str, Any]) -> Any:
        return Request(lambda: "", {"async": state["plain"] + 1})

    state = remit.run("r", [Step("plain", plain), Step("async", on_the_loop)], store="memory:")
    assert state == {"plain": 1, "async": 2}


async def test_what_gives_itself_when_it_is_awaited_is_awaited_once(paid: list[str]):  # proves: FX-2
    """As a client's pool does; it can't be stored, and was sent."""

    class Itself(Request):
        def __await__(self) -> Generator[Any, None, Any]:
            yield from super().__await__()
            return self

    @remit.effect
    def pay(invoice: str, *, key: str) -> Any:
        return Itself(_sending(paid))

    async with remit.open("memory:") as rt:
        outcome = await asyncio.wait_for(rt.run(buying(pay), id="r"), 20)
        assert outcome.code == "effect.value_lost"
    assert paid == ["i-1"]


async def test_what_is_awaited_too_long_leaves_a_doubt(paid: list[str]):  # proves: FX-2
    @remit.effect(timeout=timedelta(milliseconds=50))
    def pay(invoice: str, *, key: str) -> Any:
        return asyncio.Queue[str]().get()

    @remit.effect(name="pay", timeout=timedelta(milliseconds=50))
    async def on_the_loop(invoice: str, *, key: str) -> Any:
        return asyncio.Queue[str]().get()

    async with remit.open("memory:") as rt:
        for effect, run in ((pay, "plain"), (on_the_loop, "async")):
            assert (await rt.run(buying(effect), id=run)).status == "in_doubt"


async def test_nothing_is_awaited_once_the_runtime_was_closed(paid: list[str], database: Storage):
    # proves: FX-2, FX-5
    has_begun, let_go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @remit.effect
    def pay(invoice: str, *, key: str) -> Any:
        loop.call_soon_threadsafe(has_begun.set)
        assert let_go.wait(30)
        return Request(_sending(paid))

    async with database.open() as rt:
        running = asyncio.create_task(rt.run(buying(pay), id="r"))
        await has_begun.wait()
    let_go.set()
    with pytest.raises(StoreClosed):
        await running
    assert paid == []


def _yielding(invoice: str, *, key: str) -> Iterator[str]:
    yield invoice


async def test_a_generator_is_no_outcome_of_an_effect(storage: Storage):  # proves: FX-2
    """None of its code has run, or some of it has: nobody knows, and it had been settled as done."""

    @remit.effect(name="pay")
    def wrapped(invoice: str, *, key: str) -> Any:
        return _yielding(invoice, key=key)

    async with storage.open() as rt:
        outcome = await rt.run(buying(wrapped), id="r")
        assert (outcome.status, "of which nothing ran" in outcome.reason) == ("in_doubt", True)


class Yielding:
    def __call__(self, invoice: str, *, key: str) -> Any:
        yield invoice


class YieldingToo:
    async def __call__(self, invoice: str, *, key: str) -> Any:
        yield invoice


@pytest.mark.parametrize("fn", [Yielding(), YieldingToo(), partial(Yielding()), partial(_yielding)])
def test_an_object_that_yields_when_it_is_called_is_refused_when_it_is_declared(fn: Callable[..., Any]):
    # proves: FX-2, RUN-10
    for declare, code in (
        (lambda: remit.effect(name="pay")(fn), "effect.function"),
        (lambda: remit.transaction(name="pay")(fn), "effect.function"),
        (lambda: Step("pay", fn), "step.function"),
        (lambda: remit.flow(contract=OPEN, name="pay")(fn), "flow.function"),
    ):
        with pytest.raises(remit.DeclarationRefused) as refused:
            declare()
        assert refused.value.code == code


async def test_a_transaction_that_returns_what_is_not_awaited_is_rolled_back(paid: list[str], database: Storage):
    # proves: FX-6
    @remit.transaction(name="book")
    def plain(connection: Any, invoice: str) -> Any:
        return Request(_sending(paid))

    @remit.transaction(name="book")
    async def awaited(connection: Any, invoice: str) -> Any:
        return Request(_sending(paid))

    book: remit.Transaction[Any] = awaited if database.kind == "postgres" else plain

    @remit.flow(contract=OPEN)
    async def books(run: remit.Run) -> str:
        with pytest.raises(remit.EffectDidNotHappen, match="nobody awaits here") as raised:
            await run.transact(book, "i-1")
        return raised.value.code

    async with database.open() as rt:
        assert (await rt.run(books, id="r")).value == "effect.did_not_happen"
    assert paid == []
