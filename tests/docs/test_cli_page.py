"""docs/reference/cli.md has each command, each option and each exit code of the command line, and no other."""

from __future__ import annotations

import re
from typing import Any

from typer.main import get_command

from remit import errors
from remit.faces.cli.app import EXITS, SECTIONS
from remit.faces.cli.main import app
from tests.docs.pages import read, section, table

PAGE = "reference/cli.md"
HEADING = re.compile(r"^## remit (\w+)$", re.MULTILINE)
OPTION = re.compile(r"--[a-z-]+")


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


def test_each_exit_code_stands_on_the_page_and_in_the_help():
    statuses = {row[0] for row in table(PAGE, "Exit codes")}
    raised = {
        str(each.exit_status)
        for each in vars(errors).values()
        if isinstance(each, type) and hasattr(each, "exit_status")
    }
    assert raised <= statuses
    assert set(re.findall(r"\b(\d+) [a-z]", EXITS)) == statuses
