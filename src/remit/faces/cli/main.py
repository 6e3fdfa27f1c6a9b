"""`remit`: the commands. Each opens the store, asks the runtime one thing, and says the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

import remit
from remit.engine.incidents import INCIDENTS
from remit.errors import Refused, RemitError, RunAbsent
from remit.faces.cli import show
from remit.faces.cli.inert import cell
from remit.faces.cli.say import Voice
from remit.faces.cli.target import flow_of, runtime
from remit.faces.runtime import Runtime

EXITS = """
Exit codes: 0 all is well; 1 an unexpected error; 2 refused, nothing was done; 3 the lease was lost; 4 code and journal
disagree; 5 a journal does not verify; 6 the store can't be used; 7 a step raised, all before it is saved;
130 interrupted.
"""

app = typer.Typer(
    help="Look at runs, prove them, and go on with them.",
    epilog=EXITS,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

StoreOption = Annotated[
    str | None, typer.Option("--store", help="URL of the store; REMIT_STORE, or sqlite:///remit.db.")
]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="Whose runs; `default`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run id.")]
FlowArgument = Annotated[str, typer.Argument(metavar="MODULE:FLOW", help="Where the flow is declared.")]


class _Common:
    """What was said before the command: `remit --store URL list` is `remit list --store URL`."""

    store: str | None = None
    tenant: str | None = None
    is_json = False


@app.callback()
def _before(store: StoreOption = None, tenant: TenantOption = None, is_json: JsonOption = False) -> None:
    _Common.store, _Common.tenant, _Common.is_json = store, tenant, is_json


Act = Callable[[Runtime, Voice], Awaitable[int]]


def _do(act: Act, store: str | None, tenant: str | None, is_json: bool, *, may_create: bool = False) -> None:
    """Open, act, close; an error of Remit's own is told with its code and sets the exit status."""
    voice = Voice(is_json=is_json or _Common.is_json)

    async def acted() -> int:
        async with runtime(store or _Common.store, tenant or _Common.tenant, may_create=may_create) as rt:
            return await act(rt, voice)

    try:
        status = asyncio.run(acted())
    except RemitError as exc:
        voice.complain(exc)
        status = exc.exit_status
    except KeyboardInterrupt:
        status = 130
    raise typer.Exit(status)


@app.command()
def run(
    flow: FlowArgument,
    *,
    id: Annotated[str, typer.Option("--id", help="The run id: the same id is the same run.")],
    input: Annotated[str | None, typer.Option("--input", help="The input, as JSON.")] = None,
    input_file: Annotated[Path | None, typer.Option("--input-file", help="A file with the input, as JSON.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="The executor: agent:buyer; service:local.")] = None,
    behalf: Annotated[str | None, typer.Option("--behalf", help="For whom it acts: user:dana.")] = None,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
) -> None:
    """Start a run, or go on with it, until it ends or parks."""

    async def act(rt: Runtime, voice: Voice) -> int:
        declared = flow_of(flow)
        given = declared.input_codec.read(_given(input, input_file), where="--input") if declared.takes_input else None
        outcome = await rt.run(declared, given, id=id, by=by, behalf=behalf)
        row = (await rt.read(id)).row
        result = (await rt.show(id)).view.last_value
        document = show.run_document(row) | {"reason": outcome.reason}
        if outcome.status == "completed":
            document["value"] = msgspec.json.decode(result or b"null")
        shown = cell((result or b"").decode("utf-8", "replace") if outcome.status == "completed" else outcome.reason)
        voice.answer(document, show.runs([row]), shown)
        return 0 if outcome.status == "completed" else 2

    _do(act, store, tenant, is_json, may_create=True)


@app.command("list")
def list_(
    *,
    flow: Annotated[str | None, typer.Option("--flow", help="Only runs of this flow.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Only runs that stand there; or `quarantined`.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="Only ids that begin so, character by character.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000)] = 50,
    before: Annotated[
        int | None, typer.Option("--before", help="Only runs opened before the one with this key.")
    ] = None,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
) -> None:
    """List runs, newest first. The list is an index; `show` and `verify` read the journals."""

    async def act(rt: Runtime, voice: Voice) -> int:
        is_quarantined = True if status == "quarantined" else None
        wanted = None if is_quarantined else status
        rows = await rt.list(
            flow=flow, status=wanted, quarantined=is_quarantined, prefix=prefix, limit=limit, before=before
        )
        voice.answer([show.run_document(row) for row in rows], show.runs(rows))
        return 0

    _do(act, store, tenant, is_json)


@app.command("show")
def show_(
    id: RunArgument,
    is_raw: Annotated[
        bool, typer.Option("--raw", help="Whole values, and what is stored of a run that is set aside.")
    ] = False,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
) -> None:
    """Show a run and its recorded calls, from its verified journal."""

    async def act(rt: Runtime, voice: Voice) -> int:
        if is_raw and (await rt.read(id)).row.quarantined:
            return _explained(voice, await rt.explain(id))
        found = await rt.show(id)
        calls = [line for line in (await rt.explain(id)).timeline.lines if line.name]
        document = show.run_document(found.row) | {"calls": [show.line_document(line) for line in calls]}
        voice.answer(document, show.one_run(found.row, found.view, is_raw=is_raw))
        return 0

    _do(act, store, tenant, is_json)


@app.command()
def why(id: RunArgument, store: StoreOption = None, tenant: TenantOption = None, is_json: JsonOption = False) -> None:
    """Say why a run stands where it stands, and what brings it on."""

    async def act(rt: Runtime, voice: Voice) -> int:
        told = await rt.why(id)
        document = {name: getattr(told, name) for name in told.__dataclass_fields__} | {"next": show.next_step(told)}
        voice.answer(document, show.reasons(told))
        return 0

    _do(act, store, tenant, is_json)


@app.command()
def explain(
    id: RunArgument, store: StoreOption = None, tenant: TenantOption = None, is_json: JsonOption = False
) -> None:
    """Tell what happened, entry by entry. Reads, executes nothing, imports no code."""

    async def act(rt: Runtime, voice: Voice) -> int:
        return _explained(voice, await rt.explain(id))

    _do(act, store, tenant, is_json)


@app.command()
def verify(
    id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="One run; all of them without.")] = None,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
) -> None:
    """Check journals: each hash, each link, each move, both lanes, the ends and the columns on the run's row."""

    async def act(rt: Runtime, voice: Voice) -> int:
        names = [id] if id is not None else await _every_run(rt)
        wrong: dict[str, RemitError] = {}
        for name in names:
            problem = await rt.verify(name)
            if problem is not None:
                wrong[name] = problem
        document = {
            "verified": len(names) - len(wrong),
            "wrong": [{"run": name, "code": exc.code, "message": exc.message} for name, exc in wrong.items()],
            "checked": ["chain", "both lanes", "heads", "moves", "row"],
            "not_covered": NOT_COVERED,
        }
        told = [cell(f"{name}: {exc.code}. {exc.message}", "bold red") for name, exc in wrong.items()]
        good = cell(f"{len(names) - len(wrong)} of {len(names)} journals verify.", "red" if wrong else "green")
        voice.answer(document, *told, good, cell(f"Not covered: {'; '.join(NOT_COVERED)}.", "dim"))
        return next(iter(wrong.values())).exit_status if wrong else 0

    _do(act, store, tenant, is_json)


