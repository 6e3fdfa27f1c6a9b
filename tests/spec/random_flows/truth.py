"""What must be so of a run after each turn, by what is written, what is outside, and what the flow was told.

Nothing of it asks Remit, but for whether the journal verifies and how the run's row stands.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.spec.random_flows.outside import Outside, Written, outcome_of
from tests.spec.random_flows.place import Turn
from tests.spec.random_flows.player import DAY_MAX
from tests.spec.random_flows.shape import CAPPED, EFFECTS, STEPS
from tests.spec.stateful.model import Row, Tale

# What may stop unchanged code whose flow gave up a call, which is not recorded: a documented limit.
MISFITS = ("definition_incompatible", "effect.unheard", "call.unawaited")


@dataclass
class Known:
    """What is known of one run over all of its turns."""

    has_given_up: bool = False  # its flow let go of something in some turn, which is recorded nowhere
    told: dict[str, tuple[str, object]] = field(default_factory=dict)  # what is final, by call


def base_of(call: str) -> str:
    """The declared name behind a call's path."""
    return call.rpartition("/")[2].partition("#")[0]


def check_turn(outside: Outside, known: Known, turn: Turn, tale: Tale) -> None:
    """What the flow was told in this turn is what the journal has, now as before."""
    known.has_given_up |= turn.has_given_up
    for told in turn.told:
        kind = base_of(told.call)
        row = _last(tale, told.call, _COMPLETING)
        what = f"{turn.run} {told.call} was told {told.state} {told.value!r}"
        if kind in STEPS:
            fact = {"value": "StepDone", "StepError": "StepFailed"}.get(told.state)
            outside.must(row is not None and row.kind == fact, f"{what}, and recorded is {_name(row)}")
        elif kind in EFFECTS:
            _check_effect(outside, turn, tale, told.call, told.state, told.value, what)
        elif kind == "question":
            fact = {"value": "ApprovalUsed", "Denied": "EffectRefused"}.get(told.state)
            outside.must(row is not None and row.kind == fact, f"{what}, and recorded is {_name(row)}")
        elif kind == "run.random" and row is not None and told.at > turn.begun_at:
            outside.must(row.value == told.value, f"{what}, and recorded is {row.value!r}")
        if told.state not in ("EffectDidNotHappen", "StepError") and kind != "run.random":
            final = told.state, told.value
            before = known.told.setdefault(told.call, final)
            outside.must(before == final, f"{what}, and {before} in an earlier turn")


def check_forgotten(outside: Outside, turn: Turn, tale: Tale) -> None:
    """A flow that returned came to each effect of which there is an outcome, but for those that lost a race."""
    if tale.status == "completed" and turn.gave is not None:
        settled = [row.name or "" for row in tale.main if row.kind == "EffectSettled" and row.body["state"] == "ok"]
        left = [call for call in settled if call not in turn.made and (turn.run, call) not in outside.racing]
        outside.must(not left, f"{turn.run} is completed, and nobody asked for {left}")


_COMPLETING = ("StepDone", "StepFailed", "EffectSettled", "EffectRefused", "ApprovalUsed", "ValueDrawn")


def _check_effect(outside: Outside, turn: Turn, tale: Tale, call: str, state: str, value: object, what: str) -> None:
    settled = [row for row in tale.main if row.name == call and row.kind in ("EffectSettled", "EffectRefused")]
    states = [row.body["state"] if row.kind == "EffectSettled" else row.body["code"] for row in settled]
    fact = {
        "value": "ok",
        "EffectDeclined": "failed",
        "EffectDidNotHappen": "did_not_happen",
        "Denied": "approval.denied",
        "Conflict": "idempotency.conflict",
    }.get(state, state)
    outside.must(fact in states, f"{what}, and recorded is {states}")
    if state == "value":
        intended = tale.intended(call)
        key = intended.body["key"] if intended is not None else ""
        outside.must(value == outcome_of(base_of(call), key), f"{what}, which is not what happened")


