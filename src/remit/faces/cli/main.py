"""`remit`: the commands. Each opens the store, asks the runtime one thing, and says the answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

import remit
from remit.engine.flow import Flow
from remit.engine.incidents import INCIDENTS
from remit.errors import RunAbsent
from remit.faces.cli import prove, show, timeline
from remit.faces.cli.act import Manner, act
from remit.faces.cli.inert import cell
from remit.faces.cli.say import Voice
from remit.faces.cli.target import check_names, flow_of, input_of
from remit.faces.runtime import Runtime
from remit.facts.machine import Status

EXITS = """
Exit codes: 0 all is well. 1 an unexpected error. 2 refused, nothing was done. 3 the lease was lost. 4 code and journal
disagree. 5 a journal does not verify. 6 the store can't be used, or doctor found something wrong. 7 a step raised, all
before it is saved. 8 the run did not complete. 130 interrupted, what was saved stays.
"""


class _Group(typer.core.TyperGroup):
    """With --json, a command line that can't be read is told as JSON as well."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any) -> Any:
        words = list(args) if args is not None else sys.argv[1:]
        if "--json" not in words:
            return super().main(words, prog_name, *rest, **extra)
        try:
            status = super().main(words, prog_name, *rest, **extra | {"standalone_mode": False})
        except Exception as exc:
            message = getattr(exc, "format_message", None)  # of click's errors, wherever typer keeps them
            if message is None:
                raise
            Voice(is_json=True).object("usage", message(), "See `remit --help`, or `remit COMMAND --help`.")
            status = 2
        sys.exit(status)


app = typer.Typer(
    cls=_Group,
    help="Look at runs, prove them, and go on with them.",
    epilog=EXITS,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store; else REMIT_STORE, else sqlite:///remit.db.")
]
TenantOption = Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Whose runs; else `default`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer with one JSON document, errors too.")]
PlainOption = Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR does the same.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run id.")]
FlowArgument = Annotated[str, typer.Argument(metavar="MODULE:FLOW", help="Where the flow is declared.")]

_before = Manner()


@app.callback()
def _said_before(
    store: StoreOption = None, tenant: TenantOption = None, is_json: JsonOption = False, is_plain: PlainOption = False
) -> None:
    """What stands before the command holds as if it stood behind: `remit --store URL list`."""
    global _before
    _before = Manner(store, tenant, is_json, is_plain)


def _nothing() -> None:
    """Most commands need nothing before the store is open."""


@app.command()
def run(
    flow: FlowArgument,
    *,
    id: Annotated[str, typer.Option("--id", metavar="RUN", help="The run id: the same id is the same run.")],
    input: Annotated[str | None, typer.Option("--input", metavar="JSON", help="The input.")] = None,
    input_file: Annotated[Path | None, typer.Option("--input-file", metavar="FILE", help="Where it is.")] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="WHO", help="The executor; else service:local.")] = None,
    behalf: Annotated[str | None, typer.Option("--behalf", metavar="WHO", help="For whom it acts.")] = None,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """Start a run, or go on with it, until it ends or parks."""

    def first() -> tuple[Flow[Any], Any]:
        check_names(id, by, behalf)
        declared = flow_of(flow)
        return declared, input_of(declared, input, input_file)

    async def ask(rt: Runtime, voice: Voice, found: tuple[Flow[Any], Any]) -> int:
        declared, given = found
        outcome = await rt.run(declared, given, id=id, by=by, behalf=behalf)
        seen = await rt.show(id)
        is_complete = outcome.status is Status.COMPLETED
        document = show.run_document(seen.row) | {"reason": outcome.reason}
        document |= show.value_document(seen.view.last_value) if is_complete else {}
        voice.answer(document, show.finished(outcome, seen.view))
        return 0 if is_complete else 8

    act(Manner(store, tenant, is_json, is_plain).over(_before), ask, first=first, may_create=True)


def _check_status(named: str | None) -> str | None:
    known = [*Status, "quarantined"]
    if named is not None and named not in known:
        raise typer.BadParameter(f"{named!r} is none of {', '.join(known)}")
    return named


