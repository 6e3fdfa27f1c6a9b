"""What a caller hears whose turn ended with the store: an effect that was called is not passed over in silence."""

from __future__ import annotations

from typing import Any, cast

import pytest

import remit
from remit.store.memory import MemoryStore
from remit.store.protocol import Store
from remit.store.units import Unit
from tests.support.till import Order, Receipt, Till, paying


class Failing:
    """A store that refuses every commit while `error` is set, with that very error."""

    def __init__(self, inner: Store) -> None:
        self._inner, self.error = inner, cast(remit.RemitError | None, None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, unit: Unit) -> None:
        if self.error is not None:
            raise self.error
        await self._inner.append(unit)


@pytest.mark.parametrize(
    "error",
    [
        remit.StoreUnavailable(
            "Nothing was written: the file is busy.", code="store.busy", hint="Find it with `lsof`."
        ),
        remit.CommitUnknown("The answer to a commit was lost."),
        remit.LeaseLost("Nothing was written: run key 2 is held by another."),
    ],
    ids=lambda error: error.code,
)
async def test_who_hears_that_nothing_was_written_hears_which_effects_may_have_happened(
    error: remit.RemitError,
):  # proves: FX-2, FX-13
    store, till = Failing(cast(Store, MemoryStore())), Till()

    def pay(key: str, order: Order) -> Receipt:
        store.error = error
        return till.pay(key, order)

    till.next(till.pay, pay)
    pay_both = paying(till.effect(), Order(), Order(invoice="i-2"))
    async with remit.open(cast(Store, store)) as rt:
        with pytest.raises(type(error)) as raised:
            await rt.run(pay_both, id="r")
        told = raised.value
        assert told.message == f"{error.message} But pay#2 may have happened: what became of it is not written."
        assert (told.code, told.hint, str(told).startswith(told.message)) == (error.code, error.hint, True)
        assert "may have happened" not in error.message, "it may be the answer to others as well"


async def test_where_nothing_was_called_nothing_is_said_to_have_happened():  # proves: FX-2
    store, till = Failing(cast(Store, MemoryStore())), Till()
    error = remit.StoreUnavailable("Nothing was written: the file is busy.")

    @remit.step
    async def look_up() -> int:
        store.error = error
        return 1

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def flow(run: remit.Run) -> None:
        await run.step(look_up)
        await run.effect(till.effect(), Order())

    async with remit.open(cast(Store, store)) as rt:
        with pytest.raises(remit.StoreUnavailable) as raised:
            await rt.run(flow, id="r")
        assert raised.value.message == error.message and till.arrived == []
