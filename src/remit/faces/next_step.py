"""The next step: what brings a run on, as the command that is to be typed, or the wait."""

from __future__ import annotations

import shlex

from remit.authority.directory import LOCAL
from remit.faces.explain import QUARANTINED, Why
from remit.facts.machine import OPEN


def next_step(told: Why) -> str:
    """The command, or the wait, that brings a run on."""
    run = shlex.quote(told.run)
    if told.status == QUARANTINED:
        restore = "" if told.is_whole else "restore its bytes from a backup, then "
        return f"{restore}`remit lift {run} --by user:YOU --reason WHY`."
    if told.status not in OPEN:
        return f"nothing; it has ended. `remit explain {run}` tells how."
    if told.status == "running" and told.holder and not told.is_holder_dead:
        return "nothing; somebody works at it. If that worker dies, the next call takes over."
    if told.waits_for != "repair" and told.status in ("waiting", "in_doubt"):
        return _next_at_the_gate(told, run)
    names = f" --by {shlex.quote(told.by)}" if told.by != LOCAL else ""
    names += f" --behalf {shlex.quote(told.behalf)}" if told.behalf else ""
    again = f"`remit run MODULE:FLOW --id {run}{names}` with the same input"
    if told.code == "definition_incompatible":
        return f"bring the recorded calls back into the code, ask `remit check {run} MODULE:FLOW`, then {again}."
    if told.code == "effect.value_lost":
        return f"nothing brings that back: `remit cancel {run} --by user:YOU` ends the run, and says what was done."
    if told.code == "value.unreadable":
        return f"let the type read what is stored, then {again}; or `remit cancel {run} --by user:YOU`."
    if told.code == "policy_unnamed":
        return f"give the contract a rule for that effect, or mend the name of one, then {again}."
    return f"mend what failed, then {again}." if told.failures or told.code else f"{again}."


def doubt_step(run: str, call: str) -> str:
    """How a doubt ends: the outside is asked where a probe can, before a person goes and looks."""
    run, call = shlex.quote(run), shlex.quote(call)
    return (
        f"`remit resume {run} MODULE:FLOW` asks the outside where the effect says how; else find out by its key "
        f"(`remit effects {run}`), and say so: "
        f"`remit resolve {run} {call} ok --by user:YOU --evidence WHAT --outcome JSON`, "
        "or `did-not-happen` without an outcome."
    )


def _next_at_the_gate(told: Why, run: str) -> str:
    """What a run needs that waits at the boundary: an answer, knowledge, or only another turn."""
    go_on = f"`remit resume {run} MODULE:FLOW`"
    if unknown := [doubt for doubt in told.doubts if not doubt.told_by]:
        return doubt_step(told.run, unknown[0].call)
    if waiting := [ask for ask in told.asks if not ask.decided_by and ask.until > told.now]:
        return f"`remit ask {waiting[0].id}` shows what is asked, and how it is answered."
    if told.asks or told.doubts or told.cancelled_by:
        return f"{go_on}."
    if told.code == "evidence_expired":
        return (
            f"{go_on} where the flow takes it again (`again=`); else `remit cancel {run} --by user:YOU`, "
            "and open a new run: it stays expired."
        )
    if told.code == "evidence_changed":
        return (
            f"`remit cancel {run} --by user:YOU`, and open a new run: its request was made from what changed since, "
            f"and no rule asks a person. Where that is again as it was, {go_on}."
        )
    return f"`remit judge {run} MODULE:FLOW` tells what holds it now; when that is mended, {go_on}."
