"""What the commands show: one function per answer, from values to something to print."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from remit.authority.called import evidence_name, id_name, whole_name
from remit.engine.people.asks import Standing, standing
from remit.engine.runs.rehearsal import Compatibility
from remit.errors.called import all_called, called
from remit.faces.cli.inert import Cut, Quoted, cell, line, name_cell, whole
from remit.faces.cli.say import Below, Grid, Shown, facts, stack, status_of, time_of, whose
from remit.faces.documents import status_name, words_of
from remit.faces.explain import Explanation
from remit.faces.spoken import evidence_of
from remit.faces.there import There
from remit.facts.machine import COMPLETING, ENDED
from remit.facts.timeline import Line
from remit.facts.view import RunView
from remit.store.rows import Checkup, RunRow

EFFECT_STYLES = {
    "ok": "green",
    "failed": "red",
    "did_not_happen": "dim",
    "in_doubt": "bold yellow",
    "under_way": "cyan",
}
ASK_STYLES = {"open": "yellow", "approved": "green", "denied": "red"}  # those that are over are dim

# What `show` tells of a run's calls: how each came out. `explain` has every entry.
OUTCOMES = COMPLETING

# A row says what the journal said last. A worker that is killed inside an effect writes nothing any more.
_NOTES = {
    "in_doubt": "Whose worker was killed inside an effect stands as running: `remit effects --in-doubt` has those too.",
    "running": "Whose worker was killed stands as running as well: `remit why RUN` tells.",
}


def runs(rows: list[RunRow], limit: int, status: str | None, there: There) -> Shown:
    about = status or ("running" if any(row.status == "running" for row in rows) else None)
    note = cell(there.told(_NOTES[about]), "dim") if about in _NOTES else None
    if not rows:
        return stack(cell("No runs."), note)
    grid = Grid("run", "status", "why", "flow", "opened", "by", fold="run", folds=("by",))
    below = [[Quoted([whole_name(row.run)])] if id_name(row.run) != row.run else [] for row in rows]
    for row in rows:
        run, by = name_cell(id_name(row.run)), name_cell(id_name(row.by))
        grid.row(run, status_of(status_name(row)), row.code, row.flow, time_of(row.opened_at), by)
    table = Below(grid, below, gives=("run", "flow", "by"))
    if len(rows) < limit:
        return stack(table, note)
    shown = "1 is shown" if limit == 1 else f"{limit:,} are shown"
    return stack(Group(table, cell(f"{shown}; older ones with `--before {rows[-1].run_key}`.")), note)


def finished(view: RunView) -> Shown:
    """The value of a run that completed, all of it."""
    return cell(whole(view.last_value))


def one_run(found: Explanation, view: RunView, calls: list[Line], *, is_raw: bool) -> list[Shown]:
    """What is known of a run. is_raw: values are whole, each on a line of its own, so that they can be copied."""
    row = found.row
    last = "value" if view.status == "completed" else "reason"
    is_told_of = view.status in ENDED and last == "reason"
    told = facts(
        ("run", id_name(row.run)),
        ("status", status_of(status_name(row))),
        ("why", row.code),
        ("flow", f"{row.flow}, contract {view.opened.contract.version}"),
        ("executor", executor(view)),
        ("opened", time_of(view.opened_at)),
        ("window ends", time_of(found.window_end)),
        ("held by", f"{row.worker} (dead)" if found.is_holder_dead else row.worker or "nobody"),
        ("entries", f"{row.seq}, the last {row.head.hex()[:16]}…"),
        ("input", "" if is_raw else Cut("", view.input)),
        (last, "" if is_raw else _last_value(view)),
        ("done before", all_called(view.boundary.happened) if is_told_of else ""),
    )
    if is_raw:
        values = [("input", view.input), *((f"{called(call.name)} ({call.kind})", call.value) for call in calls)]
        values += [(last, view.last_value)] if view.last_value is not None else []
        return [told, *(part for name, value in values for part in (cell(""), cell(name, "bold"), cell(whole(value))))]
    grid = Grid("seq", "call", "recorded", "value", folds=("call",))
    for call in calls:
        grid.row(str(call.seq), name_cell(called(call.name)), call.kind, Cut("", call.value))
    return [stack(told, grid.made() if calls else None, _boundary(view, found.now))]


def ask_state(state: Standing) -> Text:
    """How a question stands, in its colour."""
    return cell(state.replace("_", " "), ASK_STYLES.get(state, "dim"))


def _boundary(view: RunView, now: int) -> Shown | None:
    """What the run asked of people and of the outside, and how that stands."""
    grid = Grid("call", "kind", "stands", "what", fold="what", folds=("call",))
    for effect in view.boundary.effects.values():
        calls = f", {effect.calls} calls" if effect.calls > 1 else ""
        what = f"intended {time_of(effect.at)}{calls}"
        for told in view.boundary.resolved.get(effect.intention, ()):
            what += f"; {id_name(told.by)} knows what became of it: {evidence_of(told.value)}"
        grid.row(name_cell(called(effect.name)), "effect", cell(effect.state, EFFECT_STYLES[effect.state]), what)
    for ask in view.boundary.asks.values():
        roles = whose(ask.asked.bound.roles)
        answer = f"; {id_name(ask.decided.by)} said {ask.decided.fact.choice}" if ask.decided is not None else ""
        if ask.decided is not None and (reason := words_of(ask.decided.reason)):
            answer += f": {reason}"
        void = f"; {', '.join(ask.voided)}" if ask.voided else ""
        what = f"{ask.asked.ask} asks {roles} until {time_of(ask.asked.until)}{answer}{void}"
        grid.row(name_cell(called(ask.asked.call)), "question", ask_state(standing(view, ask, now)), what)
    for one in view.boundary.evidence.values():
        what = f"{evidence_name(one.name)}, as stated fresh until {time_of(one.fact.until)}"
        grid.row(name_cell(called(one.call)), "evidence", "", what)
    keys = [cell(f"  {effect.intended.key}  {called(effect.name)}") for effect in view.boundary.effects.values()]
    known = Group(cell("By these keys the outside knows them:", "bold"), *keys) if keys else None
    return stack(grid.made(), known) if grid.is_filled else None


def executor(view: RunView) -> str:
    opened = view.opened
    return f"{id_name(opened.by)} for {id_name(opened.behalf)}" if opened.behalf else id_name(opened.by)


def _last_value(view: RunView) -> Cut | str:
    words = words_of(view.last_value) if view.status != "completed" else None
    return words if words is not None else Cut("", view.last_value)


def compatibility(found: Compatibility) -> Shown:
    style = "bold red" if found.fit == "incompatible" else "bold green"
    told = line(
        cell(found.fit, style), f" at {called(found.call)}" if found.call else "",
        ": ", f"{found.reason}.".replace("..", "."),
    )  # fmt: skip
    sides = facts(
        ("recorded, no longer asked for", all_called(found.recorded)),
        ("asked for, not recorded", all_called(found.asked)),
    )
    return Group(told, sides) if found.recorded or found.asked else told


def findings(found: list[Checkup], there: There) -> Shown:
    grid = Grid("", "what", "seen")
    for one in found:
        mark = cell("ok", "green") if one.ok else cell("no", "bold red")
        grid.row(mark, one.name, cell(one.seen, "" if one.ok else "red"))
        if one.hint:
            grid.row("", "", cell(there.told(one.hint), "dim"))
    return grid.made()
