"""docs/reference/cli.md has each command, each option and each exit code of the command line, and no other."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import remit
from remit import errors
from remit.faces.cli.app import SECTIONS
from remit.faces.cli.exits import Exit
from remit.faces.cli.main import app
from tests.docs.pages import read, section, table

PAGE = "reference/cli.md"
HEADING = re.compile(r"^## remit (\w+)$", re.MULTILINE)
OPTION = re.compile(r"--[a-z-]+")
OPTIONS = ("--store", "--tenant", "--json", "--no-color")  # in the order of the help


def commands() -> dict[str, Any]:
    group: Any = get_command(app)
    return dict(group.commands)


def options(command: Any) -> set[str]:
    """Its own, and those of the commands below it."""
    own = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    return own.union(*(options(below) for below in getattr(command, "commands", {}).values()))


def shared() -> set[str]:
    return {row[0].split()[0] for row in table(PAGE, "What every command takes")}


def test_each_command_has_a_section_and_each_section_a_command():
    assert sorted(HEADING.findall(read(PAGE))) == sorted(commands())


def test_each_section_names_the_options_of_its_command_and_shows_it():
    for name, command in commands().items():
        told = section(PAGE, f"remit {name}")
        assert options(command) - shared() - {"--help"} <= set(OPTION.findall(told)), name
        assert re.search(rf"^\$ remit {name}\b", told, re.MULTILINE), name


def test_every_command_takes_what_every_command_takes():
    for name, command in commands().items():
        wanted = {"--json"} if name == "version" else shared() - {"--help"}
        assert wanted <= options(command), name


def test_each_command_stands_in_the_help_once_and_under_a_heading():
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(commands())


def test_the_help_says_what_each_command_does_in_one_line():
    for name, command in commands().items():
        assert not command.get_short_help_str(70).endswith("..."), name
        for below in getattr(command, "commands", {}).values():
            assert not below.get_short_help_str(60).endswith("..."), (name, below.name)


def every_command() -> list[tuple[str, ...]]:
    """The words of each, with those below another, and of the group itself."""

    def below(words: tuple[str, ...], command: Any) -> list[tuple[str, ...]]:
        inner = getattr(command, "commands", {}).items()
        return [words, *(each for name, one in inner for each in below((*words, name), one))]

    return below(("remit",), get_command(app))


def help_of(words: tuple[str, ...], width: int) -> str:
    told = CliRunner().invoke(app, [*words[1:], "--help"], env={"COLUMNS": str(width)}, prog_name="remit")
    assert told.exit_code == 0, told.output
    return str(told.output)


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_the_help_of_each_command_fits_and_ends_in_what_every_command_takes(words: tuple[str, ...], width: int):
    told = help_of(words, width)
    assert told.startswith(f"Usage: {' '.join(words)} ")
    assert max(len(line) for line in told.splitlines()) <= width
    listed = re.findall(r"^  (?:-h, )?(--[a-z-]+)", told, re.MULTILINE)
    wanted = ["--json"] if words[-1] == "version" or words[1:] == ("policy", "check") else list(OPTIONS)
    assert listed[-len(wanted) - 1 :] == [*wanted, "--help"]
    assert re.findall(r"^  (\S+(?: [A-Z]+)?)$", told.partition("Options:")[2], re.MULTILINE) == [], "each is explained"


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_the_help_says_what_is_typed_and_not_how_it_is_read(words: tuple[str, ...]):
    """`[[RUN]] <str>` and `[0<=x<=9223372036854775807]` are the library's words."""
    told = help_of(words, 100).splitlines()
    assert [line for line in told if re.search(r"<\w|[{}]|\[\[|<=", line)] == []


def test_the_version_is_told_as_a_command_and_as_an_option():
    for more in ([], ["--json"]):
        answers = [CliRunner().invoke(app, [word, *more]).output for word in ("version", "--version")]
        assert answers[0] == answers[1] and remit.__version__ in answers[0]
    told = CliRunner().invoke(app, ["--no-color"])
    assert (told.exit_code, "Missing command." in told.output) == (2, True)


def test_each_exit_code_stands_on_the_page_and_in_the_help():
    statuses = {row[0] for row in table(PAGE, "Exit codes")}
    raised = {
        str(each.exit_status)
        for each in vars(errors).values()
        if isinstance(each, type) and hasattr(each, "exit_status")
    }
    assert raised <= statuses
    assert {str(int(each)) for each in Exit} == statuses
    told = help_of(("remit",), 80)
    assert [each for each in Exit if not re.search(rf"^  {int(each)} +{re.escape(each.meaning)}$", told, re.M)] == []
