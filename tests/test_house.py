"""The house polices itself: what a reader may rely on in every file of the source.

These are habits rather than promises to a user, so a failure here says which file and line
broke which habit, and nothing more. The order of the rooms is import-linter's, in `make check`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SOURCES = [*PRODUCT, *TESTS, *sorted((ROOT / "examples").rglob("*.py")), *sorted((ROOT / "bench").rglob("*.py"))]
DOCS = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
POSITIONAL_MAX = 6

NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
SECOND_SQLITE = {"sqlite3"}
UNSAFE_BYTES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
PURE_ROOMS = ("facts", "authority", "proof", "canonical.py")
PROMISE = re.compile(r"(RUN|LOG|FX|GATE|APR|OWN|MAN|RPL|PRF|SRV)-\d+|C\d+")

# In backticks, from one of our own folders, and without a placeholder in it.
PATH_IN_A_DOC = re.compile(r"`((?:src|tests|docs|examples|bench|\.ci)/[^`\s<>{}]*)`")
LINK_IN_A_DOC = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")

CLOCK_CALLS = {"now", "utcnow", "today"}

CALLS_THAT_ONLY_LOOK = {"isinstance", "len", "list", "range", "set", "sorted", "startswith", "is_model"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _at(path: Path, line: int, what: object = "") -> str:
    return f"{path.relative_to(ROOT)}:{line} {what}".rstrip()


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and top-level name of everything imported, lazily or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def _lines_of(function: Function) -> int:
    """Lines from `def` to the end, its docstring not counted: saying shapes and errors is not length."""
    assert function.end_lineno is not None
    length = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None and first.end_lineno is not None:
        length -= first.end_lineno - first.lineno + 1
    return length


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _positional(function: Function) -> list[str]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return [name for name in names if name not in ("self", "cls")]


def _name_of(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def _importers_of(names: set[str]) -> list[str]:
    return [_at(path, line, name) for path in SOURCES for line, name in _imports(_tree(path)) if name in names]


def test_each_module_says_what_is_true_of_it() -> None:
    assert [_at(path, 1) for path in SOURCES if not ast.get_docstring(_tree(path))] == []


def test_each_module_can_be_read_in_one_sitting() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PRODUCT}
    assert [_at(path, lines) for path, lines in lengths.items() if lines >= MODULE_LINES_MAX] == []


def test_each_function_fits_on_a_screen() -> None:
    assert [
        _at(path, function.lineno, f"{function.name} has {_lines_of(function)} lines")
        for path in PRODUCT
        for function in _functions(_tree(path))
        if _lines_of(function) >= FUNCTION_LINES_MAX
    ] == []


def test_what_is_only_asserted_is_nothing_that_has_to_be_done() -> None:
    """`python -O` leaves asserts out, and must do the same."""
    assert [
        _at(path, call.lineno, ast.unparse(call))
        for path in PRODUCT
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Assert)
        for call in ast.walk(node.test)
        if isinstance(call, ast.Call | ast.Await | ast.NamedExpr)
        if not (isinstance(call, ast.Call) and _name_of(call.func) in CALLS_THAT_ONLY_LOOK)
    ] == []


def test_each_call_can_be_read_without_counting_its_arguments() -> None:
    assert [
        _at(path, function.lineno, function.name)
        for path in PRODUCT
        for function in _functions(_tree(path))
        if len(_positional(function)) > POSITIONAL_MAX
    ] == []


def test_each_module_is_named_for_what_it_holds() -> None:
    assert [_at(path, 1) for path in SOURCES if path.stem in NAMES_THAT_SAY_NOTHING] == []


def test_nothing_turns_stored_bytes_into_code() -> None:
    assert _importers_of(UNSAFE_BYTES) == []


def test_no_second_sqlite_library_is_loaded() -> None:
    # Two of them on one file in one process break each other's locks.
    assert _importers_of(SECOND_SQLITE) == []


def test_nothing_is_left_for_later_in_a_comment() -> None:
    assert [
        _at(path, line, text)
        for path in SOURCES
        for line, text in _comments(path)
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text)
    ] == []


def test_the_pure_rooms_read_no_clock() -> None:
    # import-linter sees imports; `datetime.now` comes in with one that is allowed.
    pure = [path for path in PRODUCT if path.relative_to(ROOT / "src" / "remit").parts[0] in PURE_ROOMS]
    assert [
        _at(path, node.lineno, node.func.attr)
        for path in pure
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_CALLS
    ] == []


def test_each_test_names_the_promises_that_it_proves_by_their_ids() -> None:
    assert [
        _at(path, line, word)
        for path in TESTS
        for line, text in _comments(path)
        if (proves := re.match(r"#\s*proves:\s*(.*)", text))
        for word in re.split(r"[,\s]+", proves.group(1).strip())
        if not PROMISE.fullmatch(word)
    ] == []


def test_each_path_that_a_doc_names_exists() -> None:
    missing = []
    for doc in DOCS:
        for number, line in enumerate(doc.read_text(encoding="utf-8").splitlines(), start=1):
            paths = [name.partition("::")[0].rstrip("/") for name in PATH_IN_A_DOC.findall(line)]
            missing += [_at(doc, number, name) for name in paths if not any(ROOT.glob(name))]
            links = [link for link in LINK_IN_A_DOC.findall(line) if "://" not in link and "mailto:" not in link]
            missing += [_at(doc, number, link) for link in links if not (doc.parent / link).exists()]
    assert missing == []


def test_a_user_gets_the_types() -> None:
    assert (ROOT / "src" / "remit" / "py.typed").exists()
