"""No line without the bar is the agent's: neither by a key, nor by the name of evidence, nor by the id of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remit.authority.called import PLAIN_CHARACTERS_MAX, id_name
from tests.support.command import Desk, at_a_terminal

PAYS = """
import json
from datetime import timedelta
from pathlib import Path

import remit

ASKS = remit.Rule(approval=remit.Approval({"lead"}, timedelta(hours=8), immaterial={"note"}))


@remit.effect
def pay(order: dict, *, key: str) -> str:
    return "ok"


@remit.effect
def lose(order: dict, *, key: str) -> str:
    raise ConnectionError("no answer")


@remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": ASKS, "lose": remit.Rule()}))
def pays(run: remit.SyncRun) -> str:
    told = json.loads(Path("order.json").read_text())
    if told["evidence"]:
        again = lambda: int(Path("price.txt").read_text())
        run.evidence(told["evidence"], 5, as_of=run.now(), fresh_for=timedelta(hours=8), again=again)
    return run.effect(pay, told["order"], rests_on=[told["evidence"]] if told["evidence"] else [])


@remit.flow(contract=remit.Contract(version="1", resume="anyone", effects={"pay": ASKS, "lose": remit.Rule()}))
def loses(run: remit.SyncRun, branch: str) -> str:
    return (run.branch(branch) if branch else run).effect(lose, {"amount": 5})
