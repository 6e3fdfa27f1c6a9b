"""The two-method store: what is saved, what is loaded, and what is believed when one of them fails."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import pytest

from remit.errors import LeaseLost, LoadError, Refused, SaveError, StoreRefused, StoreUnavailable, Tampered
from remit.facts.kinds import RunQuarantined
from remit.facts.names import INCIDENTS
from remit.store.two_method import TwoMethodStore
from remit.store.units import Claim, Overlay, Renewal
from tests.support.clock import MovedClock
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
)
from tests.support.keepers import Async, Plain


async def opened(keeper: object) -> TwoMethodStore:
    store = TwoMethodStore(keeper)
    await store.open()
    return store


async def kept_run() -> Plain:
    """A keeper with one run of three entries."""
    keeper = Plain()
    store = await opened(keeper)
    hand = await open_held(store, "po-1")
    await store.append(hand.step(b'{"total":3}', name="total"))
    await store.close()
    return keeper


async def found(store: TwoMethodStore, run: str = "po-1") -> Any:
    row = await store.read_row(TENANT, run)
    assert row is not None
    return row


# -- what is saved -----------------------------------------------------------------------------------------------------


async def test_a_mapping_of_plain_types_is_saved_whole_at_each_append():  # proves: RUN-19
    shapes: list[tuple[list[str], int]] = []
    keeper = Plain()
    keeper.saving = lambda mapping: shapes.append((list(mapping), len(mapping["main"])))
    store = await opened(keeper)
    hand = await open_held(store, "po-1")
    await store.append(hand.step(b'{"total":3}'))
    await store.close()

    row = [
        "tenant",
        "run",
        "gen",
        "flow",
        "by",
        "status",
        "code",
        "opened_at",
        "window_end",
        "head",
        "seq",
        "post_head",
        "post_seq",
        "epoch",
    ]
    assert shapes == [(["remit", "ledger", *row, "main", "post"], count) for count in (1, 2, 3)]
    mapping = json.loads(keeper.saved["po-1"])
    assert (mapping["run"], mapping["status"], mapping["seq"], mapping["epoch"]) == ("po-1", "running", 3, 1)
    assert set(mapping["main"][2]) == {"header", "body", "salt", "value"}
    assert mapping["main"][2]["value"] == '{"total":3}'


async def test_what_was_given_to_save_may_be_kept_and_changed():
    given: list[dict[str, Any]] = []
    keeper = Plain()
    keeper.saving = given.append
    store = await opened(keeper)
    hand = await open_held(store, "po-1")
    given[-1]["main"].clear()
    await store.append(hand.step())
    assert [len(mapping["main"]) for mapping in given] == [1, 0, 3]
    await read_view(store, hand.row.run_key)
    await store.close()


# -- what is loaded ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_run_goes_on_in_another_opening_under_a_higher_epoch(is_async):  # proves: RUN-3, OWN-1
    plain = await kept_run()
    keeper: Any = plain
    if is_async:
        keeper = Async()
        keeper.plain = plain
    store = await opened(keeper)
    row = await found(store)
    assert (row.epoch, row.worker, row.seq) == (1, None, 3)
    view = await read_view(store, row.run_key)
    assert [call.value for call in view.calls.values()] == [b'{"total":3}']

    held = await store.claim(Claim(row.run_key, row.epoch, "w-2", LEASE_MS))
    assert held is not None and held.epoch == 2
    hand = Hand(store, held)
    await store.append(hand.start("w-2"))
    await store.close()
    assert json.loads(plain.saved["po-1"])["epoch"] == 2
    assert plain.loads.count("po-1") == 2  # once when it was opened at first, once now


async def test_an_id_that_was_saved_is_taken():  # proves: RUN-11
    keeper = await kept_run()
    before = dict(keeper.saved)
    store = await opened(keeper)
    assert await store.open_run(opening(store, "po-1")) is None
    await store.close()
    assert keeper.saved == before


BROKEN: list[Any] = [
    {},
    [],
    "text",
    b"bytes",
    7,
    {"remit": 1},
    {"remit": "1"},
    {"steps": []},
    {"seq": "3"},
    {"head": "xyz"},
    {"ledger": "short"},
    {"main": [{"header": "{}"}]},
    {"main": [{"header": "\ud800", "body": "{}"}]},
    {"main": [{"header": "{}", "body": "{}", "value": "1", "value_base64": "MQ=="}]},
    {"run": "po-2"},
    {"tenant": "other"},
    {"unknown": 1},
]


@pytest.mark.parametrize("change", BROKEN)
async def test_what_is_not_a_saved_run_is_refused_and_never_saved_over(change):  # proves: LOG-3
    kept = await kept_run()
    whole = json.loads(kept.saved["po-1"])
    is_alone = not isinstance(change, dict) or change in ({}, {"remit": 1}, {"steps": []})
    loaded = change if is_alone else {**whole, **change}
    saves: list[object] = []

    class Odd:
        def load(self, run_id: str) -> Any:
            return loaded

        def save(self, mapping: Any) -> None:
            saves.append(mapping)

    store = await opened(Odd())
    for act in (lambda: store.read_row(TENANT, "po-1"), lambda: store.open_run(opening(store, "po-1"))):
        with pytest.raises(StoreRefused) as refused:
            await act()
        assert refused.value.code == "store.broken"
    await store.close()
    assert saves == []


async def test_a_newer_mapping_is_refused():
    keeper = Plain()
    keeper.saved["po-1"] = '{"remit":2}'
    store = await opened(keeper)
    with pytest.raises(StoreRefused) as refused:
        await store.read_row(TENANT, "po-1")
    assert refused.value.code == "store.newer"
    await store.close()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda mapping: mapping["main"][2].update(value='{"total":4}'),
        lambda mapping: mapping["main"].pop(),
        lambda mapping: mapping["main"].reverse(),
        lambda mapping: mapping["main"][2].pop("value"),
        lambda mapping: mapping.update(seq=2),
        lambda mapping: mapping.update(ledger="0" * 32),
    ],
)
async def test_a_changed_mapping_is_found_by_the_chain(spoil):  # proves: LOG-2
    keeper = await kept_run()
    mapping = json.loads(keeper.saved["po-1"])
    spoil(mapping)
    keeper.saved["po-1"] = json.dumps(mapping)
    store = await opened(keeper)
    row = await found(store)
    with pytest.raises(Tampered):
        await read_view(store, row.run_key)
    await store.close()


async def test_runs_of_two_ledgers_are_not_served_by_one_opening():  # proves: LOG-1
    keeper, other = await kept_run(), Plain()
    store = await opened(other)
    await open_run(store, "po-2")
    await store.close()
    keeper.saved |= other.saved

    store = await opened(keeper)
    await found(store, "po-2")
    with pytest.raises(StoreRefused) as refused:
        await store.read_row(TENANT, "po-1")
    assert refused.value.code == "store.ledger"
    await store.close()


async def test_a_run_that_was_drawn_up_for_another_ledger_is_not_opened():  # proves: LOG-1
    keeper = await kept_run()
    store = await opened(keeper)
    drawn_up = opening(store, "po-2")
    await found(store, "po-1")  # now the ledger is that of po-1
    with pytest.raises(StoreUnavailable):
        await store.open_run(drawn_up)
    assert "po-2" not in keeper.saved
    await open_run(store, "po-2")
    await store.close()


# -- what fails --------------------------------------------------------------------------------------------------------


class Down(Exception):
    """The keeper can't be reached."""