@app.command("list")
def list_(
    *,
    flow: Annotated[str | None, typer.Option("--flow", metavar="NAME", help="Only runs of this flow.")] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", callback=_check_status, help="Only runs that stand there."),
    ] = None,
    is_quarantined: Annotated[bool, typer.Option("--quarantined", help="Only runs that were set aside.")] = False,
    prefix: Annotated[str | None, typer.Option("--prefix", metavar="TEXT", help="Only ids that begin so.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many; 50.", show_default=False)] = 50,
    before: Annotated[
        int | None, typer.Option("--before", metavar="KEY", help="Only runs opened before the one with this key.")
    ] = None,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """List runs, newest first. The list is an index; `show` and `verify` read the journals."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        is_aside = is_quarantined or status == "quarantined"
        wanted = None if status == "quarantined" else status
        rows = await rt.list(
            flow=flow, status=wanted, quarantined=is_aside or None, prefix=prefix, limit=limit, before=before
        )
        voice.answer([show.run_document(row) for row in rows], show.runs(rows, limit))
        return 0

    act(Manner(store, tenant, is_json, is_plain).over(_before), ask, first=_nothing)


@app.command("show")
def show_(
    id: RunArgument,
    is_raw: Annotated[bool, typer.Option("--raw", help="Whole values; of a run set aside, what is stored.")] = False,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """Show a run and its recorded calls, from its verified journal."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        if is_raw and (await rt.read(id)).row.quarantined:
            return _explained(voice, await rt.explain(id))
        found = await rt.show(id)
        calls = [one for one in (await rt.explain(id)).timeline.lines if one.name]
        document = show.run_document(found.row) | {"calls": [timeline.line_document(one) for one in calls]}
        voice.answer(document, *show.one_run(found.row, found.view, calls, is_raw=is_raw))
        return 0

    act(Manner(store, tenant, is_json, is_plain).over(_before), ask, first=_nothing)


@app.command()
def why(
    id: RunArgument,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """Say why a run stands where it stands, and what brings it on."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        told = await rt.why(id)
        voice.answer(asdict(told) | {"next": show.next_step(told)}, show.reasons(told))
        return 0

    act(Manner(store, tenant, is_json, is_plain).over(_before), ask, first=_nothing)


@app.command()
def explain(
    id: RunArgument,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """Tell what happened, entry by entry. Executes nothing and imports no code."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        return _explained(voice, await rt.explain(id))

    act(Manner(store, tenant, is_json, is_plain).over(_before), ask, first=_nothing)


def _explained(voice: Voice, told: Any) -> int:
    problem = told.timeline.problem
    voice.answer(timeline.document(told), timeline.timeline(told))
    return 0 if problem is None else int(problem.exit_status)


@app.command()
def verify(
    id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="One run; all of them without.")] = None,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """Check one journal or all: chain, moves, lanes, ends, index row."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        names = [id] if id is not None else await _every_journal(rt)
        proof = await prove.prove(rt, voice.progress(names, "verifying"))
        voice.answer(prove.document(proof), prove.proven(proof))
        return proof.exit_status

    act(Manner(store, tenant, is_json, is_plain).over(_before), ask, first=_nothing)


async def _every_journal(rt: Runtime) -> list[str]:
    """Ids of all runs of the tenant, oldest last, and `remit:incidents` where it was opened."""
    names: list[str] = []
    before: int | None = None
    while rows := await rt.list(limit=1_000, before=before):
        names += [row.run for row in rows]
        before = rows[-1].run_key
    try:
        await rt.read(INCIDENTS)
    except RunAbsent:
        return names
    return [*names, INCIDENTS]


@app.command()
def check(
    id: RunArgument,
    flow: FlowArgument,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """Say whether this code goes on with that run. Runs no step and writes nothing."""

    async def ask(rt: Runtime, voice: Voice, declared: Flow[Any]) -> int:
        found = await rt.check(declared, id)
        voice.answer(asdict(found), show.compatibility(found))
        return 4 if found.fit == "incompatible" else 0

    act(Manner(store, tenant, is_json, is_plain).over(_before), ask, first=lambda: flow_of(flow))


@app.command()
def doctor(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="The store; --store without.")] = None,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """Examine the store: settings, versions, file system, integrity. Changes nothing."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        found = await rt.doctor()
        document = [{"name": f.name, "ok": f.ok, "seen": f.seen, "hint": f.hint} for f in found]
        voice.answer(document, show.findings(found))
        return 0 if all(one.ok for one in found) else 6

    act(Manner(url or store, tenant, is_json, is_plain).over(_before), ask, first=_nothing)


@app.command()
def lift(
    id: RunArgument,
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="The operator: user:dana.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why it may go on.")],
    *,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
    is_plain: PlainOption = False,
) -> None:
    """End a run's quarantine, where its restored bytes verify."""

    async def ask(rt: Runtime, voice: Voice, _: None) -> int:
        await rt.lift(id, by=by, reason=reason)
        voice.answer({"run": id, "lifted": True}, cell(f"Run {id} verifies and may go on."))
        return 0

    act(Manner(store, tenant, is_json, is_plain).over(_before), ask, first=_nothing)


@app.command()
def version(is_json: JsonOption = False) -> None:
    """Say which version this is."""
    voice = Voice(is_json=is_json or _before.is_json)
    voice.answer({"version": remit.__version__}, cell(f"remit {remit.__version__}"))


def main() -> None:
    """The entry point of `remit`."""
    app(prog_name="remit")


if __name__ == "__main__":
    main()
