"""What the commands show: one function per answer, from values to something to print."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec
from rich.console import Group

from remit.engine.outcome import Outcome
from remit.engine.rehearsal import Compatibility
from remit.faces.cli.inert import Cut, cell, line, whole
from remit.faces.cli.say import Grid, Shown, facts, span, stack, status_of, time_of
from remit.faces.explain import Why
from remit.facts.kinds import RunEnded
from remit.facts.timeline import Line
from remit.facts.view import RunView
from remit.store.protocol import Checkup, RunRow

_GONE_ON_WITH = ("queued", "running", "waiting", "paused", "in_doubt")


def status_name(row: RunRow) -> str:
    """A run's status; a quarantine lies over it."""
    return "quarantined" if row.quarantined else row.status


def runs(rows: list[RunRow], limit: int) -> Shown:
    if not rows:
        return cell("No runs.")
    grid = Grid("run", "status", "why", "flow", "opened", "by", fold="run")
    for row in rows:
        grid.row(row.run, status_of(status_name(row)), row.code, row.flow, time_of(row.opened_at), row.by)
    if len(rows) < limit:
        return grid.made()
    return Group(grid.made(), cell(f"{limit} are shown; older ones with `--before {rows[-1].run_key}`."))


def run_document(row: RunRow) -> dict[str, Any]:
    """A run's row for --json; heads in hex, times in microseconds UTC."""
    return {
        "run": row.run,
        "flow": row.flow,
        "status": status_name(row),
        "code": row.code,
        "by": row.by,
        "opened_at": row.opened_at,
        "window_end": row.window_end,
        "entries": row.seq,
        "head": row.head.hex(),
        "epoch": row.epoch,
        "worker": row.worker,
        "key": row.run_key,
    }


def value_document(value: bytes | None) -> dict[str, Any]:
    """A stored value for --json: `value` where it is JSON, `value_text` where it is not, none where there is none."""
    if value is None:
        return {}
    try:
        return {"value": json.loads(value)}
    except (ValueError, RecursionError):
        return {"value_text": value.decode("utf-8", "backslashreplace")}


def finished(outcome: Outcome, view: RunView) -> Shown:
    """How a turn ended: the value where the run completed, the reason otherwise."""
    if isinstance(view.ended, RunEnded) and view.ended.status == "completed":
        return cell(whole(view.last_value))
    return line("Run ", cell(outcome.run, "bold"), " is ", status_of(outcome.status), f": {outcome.code or 'no code'}.")


def one_run(row: RunRow, view: RunView, calls: list[Line], *, is_raw: bool) -> list[Shown]:
    """What is known of a run. is_raw: values are whole, each on a line of its own, so that they can be copied."""
    last = "value" if view.status == "completed" else "reason"
    told = facts(
        ("run", row.run),
        ("status", status_of(status_name(row))),
        ("why", row.code),
        ("flow", f"{row.flow}, contract {view.opened.contract.version}"),
        ("executor", executor(view)),
        ("opened", time_of(view.opened_at)),
        ("window ends", time_of(view.opened.window_end)),
        ("held by", row.worker or "nobody"),
        ("entries", f"{row.seq}, the last {row.head.hex()[:16]}…"),
        ("input", "" if is_raw else Cut("", view.input)),
        (last, "" if is_raw else _last_value(view)),
    )
    if is_raw:
        values = [("input", view.input), *((f"{call.name} ({call.kind})", call.value) for call in calls)]
        values += [(last, view.last_value)] if view.last_value is not None else []
        return [told, *(part for name, value in values for part in (cell(""), cell(name, "bold"), cell(whole(value))))]
    grid = Grid("seq", "call", "recorded", "value")
    for call in calls:
        grid.row(str(call.seq), call.name, call.kind, Cut("", call.value))
    return [told, cell(""), grid.made()] if calls else [told]


def executor(view: RunView) -> str:
    opened = view.opened
    return f"{opened.by} for {opened.behalf}" if opened.behalf else opened.by


def words_of(value: bytes | None) -> str | None:
    """The words in {"detail": words}, as failures and reasons are stored; None where it is something else."""
    try:
        return msgspec.json.decode(value or b"", type=dict[str, str]).get("detail")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _last_value(view: RunView) -> Cut | str:
    words = words_of(view.last_value) if view.status != "completed" else None
    return words if words is not None else Cut("", view.last_value)


