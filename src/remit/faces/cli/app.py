"""The application: what every command shares, its options and its exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core

from remit.faces.cli.act import Manner
from remit.faces.cli.say import Voice

EXITS = """
Exit codes: 0 all is well. 1 an unexpected error. 2 refused, nothing was done. 3 the lease was lost. 4 code and journal
disagree. 5 a journal does not verify. 6 the store can't be used, or doctor found something wrong. 7 a step raised, all
before it is saved. 8 the run did not complete, or would not go on. 130 interrupted, what was saved stays.
"""


SECTIONS = {
    "Runs": ("run", "resume", "list", "show", "why", "explain", "cancel"),
    "What waits for people": ("inbox", "ask", "approve", "deny", "effects", "resolve"),
    "Who may do what": ("who", "grant", "revoke", "disable", "enable", "link", "policy"),
    "Asking first, and proof": ("judge", "check", "verify", "doctor", "lift", "version"),
}


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

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands by what people come for; a test looks that none is missing."""
        for heading, names in SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, one.get_short_help_str(70)) for name, one in found if one is not None])


app = typer.Typer(
    cls=_Group,
    help="Run what may run, answer what it asks, and look at what it did.",
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

ByOption = Annotated[str, typer.Option("--by", metavar="WHO", help="Who you are: user:dana. Taken at your word.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept.")]

_before = Manner()


@app.callback()
def _said_before(
    store: StoreOption = None, tenant: TenantOption = None, is_json: JsonOption = False, is_plain: PlainOption = False
) -> None:
    """What stands before the command holds as if it stood behind: `remit --store URL list`."""
    global _before
    _before = Manner(store, tenant, is_json, is_plain)


def remember(before: Manner) -> None:
    """What stands before the command of a group holds as well, as it does before any other."""
    global _before
    _before = before


def is_told_as_json(is_json: bool) -> bool:
    """Of a command that needs no store."""
    return is_json or _before.is_json


def said(store: str | None, tenant: str | None, is_json: bool, is_plain: bool) -> Manner:
    """What a command was told, behind its name or before it."""
    return Manner(store, tenant, is_json, is_plain).over(_before)


def nothing() -> None:
    """Most commands need nothing before the store is open."""
