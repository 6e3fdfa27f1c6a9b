"""The next step: what brings a run on, as the command that is to be typed, or the wait.

Where a command begins and ends is told by our own words, before the names that others gave are
filled in: a run id with backticks in it can't pass for a command that somebody is to type.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from remit.authority.called import id_name
from remit.engine.people.asks import ROLES_MOVED, Ask
from remit.errors import FIND_OUT, done_anew
from remit.errors.called import called
from remit.faces.explain import QUARANTINED, Why
from remit.faces.there import There
from remit.facts.machine import OPEN

_COMMAND = re.compile(r"`(remit [^`]+)`")
_GO_ON = "`remit resume {run} MODULE:FLOW`"
_CANCEL = "`remit cancel {run} --by user:YOU`"

# What a run that waits for repair needs, by its code.
_REPAIRS = {
    "definition_incompatible": "bring the recorded calls back into the code, where they were, of the functions that "
    f"made them, ask `remit check {{run}} MODULE:FLOW`, then {_GO_ON}.",
    "effect.declined": "that no is for good: let the flow catch `EffectDeclined` and go another way, "
    f"then {_GO_ON}; or {_CANCEL}.",
    "effect.value_lost": f"nothing brings that back: {_CANCEL} ends the run, and says what was done.",
    "effect.unheard": f"let the flow wait for that, then {_GO_ON}.",
    "duplicates_missing": "find out outside whether what was lost happened. Restore a later backup of this run, "
    f"then {_GO_ON}; or {_CANCEL}.",
    "value.unreadable": f"let the type read what is stored, then {_GO_ON}; or {_CANCEL}.",
    "policy_unnamed": f"mend the name of the rule that was meant for it, or give the contract one, then {_GO_ON}.",
}

# No call of it runs again: what was raised is the flow's own, or a failure behind which the flow called something.
_STAYS = (
    f"mend the flow, then {_GO_ON}: a recorded failure of a call stays, so let the flow catch it and go another way, "
    f"which may be the same call once more where nothing was done in its stead (`remit effects {{run}}`); or {_CANCEL}."
)

# What one needs that waits at the gate, where nobody is asked and nothing is in doubt. `_leaving` says what stays done.
_AT_THE_GATE = {
    "objective_unknown": "let `still_wanted` say yes or no, under the name that the run was opened with, "
    f"then {_GO_ON}; or {_CANCEL}.",
    "evidence_expired": f"{_GO_ON} where the flow takes it again (`again=`); else {_CANCEL}, "
    "and open a new run: it stays expired.",
    "evidence_changed": f"{_CANCEL}, and open a new run: its request was made from what changed since, "
    f"and no rule asks a person. Where that is again as it was, {_GO_ON}.",
}


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done. parts: words and commands in turn, words first and last, empty where there are none."""

    parts: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """In one line, each command between backticks."""
        return "".join(f"`{part}`" if place % 2 else part for place, part in enumerate(self.parts))

    def at(self, there: There) -> Step:
        """The same, with each command as it is to be typed to act there."""
        return Step(tuple(there.typed(part) if place % 2 else part for place, part in enumerate(self.parts)))


def step(words: str, **names: str) -> Step:
    """`words` with commands between backticks, and with names where they have `{run}` and the like."""
    return Step(tuple(part.format_map(names) for part in _COMMAND.split(words)))


def next_step(told: Why) -> Step:
    """The command, or the wait, that brings a run on."""
    run = shlex.quote(told.run)
    if told.status == QUARANTINED:
        return step(_set_aside(told), run=run)
    if told.status not in OPEN:
        return step("nothing; it has ended. `remit explain {run}` tells how.", run=run)
    if told.is_overlong:
        return step("somebody wrote its lease by hand, and nobody takes it over: find out who, and clear that.")
    if told.is_worked_at:
        return step("nothing; somebody works at it. If that worker dies, the next call takes over.")
    if told.window_end <= told.now and not told.doubts:
        return _leaving(told, step(f"{_GO_ON} ends it as expired. Where it is still wanted, open a new run.", run=run))
    if told.doubts or (told.waits_for != "repair" and told.status in ("waiting", "in_doubt")):
        return _next_at_the_gate(told, run)
    if told.code in ("step.failed", "effect.did_not_happen") and not told.failures:
        return step(_STAYS, run=run)
    plain = f"mend what failed, then {_GO_ON}." if told.failures or told.code else f"{_GO_ON}."
    return step(_REPAIRS.get(told.code, plain), run=run)


