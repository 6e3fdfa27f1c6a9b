"""What a call of a flow may hear: an answer, and no trouble of the store's or of ours.

A flow that catches whatever its payment raises pays another way. What says nothing of the payment must not get there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import remit
from remit.engine.boundary import evidence
from remit.engine.turn import draw, step
from tests.spec.conftest import Storage

OPEN = remit.Contract(version="1", resume="anyone")
ERRORS = [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), IndexError("lane")]
named = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


class Payer:
    """Pays an invoice, or where that raises anything but a no, by cheque."""

    def __init__(self) -> None:
        self.paid: list[str] = []

        @remit.effect(business_key="invoice")
        async def pay(order: dict[str, Any], *, key: str) -> str:
            self.paid.append("pay")
            return "paid"

        @remit.effect
        async def cheque(order: dict[str, Any], *, key: str) -> str:
            self.paid.append("cheque")
            return "posted"

        @remit.flow(contract=OPEN)
        async def payment(run: remit.Run) -> str:
            try:
                outcome: str = await run.effect(pay, {"invoice": "i-1"})
            except Exception:
                outcome = await run.effect(cheque, {})
            return outcome

        self.flow = payment


class Fails:
    """Stands in for something, and raises once."""

    def __init__(self, real: Callable[..., Any], error: Exception) -> None:
        self.real, self.errors = real, [error]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.errors:
            raise self.errors.pop()
        return self.real(*args, **kwargs)


class FailsAwaited(Fails):
    """The same of what is awaited."""

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        real: Awaitable[Any] = super().__call__(*args, **kwargs)
        return await real


@named
@pytest.mark.parametrize("method", ["read_key", "append"])
async def test_what_the_store_raises_is_no_answer_to_an_effect(
    storage: Storage, method: str, error: Exception, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-1, RUN-5
    payer = Payer()
    async with storage.open() as rt:
        store = rt._ready().store
        await rt.start(payer.flow, id="a")
        await rt.authority()
        with monkeypatch.context() as patch:
            patch.setattr(store, method, FailsAwaited(getattr(store, method), error))
            with pytest.raises(type(error)):
                await rt.run(payer.flow, id="a")
        assert payer.paid == []
        assert (await rt.run(payer.flow, id="a")).value == "paid"
    assert payer.paid == ["pay"]


@named
async def test_what_is_raised_on_the_way_is_no_answer_to_any_call(
    storage: Storage, error: Exception, monkeypatch: pytest.MonkeyPatch
):  # proves: RUN-5
    """Of a draw, of evidence, of a step: each is stopped in the middle, and the flow hears nothing of it."""
    heard: list[Exception] = []

    @remit.step
    async def count() -> int:
        return 1

    async def calls(run: remit.Run, which: str) -> None:
        if which == "draw":
            run.uuid()
        elif which == "evidence":
            run.evidence("quote", 1, as_of=datetime(2020, 1, 1, tzinfo=UTC), fresh_for=timedelta(hours=1))
        else:
            await run.step(count)

    @remit.flow(contract=OPEN)
    async def calling(run: remit.Run, which: str) -> str:
        try:
            await calls(run, which)
        except Exception as exc:
            heard.append(exc)
        return "gone on"

    async with storage.open() as rt:
        for which, room, part in (
            ("draw", draw, "write"),
            ("evidence", evidence, "value_digest"),
            ("step", step, "since_us"),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(room, part, Fails(getattr(room, part), error))
                with pytest.raises(type(error)):
                    await rt.run(calling, which, id=which)
            assert (await rt.run(calling, which, id=which)).value == "gone on"
    assert heard == []


@named
async def test_lane_post_that_cannot_be_read_is_no_answer_either(
    storage: Storage, error: Exception, monkeypatch: pytest.MonkeyPatch
):  # proves: FX-1
    payer = Payer()
    async with storage.open() as rt:
        store = rt._ready().store

        @remit.step
        async def damage() -> None:
            await rt.cancel("a", by="user:x")

        @remit.flow(contract=OPEN)
        async def payment(run: remit.Run) -> Any:
            await run.step(damage)
            return await payer.flow.fn(run)

        await rt.start(payment, id="a")
        with monkeypatch.context() as patch:
            real, reads = store.read_run, []

            async def third(run_key: int) -> Any:
                reads.append(run_key)
                if reads.count(run_key) == 3:
                    raise error
                return await real(run_key)

            patch.setattr(store, "read_run", third)
            with pytest.raises((type(error), remit.RemitError)):
                await rt.run(payment, id="a")
        assert payer.paid == []
