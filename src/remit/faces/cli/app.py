"""The application: what every command shares, its options and its exit codes."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
import typer.core

import remit
from remit.faces.cli.act import Manner
from remit.faces.cli.exits import Exit
from remit.faces.cli.helped import Command
from remit.faces.cli.inert import cell
from remit.faces.cli.say import Voice

P = ParamSpec("P")

SECTIONS = {
    "Runs": ("run", "resume", "list", "show", "why", "explain", "cancel"),
    "What waits for people": ("inbox", "ask", "approve", "deny", "effects", "resolve"),
    "Who may do what": ("who", "grant", "revoke", "disable", "enable", "link", "policy"),
    "Asking first, and proof": ("judge", "check", "verify", "doctor", "lift", "version"),
}


class _Group(typer.core.TyperGroup):
    """With --json, a command line that can't be read is told as JSON as well.

    No name, role or reason is stored that is no text in UTF-8, so none is looked for: a store would raise on it.
    """

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any) -> Any:
        words = list(args) if args is not None else sys.argv[1:]
        if strange := next((word for word in words if not _is_text(word)), None):
            voice = Voice(is_json="--json" in words)
            voice.object("usage", f"{strange!a} is no text in UTF-8; nothing was done.", "Type it anew, as text.")
            sys.exit(Exit.REFUSED)
        if "--json" not in words:
            return super().main(words, prog_name, *rest, **extra)
        try:
            status = super().main(words, prog_name, *rest, **extra | {"standalone_mode": False})
        except Exception as exc:
            message = getattr(exc, "format_message", None)  # of click's errors, wherever typer keeps them
            if message is None:
                raise
            Voice(is_json=True).object("usage", message(), "See `remit --help`, or `remit COMMAND --help`.")
            status = Exit.REFUSED
        sys.exit(status)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands by what people come for; a test looks that none is missing."""
        for heading, names in SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, one.get_short_help_str(70)) for name, one in found if one is not None])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """What a command ends with."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(each)), each.meaning) for each in Exit])


app = typer.Typer(
    cls=_Group,
    help="Run what may run, answer what it asks, and look at what it did.",
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

ByOption = Annotated[str, typer.Option("--by", metavar="WHO", help="Who you are: user:dana. Taken at your word.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept.")]

# What every command takes, in the order of its help.
SHARED = (
    Parameter("store", Parameter.KEYWORD_ONLY, default=None, annotation=StoreOption),
    Parameter("tenant", Parameter.KEYWORD_ONLY, default=None, annotation=TenantOption),
    Parameter("is_json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
    Parameter("is_plain", Parameter.KEYWORD_ONLY, default=False, annotation=PlainOption),
)


def command(
    name: str, *, group: typer.Typer = app, has_store: bool = True
) -> Callable[[Callable[Concatenate[Manner, P], None]], Callable[Concatenate[Manner, P], None]]:
    """Declare a command: a function that is handed how it is to answer, then its own arguments and options.

    has_store: whether it works on one; of the options that every command takes it has `--json` alone where not.
    """

    def declare(fn: Callable[Concatenate[Manner, P], None]) -> Callable[Concatenate[Manner, P], None]:
        shared = SHARED if has_store else [each for each in SHARED if each.name == "is_json"]
        group.command(name, cls=Command)(taking(fn, shared))
        return fn

    return declare


def taking(fn: Callable[Concatenate[Manner, P], None], shared: Sequence[Parameter] = SHARED) -> Callable[..., None]:
    """`fn` with the options that every command takes behind its own.

    What stands before the command holds as if it stood behind, of a group as well: `remit --store URL list`.
    """
    own = inspect.signature(fn, eval_str=True)
    rest = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in list(own.parameters.values())[1:]]

    @functools.wraps(fn)
    def called(context: typer.Context, **given: Any) -> None:
        said = Manner(**{each.name: given.pop(each.name) for each in shared})
        context.obj = said.over(context.find_object(Manner) or Manner())
        if "context" in own.parameters:
            given["context"] = context
        fn(context.obj, **given)  # type: ignore[call-arg]

    context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(each for each in rest if each.name != "context"), *shared]
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


@app.callback(invoke_without_command=True)
@taking
def _said_before(
    manner: Manner,
    context: typer.Context,
    is_version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    """What stands before the command is kept for it."""
    if is_version:
        say_version(manner)
        raise typer.Exit(Exit.OK)
    if context.invoked_subcommand is None:
        context.fail("Missing command.")


def say_version(manner: Manner) -> None:
    """Which version this is."""
    version = remit.__version__
    Voice(is_json=manner.is_json).answer({"version": version}, cell(f"remit {version}"))


def _is_text(word: str) -> bool:
    """Python hands a byte that is no UTF-8 over as half of a pair, which nothing can write down."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def nothing() -> None:
    """Most commands need nothing before the store is open."""