def reasons(told: Why) -> Shown:
    """Why a run stands where it stands, in sentences, and the next command."""
    waits = f" for {told.waiting_on}" if told.waiting_on else ""
    since = f" since {time_of(told.since)} ({span(told.now - told.since)} ago)" if told.since else ""
    first = line(
        "Run ", cell(told.run, "bold"), f" of flow {told.flow} is ", status_of(told.status), f"{waits}{since}."
    )
    parts = [first]
    if told.incident:
        parts.append(cell(f"It was set aside because its journal did not verify: {told.incident}", "red"))
        parts.append(cell("Its bytes verify now." if told.is_whole else "Its bytes still do not verify."))
    for failure in told.failures:
        parts.append(cell(f"{failure.name} raised {failure.error}: {failure.detail}"))
    if told.reason and not told.failures:
        parts.append(cell(f"{told.code}: {told.reason}"))
    if told.failures:
        named = ", ".join(failure.name for failure in told.failures)
        parts.append(cell(f"All before it is saved; at the next attempt only {named} runs again."))
    elif told.status in _GONE_ON_WITH and told.last_call:
        parts.append(cell(f"The newest recorded call is {told.last_call}."))
    parts.append(cell(_holder(told)))
    if told.status in _GONE_ON_WITH:
        parts.append(cell(_window(told)))
    return stack(Group(*parts), line(cell("Next: ", "bold"), next_step(told)))


def next_step(told: Why) -> str:
    """The command, or the wait, that brings a run on."""
    run = shlex.quote(told.run)
    if told.status == "quarantined":
        restore = "" if told.is_whole else "restore its bytes from a backup, then "
        return f"{restore}`remit lift {run} --by user:YOU --reason WHY`."
    if told.status not in _GONE_ON_WITH:
        return f"nothing; it has ended. `remit explain {run}` tells how."
    if told.status == "running" and told.holder and not told.is_holder_dead:
        return "nothing; somebody works at it. If that worker dies, the next call takes over."
    names = f" --by {shlex.quote(told.by)}" if told.by != "service:local" else ""
    names += f" --behalf {shlex.quote(told.behalf)}" if told.behalf else ""
    again = f"`remit run MODULE:FLOW --id {run}{names}` with the same input"
    if told.code == "definition_incompatible":
        return f"bring the recorded calls back into the code, ask `remit check {run} MODULE:FLOW`, then {again}."
    return f"mend what failed, then {again}." if told.failures or told.code else f"{again}."


def _holder(told: Why) -> str:
    if not told.holder:
        return "Nobody holds it."
    if told.is_holder_dead:
        free = "" if told.status == "quarantined" else "; it can be taken over at once"
        return f"Worker {told.holder}, which held it, is dead{free}."
    if told.lease_until <= told.now:
        return f"Worker {told.holder} held it until {time_of(told.lease_until)}; that lease is over."
    return f"Worker {told.holder} holds it until {time_of(told.lease_until)}, or longer if it renews."


def _window(told: Why) -> str:
    if told.window_end <= told.now:
        return f"Its window ended {time_of(told.window_end)}: the next turn ends it as expired and runs no step."
    return f"It may be gone on with until {time_of(told.window_end)} ({span(told.window_end - told.now)} left)."


def compatibility(found: Compatibility) -> Shown:
    style = "bold red" if found.fit == "incompatible" else "bold green"
    told = line(
        cell(found.fit, style), f" at {found.at}: " if found.at else ": ", f"{found.reason}.".replace("..", ".")
    )
    sides = facts(
        ("recorded, no longer asked for", ", ".join(found.recorded)),
        ("asked for, not recorded", ", ".join(found.asked)),
    )
    return Group(told, sides) if found.recorded or found.asked else told


def findings(found: list[Checkup]) -> Shown:
    grid = Grid("", "what", "seen")
    for one in found:
        mark = cell("ok", "green") if one.ok else cell("no", "bold red")
        grid.row(mark, one.name, cell(one.seen, "" if one.ok else "red"))
        if one.hint:
            grid.row("", "", cell(one.hint, "dim"))
    return grid.made()
