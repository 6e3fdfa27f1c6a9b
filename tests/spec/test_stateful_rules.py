"""Random lives of runs under rules that move, held against a small model: the stricter of all of them holds.

Policies are set, set again and set back; code is deployed with another contract while runs wait or are in doubt; the
clock crosses midnight, month's end, windows and the time of a yes, also while a commit is on its way; people lose
roles, turn out to be one person, and answer late or twice. What reaches the outside was allowed when its intention was
committed, and began in time; what is allowed goes through; and what was said of a turn before is what it did.
REMIT_EXAMPLES=10 plays ten times as many lives; give that `-o faulthandler_timeout=0`, or pytest tells after five
minutes where it is, as if it hung.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from remit.engine.process.host import WholeClock
from remit.store.memory import MemoryStore
from remit.store.url import store_for
from tests.spec.stateful.model import ENDS
from tests.spec.stateful.rules_model import US
from tests.spec.stateful.rules_office import EVENING, PLACES
from tests.spec.stateful.rules_turns import Turns
from tests.spec.stateful.rules_world import (
    BUYER,
    DANA,
    DEREK,
    DORA,
    EVE,
    MOODS,
    MORE_ROLES,
    POLICIES,
    ROLES,
    ZOE,
    Errand,
    Happening,
)
from tests.spec.stateful.world import FAULTS, Fault
from tests.support.clock import MovedClock

TIMES = int(os.environ.get("REMIT_EXAMPLES", "1"))
PEOPLE = (DORA, DEREK, EVE, DANA)
RARELY = some.integers(0, 5).map(lambda n: n == 5)
ERRANDS = some.builds(
    Errand,
    amounts=some.lists(some.sampled_from([50, 90, 110, 140, 180]), min_size=1, max_size=2).map(tuple),
    currency=some.sampled_from(["", "", "GBP", "USD"]),
    can_fetch=some.booleans(),
    is_together=some.booleans(),
    is_late=RARELY,
    asks=some.sampled_from(["", "", "before", "beside"]),
)
TERMS = some.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8])
POLICY = some.sampled_from(range(len(POLICIES)))
PLACE = some.sampled_from(PLACES)
EDITS = some.sampled_from(["more", "note", "version", "terms", "terms", "unwanted", "quote", "stock", "mute"])
LINKS = some.sampled_from([(EVE, DANA), (DEREK, DORA), (DEREK, EVE), (BUYER, DEREK)])
DEEDS = some.one_of(
    some.tuples(some.just("role"), some.sampled_from(ROLES + MORE_ROLES)),
    some.tuples(some.just("policy"), POLICY),
    some.tuples(some.sampled_from(["principal", "principal and back"]), some.sampled_from([BUYER, DANA, DORA])),
    some.tuples(some.just("role and back"), some.sampled_from(ROLES)),
    some.tuples(some.just("link"), LINKS),
    some.tuples(some.just("decide"), some.tuples(some.sampled_from(PEOPLE), some.sampled_from(["approve", "deny"]))),
    some.tuples(some.just("minutes"), some.sampled_from([4, 4, 8])),
    some.tuples(some.just("cancel"), RARELY),
)

MOOD = some.tuples(some.sampled_from(MOODS), some.sampled_from(["pay", "pay", "send"]))
Deeds = list[tuple[int, bool, tuple[str, Any]]]  # at which write, before it or after, and what

WHEN = some.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 6])  # which write of a turn


class Errands(RuleBasedStateMachine, Turns):
    """What happens, in any order."""

    place: Callable[[MovedClock], tuple[Callable[[], Any], Callable[[], None]]]  # opens a store; clears its place

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        clock = MovedClock(EVENING)
        store, self.clear = type(self).place(clock)
        Turns.__init__(self, clock, store)

    @initialize(errands=some.lists(some.tuples(ERRANDS, TERMS), min_size=3, max_size=10))
    def begin(self, errands: list[tuple[Errand, int]]) -> None:
        self.begin_with(errands)

    def teardown(self) -> None:
        try:
            if hasattr(self, "rt"):
                if sys.exc_info()[0] is None:  # a life that went wrong already is told as it was
                    self.set_right()
                self.close()
        finally:
            self.loop.close()
            self.clear()

    # -- the rules and the world ---------------------------------------------------------------------------------------

    @rule(of=some.sampled_from(ROLES + MORE_ROLES))
    def somebody_s_role_is_turned(self, of: tuple[str, str]) -> None:
        self.do(self.turn_role(*of))

    @rule(
        what=some.sampled_from(["cancel", "link", "principal", "principal", "nothing", "nothing", "nothing"]),
        place=PLACE,
        principal=some.sampled_from([BUYER, DANA, DORA, DEREK]),
        one=LINKS,
    )
    def something_rare(self, what: str, place: int, principal: str, one: tuple[str, str]) -> None:
        """A run is cancelled, somebody is disabled or enabled, or two turn out to be one person."""
        run = self.runs[place]
        if what == "cancel":
            self.do(self.cancel(run))
        elif what == "principal":
            self.do(self.turn_principal(principal))
        elif what == "link":
            self.do(self.link(*one))

    @rule(at=POLICY)
    def a_policy_is_set(self, at: int) -> None:
        law = self.law
        told = {ask.id for ask in self.do(self.office.voided_by(POLICIES[at]))}
        standing = {
            ask_id
            for ask_id, asked in law.questions.items()
            if not asked.is_void and asked.choice != "deny" and not law.is_used(ask_id)
            and asked.under[1] == law.policy_set and self.status.get(asked.run) not in ENDS
            and asked.run not in law.cancelled and self.clock.now() <= asked.until
        }  # fmt: skip
        assert told == (set() if POLICIES[at] == law.policy else standing)
        self.do(self.set_policy(at))

    @rule()
    def all_is_allowed(self) -> None:
        for principal in sorted(self.law.disabled):
            self.do(self.turn_principal(principal))
        for principal, role in ROLES:
            if role not in self.law.roles.get(principal, ()):
                self.do(self.grant(principal, role))
        self.do(self.set_policy(0))
        self.town.is_mute = False
        self.town.unwanted.clear()

    @rule(minutes=some.sampled_from([1, 5, 20, 50, 100]))
    def time_passes(self, minutes: int) -> None:
        self.clock.move(timedelta(minutes=minutes))

    @rule(place=PLACE, which=some.integers(0, 5))
    def time_comes_to_a_brink(self, place: int, which: int) -> None:
        """Three minutes before something is over."""
        run = self.runs[place]
        law, now = self.law, self.clock.now()
        brinks = [law.window_end(run), 86_400_000_000 * (now // 86_400_000_000 + 1)]
        brinks += [asked.until for asked in law.questions.values() if asked.run == run][-2:]
        brinks += [law.fresh_until(run, name) for name in ("quote", "stock") if law.last_taken(run, name)]
        ahead = sorted(at - 180_000_000 - now for at in brinks if at - 180_000_000 > now)
        if ahead:
            self.clock.move(ahead[which % len(ahead)] * US)

    @rule(place=PLACE, what=EDITS, at=TERMS)
    def the_world_is_edited(self, place: int, what: str, at: int) -> None:
        run = self.runs[place]
        town = self.town
        if what == "more":
            town.more[run] = 0 if town.more.get(run) else 7
        elif what == "note":
            town.note[run] = "" if town.note.get(run) else "again"
        elif what == "version":
            town.effect_version[run] = "2" if town.effect_version.get(run, "1") == "1" else "1"
        elif what == "terms":
            town.terms[run] = at
        elif what == "unwanted":
            town.unwanted ^= {run}
        elif what == "mute":
            town.is_mute = not town.is_mute
        else:
            town.worth[run, what] = 3 - town.worth.get((run, what), 1)

    # -- people and turns ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.law.questions)
    @rule(
        at=some.integers(0, 3),
        choice=some.sampled_from(["approve", "approve", "deny"]),
        by=some.sampled_from(PEOPLE),
    )
    def somebody_answers(self, at: int, choice: str, by: str) -> None:
        ids = list(self.law.questions)
        self.do(self.decide(ids[-1 - at % len(ids)], by, choice))

    @rule(by=some.sampled_from([DORA, DORA, DEREK]))
    def all_is_approved(self, by: str) -> None:
        for ask_id in [ask_id for ask_id in self.law.questions if self.is_open(ask_id)]:
            for each in (by, DORA, DEREK):
                if self.is_open(ask_id):
                    self.do(self.decide(ask_id, each, "approve"))

    @precondition(lambda self: any(self.law.doubts(run) for run in self.runs))
    @rule(place=PLACE, by=some.sampled_from([DORA, DEREK, EVE]))
    def somebody_finds_out(self, place: int, by: str) -> None:
        self.find_out(self.runs[place], by)

    @rule(place=PLACE, is_told=some.booleans())
    def a_turn(self, place: int, is_told: bool) -> None:
        self.go(self.runs[place], is_told=is_told)
        self.open_next(place)

    @rule()
    def all_go_on(self) -> None:
        for place in PLACES:
            self.open_next(place)
            self.go(self.runs[place])

    @rule(
        place=PLACE,
        deeds=some.lists(some.tuples(WHEN, some.booleans(), DEEDS), min_size=1, max_size=2),
        mood=MOOD,
    )
    def a_turn_in_which_others_act(self, place: int, deeds: Deeds, mood: tuple[str, str]) -> None:
        run = self.runs[place]
        happenings = [
            Happening(at, is_before, partial(self.deed, run, what, given)) for at, is_before, (what, given) in deeds
        ]
        self.go(run, mood=mood, happenings=happenings)

    @rule(
        place=PLACE,
        by=some.sampled_from([DORA, DEREK]),
        at=some.just(0) | POLICY,
        which=some.none() | some.integers(0, 5),
        deeds=some.lists(some.tuples(WHEN, some.booleans(), DEEDS), max_size=2),
        mood=MOOD,
    )
    def a_yes_is_used_while_others_act(
        self,
        place: int,
        by: str,
        at: int,
        which: int | None,
        deeds: Deeds,
        mood: tuple[str, str],
    ) -> None:
        self.all_is_allowed()
        self.open_next(place)
        run = self.runs[place]
        self.do(self.set_policy(at))
        self.go(run)
        self.all_is_approved(by)
        if which is not None:
            self.time_comes_to_a_brink(place, which)
            deeds = [*deeds, (0, True, ("minutes", 4))]
        self.a_turn_in_which_others_act(place, deeds, mood)

    @rule(
        place=PLACE,
        mood=MOOD,
        fault=some.none() | some.none() | some.builds(Fault, some.sampled_from(FAULTS), some.integers(0, 24)),
    )
    def a_turn_that_goes_badly(self, place: int, mood: tuple[str, str], fault: Fault | None) -> None:
        self.go(self.runs[place], mood=mood, fault=fault)

    @rule(place=PLACE, deed=DEEDS | some.tuples(EDITS, TERMS), by=some.sampled_from([DORA, DEREK]))
    def a_yes_and_something_happens(self, place: int, deed: tuple[str, Any], by: str) -> None:
        self.all_is_allowed()
        self.open_next(place)
        run = self.runs[place]
        self.go(run)
        self.all_is_approved(by)
        if isinstance(deed[1], int) and deed[0] not in ("policy", "minutes", "cancel"):
            self.the_world_is_edited(place, *deed)
        else:
            self.do(self.deed(run, *deed))
        self.go(run, is_told=True)

    @rule()
    def the_process_dies_between(self) -> None:
        self.do(self.reopen())

    # -- the end -------------------------------------------------------------------------------------------------------

    def set_right(self) -> None:
        """Everything is allowed and known again: every run goes as far as it may, and ends when its time is over."""
        law, town = self.law, self.town
        self.all_is_allowed()
        for principal, role in (*MORE_ROLES, (ZOE, "lead"), (ZOE, "director"), (ZOE, "cfo")):
            if role not in law.roles.get(principal, ()):
                self.do(self.grant(principal, role))
        town.worth.clear()
        for run in self.runs:
            town.terms[run] = law.opened_as[run]
            self.undo_edits(run)
        for round_ in range(9):
            for run in self.runs:
                for by in (DORA, DEREK, EVE, ZOE):
                    self.find_out(run, by)
                self.go(run)
            for ask_id in [ask_id for ask_id in law.questions if self.is_open(ask_id)]:
                for by in (*PEOPLE, ZOE):
                    if self.is_open(ask_id) and law.may_decide(by, law.questions[ask_id], "approve"):
                        self.do(self.decide(ask_id, by, "approve"))
            if round_ == 6:
                self.clock.move(timedelta(days=2))
        assert all(self.status[run] in ENDS for run in self.runs), self.status
        self.nothing_was_wrong()


EXAMPLES = {"memory": 30, "sqlite": 5}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_stricter_of_all_rules_holds_whatever_moves_meanwhile(
    kind: str, tmp_path: Path
):  # proves: GATE-2, GATE-3, GATE-4, GATE-8, GATE-9, APR-1, APR-2, APR-3, APR-4, APR-6, FX-1, FX-2, FX-12
    names = iter(range(1_000_000))

    def in_memory(clock: MovedClock) -> tuple[Callable[[], Any], Callable[[], None]]:
        store = MemoryStore(clock=WholeClock(clock))
        return (lambda: store), lambda: None

    def on_sqlite(clock: MovedClock) -> tuple[Callable[[], Any], Callable[[], None]]:
        path = tmp_path / f"{next(names)}.db"
        url = f"sqlite:///{path}"
        return (lambda: store_for(url, clock=WholeClock(clock))), lambda: path.unlink(missing_ok=True)

    places = {"memory": in_memory, "sqlite": on_sqlite}
    lives = type("Lives", (Errands,), {"place": staticmethod(places[kind])})
    run_state_machine_as_test(
        lives,
        settings=settings(
            max_examples=EXAMPLES[kind] * TIMES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
