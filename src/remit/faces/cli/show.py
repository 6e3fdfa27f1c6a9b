"""What the commands show: one function per answer, from values to something to print."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from remit.engine.rehearsal import Compatibility
from remit.faces.cli.inert import cell, preview
from remit.faces.cli.say import STATUS_STYLES, hour_of, moment, span, table, time_of
from remit.faces.explain import Explanation, Why
from remit.facts.timeline import Line
from remit.facts.view import RunView
from remit.store.protocol import Checkup, RunRow


def status_cell(row: RunRow) -> Text:
    """A run's status; a quarantine lies over it."""
    shown = "quarantined" if row.quarantined else row.status
    return cell(shown, STATUS_STYLES.get(shown, ""))


def runs(rows: list[RunRow]) -> RenderableType:
    if not rows:
        return Text("No runs.")
    made = table("run", "status", "why", "flow", "opened", "by")
    for row in rows:
        made.add_row(
            cell(row.run), status_cell(row), cell(row.code), cell(row.flow), time_of(row.opened_at), cell(row.by)
        )
    return made


def run_document(row: RunRow) -> dict[str, Any]:
    """A run's row for --json; heads in hex, times in microseconds UTC."""
    return {
        "run": row.run,
        "flow": row.flow,
        "status": "quarantined" if row.quarantined else row.status,
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


def one_run(row: RunRow, view: RunView, *, is_raw: bool) -> RenderableType:
    facts = _pairs(
        ("run", row.run),
        ("flow", f"{row.flow} (contract {view.opened.contract.version})"),
        ("why", row.code),
        ("executor", _executor(view)),
        ("opened", time_of(view.opened_at)),
        ("window ends", time_of(view.opened.window_end)),
        ("held by", row.worker or "nobody"),
        ("entries", f"{row.seq} + {row.post_seq}, the last {row.head.hex()[:16]}…"),
        ("input", _value(view.input, is_raw)),
    )
    facts.add_row(Text("status", style="dim"), status_cell(row))
    if view.ended is not None or view.parked is not None:
        facts.add_row(
            Text("outcome" if view.ended else "waits for", style="dim"), cell(_value(view.last_value, is_raw))
        )
    calls = table("seq", "call", "recorded", "value")
    for call in view.calls.values():
        calls.add_row(str(call.seq), cell(call.name), cell(call.kind), cell(_value(call.value, is_raw)))
    return Group(facts, Text(), calls) if view.calls else facts


def timeline(explanation: Explanation, width: int) -> RenderableType:
    """width: of the terminal, in characters; values are cut so that an entry takes a line."""
    lines = explanation.timeline.lines
    made = table("seq", "at (UTC)", "+", "what", "call", "value", narrow=4)
    before, day = 0, ""
    for line in lines:
        after = span(line.at - before) if before and line.at >= before else ""
        before = line.at or before
        style = "" if line.is_verified else "red"
        if line.at and day != (day := time_of(line.at)[:10]):
            made.add_row("", Text(day, "dim"), "", "", "", "")
        seq = f"{'' if line.lane == 'main' else 'p'}{line.seq}"
        what = cell(f"{line.kind}{_facts(line)}", style)
        value = Text(preview(line.value, max(12, width - 70)), style)
        made.add_row(Text(seq, style), Text(hour_of(line.at)), Text(after, "dim"), what, cell(line.name), value)
    parts: list[RenderableType] = [made, Text(), pins(explanation)]
    problem = explanation.timeline.problem
    if problem is not None:
        parts.append(Text())
        parts.append(cell(f"The journal does not verify: {problem.code}. {problem.message}", "bold red"))
        parts.append(Text("Lines in red are what the store says now, not what was written.", "red"))
    return Group(*parts)


def line_document(line: Line) -> dict[str, Any]:
    """An entry for --json; `value` is decoded where it is JSON, `value_text` stands for it where it is not."""
    document: dict[str, Any] = {
        "lane": line.lane,
        "seq": line.seq,
        "at": moment(line.at).isoformat() if line.at else None,
        "kind": line.kind,
        "name": line.name or None,
        "by": line.by,
        "epoch": line.epoch,
        "body": line.body,
        "is_verified": line.is_verified,
    }
    if line.value is None:
        return document
    try:
        return document | {"value": msgspec.json.decode(line.value)}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return document | {"value_text": line.value.decode("utf-8", "backslashreplace")}


def pins(explanation: Explanation) -> RenderableType:
    """What the run was opened under, beside what the last attempt ran under."""
    view = explanation.view
    if view is None:
        return Text("What it was opened under is not shown, because the journal does not verify.", "dim")
    opened, contract = view.opened, view.opened.contract
    last = view.attempts[-1] if view.attempts else None
    made = table("opened under", "", "last attempt")
    made.add_row("contract", cell(contract.version), cell(last.version if last else "none yet"))
    made.add_row("who may resume", cell(", ".join(contract.resume)), "")
    made.add_row("risk", cell(contract.risk), "")
    made.add_row("window ends", cell(time_of(opened.window_end)), "")
    made.add_row("executor", cell(_executor(view)), cell(last.worker if last else ""))
    return made


def reasons(told: Why) -> RenderableType:
    """Why a run stands where it stands, in sentences, and the next command."""
    parts = [Text.assemble(cell(f"Run {told.run!r} of flow {told.flow!r} is "), _styled(told.status), Text("."))]
    if told.since:
        parts.append(cell(f"Its last entry is of {time_of(told.since)}."))
    if told.incident:
        parts.append(cell(f"It was set aside: {told.incident}"))
    if told.reason:
        parts.append(cell(f"{told.code}: {told.reason}"))
    if told.calls:
        parts.append(cell(f"At the next attempt these calls run again: {', '.join(told.calls)}."))
    parts.append(cell(_holder(told)))
    parts.append(cell(f"Next: {next_step(told)}", "bold"))
    return Group(*parts)


def next_step(told: Why) -> str:
    """The command, or the wait, that brings a run on."""
    if told.status == "quarantined":
        return f"restore its bytes from a backup, then `remit lift {told.run} --by user:YOU --reason WHY`."
    if told.status in ("queued", "running", "waiting", "paused", "in_doubt"):
        if told.holder and not told.is_holder_dead and told.status == "running":
            return "nothing; somebody works at it."
        mended = "mend what failed, then " if told.calls or told.code else ""
        return f"{mended}`remit run MODULE:{told.flow} --id {told.run}` with the same input."
    return f"nothing; it has ended. `remit explain {told.run}` tells how."


def compatibility(found: Compatibility) -> RenderableType:
    style = "bold red" if found.fit == "incompatible" else "bold green"
    made = [cell(f"{found.fit}: {found.reason}", style)]
    if found.recorded or found.asked:
        made.append(cell(f"recorded and no longer asked for: {', '.join(found.recorded)}"))
        made.append(cell(f"asked for and not recorded:       {', '.join(found.asked) or 'nothing'}"))
    return Group(*made)


def findings(found: list[Checkup]) -> RenderableType:
    made = table("", "what", "seen")
    for one in found:
        hint = f"  {one.hint}" if one.hint and not one.ok else ""
        mark = Text("ok", "green") if one.ok else Text("no", "bold red")
        made.add_row(mark, cell(one.name), cell(f"{one.seen}{hint}", "" if one.ok else "red"))
    return made


def _facts(line: Line) -> str:
    body = line.body
    told = {
        "StepDone": lambda: f", {span(body.get('took', 0))}",
        "StepFailed": lambda: f", {body.get('error', '')}",
        "AttemptStarted": lambda: f" {line.epoch}",
        "RunParked": lambda: f", {body.get('code', '')}",
        "RunEnded": lambda: f" {body.get('status', '')}",
        "RaceWon": lambda: f", call {body.get('winner', 0) + 1} of {body.get('of', 0)}",
    }.get(line.kind)
    return told() if told is not None and line.is_verified else ""


def _pairs(*pairs: tuple[str, str]) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="dim")
    made.add_column(overflow="fold", ratio=1)
    for name, value in pairs:
        if value:
            made.add_row(name, cell(value))
    return made


def _value(value: bytes | None, is_raw: bool) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "backslashreplace") if is_raw else preview(value)


def _executor(view: RunView) -> str:
    opened = view.opened
    return f"{opened.by} for {opened.behalf}" if opened.behalf else opened.by


def _styled(status: str) -> Text:
    return cell(status, STATUS_STYLES.get(status, ""))


def _holder(told: Why) -> str:
    if not told.holder:
        return "Nobody holds it."
    if told.is_holder_dead:
        return f"Worker {told.holder}, which held it, is dead; it can be taken over at once."
    return f"Worker {told.holder} holds it until {time_of(told.lease_until)}, if it does not renew."
