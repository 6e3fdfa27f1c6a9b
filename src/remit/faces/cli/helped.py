"""Helped: the help of one command, in the words that its page has: `remit verify [OPTIONS] [RUN]`."""

from __future__ import annotations

from typing import Any

import typer.core


class Command(typer.core.TyperCommand):
    """A command whose help names what is typed, and not how it is read.

    How an argument and a number look there is otherwise up to the version of the library: `[[RUN]] <str>`.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the command's name; what may be left out, in brackets."""
        return ["[OPTIONS]", *(_name(each) if each.required else f"[{_name(each)}]" for each in self._arguments(ctx))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options, each with what it is for."""
        arguments = self._arguments(ctx)
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(_name(each), _help(each)) for each in arguments])
        options = [each for each in self.get_params(ctx) if each.param_type_name == "option"]
        with formatter.section("Options"):
            formatter.write_dl([(_typed(each), _help(each)) for each in options])

    def _arguments(self, ctx: Any) -> list[Any]:
        return [each for each in self.get_params(ctx) if each.param_type_name == "argument"]


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper()).strip("[]")


def _typed(option: Any) -> str:
    """As it is typed: a flag alone, anything else with what stands behind it; of what has no name, a number."""
    told = ", ".join(sorted(option.opts, key=len))
    return told if option.is_flag else f"{told} {option.metavar or 'N'}"


def _help(parameter: Any) -> str:
    return f"{parameter.help}  [required]" if parameter.required else str(parameter.help)
