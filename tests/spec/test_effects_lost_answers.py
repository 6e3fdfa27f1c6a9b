"""The connection drops between a commit and its answer: it is read back, and there is no blind second effect."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import remit
from remit.store.postgres import link
from tests.support.postgres_proxy import Proxy, proxy_before
from tests.support.till import Order, Receipt, Till, kinds_of, paying

CALL = ["GateJudged", "EffectIntended", "EffectSettled"]
ALL = ["RunOpened", "AttemptStarted", *CALL, *CALL, "RunEnded"]


@pytest.fixture
async def proxy(postgres_database: str) -> AsyncIterator[Proxy]:
    async with proxy_before(postgres_database) as proxy:
        yield proxy


@pytest.mark.parametrize("after", range(8))
async def test_an_answer_that_is_lost_anywhere_around_an_effect_makes_no_second_one(
    proxy: Proxy, after: int
):  # proves: C10, FX-1, FX-3, OWN-3
    """The first effect says from when on; the answers that follow are those of its settlement and the second effect."""
    till = Till()

    def begin(key: str, order: Order) -> Receipt:
        proxy.lose_answers(after=after)
        return till.pay(key, order)

    till.next(begin)
    async with remit.open(proxy.url) as rt:
        outcome = await rt.run(paying(till.effect(), Order(), Order(invoice="i-2")), id="r")
        lost = proxy.lost
        assert outcome.value == [100, 100]
        assert await kinds_of(rt, "r") == ALL
        assert await rt.verify("r") is None
    assert till.times == [1, 1] and till.calls == {"i-1": 1, "i-2": 1}
    assert lost == 1 or after > 3


@pytest.mark.parametrize("after", range(3))
async def test_a_worker_that_cannot_read_back_does_nothing_more_and_the_next_one_sees_what_is_there(
    proxy: Proxy, postgres_database: str, after: int, monkeypatch: pytest.MonkeyPatch
):  # proves: C10, FX-2, FX-11
    """From some answer on the server is out of reach: it took the settlement or it did not, and both are told truly."""
    monkeypatch.setattr(link, "PATIENCE_S", 0)
    monkeypatch.setattr(link, "TRIES", 1)
    till = Till()

    def begin(key: str, order: Order) -> Receipt:
        proxy.lose_answers(after=after, then_close=True)
        return till.pay(key, order)

    till.next(begin)
    flow = paying(till.effect())
    async with remit.open(proxy.url) as rt:
        with pytest.raises(remit.RemitError) as raised:
            await rt.run(flow, id="r")
    assert raised.value.code in ("store.unavailable", "commit.unknown")

    async with remit.open(postgres_database) as rt:
        is_settled = "EffectSettled" in await kinds_of(rt, "r")
        outcome = await rt.run(flow, id="r")
        assert outcome.status == ("completed" if is_settled else "in_doubt")
        assert await rt.verify("r") is None
    assert till.calls == {"i-1": 1}
