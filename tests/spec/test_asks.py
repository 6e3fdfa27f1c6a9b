"""How a question stands: said by its view alone, so that every list, page and check says the same of it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from remit.facts.calls import AskState, AskView, Decided
from remit.facts.judgement import Bound
from remit.facts.kinds import ApprovalAsked, ApprovalDecided

ASKED = ApprovalAsked(ask="a1", authority=3, bound=Bound(effect="pay", request="r1"), call="pay", until=9)


def decided(choice: Any) -> Decided:
    told = ApprovalDecided(ask="a1", asked="h1", authority=3, choice=choice, meaning="", roles=["director"])
    return Decided(told, "i1", "user:dora", 5, None)


YES, NO = decided("approve"), decided("deny")

# (what was written about it, how it is called, whether it stands, whether an answer is still heard)
STATES: list[tuple[dict[str, Any], str, bool, bool]] = [
    ({}, "open", True, True),
    ({"misbound": YES}, "open", True, True),  # an answer to another question is none to this one
    ({"decided": YES}, "approved", True, False),
    ({"decided": NO}, "denied", True, False),
    ({"decided": YES, "used_by": "pay"}, "used", False, False),
    ({"voided": ["approval.payload"]}, "void", False, False),
    ({"decided": YES, "voided": ["approval.payload"]}, "void", False, False),
    ({"decided": NO, "voided": ["approval.denied"]}, "void", False, False),  # the refusal took the answer up
]


@pytest.mark.parametrize(("told", "state", "stands", "is_open"), STATES)
def test_a_question_stands_until_it_is_used_or_void(told, state: str, stands: bool, is_open: bool):  # proves: APR-6
    ask = AskView(ASKED, "h1", 1, 2, b"1", b"salt", **told)
    assert (ask.state, ask.stands, ask.is_open) == (state, stands, is_open)


def test_each_state_has_a_line_above():  # proves: APR-1
    assert {state for _, state, _, _ in STATES} == set(get_args(AskState))
