"""Words: a verdict as people are told it."""

from __future__ import annotations

from remit.authority.describe import describe
from remit.facts.judgement import Question, Verdict


def words_of(question: Question, verdict: Verdict) -> str:
    """Every check that did not pass, with what was seen and what was required."""
    told = []
    for finding in verdict.findings:
        if finding.ok:
            continue
        seen, required = describe(question, finding)
        told.append(f"{finding.check} ({finding.code}): {seen}; required: {required}")
    return ". ".join(told) + "." if told else ""