def check_outside(outside: Outside, tale: Tale) -> None:
    """Nothing happened twice, and what is settled is true."""
    for call in {row.name or "" for row in tale.main if row.kind == "EffectIntended"}:
        intended, state = tale.intended(call), tale.state(call)
        assert intended is not None
        times = outside.count(intended.body["key"])
        outside.must(times <= 1, f"{tale.run} {call} happened {times} times")
        if state in ("ok", "failed", "did_not_happen"):
            outside.must(times == (state == "ok"), f"{tale.run} {call} is {state}, and happened {times} times")
            on_its_way = [one for one in outside.transit if one.key == intended.body["key"]]
            is_over = state in ("failed", "did_not_happen") and base_of(call) not in ("fence", "probe_plain")
            outside.must(not (is_over and on_its_way), f"{tale.run} {call} is {state}, and is on its way")
    keys = {row.body["key"] for row in tale.main if row.kind == "EffectIntended"}
    for one in outside.landed:
        if one.run == tale.run:
            outside.must(one.key in keys, f"{one.run} {one.call} happened and was never intended")


def check_shared(outside: Outside) -> None:
    """No day saw more than it may, and no business was done twice."""
    days: Counter[tuple[str, int]] = Counter()
    for one in outside.landed:
        if one.kind in CAPPED:
            days[one.kind, one.day] += one.request["amount"]
    outside.must(max(days.values(), default=0) <= DAY_MAX, f"a day saw {days} of {DAY_MAX}")
    booked = [one for one in outside.landed if one.kind == "booked"]
    outside.must(len(booked) <= 1, f"booked {[(one.run, one.call) for one in booked]}")


def used_of(tales: Iterable[Tale]) -> dict[str, int]:
    """What effects that are done or in doubt hold of each day's ceiling, by its scope."""
    used: dict[str, int] = defaultdict(int)
    for tale in tales:
        for call in {row.name or "" for row in tale.main if row.kind == "EffectIntended"}:
            for taken in tale.reserved(call, is_any=True):
                used[taken["scope"]] += 0
            if tale.state(call) in ("ok", "in_doubt"):
                for taken in tale.reserved(call):
                    used[taken["scope"]] += taken["amount"]
    return used


def check_intended(outside: Outside, turn: Turn, entry: Written) -> None:
    """Nothing new begins outside while an earlier turn left a doubt, or the flow did not hear what it gave up."""
    states: dict[str, str] = {}
    first: dict[str, int] = {}
    epochs: dict[str, int] = {}
    for one in outside.written:
        if one.run != entry.run or one is entry:
            continue
        if one.kind == "EffectIntended":
            states[one.name], epochs[one.name] = "in_doubt", one.epoch
            first.setdefault(one.name, one.at)
        elif one.kind == "EffectSettled":
            states[one.name] = one.body["state"]
        elif one.kind in ("EffectRefused", "ApprovalUsed"):
            states[one.name] = "answered"
    what = f"{entry.run} {entry.name} began"
    is_again = states.get(entry.name) == "in_doubt"
    unknown = {one.name for one in outside.maybe if one.run == entry.run}  # its settlement may be among them
    doubts = [call for call, state in states.items() if state == "in_doubt" and call not in (entry.name, *unknown)]
    for call in doubts:
        if epochs[call] < entry.epoch and not (is_again and first[entry.name] < first[call]):
            outside.must(False, f"{what} while {call} is in doubt")
    if entry.name not in states:
        for call, state in states.items():
            is_left = state in ("ok", "failed") and epochs.get(call, entry.epoch) < entry.epoch
            if is_left and call not in turn.made and (entry.run, call) not in outside.racing:
                outside.must(False, f"{what}, and nobody asked for {call}, which is {state}")
    for call, at in turn.given_up.items():
        is_behind = at < turn.made.get(entry.name, 0)
        if is_behind and call not in turn.heard and states.get(call) in ("ok", "failed", "in_doubt", "answered"):
            outside.must(False, f"{what}, made after {call} was given up, which is {states[call]}")


def _last(tale: Tale, call: str, kinds: tuple[str, ...]) -> Row | None:
    return next((row for row in reversed(tale.main) if row.name == call and row.kind in kinds), None)


def _name(row: Row | None) -> str:
    return "nothing" if row is None else f"{row.kind} {row.body}"
