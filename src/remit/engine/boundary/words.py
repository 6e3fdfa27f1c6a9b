"""Words: a verdict as people are told it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from remit.authority.describe import describe, leads_out
from remit.errors import done_anew
from remit.facts.judgement import Question, Verdict


def words_of(
    question: Question,
    verdict: Verdict,
    apart: Callable[[int], str],
    done: Iterable[str] = (),
    *,
    is_sent_again: bool = False,
) -> str:
    """Every check that did not pass, with what was seen and what was required.

    apart: which clocks say that something is over, where others do not; "" where all do.
    done: effects of the run that happened or may have, told where the way on is another run. is_sent_again: whether it
    is about a call in doubt, as what would be sent again.
    """
    told = []
    for finding in verdict.findings:
        if finding.ok:
            continue
        seen, required = describe(question, finding, is_sent_again=is_sent_again)
        told.append(f"{finding.check} ({finding.code}): {seen}; required: {required}")
    if not told:
        return ""
    clocks = dict.fromkeys(f"It is {each}." for each in map(apart, _overdue(question)) if each)
    after = done_anew(tuple(done)) if leads_out(question) else ""
    return " ".join(filter(None, [f"{'. '.join(told)}.", *clocks, after]))


def _overdue(question: Question) -> list[int]:
    """Until when that held which is over, microseconds UTC."""
    times = [question.window_end, *(basis.until for basis in question.evidence if basis.digest)]
    if question.answer is not None and question.answer.choice == "approve":
        times.append(question.answer.until)
    return [until for until in times if question.now > until]
