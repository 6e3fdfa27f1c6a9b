"""A part of the crash matrix: all that lies around an effect, under every rule, on every store; the rest in turns.

`make crash-matrix` plays all of it and prints the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.effects_matrix import AROUND, ONCE, STORES, TWICE, Ask, Place, asking, play
from tests.crash.errand import RULES
from tests.support.postgres import drop_database, fresh_database

pytestmark = pytest.mark.slow

REST = [place for place in ONCE if place not in AROUND]
IN_TURN = [(place, STORES[number % len(STORES)], list(RULES)[number % len(RULES)]) for number, place in enumerate(REST)]
# A store's turn moves on with every rule's round, so that each store meets each rule.
TWICE_IN_TURN = [
    (place, STORES[(number + number // len(RULES)) % len(STORES)], list(RULES)[number % len(RULES)])
    for number, place in enumerate(TWICE)
]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with asking(tmp_path_factory.mktemp("locks")) as ask:
        yield ask


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[dict[str, str]]:
    postgres = fresh_database(postgres_url)
    yield {"sqlite": f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'runs.db'}", "postgres": postgres}
    drop_database(postgres)


def _play(ask: Ask, databases: dict[str, str], folder: Path, place: Place, store: str, rule: str) -> list[str]:
    url = databases.get(store) or f"file:{folder / 'state.json'}"
    return play(ask, url, folder, place, rule).faults()


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("place", AROUND, ids=str)
def test_a_death_around_an_effect_leaves_one_call_and_a_true_status(
    ask: Ask, databases: dict[str, str], tmp_path: Path, place: Place, rule: str, store: str
):  # proves: FX-1, FX-2, FX-3, FX-11, FX-12, APR-10, C1
    assert _play(ask, databases, tmp_path, place, store, rule) == []


@pytest.mark.parametrize(("place", "store", "rule"), IN_TURN, ids=str)
def test_a_death_on_the_way_to_an_effect_or_back_costs_nothing(
    ask: Ask, databases: dict[str, str], tmp_path: Path, place: Place, store: str, rule: str
):  # proves: FX-3, FX-12, C17
    assert _play(ask, databases, tmp_path, place, store, rule) == []


@pytest.mark.parametrize(("place", "store", "rule"), TWICE_IN_TURN, ids=str)
def test_a_second_death_while_a_doubt_is_ended_makes_no_second_call(
    ask: Ask, databases: dict[str, str], tmp_path: Path, place: Place, store: str, rule: str
):  # proves: FX-2, FX-3, FX-12
    assert _play(ask, databases, tmp_path, place, store, rule) == []