def down(mapping: object) -> None:
    raise Down("no disk")


async def test_a_save_that_failed_is_not_believed():  # proves: RUN-3, RUN-6
    keeper = Plain()
    store = await opened(keeper)
    hand = await open_held(store, "po-1")
    kept = keeper.saved["po-1"]
    keeper.saving = down
    with pytest.raises(SaveError) as failed:
        await store.append(hand.step())
    assert isinstance(failed.value.__cause__, Down)
    with pytest.raises(SaveError):
        await open_run(store, "po-2")
    assert await store.read_row(TENANT, "po-2") is None

    row = await found(store)
    assert (row.seq, row.worker) == (2, None)
    await read_view(store, row.run_key)
    assert keeper.saved == {"po-1": kept}
    # Its attempt is over: whatever it still sends finds nothing.
    with pytest.raises(LeaseLost):
        await store.append(hand.step())
    assert not await store.release(hand.row.run_key, 1)
    await store.close()


async def test_a_save_that_was_kept_although_it_raised_is_found_when_it_is_loaded_anew():  # proves: RUN-3
    class LostAnswer(Plain):
        def save(self, mapping: dict[str, Any]) -> None:
            super().save(mapping)
            if mapping["seq"] == 3:
                raise Down("the answer was lost")

    store = await opened(LostAnswer())
    hand = await open_held(store, "po-1")
    with pytest.raises(SaveError):
        await store.append(hand.step(b'"once"'))
    row = await found(store)
    view = await read_view(store, row.run_key)
    assert [call.value for call in view.calls.values()] == [b'"once"']
    assert row.epoch == 1
    await store.close()


async def test_an_epoch_is_not_given_twice_after_a_failed_save():  # proves: OWN-1
    keeper = Plain()
    store = await opened(keeper)
    row = await open_run(store, "po-1", worker=None)

    held = await store.claim(Claim(row.run_key, 0, WORKER, LEASE_MS))
    assert held is not None and held.epoch == 1
    keeper.saving = down
    with pytest.raises(SaveError):
        await store.append(Hand(store, held).start())
    again = await found(store)
    assert again.epoch == 1
    held = await store.claim(Claim(again.run_key, 1, "w-2", LEASE_MS))
    assert held is not None and held.epoch == 2
    await store.close()