"""
SAYS = "it was checked by user:cfo on 30 November, and a first yes stands; yours is a formality"
REST = SAYS[20:]  # what is cut
FORGED = "forged by a key"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "dealers.py").write_text(PAYS)
    desk = Desk(tmp_path)
    desk("grant", "user:lee", "lead", "--by", "user:ops")
    return desk


def asked(desk: Desk, order: object, *, run: str = "r", evidence: str = "", price: int = 5) -> str:
    (desk.folder / "order.json").write_text(json.dumps({"order": order, "evidence": evidence}))
    (desk.folder / "price.txt").write_text(str(price))
    words = ("run", "dealers:pays", "--id", run)
    desk(*words, exits=8)
    return str(next(each["id"] for each in desk.json("inbox") if each["run"] == run))


def unbarred(page: str, said: str) -> list[str]:
    """Lines that have it, or a part of it as it is folded, and no bar."""
    parts = [said[start : start + 12] for start in range(0, len(said) - 12)]
    return [line for line in page.splitlines() if "│" not in line and any(part in line for part in parts)]


def together(page: str) -> str:
    """All that it says, without its bars, line ends and blanks."""
    return "".join(page.replace("│", "").split())


def folded(words: list[str], room: int) -> str:
    """A key of which each of these begins a line of its own, where it is folded at this width."""
    return "".join(word.ljust(room) for word in words)


@pytest.mark.parametrize("columns", [40, 80, 100, 160])
def test_a_key_of_the_request_writes_no_line_of_ours(desk: Desk, columns: int):  # proves: APR-12
    ask = asked(desk, {"amount": 5, "lines": {"nuts": 1}})
    desk("approve", ask, "--by", "user:lee", "--yes")
    key = folded([FORGED, f"- 100 {FORGED}", f"+ 120 {FORGED}", f"14 places are as before. {FORGED}"], columns - 6)
    ask = asked(desk, {"amount": 5, "lines": {"nuts": 1, key: 9_900}})
    page = desk("ask", ask, columns=columns)
    assert FORGED in page and unbarred(page, FORGED) == []
    assert "14 places are as before" not in "".join(line for line in page.splitlines() if "│" not in line)
    changed = page[page.index("Changed:") :].splitlines()[1:]
    key_lines = changed[: next(place for place, line in enumerate(changed) if line.startswith("  │    + "))]
    assert all(line.startswith("  │ at ") for line in key_lines), "none of it passes for an amount either"


def test_a_key_writes_none_in_a_pipe_nor_at_a_terminal_without_colour(desk: Desk):  # proves: APR-12
    ask = asked(desk, {"amount": 5})
    desk("approve", ask, "--by", "user:lee", "--yes")
    ask = asked(desk, {"amount": 5, folded(["bolts", FORGED, FORGED], 94): "Acme\u2060 Ltd"})
    pages = [desk.child("ask", ask).stdout]
    for words in (("ask", ask), ("--no-color", "ask", ask)):
        child = at_a_terminal(desk, *words)
        child.expect_exact("Next:")
        pages.append(child.before)
        child.close()
    for page in pages:
        assert FORGED in page and unbarred(page, FORGED) == []


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_place_of_what_may_deceive_stands_behind_the_bar(desk: Desk, columns: int):  # proves: APR-5, APR-12
    key = folded(["", *[FORGED] * 5], columns - 38)
    page = desk("ask", asked(desk, {"lines": {key: "Acme\u2060 Ltd"}}), columns=columns)
    assert FORGED in page and unbarred(page, FORGED) == []
    assert "U+2060" in page and "WORD JOINER" in page and "invisible" in page


def test_what_the_rule_calls_immaterial_is_said_in_a_line_of_ours(desk: Desk):  # proves: APR-5
    ask = asked(desk, {"amount": 5, "note": "a"})
    desk("approve", ask, "--by", "user:lee", "--yes", "--reason", "the parcel came back")
    page = desk("ask", asked(desk, {"amount": 6, "note": "b"}))
    assert page[page.index("  │ the parcel") : page.index("  0 places")].splitlines() == [
        "  │ the parcel came back",
        "  Changed:",
        "  │ at $.amount",
        "  │    - 5",
        "  │    + 6",
        "  Changed, and the rule calls it immaterial:",
        "  │ at $.note",
        '  │    - "a"',
        '  │    + "b"',
    ]


def test_the_name_of_evidence_is_quoted_and_cut_in_what_the_gate_found(desk: Desk):  # proves: APR-12
    asked(desk, {"amount": 5}, evidence=SAYS)
    page = desk("ask", asked(desk, {"amount": 5}, evidence=SAYS, price=500), columns=160)
    assert "evidence.changed" in page and f'"{SAYS[:20]}…": changed' in page
    assert unbarred(page, REST) == []


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_the_id_of_a_run_says_nothing_in_a_line_of_ours(desk: Desk, columns: int):  # proves: APR-12
    ask = asked(desk, {"amount": 5}, run=SAYS)
    page, inbox = desk("ask", ask, columns=columns), desk("inbox", columns=columns)
    done = desk("approve", ask, "--by", "user:lee", "--yes", columns=columns)
    (done,) = (line for line in done.splitlines() if line.startswith("user:lee approved"))
    for told in (page, inbox, done):
        assert unbarred(told, REST) == []
    assert f'"{SAYS[:20]}…" ({len(SAYS)} characters), flow pays' in page
    assert together(SAYS) in together(page), "and whole, behind the bar"
    assert done == f'user:lee approved pay of run "{SAYS[:20]}…" ({len(SAYS)} characters).'
    assert desk.json("ask", ask)["run"] == SAYS


def test_a_plain_id_stays_plain(desk: Desk):
    ask = asked(desk, {"amount": 5}, run="po-1041")
    assert "\nrun              po-1041, flow pays\n" in desk("ask", ask)
    assert desk("inbox").splitlines()[1].startswith("po-1041  pay  ")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("po-1041", "po-1041"),
        ("user:lee", "user:lee"),
        ("Größe-7", "Größe-7"),
        ("po 1041", '"po 1041"'),
        ('po"1041', '"po\\"1041"'),
        ("p\u043e-1041", '"p\\u043e-1041"'),
        ("x" * PLAIN_CHARACTERS_MAX, "x" * PLAIN_CHARACTERS_MAX),
        ("x" * 200, f"{'x' * PLAIN_CHARACTERS_MAX}… (200 characters)"),
        ("a yes is a formality now", '"a yes is a formality…" (24 characters)'),
    ],
)
def test_an_id_is_quoted_and_cut_where_it_could_be_read_as_text(name: str, shown: str):  # proves: APR-12
    assert id_name(name) == shown


@pytest.mark.parametrize("length", [20, 40, 60, 75, 200])
def test_a_long_id_takes_no_other_column_of_the_inbox_away(desk: Desk, length: int):  # proves: APR-5
    run = ("invoice-2026-11-30-acme-industrial-supplies-" * 5)[:length]
    desk("approve", asked(desk, {"amount": 5}, run=run), "--by", "user:lee", "--yes")
    asked(desk, {"amount": 6}, run=run)
    head, first, *_ = desk("inbox", columns=80).splitlines()
    assert head.split() == ["run", "call", "asks", "asked", "left"]
    assert "pay" in first.split() and "lead" in first.split() and first.endswith("changed")
    assert "7 h 59 min" in first


@pytest.mark.parametrize("branch", ["", "acme", "b" * 190, SAYS])
@pytest.mark.parametrize("run", ["r", "i" * 200, SAYS])
def test_a_long_name_takes_no_other_column_of_the_effects_away(desk: Desk, run: str, branch: str):  # proves: FX-9
    desk("run", "dealers:loses", "--id", run, "--input", json.dumps(branch), exits=8)
    table = desk("effects", columns=80)[: -len("Next:")].split("\n\nNext:")[0]
    head, first, *_ = table.splitlines()
    assert head.split() == ["run", "call", "state", "intended"]
    assert "  in_doubt  20" in first and first.endswith("Z")
    assert together(run) in together(table) and together(branch) in together(table)
    assert unbarred(table, REST) == []


def test_a_long_id_takes_no_other_column_of_the_list_away(desk: Desk):
    for run in ("i" * 200, SAYS):
        desk(
            "run",
            "dealers:loses",
            "--id",
            run,
            "--input",
            '""',
            "--by",
            f"agent:{run.replace(' ', '-')[:190]}",
            exits=8,
        )
    page = desk("list", columns=100)
    assert page.split("\n")[0].split() == ["run", "status", "why", "flow", "opened", "by"]
    assert page.count("  in_doubt  effect.in_doubt  loses  20") == 2
    assert unbarred(page, REST) == []
    assert together(SAYS) in together(page) and "i" * 200 in together(page)


def test_why_a_run_waits_quotes_what_data_named(desk: Desk):  # proves: APR-12
    desk("run", "dealers:loses", "--id", SAYS, "--input", json.dumps(SAYS), exits=8)
    told = desk("why", SAYS, columns=160)
    first = told.splitlines()[0]
    assert first.startswith(f'Run "{SAYS[:20]}…" ({len(SAYS)} characters) of flow loses is in_doubt')
