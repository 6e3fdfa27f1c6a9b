"""Reach: how far a run has looked into what others write, by its own journal.

    authority    the highest version of the directory that any of its entries names
    post         the longest that a judgement had read its lane `post`

Neither of them ever gets shorter. So a run remembers what was cut off elsewhere: it is not judged by
a directory that ends before one that it was judged by, and none of its judgements read more of lane
`post` than stands there, or less than one before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from remit.facts.fact import Fact
from remit.facts.kinds import ApprovalAsked, ApprovalDecided, DoubtResolved, GateJudged, RunOpened


@dataclass(slots=True)
class Reach:
    """Grows with each entry; lane `post` is folded before lane `main`."""

    authority: int = 0  # head seq of `remit:authority`
    post: int = 0  # seq in lane `post`
    posted: int = 0  # where lane `post` ends

    def take_post(self, fact: Fact | None, seq: int) -> None:
        """The next entry of lane `post`."""
        self.posted = seq
        if isinstance(fact, ApprovalDecided | DoubtResolved):
            self.authority = max(self.authority, fact.authority)

    def take(self, fact: Fact | None) -> str:
        """The next entry of lane `main`; what is wrong with it, or ""."""
        if isinstance(fact, RunOpened | ApprovalAsked):
            self.authority = max(self.authority, fact.authority)
        elif isinstance(fact, GateJudged):
            read = fact.question.post
            self.authority = max(self.authority, fact.question.authority)
            if read > self.posted:
                return f"it was judged by {read} entries of lane post, which has {self.posted}"
            # An end is judged when it is seen and written when all that was under way is settled: others come between.
            if read < self.post and fact.verdict.decision != "abandon":
                return f"it was judged by {read} entries of lane post, and one before it by {self.post}"
            self.post = max(self.post, read)
        return ""