async def test_a_load_that_failed_says_so():  # proves: RUN-6
    class Unreachable(Plain):
        def load(self, run_id: str) -> Any:
            raise Down("no disk")

    store = await opened(Unreachable())
    for act in (lambda: store.read_row(TENANT, "po-1"), lambda: open_run(store, "po-1")):
        with pytest.raises(LoadError) as failed:
            await act()
        assert isinstance(failed.value.__cause__, Down)
    await store.close()


@pytest.mark.parametrize("keeper", [object(), {"load": 1}, type("Half", (), {"load": lambda self, run_id: None})()])
def test_an_object_that_lacks_a_method_is_refused(keeper):
    with pytest.raises(Refused) as refused:
        TwoMethodStore(keeper)
    assert refused.value.code == "store.methods"


# -- how they are called -----------------------------------------------------------------------------------------------


async def test_plain_methods_are_called_one_at_a_time_on_one_other_thread():  # proves: RUN-10
    threads: set[int] = set()
    inside = 0

    class Slow(Plain):
        def save(self, mapping: dict[str, Any]) -> None:
            nonlocal inside
            inside += 1
            assert inside == 1
            threads.add(threading.get_ident())
            super().save(mapping)
            inside -= 1

    store = await opened(Slow())
    hands = await asyncio.gather(*(open_held(store, f"r-{i}") for i in range(8)))
    await asyncio.gather(*(store.append(hand.step()) for hand in hands))
    assert len(threads) == 1 and threading.get_ident() not in threads
    await store.close()


async def test_of_runs_that_are_saved_together_one_failure_is_its_own():  # proves: RUN-3
    keeper = Plain()
    store = await opened(keeper)
    hands = [await open_held(store, f"r-{i}") for i in range(4)]

    def one_down(mapping: dict[str, Any]) -> None:
        if mapping["run"] == "r-2":
            raise Down

    keeper.saving = one_down
    made = await asyncio.gather(*(store.append(hand.step()) for hand in hands), return_exceptions=True)
    assert [type(answer) for answer in made] == [type(None), type(None), SaveError, type(None)]
    assert [(await found(store, f"r-{i}")).seq for i in range(4)] == [3, 3, 2, 3]
    await store.close()


class Held(Plain):
    """Its third save waits until the test lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def save(self, mapping: dict[str, Any]) -> None:
        if mapping["seq"] == 3:
            self.has_begun.set()
            assert self.may_end.wait(60)
        super().save(mapping)


async def test_a_renewal_during_a_save_is_not_lost(clock: MovedClock):  # proves: OWN-1
    keeper = Held()
    store = TwoMethodStore(keeper, clock=clock)
    await store.open()
    hand = await open_held(store, "po-1")
    saving = asyncio.create_task(store.append(hand.step()))
    await asyncio.to_thread(keeper.has_begun.wait)
    clock.move(timedelta(milliseconds=LEASE_MS / 2))
    renewer = await store.renewer()
    told = await renewer.renew(WORKER, [Renewal(hand.row.run_key, 1)], lease_ms=LEASE_MS)
    assert told == {hand.row.run_key: hand.row.post_head}
    keeper.may_end.set()
    await saving
    assert (await found(store)).lease_until == clock.now() + LEASE_MS * 1_000
    await store.close()


async def test_a_release_waits_for_the_save_that_is_under_way():  # proves: OWN-1, RUN-3
    keeper = Held()
    store = await opened(keeper)
    hand = await open_held(store, "po-1")
    saving = asyncio.create_task(store.append(hand.step()))
    await asyncio.to_thread(keeper.has_begun.wait)
    releasing = asyncio.create_task(store.release(hand.row.run_key, 1))
    await asyncio.sleep(0)
    keeper.may_end.set()
    await saving
    assert await releasing
    row = await found(store)
    assert (row.seq, row.worker) == (3, None)
    await store.close()


async def test_journals_of_remits_own_are_not_given_to_the_keeper():  # proves: LOG-3
    keeper = await kept_run()
    store = await opened(keeper)
    row = await found(store)
    incidents = Hand(store, await open_run(store, INCIDENTS, worker=None, flow=INCIDENTS))

    entry = incidents.seal(RunQuarantined(code="chain.hash", gen=1, run="po-1"), value=b'{"detail":"why"}')
    await store.append(incidents.unit(entry, quarantine=Overlay(row.run_key, is_set=True)))
    assert (await found(store)).quarantined
    assert len((await read_stored(store, incidents.row.run_key)).main) == 2
    await store.close()
    assert set(keeper.saved) == {"po-1"}
