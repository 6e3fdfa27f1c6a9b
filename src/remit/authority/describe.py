"""Descriptions: what a check saw and what it required, in words for the people who ask why.

They are made from the question when somebody looks, never stored: the journal holds facts and
codes, and words may get better. What an agent's request says is escaped, because a text that
explains a refusal is the last place where a request may say something in its own voice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from remit.authority.answers import faults, is_denied
from remit.authority.called import evidence_name, id_name
from remit.authority.gate import is_over
from remit.authority.moments import datetime_of
from remit.authority.money import money
from remit.canonical import INTEGER_MAX
from remit.errors.called import all_called, called
from remit.facts.judgement import Answer, Basis, Check, Finding, Limit, Question, Who
from remit.facts.unseen import is_unseen

_UNITS: Final = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000))

_FAULTS: Final[dict[str, str]] = {
    "approval.binding": "it answers another question",
    "approval.used": "it was used already",
    "approval.expired": "it came, or is used, after its window",
    "approval.connector": "where the effect goes changed",
    "approval.material": "which fields may differ changed",
    "approval.payload": "the request changed",
    "approval.role": "the decider did not hold the role",
    "approval.role_lost": "the decider lost the role since",
    "approval.role_new": "the decider was given the role after the question was asked",
    "approval.disabled": "the decider was disabled since",
    "approval.decider": "the decider is not a person",
    "approval.self": "the decider is one of those whom the run acts for",
    "approval.roles": "whose yes it takes changed",
    "approval.shown": "what a decider is shown changed",
    "approval.window": "the time for an answer changed",
    "approval.not_needed": "no rule asks for a yes any more",
    "approval.nobody_left": "nobody is left who held the role when it was asked",
    "approval.denied": "it was denied",
}


def describe(question: Question, finding: Finding, *, is_sent_again: bool = False) -> tuple[str, str]:
    """What the finding's check saw, and what it requires: short texts for people, also where all is well.

    is_sent_again: what is asked about is in doubt, and would be sent again: the question does not say so, because the
    gate lets it pass as what was not done.

    Total and pure. Times are UTC; amounts are minor units; characters that can't be seen are escaped.

    >>> who = Who(known=True, principal="agent:buyer", roles=["buyer"])
    >>> asked = Question(authority=7, executor=who, head="", now=0, resume=[["buyer"]], risk="low", seq=1, window_end=1)
    >>> describe(asked, Finding(check="authority"))
    ('agent:buyer holds buyer', 'one of: buyer')
    """
    described = _AGAIN.get(finding.check) if is_sent_again and question.effect is not None else None
    seen, required = (described or _DESCRIBED[finding.check])(question)
    return _visible(seen), _visible(required)


def fault_text(code: str) -> str:
    """Why a question, or the answer to it, does not hold: a code of `faults` in words."""
    return _FAULTS.get(code, f"the {code.partition('.')[2]} changed")


def _objective(question: Question) -> tuple[str, str]:
    # What a run waits for is told without the time, which moves: the same said again would be news in each turn.
    is_held = question.wanted == "unknown" and question.now <= question.window_end
    seen = [] if is_held else [_moment(question.now)]
    if question.cancelled:
        seen.append("cancelled")
    if question.wanted:
        seen.append(_wanted(question))
    if question.regressed:
        seen.append("the clock stands behind the last entry")
    wanted = ["still wanted"] if question.wanted else []
    if question.wanted_lost:
        name = question.wanted_lost
        wanted = [f"still wanted, as {name} says: bring that back into the code under this name, or cancel this run"]
    return "; ".join(seen), "; ".join(["not cancelled", *wanted, f"until {_moment(question.window_end)}"])


def _wanted(question: Question) -> str:
    if question.wanted_lost:
        return (
            f"nobody can say whether it is wanted: the code no longer has {question.wanted_lost}, "
            "which the run was opened with"
        )
    if question.wanted == "unknown":
        return f"nobody can say whether it is wanted ({question.unwanted_by})"
    return "still wanted" if question.wanted == "yes" else "not wanted any more"


def _identity(question: Question) -> tuple[str, str]:
    seen = [f"executor {_who(question.executor)}"]
    if question.behalf is not None:
        seen.append(f"on behalf of {_who(question.behalf)}")
    return "; ".join(seen), "known and not disabled" if question.resume else "not disabled"


def _authority(question: Question) -> tuple[str, str]:
    executor, seen, required = question.executor, list[str](), list[str]()
    is_met = all(any(role in executor.roles for role in group) for group in question.resume)
    limits = question.ceilings if question.effect is not None else []
    over = [limit for limit in limits if is_over(limit)]  # in the order in which they were asked: the first decided
    if not over or not is_met:  # a sum that is too high has nothing to do with roles
        seen.append(f"{id_name(executor.principal)} holds {', '.join(executor.roles) or 'no role'}")
        required += [_one_of(group) for group in question.resume] or ["anyone"]
    for limit in over or (limits if is_met else []):
        seen.append(_amount(limit) + (f" (per {_period(limit, limits)}, {limit.source})" if len(limits) > 1 else ""))
        most = money(_number(limit.max), limit.currency)
        required.append(f"at most {most} per {limit.per} ({limit.source})")
    required = list(dict.fromkeys(required))  # a ceiling that counts on two days is one
    if over and len(over) < len(limits):
        others = len(limits) - len(over)
        seen.append("the other ceiling holds" if others == 1 else f"the other {others} ceilings hold")
    return "; ".join(seen), "; ".join(required)


def _evidence(question: Question) -> tuple[str, str]:
    if question.effect is None:
        return _NO_EFFECT
    if not question.evidence:
        return "rests on no evidence", ""
    seen = "; ".join(f"{evidence_name(basis.name)}: {_basis(question, basis)}" for basis in question.evidence)
    required = "as the flow relied on it, or as a person approved it since, and fresh when it is relied on"
    if ways := _ways_out(question):
        stays = "what this run did outside stays done: `remit effects RUN` lists it"
        required = "; ".join([required, *(f"{why}: cancel this run and open a new one" for why in ways), stays])
    return seen, required


def leads_out(question: Question) -> bool:
    """Whether somebody is told to end this run and open another one."""
    return question.effect is not None and bool(_ways_out(question))


def _ways_out(question: Question) -> list[str]:
    """Why this run may never go on; nothing where it may."""
    ways = []
    is_asked = bool(question.needs or question.unanswered)
    if not is_asked and any(basis.relied and basis.relied != basis.digest for basis in question.evidence):
        # The request was made from what has changed, and code that is replayed makes the same request again.
        ways.append("no rule asks a person here")
    if any(basis.digest and question.now > basis.until for basis in question.evidence):
        ways.append("what has no `again=` stays expired")
    return ways


def _policy(question: Question) -> tuple[str, str]:
    seen = ["forbidden" if question.forbidden else "not forbidden"]
    required = "allowed by the contracts and the policy that hold now"
    if question.unnamed and question.effect is not None:
        effect = question.effect.bound.effect
        seen.append(f"no rule is about {effect}, and the contract has rules for others")
        near = f"the rule of {question.near} called {effect}" if question.near else f"a rule called {effect}"
        required += (
            f"; in the contract {near}, where one was meant for it; else one of its own: an empty one, or "
            'others="free", lets it pass without any rule; then go on: nothing is lost'
        )
    if question.pinned_contract:
        seen.append(f"opened under another contract ({question.pinned_contract[:12]})")
    if question.pinned_policy:
        seen.append(f"opened under another policy ({question.pinned_policy[:12]})")
    return "; ".join(seen), required


def _effects(question: Question) -> tuple[str, str]:
    if question.effect is None:
        return _NO_EFFECT
    seen = f"in doubt: {all_called(question.doubts)}" if question.doubts else "no other effect is in doubt"
    return seen, "no other effect of this run in doubt"


def _effects_before(question: Question) -> tuple[str, str]:
    """Of what is sent again: two that are would wait for each other for ever, so it waits for those before it alone."""
    seen = f"in doubt: {all_called(question.doubts)}" if question.doubts else "in doubt itself, and no effect before it"
    return seen, "no effect of this run before it in doubt"


def _duplicates_again(question: Question) -> tuple[str, str]:
    effect = question.effect
    if effect is None or effect.lost:
        return _duplicates(question)
    seen = "sent before under this key, and nobody knows whether it happened"
    seen += f"; its business key is that of {effect.rival}" if effect.rival else ""
    required = "not known to have happened"
    return seen, f"{required}, and its business key free" if effect.business else required


def _duplicates(question: Question) -> tuple[str, str]:
    effect = question.effect
    if effect is None:
        return _NO_EFFECT
    own = {"": "not performed before", "in_doubt": "in doubt itself"}.get(effect.own, f"settled before: {effect.own}")
    if effect.lost:
        seen = f"its business key is held by {called(effect.lost)} of this run, whose entries are missing"
        return f"{seen}: it may have happened", "the entries that were lost, or the end of this run"
    seen = f"{own}; its business key is that of {effect.rival}" if effect.rival else own
    return seen, "not performed before, and its business key free" if effect.business else "not performed before"


def _approval(question: Question) -> tuple[str, str]:
    if question.effect is None:
        return _NO_EFFECT
    required = [f"a yes from {_one_of(n.roles)} within {_span(n.within)} ({n.source})" for n in question.needs]
    if question.unanswered:
        required.append(f"a yes, because the rule that says whether one is needed failed ({question.unanswered})")
    answer = question.answer
    if answer is None:
        return ("no answer" if required else "none needed"), "; ".join(required)
    seen = [_decided(answer)]
    if is_denied(question):
        required = required or ["that nobody said no to it, also where no rule asks for a yes any more"]
    elif required:
        seen += [fault_text(code) for code in faults(question)]
    return "; ".join(seen), "; ".join(required)


def _decided(answer: Answer) -> str:
    verb = "approved" if answer.choice == "approve" else "denied"
    return f"{verb} by {id_name(answer.by.principal)} as {', '.join(answer.roles) or 'no role'} on {_moment(answer.at)}"


def _basis(question: Question, basis: Basis) -> str:
    if basis.failed:
        return f"could not be taken again ({basis.failed})"
    if not basis.digest:
        return "missing"
    if question.now > basis.until:
        return f"expired on {_moment(basis.until)}"
    changed = "changed, " if basis.relied and basis.relied != basis.digest else ""
    return f"{changed}fresh until {_moment(basis.until)}"


def _amount(limit: Limit) -> str:
    if limit.amount is None:
        return f"no whole number at {limit.field}"
    # The request wrote its currency: quoted where it is none that people know, so that it can't pass for words of ours.
    stated = limit.stated
    own = (
        not stated
        or stated == limit.currency
        or (len(stated) == 3 and stated.isascii() and stated.isalpha() and stated.isupper())
    )
    currency = (stated or limit.currency) if own else ascii(stated[:20])
    used = f" with {_number(limit.used)} used" if limit.used else ""
    used += f", and nobody can count what {limit.uncounted} took" if limit.uncounted else ""
    return money(_number(limit.amount), currency) + used


def _period(limit: Limit, limits: Sequence[Limit]) -> str:
    """What shares a ceiling; with its day or month where it counts in two, because clocks part over the end of one."""
    own = limit.source, limit.field, limit.currency, limit.per
    scopes = {each.scope for each in limits if (each.source, each.field, each.currency, each.per) == own}
    return limit.per if len(scopes) == 1 else f"{limit.per} {limit.scope.rpartition('/')[2]}"


def _who(who: Who) -> str:
    state = "disabled" if who.disabled else "known" if who.known else "unknown"
    return f"{id_name(who.principal)} is {state}"


def _one_of(roles: Sequence[str]) -> str:
    return f"one of: {', '.join(roles)}"


def _moment(at: int) -> str:
    try:
        return f"{datetime_of(at):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{_number(at)} µs after 1970"


def _span(us: int) -> str:
    return next(
        (f"{_number(us // size)} {unit}" for unit, size in _UNITS if us and us % size == 0), f"{_number(us)} µs"
    )


def _number(number: int) -> str:
    # Python refuses to write integers of more than 4,300 digits, and no entry can hold one of more than 16.
    return f"{number:,}" if abs(number) <= INTEGER_MAX else "a number out of range"


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() and not is_unseen(c) else ascii(c)[1:-1] for c in text)


_NO_EFFECT: Final = ("no effect is asked for", "")

_DESCRIBED: Final[dict[Check, Callable[[Question], tuple[str, str]]]] = {
    "objective": _objective,
    "identity": _identity,
    "authority": _authority,
    "evidence": _evidence,
    "policy": _policy,
    "effects": _effects,
    "duplicates": _duplicates,
    "approval": _approval,
}
_AGAIN: Final[dict[Check, Callable[[Question], tuple[str, str]]]] = {
    "effects": _effects_before,
    "duplicates": _duplicates_again,
}
