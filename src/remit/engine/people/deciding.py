"""Deciding: a person answers a question, once, having seen what it is about.

    decide          checks the decider, what they saw and whether the question still stands; then posts
    check_decider   whoever decides must hold the role now, whatever was known of the question's id

The decision names the very question by its hash, and the roles that were held.
"""

from __future__ import annotations

import shlex

from remit.authority.answers import is_high
from remit.authority.denials import denied
from remit.authority.directory import Authority
from remit.authority.seniors import seniors
from remit.engine.people.asks import Ask, Choice, ask_in, judged_of, may_alone, row_of, shown, version_of
from remit.engine.people.post import Letter, post
from remit.engine.people.sent_before import sent_before
from remit.engine.process.admit import Found, find
from remit.engine.process.host import Host
from remit.engine.process.outcome import detail
from remit.errors import ApprovalRefused
from remit.errors.called import called
from remit.facts.announced import AskDecided
from remit.facts.calls import AskView
from remit.facts.kinds import ApprovalDecided
from remit.facts.view import RunView
from remit.store.marks import Announce, CloseAsk


async def decide(host: Host, ask_id: str, choice: Choice, *, by: str, reason: str, seen: str) -> Ask:
    """Post a decision; the question that it answers.

    seen: the version of the question as it was shown. Raises ApprovalRefused: `approval.absent`, `.decided`, `.used`,
    `.void`, `.stale`, `.expired`, `.decider`, `.disabled`, `.role`, `.role_new`, `.self`: nothing was written.
    `.late`: the question became void while the answer was on its way, so that it was written and does not count: a yes
    in any case, a no where its call had passed, or is asked about something else.
    """
    row = await row_of(host, ask_id)

    def write(found: Found) -> Letter:
        authority = host.standing.authority
        ask = ask_in(found, ask_id)
        _check_standing(host, found, ask, seen)
        is_alone = check_decider(authority, found.view, ask, by, choice)
        fact = ApprovalDecided(
            alone=is_alone,
            ask=ask_id,
            asked=ask.hash,
            authority=authority.version,
            choice=choice,
            meaning=_meaning(ask, choice, is_again=sent_before(found.view, ask, authority) is not None),
            roles=authority.who(by).roles,
        )
        return Letter(fact, detail(reason), (CloseAsk(ask_id), Announce(AskDecided(ask=ask_id))))

    await post(host, row.run, by=by, write=write, is_fenced=True)
    found = await find(host, row.run)  # whoever holds the run may have been faster
    ask = ask_in(found, ask_id)
    if ask.voided and not _counts(found.view, ask, choice):
        effect = found.view.boundary.effects.get(ask.asked.call)
        passed = effect is not None and effect.state != "did_not_happen"
        done = f"; {called(ask.asked.call)} had passed without it" if passed else ""
        raise ApprovalRefused(
            f"The question became void while the answer came ({', '.join(ask.voided)}): it does not count{done}.",
            code="approval.late",
            hint="See `remit effects RUN` for what was done, and `remit inbox` for what is asked now.",
        )
    return shown(found.view, ask, host.clock.latest(), host.standing.authority)


def _counts(view: RunView, ask: AskView, choice: Choice) -> bool:
    """Whether the answer to a question that is void counts all the same: a no does, to the matter it was said to."""
    last, effect = view.boundary.last_ask_of(ask.asked.call), view.boundary.effects.get(ask.asked.call)
    if choice == "approve" or (effect is not None and effect.state != "did_not_happen"):
        return False
    if last is None:
        return False
    return denied(view.boundary, ask.asked.call, last.request, last.asked.bound.immaterial) is not None


def _check_standing(host: Host, found: Found, ask: AskView, seen: str) -> None:
    """Whether the question is still the one that was shown, and still open."""
    asked = ask.asked
    later = found.view.boundary.last_ask_of(asked.call)
    anew = "" if later is None or later is ask else f" It is asked anew as {later.asked.ask}."
    if ask.decided is not None:
        told = f"{ask.decided.by} said {ask.decided.fact.choice}"
        if ask.used_by:
            what = f"The question was answered, {told}, and {ask.used_by} used that up; nothing was done."
            raise _over(what, ask, code="approval.used")
        what = f"The question was answered already: {told}; nothing was done.{anew}"
        raise _over(what, ask, code="approval.decided")
    if ask.voided:
        why = ", ".join(ask.voided)
        raise _over(
            f"The question holds no longer ({why}); nothing was done.{anew}", later or ask, code="approval.void"
        )
    no = denied(found.view.boundary, asked.call, ask.request, asked.bound.immaterial)
    if no is not None and no.decided is not None:  # to the question before, which was void by then
        what = f"{no.decided.by} said deny to this very request; nothing was done."
        raise _over(what, no, code="approval.decided")
    if (wish := found.view.boundary.cancel) is not None:
        raise _over(f"{wish.by} asked for the run's end; nothing was done.", ask, code="approval.void")
    if seen != version_of(found.view, ask):
        hint = f"Look at it as it is now, `remit ask {asked.ask}`, and answer that."
        raise ApprovalRefused(
            "What was shown is not what is asked now; nothing was done.", code="approval.stale", hint=hint
        )
    if max(host.clock.latest(), found.view.last_at) > asked.until:
        hint = f"Go on with the run, `remit resume {shlex.quote(found.row.run)} MODULE:FLOW`: it asks anew, or ends."
        raise ApprovalRefused("The time for an answer is over; nothing was done.", code="approval.expired", hint=hint)


