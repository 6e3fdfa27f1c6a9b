"""The table of kinds: what is known of each stands in one row, and what can't be read from it agrees with it."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec

from remit.canonical import INTEGER_MAX
from remit.faces.cli.said import SAID
from remit.facts import announced, judgement, kinds, machine, rules, view
from remit.facts.entry import Header
from remit.facts.fact import Fact
from tests.docs.pages import section

PARTS = {kinds.Reservation, kinds.ValueLost}  # of a body, and no entries


def test_each_fact_that_an_entry_may_be_has_one_row():  # proves: LOG-1
    structs = [each for each in vars(kinds).values() if isinstance(each, type) and each.__module__ == kinds.__name__]
    assert [row.fact for row in machine.KINDS.values()] == [each for each in structs if each not in PARTS]
    assert all(issubclass(each, Fact) for each in structs)


def test_what_completes_a_call_is_what_a_call_may_be_recorded_as():  # proves: LOG-1, RUN-4
    completing = {name for name, row in machine.KINDS.items() if row.completes is not None}
    assert {each.__name__ for each in get_args(view.Completion)} == completing == machine.COMPLETING
    assert {row.completes for row in machine.KINDS.values()} - {None} == set(get_args(machine.CallKind))


def test_the_page_names_the_same_completions():  # proves: LOG-1
    said = re.search(r"\*\*Completions\*\* are (.*?)\. Each has", section("formats.md", "Verifying a journal"), re.S)
    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == machine.COMPLETING


def test_only_a_run_s_own_lane_moves_it_and_each_entry_there_does():  # proves: LOG-1
    told_by_their_bodies = {"RunParked", "RunEnded"}
    own = {name for name, row in machine.KINDS.items() if row.lane == "main" and not row.journal}
    assert set(machine.MOVES) | told_by_their_bodies == own
    assert own >= machine.BOUNDARY_KINDS | machine.FINAL_KINDS | machine.COMPLETING


def test_the_command_line_has_words_for_each_kind_whose_name_and_value_do_not_say_all():  # proves: LOG-1
    assert set(SAID) == set(machine.KINDS) - {"ValueDrawn", "SignalSent"}


def test_every_number_of_a_fact_is_held_to_what_can_be_stated():  # proves: LOG-1
    modules = [kinds, judgement, rules, announced]
    facts = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    unbounded = [
        f"{struct}: {field.name}"
        for struct in [Header, *(each for each in facts if issubclass(each, Fact))]
        for field in msgspec.inspect.type_info(struct).fields  # type: ignore[attr-defined]
        for number in _numbers(field.type)
        if (number.ge, number.le) != (-INTEGER_MAX, INTEGER_MAX)
    ]
    assert unbounded == []


def _numbers(info: Any) -> list[msgspec.inspect.IntType]:
    if isinstance(info, msgspec.inspect.IntType):
        return [info]
    parts = [getattr(info, name, ()) for name in ("types", "item_types", "item_type", "key_type", "value_type")]
    return [
        number for part in parts for one in (part if isinstance(part, tuple) else (part,)) for number in _numbers(one)
    ]
