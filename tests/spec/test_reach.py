"""Reach: what a run's own journal says of how far it had looked into what others write."""

from __future__ import annotations

from typing import Any

import remit
from remit.facts.judgement import Question, Verdict, Who
from remit.facts.kinds import ApprovalDecided, DoubtResolved, GateJudged
from remit.facts.reach import Reach
from remit.store.two_method import TwoMethodStore
from tests.support.office import ROOT, Office, staffed


def judged(*, authority: int = 1, post: int = 0, decision: Any = "resume") -> GateJudged:
    question = Question(
        authority=authority,
        executor=Who(principal="agent:x"),
        head="",
        now=0,
        post=post,
        risk="low",
        seq=1,
        window_end=1,
    )
    return GateJudged(question=question, verdict=Verdict(decision=decision, findings=[]))


def decided(authority: int) -> ApprovalDecided:
    return ApprovalDecided(ask="a", asked="b", authority=authority, choice="approve", meaning="", roles=[])


def reach_of(posts: int) -> Reach:
    reach = Reach()
    for seq in range(1, posts + 1):
        reach.take_post(None, seq)
    return reach


def test_a_judgement_reads_no_more_of_lane_post_than_there_is():  # proves: LOG-4
    assert reach_of(2).take(judged(post=2)) == ""
    assert "by 3 entries of lane post, which has 2" in reach_of(2).take(judged(post=3))


def test_no_judgement_reads_less_of_lane_post_than_one_before_it_but_one_that_was_kept_for_the_end():  # proves: LOG-4
    """Whether a run may go on is judged first; where it may not, what is in doubt is settled before that is written."""
    reach = reach_of(3)
    assert reach.take(judged(post=3)) == ""
    for decision in ("resume", "revalidate"):
        assert "by 2 entries of lane post, and one before it by 3" in reach.take(judged(post=2, decision=decision))
    assert reach.take(judged(post=2, decision="abandon")) == ""


def test_the_highest_version_that_anything_in_it_names_is_what_it_rests_on():  # proves: GATE-5
    reach = Reach()
    reach.take_post(decided(9), 1)
    for authority in (4, 7, 5):
        assert reach.take(judged(authority=authority)) == ""
    assert reach.authority == 9
    reach.take_post(DoubtResolved(authority=11, call="pay", intended="a", state="ok"), 2)
    assert reach.authority == 11
    assert Reach().authority == 0


async def test_a_store_that_keeps_the_directory_for_one_opening_alone_says_nothing_of_an_older_one():  # proves: RUN-19
    """Else no run that it kept could ever be gone on with."""
    kept: dict[str, Any] = {}

    class Keeper:
        def load(self, run: str) -> Any:
            return kept.get(run)

        def save(self, mapping: dict[str, Any]) -> None:
            kept[mapping["run"]] = mapping

    office = Office(resume="anyone")
    async with remit.open(TwoMethodStore(Keeper())) as rt:
        await staffed(rt)
        await rt.grant("user:x", "director", by=ROOT)
        assert (await office.go(rt)).waits_for == "approval"
    async with remit.open(TwoMethodStore(Keeper())) as rt:
        assert (await rt.authority()).version < 6
        assert (await office.go(rt)).waits_for == "approval"
