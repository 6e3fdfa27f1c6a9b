"""docs/formats.md, held against the code: its tables, and its example in a real shell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

import remit
from remit import Step
from remit.facts import announced, machine
from remit.facts.entry import HEADER, Header
from remit.store.postgres import PostgresStore
from remit.store.sqlite import SqliteStore
from tests.docs.pages import section, table
from tests.vectors import make, shapes

PAGE = "formats.md"
SHELL = re.compile(r"^(printf .*)\n# (\w{64})$", re.MULTILINE)
LINES = SHELL.findall(section(PAGE, "An example to check in a shell"))
DIGESTS = SHELL.findall(section(PAGE, "An effect's digests in a shell"))

shape = msgspec.inspect


# What the page calls a part of a body, where that is not the name of its class.
NAMED = {
    "ContractPin": "contract",
    "PolicyPin": "policy",
    "RulePin": "rule",
    "ApprovalPin": "approval",
    "CeilingPin": "ceiling",
    "ValueLost": "lost value",
}


def type_said(info: shape.Type) -> str:
    """A type in the page's words."""
    if isinstance(info, shape.LiteralType):
        return ", ".join(sorted(str(value) or '""' for value in info.values))
    if isinstance(info, shape.UnionType):
        (inner,) = (member for member in info.types if not isinstance(member, shape.NoneType))
        return f"{type_said(inner)} or null"
    if isinstance(info, shape.ListType | shape.VarTupleType):
        return f"list of {type_said(info.item_type)}"
    if isinstance(info, shape.DictType):
        return f"map of {type_said(info.value_type)}"
    if isinstance(info, shape.StructType):
        return part_said(info.cls)
    return {shape.StrType: "text", shape.IntType: "integer", shape.BoolType: "boolean"}[type(info)]


def part_said(type_: type) -> str:
    return NAMED.get(type_.__name__, type_.__name__.lower())


def default_said(field: shape.Field) -> str:
    if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
        return ""
    value: Any = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


def parts_of(type_: type, found: list[type]) -> list[type]:
    """Types of the parts inside a body, in the order in which they are met."""
    for field in fields_of(type_):
        waiting = [field.type]
        while waiting:
            info = waiting.pop()
            if isinstance(info, shape.StructType) and info.cls not in found:
                found.append(info.cls)
                parts_of(info.cls, found)
            elif isinstance(info, shape.UnionType):
                waiting += reversed(info.types)
            elif isinstance(info, shape.ListType | shape.VarTupleType):
                waiting.append(info.item_type)
            elif isinstance(info, shape.DictType):
                waiting.append(info.value_type)
    return found


def fields_of(type_: Any) -> tuple[shape.Field, ...]:
    info = shape.type_info(type_)
    assert isinstance(info, shape.StructType)
    return info.fields


def one(state: dict[str, Any]) -> dict[str, int]:
    return {"x": 1}


@pytest.mark.parametrize(("line", "answer"), [*LINES, *DIGESTS])
def test_the_example_is_what_a_shell_prints(line: str, answer: str):  # proves: LOG-1
    printed = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout
    assert printed.split()[0] == answer


def test_the_example_is_one_chain():  # proves: LOG-1
    """Each answer is used by a later line, but for the head, which stands last."""
    assert len(LINES) == 7
    rest = "".join(line for line, _ in LINES)
    assert [answer in rest for _, answer in LINES] == [True] * 6 + [False]


def test_the_digests_of_the_example_stand_in_a_vector():  # proves: LOG-1
    vectors = make.FILE.read_text(encoding="utf-8")
    names = ("request", "key", "business")
    assert [f'\\"{name}\\":\\"{answer}\\"' in vectors for name, (_, answer) in zip(names, DIGESTS, strict=True)] == [
        True
    ] * 3


def test_the_headers_of_the_example_are_canonical():  # proves: LOG-1
    headers = [line.split("'")[3] for line, _ in LINES if "remit/entry/1" in line]
    assert [HEADER.read(header.encode()).kind for header in headers] == ["RunOpened", "AttemptStarted"]


def test_the_header_s_fields_are_those_of_the_page():  # proves: LOG-1
    said = [(name, type_) for name, type_, _ in table(PAGE, "Header")]
    assert said == [(field.encode_name, type_said(field.type)) for field in fields_of(Header)]


def test_each_kind_stands_on_the_page():  # proves: LOG-1
    said = {kind: lane for kind, lane, _ in table(PAGE, "Kinds")}
    lanes = {kind: "post" if kind in machine.POSTED else "main" for kind in machine.KINDS}
    for run, reserved in machine.RESERVED_KINDS.items():
        lanes |= dict.fromkeys(reserved, f"main of {run}")
    assert {kind: lane.replace("`", "") for kind, lane in said.items()} == lanes


def test_each_field_of_each_body_stands_on_the_page():  # proves: LOG-1
    said = [(kind, name, type_, default) for kind, name, type_, default, _ in table(PAGE, "Bodies")]
    there = [
        (kind, field.encode_name, type_said(field.type), default_said(field))
        for kind, row in machine.KINDS.items()
        for field in fields_of(row.fact)
    ]
    assert said == there


