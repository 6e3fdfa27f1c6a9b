"""The directory's commands: who was misspelt is told, and who looks like another one is shown as they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import remit
from remit.engine.process.standing import act
from remit.facts.kinds import RoleGranted
from tests.support.command import Desk

TWIN, SENTENCE = "user:d\u0430na", "agent:desk for user:ceo"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk("grant", "agent:buyer", "buyer", "--by", "user:ops")
    return desk


def test_a_stop_under_a_misspelt_name_is_done_and_told_with_the_names_like_it(desk: Desk):  # proves: GATE-3
    told = desk("disable", "agent:buyr", "--by", "user:ops")
    assert "agent:buyr is disabled" in told
    assert "warning: The directory had nothing about agent:buyr until now; " in told and ": agent:buyer." in told
    one = desk.json("disable", "agent:bayer", "--by", "user:ops")
    assert one["unknown"] == {"agent:bayer": ["agent:buyer", "agent:buyr"]}
    linked = desk.json("link", "agent:buyer", "--person", "user:dana", "--by", "user:ops")
    assert linked["unknown"] == {"user:dana": []}
    assert desk("disable", "agent:buyer", "--by", "user:ops").count("\n") == 1
    assert desk.json("disable", "user:dana", "--by", "user:ops")["unknown"] == {}


def test_a_name_that_passes_for_another_is_refused_and_one_of_before_is_marked(desk: Desk):  # proves: C32, APR-5
    for words in (("grant", TWIN, "director"), ("link", "agent:buyer", "--person", TWIN), ("disable", SENTENCE)):
        assert desk.json(*words, "--by", "user:ops", exits=2)["error"]["code"] == "id.refused"
    assert desk.json("cancel", "r", "--by", TWIN, exits=2)["error"]["code"] == "id.refused"

    async def let_in() -> None:
        async with remit.open(f"sqlite:///{desk.database}") as rt:
            for name in (TWIN, SENTENCE):
                fact = RoleGranted(principal=name, role="director")
                await act(rt._ready(), fact, "", by="user:ops", check=lambda known: None)

    asyncio.run(let_in())
    shown = desk("who")
    assert "user:d\\u0430na" in shown and f'"{SENTENCE}"' in shown and TWIN not in shown
    assert "user:d\\u0430na" in desk("who", TWIN)
    desk("disable", TWIN, "--by", "user:ops")
    desk("revoke", SENTENCE, "director", "--by", "user:ops")
    assert desk.json("who", TWIN)["disabled"]