def _set_aside(told: Why) -> str:
    """What a run needs that was set aside: from an older backup it would do again what was done since."""
    if told.missing:
        return (
            "restore a later backup; or find out outside what was done since this one, "
            "then `remit lift {run} --shorter --by user:YOU --reason WHAT-YOU-FOUND`."
        )
    restore = "" if told.is_whole else f"{FIND_OUT[0].lower()}{FIND_OUT[1:]}; restore its bytes, then "
    return restore + "`remit lift {run} --by user:YOU --reason WHY`."


def doubt_step(run: str, call: str, calls: int, at_work: str = "") -> Step:
    """How a doubt ends: by what its effect declares, else by a person who goes and looks.

    The code is not at hand here, so what the next turn does is told for each rule: with some it sends something.
    calls: at how many it is as this is shown. Who goes and looks now looks at those, and says so.
    at_work: the process in which it may not have returned. Before that is over whoever looks has it done twice.
    """
    seen = f" --calls {calls}" if calls > 1 else ""
    return step(
        f"{_first(at_work)}"
        '`remit resume {run} MODULE:FLOW` does what the effect declares: with `doubt="resend"` it sends it again under '
        "its key, unless the gate or a person's no holds it; with `probe` it asks the outside, and where that finds "
        "nothing, sends it again once nothing of it can land any more (`lands_within`), or the sink dedupes or fences; "
        "with `ask` it does nothing. Else, when nothing that its process started still sends it, find out by its key, "
        "which `remit effects {run}` shows, and say so: it happened, "
        "`remit resolve {run} {call} ok --by user:YOU --evidence WHAT --outcome JSON{seen}`, or it did not: "
        "`remit resolve {run} {call} did-not-happen --by user:YOU --evidence WHAT{seen}`.",
        run=shlex.quote(run),
        call=shlex.quote(call),
        named=called(call),
        seen=seen,
        process=at_work,
    )


def _first(at_work: str) -> str:
    """What comes before anything else where a call may still be at work; it would be done again beside that."""
    if not at_work:
        return ""
    return (
        "first wait until {named} has returned in {process}, and go on with the run there, or end that process, and "
        "what it started and still sends: as far as is known it is at work there and may still do it, so that nobody "
        "can say yet that it did not happen. Then "
    )


def said_step(run: str) -> Step:
    """What follows when somebody said what became of a call."""
    return step(f"{_GO_ON} goes on with it.", run=shlex.quote(run))


def told_step(run: str, call: str, by: str) -> Step:
    """What follows of a doubt about which somebody spoke, as far as its effect alone shows."""
    return step(
        "{by} said what became of {named}. `remit why {run}` tells whether that counts: then the next turn, "
        f"{_GO_ON}, settles it so, and calls anew what did not happen.",
        run=shlex.quote(run),
        named=called(call),
        by=id_name(by),
    )


def under_way_step(run: str, call: str) -> Step:
    """What to do about a call while a worker that may live holds its run."""
    return step(
        "nothing yet; a worker is at {named}, and says itself what becomes of it: who looks for it by its key now "
        "looks too early. `remit why {run}` tells whether that worker lives.",
        run=shlex.quote(run),
        named=called(call),
    )


def _may_be_answered(ask: Ask) -> bool:
    """Whether it is neither over nor asked anew at the next turn, since nobody may answer it as it is."""
    return ask.state == "open" and ROLES_MOVED not in ask.moved


def _next_at_the_gate(told: Why, run: str) -> Step:
    """What a run needs that waits at the boundary: an answer, knowledge, or only another turn."""
    if unknown := [doubt for doubt in told.doubts if not (doubt.told_by and told.is_answered)]:
        return doubt_step(told.run, unknown[0].call, unknown[0].calls, unknown[0].at_work)
    if waiting := [ask for ask in told.asks if _may_be_answered(ask)]:
        return step("`remit ask {ask}` shows what is asked, and how it is answered.", ask=waiting[0].id)
    if told.is_answered or told.waits_for == "approval":  # the next turn takes the answer up, or asks anew
        return step(f"{_GO_ON}.", run=run)
    if told.code in _AT_THE_GATE:
        return _leaving(told, step(_AT_THE_GATE[told.code], run=run))
    return step(f"`remit judge {{run}} MODULE:FLOW` tells what holds it now; when that is mended, {_GO_ON}.", run=run)


def _leaving(told: Why, out: Step) -> Step:
    """A step that leads to another run, and what this one leaves done outside."""
    done = done_anew(tuple(map(called, told.may_have_happened)))
    return Step((*out.parts[:-1], f"{out.parts[-1]} {done}")) if done else out
