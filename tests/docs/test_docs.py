"""The documentation as a whole: its code runs, its links lead somewhere, its words are ours."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")
PRINTS = re.compile(r"  # prints (.*)$", re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
OURS_TO_RUN = ("python ", "remit ")  # `make` and `git` are run by people

# Column "do not say" of the vocabulary, as patterns: some of the words have an everyday sense as well.
NOT_OURS = {
    "workflow": r"workflows?",
    "job": r"jobs?",
    "DAG": r"DAGs?",
    "task": r"(?<!asyncio )tasks?",
    "instance": r"instances?",
    "try": r"(?:a|each|every|one|first|second|last|next) try|tries",
    "activity": r"activit(?:y|ies)",
    "LLM call": r"LLM",
    "action": r"actions?",
    "side effect": r"side[ -]effects?",
    "tool call": r"tool calls?",
    "event": r"events?(?! loop)",
    "record": r"(?<!on )records?(?! lock)",
    "history": r"histor(?:y|ies)",
    "checkpoint": r"checkpoints?",
    "lock": r"(?:run's|lock the) (?:run|lock)",
    "scope": r"(?<!A remit is the )(?<!tenant, )scopes?",  # or a column of the ceilings
    "permission": r"permissions?",
    "confirm": r"confirm(?:s|ed|ation)?",
    "context": r"(?<!## )(?<!\*\*)context",
    "replay": r"(?<!evidence )replay(?:s|ed|ing)?",
}

# Where this was made is nobody's business: neither people's desks, nor their tools, nor their machines.
_TOOLS = "claude|anthropic|copilot|codex|chatgpt"
NOT_HERE = re.compile(
    rf"/work/|/tmp/|/home/|/root/|localhost|\b(?:sub-?agents?|house helper|{_TOOLS})\b", re.IGNORECASE
)


def titled(page: Path) -> str:
    return str(page.relative_to(ROOT))


def words_of(page: Path) -> str:
    """The text of a page without its code, links' targets and quoted words."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r'"[^"\n]*"', "", text)


def anchors(page: Path) -> set[str]:
    """As the usual renderers make them from headings."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


@pytest.mark.parametrize(
    "page", [p for p in PAGES if re.search(r"^```(python|console)$", p.read_text(encoding="utf-8"), re.M)], ids=titled
)
def test_what_a_page_shows_is_what_happens(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    follow(page, tmp_path, monkeypatch, capsys)


def test_the_pages_can_be_followed_one_after_the_other_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A run id that two pages gave to different flows in one store would be refused on the second."""
    for page in ("README.md", "docs/start.md", "docs/concepts.md", "docs/reference/cli.md", "docs/one-effect.md"):
        follow(ROOT / page, tmp_path, monkeypatch, capsys)


def follow(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python of one page shares a namespace; a block that begins with `# file: NAME` becomes that; commands run."""
    monkeypatch.chdir(folder)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    path = f"{commands(folder)}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "100"}
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in ("python", "toml") and (named := FILE.match(block)):
            (folder / named[1]).write_text(block, encoding="utf-8")
        elif language == "python":
            exec(compile(block, titled(page), "exec"), module.__dict__)
            printed = capsys.readouterr().out.splitlines()
            assert printed == PRINTS.findall(block)
        elif language == "console":
            for command, shown in commands_of(block):
                assert matches(shown, output_of(command, folder, environment)), command


def commands(folder: Path) -> Path:
    """A folder with `python` and `remit` in it, which is what an installation gives."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    for name, start in (("python", ""), ("remit", "-m remit.faces.cli.main ")):
        path = place / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {start}"$@"\n', encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return place


def commands_of(block: str) -> list[tuple[str, list[str]]]:
    """Each command of a console block that is ours to run, with the lines that are shown below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    found = [(part.splitlines()[0], part.splitlines()[1:]) for part in parts]
    return [(command, shown) for command, shown in found if command.startswith(OURS_TO_RUN)]


def output_of(command: str, folder: Path, environment: dict[str, str]) -> list[str]:
    told = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    killed = ["Killed"] if told.returncode in (-9, 137) else []
    return (told.stdout + told.stderr).rstrip("\n").splitlines() + killed


def matches(shown: list[str], printed: list[str]) -> bool:
    """Line by line; `...` stands for anything in a line, and on a line of its own for any lines."""
    pattern = "".join("(?:.*\n)*" if line == "..." else _line(line) for line in shown)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def _line(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("...")) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=titled)
def test_each_link_leads_somewhere(page: Path):
    wrong = []
    for link in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        name, _, anchor = link.partition("#")
        if "://" in link or name.startswith("mailto:"):
            continue
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=titled)
def test_a_page_says_one_word_for_one_thing(page: Path):
    text = words_of(page)
    found = {word: re.findall(rf"\b(?:{pattern})\b", text, re.IGNORECASE) for word, pattern in NOT_OURS.items()}
    assert {word: hits for word, hits in found.items() if hits} == {}


@pytest.mark.parametrize("page", PAGES, ids=titled)
def test_a_page_speaks_of_remit_alone(page: Path):
    assert NOT_HERE.findall(page.read_text(encoding="utf-8")) == []


def test_each_page_is_reached_from_another():
    """From the README, by links. Decisions and the reference are found in their folders."""
    linked = {ROOT / "README.md"}
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        for link in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
            target = (page.parent / link.partition("#")[0]).resolve()
            if "://" not in link and target.suffix == ".md" and target.exists() and target not in linked:
                linked.add(target)
                waiting.append(target)
    assert [titled(page) for page in PAGES if page not in linked and page.parent.name not in ("adr", "reference")] == []
