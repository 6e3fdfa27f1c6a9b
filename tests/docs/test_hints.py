"""What an error or a next step tells people to type can be typed: the command exists and takes just that."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import remit
from remit import errors
from remit.engine.declared.sink import REQUEST_BYTES_MAX
from remit.errors import Refused, StoreClosed
from remit.faces.cli.main import app
from remit.faces.opened import Opened
from remit.faces.there import There
from remit.faces.written import load_contract
from remit.store.memory import MemoryStore
from tests.docs.pages import ROOT, read
from tests.support.office import DANA, DORA, HOURS_72, Office, answer, asked, staffed

COMMAND = re.compile(r"`(remit [^`]+)`")
FILLED = "X"  # stands for what is filled in
SOURCES = sorted((ROOT / "src").rglob("*.py"))
GROUP: Any = get_command(app)


def told(tree: ast.AST) -> Iterator[str]:
    """Each text of a module that is no docstring, with what is filled in."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else FILLED for part in node.values)
            yield "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docs | within):
            yield node.value


def hints(tree: ast.AST) -> Iterator[ast.AST]:
    """What is given as a hint, as an argument or under a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            yield node.value
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(getattr(target, "id", getattr(target, "attr", "")).lower().endswith("hint") for target in targets):
                yield node.value


def fault(command: str) -> str:
    """Why the command line would refuse it before anything is looked up; "" where it takes it."""
    group, words = GROUP, shlex.split(command)[1:]
    while words and words[0] in ("--store", "--tenant"):  # which every command may have before it
        words = words[2:]
    while words and words[0] in getattr(group, "commands", {}):
        group, words = group.commands[words[0]], words[1:]
    if group is GROUP:
        return f"{command}: no such command"
    try:
        group.make_context("remit", words)
    except Exception as exc:  # click's, wherever typer keeps them
        return f"{command}: {exc}"
    return ""


def is_mention(command: str) -> bool:
    """Of a command by its name alone, which is not what somebody is told to type. A hint never does that."""
    return len(command.split()) == 2 and command.split()[1] in GROUP.commands


def test_each_command_that_somebody_is_told_to_type_can_be_typed():
    typed: list[str] = []
    for tree in (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES):
        named = [command for text in told(tree) for command in COMMAND.findall(text)]
        typed += [command for command in named if "--help" not in command and not is_mention(command)]
        typed += [command for hint in hints(tree) for text in told(hint) for command in COMMAND.findall(text)]
    assert len(typed) > 30
    assert [found for command in typed if (found := fault(command))] == []


def test_each_command_of_a_hint_is_completed_with_store_and_tenant_and_can_be_typed_so():  # proves: FX-9
    texts = [
        text
        for path in SOURCES
        for hint in hints(ast.parse(path.read_text(encoding="utf-8")))
        for text in told(hint)
        if "`remit " in text
    ]
    texts += [line for line in read("reference/errors.md").splitlines() if "`remit " in line]
    there = There("sqlite:///it's here.db", "emea")
    assert len(texts) > 40
    for text in texts:
        before, after = COMMAND.findall(text), COMMAND.findall(there.told(text))
        assert len(before) == len(after)
        for old, new in zip(before, after, strict=True):
            if "--help" in old:
                assert new == old
                continue
            options = ["--store", there.store, "--tenant", "emea"]
            named = options[2:] if old.startswith("remit doctor ") else options
            assert shlex.split(new) == ["remit", *named, *shlex.split(old)[1:]]
            assert is_mention(old) or fault(new) == ""


def test_each_command_that_opens_a_store_can_be_told_which():
    """Found by its options; the room that completes them knows them by name."""
    there = There("sqlite:///r.db", "emea")
    for name, one in [
        *GROUP.commands.items(),
        *((f"policy {n}", c) for n, c in GROUP.commands["policy"].commands.items()),
    ]:
        takes = {option for parameter in one.params for option in parameter.opts}
        assert ("--tenant" in there.typed(f"remit {name}")) is ("--tenant" in takes), name
        assert ("--store" in there.typed(f"remit {name}")) is ("--store" in takes), name


def test_what_the_page_of_errors_tells_to_type_can_be_typed():
    typed = [command for command in COMMAND.findall(read("reference/errors.md")) if not is_mention(command)]
    assert [found for command in typed if (found := fault(command))] == []


def test_a_hint_is_about_what_went_wrong(tmp_path: Path):
    assert "run.step" not in errors.CallRefused.hint
    with pytest.raises(Refused, match="Correct the path"):
        load_contract(tmp_path / "absent.toml")


async def test_who_opened_a_runtime_twice_is_not_told_to_open_it_again():
    async with Opened(MemoryStore(), tenant="default", clock=None, lease_ms=60_000) as opened:
        with pytest.raises(StoreClosed, match="Use the one that is open"):
            await opened.open()


async def test_who_may_not_answer_is_told_what_to_do_about_that():
    async with remit.open("memory:") as rt:
        await Office().go(await staffed(rt))
        ask = await asked(rt)

        async def hint(by: str = DORA, seen: str = ask.version, id: str = ask.id) -> str:
            with pytest.raises(remit.ApprovalRefused) as refused:
                await rt.decide(id, "approve", by=by, seen=seen)
            return refused.value.hint

        assert "`remit inbox`" in await hint(id="nowhere")
        assert f"`remit ask {ask.id}`" in await hint(seen="an old page")
        assert "who holds the role" in await hint(by=DANA)
        await answer(rt)
        assert await hint() == f"See how it stands with `remit ask {ask.id}`."


async def test_only_who_returned_a_value_is_told_to_return_another_one():
    """A request, evidence, what a person is shown, an input and a person's word are given; nothing returned them."""
    bad, office = (1, 2), Office()

    @remit.flow(contract=remit.Contract(version="1", resume="anyone"))
    async def purchase(run: remit.Run, given: Any) -> Any:
        if given == "evidence":
            run.evidence("quote", bad, as_of=run.now(), fresh_for=HOURS_72)
        if given == "payload":
            await run.approve("terms", bad, roles={"director"}, within=HOURS_72)
        if given in ("request", "too large"):
            await run.effect(office.pay, {"terms": bad if given == "request" else "x" * REQUEST_BYTES_MAX})
        return bad

    async with remit.open("memory:") as rt:

        async def hint(given: Any) -> str:
            with pytest.raises(remit.ValueRefused) as refused:
                await rt.run(purchase, given, id=f"r-{given}")
            return refused.value.hint

        assert "annotates for its request" in await hint("request")
        assert "name and its digest" in await hint("too large")
        for given in ("evidence", "payload"):
            assert "a dataclass or model" in await hint(given)
        assert "annotates for its input" in await hint(bad)
        assert "Annotate the return type" in await hint("result")
        with pytest.raises(remit.ValueRefused, match="would have returned as JSON"):
            await rt.resolve("r", "pay", "ok", by=DORA, evidence="their books", outcome=bad)