NOT_COVERED = (
    "a run recomputed as a whole with its row",
    "a run deleted with its row",
    "an older database put back",
)


@app.command()
def check(
    id: RunArgument,
    flow: FlowArgument,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
) -> None:
    """Say whether this code goes on with that run. Runs no step, writes nothing."""

    async def act(rt: Runtime, voice: Voice) -> int:
        found = await rt.check(flow_of(flow), id)
        document = {name: getattr(found, name) for name in found.__dataclass_fields__}
        voice.answer(document, show.compatibility(found))
        return 4 if found.fit == "incompatible" else 0

    _do(act, store, tenant, is_json)


@app.command()
def doctor(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="The store; --store without.")] = None,
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
) -> None:
    """Examine the store: settings, versions, file system, integrity. Changes nothing."""

    async def act(rt: Runtime, voice: Voice) -> int:
        found = await rt.doctor()
        document = [{"name": f.name, "ok": f.ok, "seen": f.seen, "hint": f.hint} for f in found]
        voice.answer(document, show.findings(found))
        return 0 if all(one.ok for one in found) else 6

    _do(act, url or store, tenant, is_json)


@app.command()
def lift(
    id: RunArgument,
    by: Annotated[str, typer.Option("--by", help="The operator: user:dana.")],
    reason: Annotated[str, typer.Option("--reason", help="Why it may go on.")],
    store: StoreOption = None,
    tenant: TenantOption = None,
    is_json: JsonOption = False,
) -> None:
    """End a run's quarantine, where its restored bytes verify."""

    async def act(rt: Runtime, voice: Voice) -> int:
        await rt.lift(id, by=by, reason=reason)
        voice.answer({"run": id, "lifted": True}, cell(f"Run {id!r} verifies and may go on."))
        return 0

    _do(act, store, tenant, is_json)


@app.command()
def version(is_json: JsonOption = False) -> None:
    """Say which version this is."""
    Voice(is_json=is_json or _Common.is_json).answer({"version": remit.__version__}, f"remit {remit.__version__}")


def _explained(voice: Voice, explanation: Any) -> int:
    problem = explanation.timeline.problem
    document = {
        "run": show.run_document(explanation.row),
        "problem": None if problem is None else {"code": problem.code, "message": problem.message},
        "opened_under": None if explanation.view is None else msgspec.to_builtins(explanation.view.opened),
        "entries": [show.line_document(line) for line in explanation.timeline.lines],
    }
    voice.answer(document, show.timeline(explanation, voice.console.width))
    return 0 if problem is None else int(problem.exit_status)


async def _every_run(rt: Runtime) -> list[str]:
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


def _given(text: str | None, file: Path | None) -> bytes:
    if text is not None and file is not None:
        raise Refused("Give --input or --input-file, not both; nothing was done.", code="input.twice")
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as exc:
            raise Refused(f"{str(file)!r} can't be read: {exc}; nothing was done.", code="input.unreadable") from exc
    return (text if text is not None else "null").encode()


def main() -> None:
    """The entry point. What a usage error says goes to standard error, with exit status 2."""
    app(prog_name="remit")


if __name__ == "__main__":
    main()