def test_each_field_of_each_part_stands_on_the_page():  # proves: LOG-1
    said = [(part, name, type_, default) for part, name, type_, default, _ in table(PAGE, "Parts")]
    parts: list[type] = []
    for row in machine.KINDS.values():
        parts_of(row.fact, parts)
    there = [
        (part_said(part), field.encode_name, type_said(field.type), default_said(field))
        for part in parts
        for field in fields_of(part)
    ]
    assert said == there


def test_the_reader_s_shapes_are_those_of_the_page():  # proves: LOG-1
    """The reader in tests/vectors was written from the page, and stays so."""
    for heading, shapes_ in (("Bodies", shapes.BODIES), ("Parts", shapes.PARTS)):
        said: dict[str, dict[str, str]] = {}
        for of, name, type_, default, _ in table(PAGE, heading):
            words = f"one of {type_.replace(', ', '|')}".replace('""', "") if ", " in type_ else type_
            plain = default in ("", '""', "[]", "{}", "null", "true", "false", "0")
            told = default if plain else f'"{default}"'
            said.setdefault(of, {})[name] = f"{words} = {told}" if told else words
        assert {of: fields for of, fields in shapes_.items() if fields} == said


def test_the_kinds_with_a_value_are_those_of_the_page():  # proves: LOG-1
    said = {kind for kind, _, value in table(PAGE, "Kinds") if value != "none"}
    assert said == machine.VALUED


def test_the_moves_of_the_page_are_those_of_the_machine():  # proves: LOG-1
    said: dict[str, set[str]] = {}
    for names, before, after in table(PAGE, "Verifying a journal"):
        for kind in names.replace("`", "").split(", "):
            said[kind] = {f"{each} -> {after}" for each in before.split(", ")}
    there = {
        kind: {f"{before or 'nothing'} -> {after}" for before, after in moves.items()}
        for kind, moves in machine.MOVES.items()
    }
    there["RunParked"] = {"running -> in_doubt where its `waits_for` is `doubt`, else waiting"}
    assert said == there | {"RunEnded": {"running -> its own `status`"}}


def test_each_announcement_stands_on_the_page():  # proves: APR-11
    said = [(kind, name, type_) for kind, name, type_, _ in table(PAGE, "What is announced")]
    there = [
        (kind, field.encode_name, type_said(field.type))
        for kind, type_ in announced.KINDS.items()
        for field in fields_of(type_)
    ]
    assert said == there


async def test_the_tables_of_a_database_are_those_of_the_page(tmp_path: Path):  # proves: LOG-1
    store = SqliteStore(tmp_path / "a.db")
    await store.open()
    said = {name: columns.split(", ") for name, columns in table(PAGE, "A database")}
    there = {name: [row[1] for row in store._reader.execute(f"PRAGMA table_info(remit_{name})")] for name in said}
    tables = {name for (name,) in store._reader.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    await store.close()
    assert (said, {f"remit_{name}" for name in said}) == (there, tables - {"sqlite_sequence"})


def test_a_file_is_written_as_the_page_says(tmp_path: Path):  # proves: LOG-1
    path = tmp_path / "state.json"
    remit.run("r", [Step("a", one)], store=f"file:{path}")
    document = msgspec.json.decode(path.read_bytes())
    assert list(document) == [name for name, _ in table(PAGE, "A file")]
    tables = {name: columns for name, columns in table(PAGE, "A database")}
    columns = tables["run"].split(", ")[1:]
    assert list(document["runs"]["1"]) == [*columns, "main", "post"]
    assert {key for entry in document["runs"]["1"]["main"] for key in entry} == {"header", "body", "salt", "value"}


async def test_postgres_has_the_same_tables(postgres_database: str):  # proves: LOG-1
    store = PostgresStore(postgres_database)
    await store.open()
    await store.close()
    connection = await asyncpg.connect(postgres_database)
    rows = await connection.fetch(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'remit' ORDER BY table_name, ordinal_position"
    )
    await connection.close()
    there: dict[str, list[str]] = {}
    for name, column in rows:
        there.setdefault(name, []).append(column)
    assert there.pop("unfinished") == ["number", "migration"]
    assert there == {name: columns.split(", ") for name, columns in table(PAGE, "A database")}


class Kept:
    """The smallest object that is a store."""

    def __init__(self) -> None:
        self.saved: dict[str, Any] = {}

    def load(self, run_id: str) -> Any:
        return self.saved.get(run_id)

    def save(self, mapping: Any) -> None:
        self.saved[mapping["run"]] = mapping


def test_a_mapping_is_saved_as_the_page_says():  # proves: LOG-1
    kept = Kept()
    remit.run("r", [Step("a", one)], store=kept)
    names = ", ".join(name for name, _ in table(PAGE, "An object with two methods")).replace("`", "")
    assert list(kept.saved["r"]) == names.split(", ")