def _over(what: str, ask: AskView, *, code: str) -> ApprovalRefused:
    """It can't be answered any more; ask: what stands in its place, or itself."""
    return ApprovalRefused(what, code=code, hint=f"See how it stands with `remit ask {ask.asked.ask}`.")


def check_decider(authority: Authority, view: RunView, ask: AskView, by: str, choice: Choice) -> bool:
    """Whether this person may answer; True where it is one of those for whom the run acts, as the rule allows.

    One of the groups that are asked suffices for a no; for a yes one person has to hold a role of each.
    Raises ApprovalRefused `approval.decider`, `.disabled`, `.role`, `.role_new`, `.self`.
    """
    who, asked = authority.who(by), ask.asked
    if not by.startswith("user:"):
        raise ApprovalRefused(f"{by!r} is not a person; nothing was done.", code="approval.decider")
    if who.disabled:
        raise ApprovalRefused(f"{by!r} is disabled; nothing was done.", code="approval.disabled")
    judged = judged_of(view, ask)
    groups = asked.bound.roles
    served = [sorted(set(group) & set(who.roles)) for group in groups]
    if not all(served) and (choice == "approve" or not any(served)):
        raise _lacking(by, groups, served)
    risk = judged.question.risk if judged is not None else "high"
    for serving in filter(None, served):
        since = [at for role in serving if (at := authority.granted_at(by, role)) is not None]
        if is_high(risk) and min(since) > asked.authority:
            raise _too_new(authority, view, ask, by)
    person = authority.person_of(by)
    selves = [p for p in (view.opened.by, view.opened.behalf) if p is not None]
    if person not in [authority.person_of(p) for p in selves]:
        return False
    if not may_alone(judged.question.needs if judged is not None else ()):
        raise ApprovalRefused(f"{by!r} would approve its own run; nothing was done.", code="approval.self")
    return True


def _too_new(authority: Authority, view: RunView, ask: AskView, by: str) -> ApprovalRefused:
    """Who else answers, or what makes the question one that they can answer."""
    judged, run = judged_of(view, ask), shlex.quote(view.identity.run)
    others = seniors(authority, view.opened, ask.asked, judged.question.needs if judged is not None else ())
    hint = f"Who held it before answers: {', '.join(others)}."
    if not others:
        hint = f"Nobody who held it then is left: `remit resume {run} MODULE:FLOW` asks anew."
    what = f"{by!r} was given the role after the question was asked"
    return ApprovalRefused(
        f"{what}; at high risk that is too late; nothing was done.", code="approval.role_new", hint=hint
    )


def _lacking(by: str, groups: list[list[str]], served: list[list[str]]) -> ApprovalRefused:
    """What this person would have to hold as well."""
    missing = [" or ".join(group) for group, serving in zip(groups, served, strict=True) if not serving]
    error = ApprovalRefused(f"{by!r} does not hold {' and '.join(missing)}; nothing was done.", code="approval.role")
    if len(groups) > 1:
        error.hint = "A yes needs one person with a role of each group that is asked; for a no, one group suffices."
    return error


def _meaning(ask: AskView, choice: Choice, *, is_again: bool) -> str:
    """What is said by it, in words that do not depend on what an agent wrote. is_again: it may have happened."""
    call = called(ask.asked.call)
    what = f"{ask.asked.bound.effect} as {call}" if ask.asked.bound.effect else call
    done = "be sent again" if is_again else "happen"
    return f"{what} may {done}, once, {_binding(ask)}" if choice == "approve" else f"{what} must not {done}"


def _binding(ask: AskView) -> str:
    """How much of what was shown a yes binds."""
    immaterial = ask.asked.bound.immaterial
    return f"as shown, but for {', '.join(immaterial)}" if immaterial else "exactly as shown"
