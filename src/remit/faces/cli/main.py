"""`remit`: the commands. Each opens the store, asks the runtime one thing, and says the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from remit.authority.principals import check_new_principal
from remit.engine.declared.flow import Flow
from remit.engine.process.outcome import Outcome
from remit.errors import Refused
from remit.faces import proving
from remit.faces.cli import asking, directory, effected, judged, policy, prove, reasons, show, timeline
from remit.faces.cli.act import Manner, act
from remit.faces.cli.app import ByOption, FlowArgument, ReasonOption, RunArgument, app, command, nothing, say_version
from remit.faces.cli.exits import Exit
from remit.faces.cli.inert import cell
from remit.faces.cli.say import Voice
from remit.faces.cli.target import check_names, flow_of, input_of
from remit.faces.documents import (
    checkup_document,
    compatibility_document,
    ended_document,
    explanation_document,
    judged_document,
    outcome_document,
    proof_document,
    run_document,
    shown_document,
    why_document,
)
from remit.faces.runtime import Runtime, check_status
from remit.facts.machine import Status
from remit.store.tables import NUMBER_MAX

__all__ = ["app", "main"]

COMMANDS = (asking, effected, directory, policy)  # they declare theirs when they are imported


@command("run")
def run(
    manner: Manner,
    flow: FlowArgument,
    *,
    id: Annotated[str, typer.Option("--id", metavar="RUN", help="The run id: the same id is the same run.")],
    input: Annotated[str | None, typer.Option("--input", metavar="JSON", help="What the flow takes.")] = None,
    input_file: Annotated[Path | None, typer.Option("--input-file", metavar="FILE", help="A file with it.")] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="WHO", help="The executor; else service:local.")] = None,
    behalf: Annotated[str | None, typer.Option("--behalf", metavar="WHO", help="For whom it acts.")] = None,
) -> None:
    """Start a run, or go on with it, until it ends or parks."""

    def first() -> tuple[Flow[Any], Any]:
        check_names(id, by, behalf)
        declared = flow_of(flow)
        return declared, input_of(declared, input, input_file)

    async def ask(rt: Runtime, voice: Voice, found: tuple[Flow[Any], Any]) -> int:
        declared, given = found
        return await _answer(rt, voice, await rt.run(declared, given, id=id, by=by, behalf=behalf))

    act(manner, ask, first=first, may_create=True)


@command("resume")
def resume(manner: Manner, id: RunArgument, flow: FlowArgument) -> None:
    """Go on with a run under its recorded input and executor."""

    async def ask(rt: Runtime, voice: Voice, declared: Flow[Any]) -> int:
        return await _answer(rt, voice, await rt.resume(id, declared))

    act(manner, ask, first=lambda: flow_of(flow))


async def _answer(rt: Runtime, voice: Voice, outcome: Outcome) -> int:
    """How a turn ended: the value where the run completed, and where not, what it waits for and what comes next."""
    seen = await rt.show(outcome.run)
    if outcome.status is Status.COMPLETED:
        voice.answer(outcome_document(outcome, seen, voice.there), show.finished(seen.view))
        return Exit.OK
    told = await rt.why(outcome.run)
    voice.answer(outcome_document(outcome, seen, voice.there, told), reasons.reasons(told, voice.there))
    return Exit.NOT_COMPLETED


@command("cancel")
def cancel(manner: Manner, id: RunArgument, by: ByOption, reason: ReasonOption = "") -> None:
    """Ask a run to end. What it did outside stays done and is said."""

    async def ask(rt: Runtime, voice: Voice, _: str) -> int:
        outcome = await rt.cancel(id, by=by, reason=reason)
        seen, told = await rt.show(id), await rt.why(id)
        document = outcome_document(outcome, seen, voice.there, told) | {"cancelled_by": by}
        voice.answer(document, reasons.reasons(told, voice.there))
        return Exit.OK

    act(manner, ask, first=lambda: check_new_principal(by, "principal"))


@command("list")
def list_(
    manner: Manner,
    *,
    flow: Annotated[str | None, typer.Option("--flow", metavar="NAME", help="Only runs of this flow.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="Only runs that stand there.")
    ] = None,
    is_quarantined: Annotated[bool, typer.Option("--quarantined", help="Only runs that were set aside.")] = False,
    prefix: Annotated[str | None, typer.Option("--prefix", metavar="TEXT", help="Only ids that begin so.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many; 50.", show_default=False)] = 50,
    before: Annotated[
        int | None,
        typer.Option(
            "--before", metavar="KEY", min=0, max=NUMBER_MAX, help="Only runs opened before the one with this key."
        ),
    ] = None,
) -> None:
    """List runs, newest first. The list is an index; `show` and `verify` read the journals."""

    async def ask(rt: Runtime, voice: Voice, wanted: str | None) -> int:
        aside = is_quarantined or None
        rows = await rt.list(flow=flow, status=wanted, quarantined=aside, prefix=prefix, limit=limit, before=before)
        voice.answer([run_document(row) for row in rows], show.runs(rows, limit, wanted, voice.there))
        return Exit.OK

    act(manner, ask, first=lambda: check_status(status))


@command("show")
def show_(
    manner: Manner,
    id: RunArgument,
    is_raw: Annotated[bool, typer.Option("--raw", help="Whole values; of a run set aside, what is stored.")] = False,
) -> None:
    """Show a run and its recorded calls, from its verified journal."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        if is_raw and (await rt.read(id)).row.quarantined:
            return _explained(voice, await rt.explain(id))
        found = await rt.show(id)
        told = await rt.explain(id)
        calls = [one for one in told.timeline.lines if one.kind in show.OUTCOMES]
        voice.answer(shown_document(found, calls), *show.one_run(told, found.view, calls, is_raw=is_raw))
        return Exit.OK

    act(manner, ask, first=nothing)


