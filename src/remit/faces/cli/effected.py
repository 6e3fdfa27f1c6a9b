"""Effects: `remit effects` tells what was done outside, `remit resolve` says what became of a doubt."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from remit.authority.called import id_name, whole_name
from remit.authority.principals import check_new_principal
from remit.engine.people.effected import Effected
from remit.errors import Refused
from remit.errors.called import called
from remit.faces.cli.act import Manner, act
from remit.faces.cli.app import ByOption, RunArgument, command, nothing
from remit.faces.cli.exits import Exit
from remit.faces.cli.inert import Cut, Quoted, cell, name_cell
from remit.faces.cli.say import Below, Grid, Part, Shown, Voice, stack, time_of
from remit.faces.cli.show import EFFECT_STYLES
from remit.faces.cli.typed import next_of
from remit.faces.cli.without import without
from remit.faces.documents import effected_document, left_out_document
from remit.faces.next_step import doubt_step, said_step, told_step, under_way_step
from remit.faces.runtime import Runtime
from remit.faces.there import There

State = Literal["ok", "did_not_happen"]


@command("effects")
def effects(
    manner: Manner,
    id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="One run; without, all in doubt.")] = None,
    is_in_doubt: Annotated[bool, typer.Option("--in-doubt", help="Only those of which nobody knows.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many; 50.", show_default=False)] = 50,
) -> None:
    """List what a run did outside, or all effects in doubt."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        in_doubt, asked = is_in_doubt or id is None, limit + (id is None)  # of one run all are shown
        found = await rt.effects(id, in_doubt=in_doubt, limit=asked)
        more = _more(limit) if len(found) > limit and id is None else None
        told = found[:limit] if id is None else found
        document = [*map(effected_document, told), *map(left_out_document, found.left_out)]
        shown = _effects(told, voice.there, is_all=not found.left_out)
        voice.answer(document, stack(shown, more, without(found.left_out, voice.there)))
        return Exit.TAMPERED if found.left_out else Exit.OK

    act(manner, ask, first=nothing)


def _state(named: str) -> str:
    told = named.replace("-", "_")
    if told not in ("ok", "did_not_happen"):
        raise typer.BadParameter(f"{named!r} is neither ok nor did-not-happen")
    return told


@command("resolve")
def resolve(
    manner: Manner,
    id: RunArgument,
    call: Annotated[str, typer.Argument(metavar="CALL", help="The effect's call, from `remit effects`.")],
    state: Annotated[Any, typer.Argument(metavar="ok|did-not-happen", parser=_state, help="What became of it.")],
    by: ByOption,
    *,
    evidence: Annotated[str, typer.Option("--evidence", metavar="TEXT", help="How that is known; it is kept.")],
    outcome: Annotated[
        str | None,
        typer.Option("--outcome", metavar="JSON", help="Of one that happened: what it returned."),
    ] = None,
    calls: Annotated[
        int | None,
        typer.Option("--calls", metavar="N", min=1, help="At how many calls it was when you looked."),
    ] = None,
    returned: Annotated[
        bool,
        typer.Option("--returned", help="Say as well that its call has returned, or that its process is gone."),
    ] = False,
) -> None:
    """Say what became of an effect in doubt, once, and how that is known."""

    def first() -> Any:
        check_new_principal(by, "principal")
        return _outcome(outcome)

    async def ask(rt: Runtime, voice: Voice, given: Any) -> int:
        await rt.resolve(id, call, state, by=by, evidence=evidence, outcome=given, calls=calls, returned=returned)
        document = {"run": id, "call": call, "state": state, "by": by}
        became = "happened" if state == "ok" else "did not happen"
        told = f"{id_name(by)} said that {called(call)} of run {id_name(id)} {became}."
        voice.answer(document, cell(told), next_of(said_step(id), voice.there))
        return Exit.OK

    act(manner, ask, first=first)


def _outcome(text: str | None) -> Any:
    if text is None:
        return ...
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Refused(
            f"The outcome can't be read as JSON: {exc}; nothing was done.",
            code="doubt.outcome",
            hint="Give what the effect's function would have returned, as JSON; text stands in double quotes.",
        ) from exc


_HOW_KNOWN = {"": "", "person": "by person", "probe": "by probe", "unsent": "never begun"}


def _effects(found: list[Effected], there: There, *, is_all: bool) -> Shown:
    if not found:
        return cell("No effects." if is_all else "None in the runs that can be read.")
    grid = Grid("run", "call", "state", "intended", "how known", fold="run", folds=("call", "how known"))
    for one in found:
        times = f"in {one.calls} calls" if one.calls > 1 else ""
        how = f"said by {id_name(one.told_by)}" if one.state == "in_doubt" and one.told_by else _HOW_KNOWN[one.found]
        known = " ".join(part for part in (how, times) if part)
        state = cell(one.state, EFFECT_STYLES[one.state])
        run, call = name_cell(id_name(one.run)), name_cell(called(one.call))
        grid.row(run, call, state, time_of(one.at), known)
    table = Below(grid, [_below(one) for one in found], gives=("run", "call", "how known"))
    return stack(table, _how(found, there))


def _more(limit: int) -> Shown:
    shown = "1 is shown" if limit == 1 else f"{limit:,} are shown"
    return cell(f"{shown}; more with `--limit`.")


def _below(one: Effected) -> list[Part]:
    """What was asked of the outside, and what came of it; of a doubt the key by which the other side knows it."""
    names = [name for name, shown in ((one.run, id_name(one.run)), (one.call, called(one.call))) if name != shown]
    parts: list[Part] = [Quoted([*map(whole_name, names)]), Cut("", _json(one.request))]
    if one.lost:
        parts += [cell("its outcome is lost:", "bold yellow"), Quoted([one.detail])]
    elif one.state == "ok":
        parts.append(Cut("=>", _json(one.outcome)))
    elif one.state in ("in_doubt", "under_way"):
        parts.append(cell(f"key {one.key}", "dim"))
    elif one.detail:
        parts.append(Quoted([one.detail], style="dim"))
    return parts


def _how(found: list[Effected], there: There) -> Shown | None:
    for one in found:
        if one.state == "in_doubt" and one.told_by:
            return next_of(told_step(one.run, one.call, one.told_by), there)
        if one.state == "in_doubt":
            return next_of(doubt_step(one.run, one.call, one.calls, one.at_work), there)
        if one.state == "under_way":
            return next_of(under_way_step(one.run, one.call), there)
    return None


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