@command("why")
def why(manner: Manner, id: RunArgument) -> None:
    """Say why a run stands where it stands, and what brings it on."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        told = await rt.why(id)
        voice.answer(why_document(told, voice.there), reasons.reasons(told, voice.there))
        return Exit.OK

    act(manner, ask, first=nothing)


@command("explain")
def explain(manner: Manner, id: RunArgument) -> None:
    """Tell what happened, entry by entry. Executes nothing and imports no code."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        return _explained(voice, await rt.explain(id))

    act(manner, ask, first=nothing)


def _explained(voice: Voice, told: Any) -> int:
    problem = told.timeline.problem
    voice.answer(explanation_document(told), timeline.timeline(told))
    return Exit.OK if problem is None else problem.exit_status


@command("verify")
def verify(
    manner: Manner,
    id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="One run; all of them without.")] = None,
) -> None:
    """Check one journal or all: chain, moves, lanes, ends, index row."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        names = [id] if id is not None else await proving.every_journal(rt)
        proof = await proving.prove(rt, voice.progress(names, "verifying"), is_listed=id is None)
        voice.answer(proof_document(proof), prove.proven(proof, voice.there))
        return proof.exit_status

    act(manner, ask, first=nothing)


@command("check")
def check(manner: Manner, id: RunArgument, flow: FlowArgument) -> None:
    """Say whether this code goes on with that run. Runs no step and writes nothing."""

    async def ask(rt: Runtime, voice: Voice, declared: Flow[Any]) -> int:
        found = await rt.check(id, declared)
        voice.answer(compatibility_document(found), show.compatibility(found))
        return Exit.DISAGREE if found.fit == "incompatible" else Exit.OK

    act(manner, ask, first=lambda: flow_of(flow))


@command("judge")
def judge(manner: Manner, id: RunArgument, flow: FlowArgument) -> None:
    """Say what the gate would answer to that run now, and why. Changes nothing."""

    async def ask(rt: Runtime, voice: Voice, declared: Flow[Any]) -> int:
        try:
            found = await rt.judge(id, declared)
        except Refused as refusal:
            if refusal.code != "run.ended":
                raise
            seen = await rt.show(id)
            voice.answer(ended_document(seen), judged.ended(seen, voice.there))
            return Exit.NOT_COMPLETED
        voice.answer(judged_document(found, voice.there), judged.judged(found, voice.there))
        return Exit.OK if found.verdict.decision == "resume" and not found.waits else Exit.NOT_COMPLETED

    act(manner, ask, first=lambda: flow_of(flow))


@command("doctor")
def doctor(
    manner: Manner,
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="The store; --store without.")] = None,
) -> None:
    """Examine the store: settings, versions, file system, integrity. Changes nothing."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        found = await rt.doctor()
        voice.answer([checkup_document(one, voice.there) for one in found], show.findings(found, voice.there))
        return Exit.OK if all(one.ok for one in found) else Exit.STORE

    act(Manner(store=url).over(manner), ask, first=nothing)


@command("lift")
def lift(
    manner: Manner,
    id: RunArgument,
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="The operator: user:dana.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why it may go on.")],
    is_shorter: Annotated[
        bool,
        typer.Option("--shorter", help="Entries are missing, and you found out outside what they did."),
    ] = False,
) -> None:
    """End a run's quarantine, where its restored bytes verify."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        await rt.lift(id, by=by, reason=reason, shorter=is_shorter)
        voice.answer({"run": id, "lifted": True}, cell(f"Run {id} verifies and may go on."))
        return Exit.OK

    act(manner, ask, first=nothing)


@command("version", has_store=False)
def version(manner: Manner) -> None:
    """Say which version this is."""
    say_version(manner)


def main() -> None:
    """The entry point of `remit`."""
    app(prog_name="remit")


if __name__ == "__main__":
    main()
