"""The command line: what a person types, what it answers, and with which exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner, Result

import remit
from remit.faces.cli.inert import inert, preview
from remit.faces.cli.main import app

FLOWS = """
import os
import remit

OPEN = remit.Contract(version="1", resume="anyone")


@remit.step
async def fetch(n: int) -> dict:
    with open("ran.txt", "a") as file:
        file.write(f"{n}\\n")
    if os.path.exists("die-at") and open("die-at").read() == str(n):
        os.kill(os.getpid(), 9)
    if os.path.exists("broken"):
        raise ValueError("no \\x1b[2Jpaper\\nleft [red]\\u202e")
    return {"n": n, "note": "\\x1b[31mred \\u202e[bold]"}


@remit.flow(contract=OPEN)
async def good(run: remit.Run, count: int) -> list:
    return [await run.step(fetch, n) for n in range(count)]


@remit.flow(contract=OPEN, name="good")
async def shorter(run: remit.Run, count: int) -> list:
    return [await run.step(fetch, n) for n in range(count - 1)]


@remit.flow(contract=remit.Contract(version="2", resume="anyone", risk="high"), name="good")
async def stricter(run: remit.Run, count: int) -> list:
    return [await run.step(fetch, n) for n in range(count)]
"""


class Desk:
    """A folder with a store, some flows, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "flows.py").write_text(FLOWS)

    def __call__(self, *words: str, exits: int = 0) -> str:
        """The answer, as text; a failed expectation shows it."""
        result = self._invoke(words)
        assert result.exit_code == exits, f"{result.exit_code}: {result.output} {result.exception!r}"
        return result.output

    def json(self, *words: str, exits: int = 0) -> Any:
        return json.loads(self(*words, "--json", exits=exits))

    def child(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The same in a process of its own, as from a shell."""
        command = [sys.executable, "-m", "remit.faces.cli.main", *words]
        env = os.environ | {"PYTHONPATH": str(Path(remit.__file__).parents[1])}
        return subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    def _invoke(self, words: tuple[str, ...]) -> Result:
        before = Path.cwd()
        os.chdir(self.folder)
        sys.modules.pop("flows", None)
        sys.path.insert(0, str(self.folder))
        try:
            return CliRunner().invoke(app, list(words), env={"COLUMNS": "100", "REMIT_STORE": "sqlite:///runs.db"})
        finally:
            sys.path.remove(str(self.folder))
            os.chdir(before)

    def ran(self) -> list[str]:
        path = self.folder / "ran.txt"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_run_killed_by_sigkill_is_gone_on_with_by_the_same_command(desk: Desk):  # proves: RUN-5, RUN-1
    (desk.folder / "die-at").write_text("2")
    words = ("--store", "sqlite:///runs.db", "run", "flows:good", "--id", "r", "--input", "4")
    died = desk.child(*words)
    assert died.returncode == -signal.SIGKILL
    assert "dead; it can be taken over at once" in desk("why", "r")
    (desk.folder / "die-at").unlink()

    went_on = desk.child(*words, "--json")
    assert went_on.returncode == 0, went_on.stderr
    assert [outcome["n"] for outcome in json.loads(went_on.stdout)["value"]] == [0, 1, 2, 3]
    assert desk.ran() == ["0", "1", "2", "2", "3"]


def test_a_step_that_raises_exits_with_7_and_why_says_what_to_do(desk: Desk):  # proves: RUN-6, RUN-7
    (desk.folder / "broken").touch()
    complaint = desk("run", "flows:good", "--id", "r", "--input", "1", exits=7)
    assert "step.failed" in complaint and "Mend the code" in complaint

    told = desk.json("why", "r")
    assert (told["status"], told["code"], told["calls"], told["holder"]) == ("waiting", "step.failed", ["fetch"], "")
    assert "ValueError" in told["reason"] and told["next"].startswith("mend what failed")

    (desk.folder / "broken").unlink()
    desk("run", "flows:good", "--id", "r", "--input", "1")
    assert "it has ended" in desk("why", "r")


def test_explain_tells_the_timeline_and_executes_nothing(desk: Desk):  # proves: RPL-1, GATE-12
    desk("run", "flows:good", "--id", "r", "--input", "2", "--by", "agent:buyer", "--behalf", "user:dana")
    (desk.folder / "flows.py").write_text("raise SystemExit('explain imports no code')")
    before = (desk.folder / "runs.db").read_bytes()

    shown = desk("explain", "r")
    assert [word in shown for word in ("RunOpened", "StepDone", "fetch#2", "RunEnded completed")] == [True] * 4
    assert "opened under" in shown and "agent:buyer for user:dana" in shown
    told = desk.json("explain", "r")
    assert [entry["kind"] for entry in told["entries"]] == [
        "RunOpened",
        "AttemptStarted",
        "StepDone",
        "StepDone",
        "RunEnded",
    ]
    assert told["opened_under"]["contract"]["version"] == "1"
    assert all(entry["is_verified"] for entry in told["entries"])
    assert desk.ran() == ["0", "1"]
    assert (desk.folder / "runs.db").read_bytes() == before


def test_a_tampered_run_is_refused_shown_in_red_and_named_by_verify(desk: Desk):  # proves: LOG-2, LOG-3
    for id in ("r", "other"):
        desk("run", "flows:good", "--id", id, "--input", "2")
    connection = apsw.Connection(str(desk.folder / "runs.db"))
    connection.execute("UPDATE entry SET value = CAST('{\"n\":7}' AS BLOB) WHERE run_key = 1 AND seq = 4")
    connection.close()

    assert "1 of 2 journals verify" in desk("verify", exits=5)
    told = desk.json("verify", exits=5)
    assert [(wrong["run"], wrong["code"]) for wrong in told["wrong"]] == [("r", "chain.hash")]
    assert "an older database put back" in told["not_covered"]
    assert desk.json("run", "flows:good", "--id", "r", "--input", "2", exits=5)["error"]["code"] == "chain.hash"
    assert desk.json("run", "flows:good", "--id", "r", "--input", "2", exits=2)["error"]["code"] == "run.quarantined"
    assert [row["run"] for row in desk.json("list", "--status", "quarantined")] == ["r"]
    entries = desk.json("explain", "r", exits=5)["entries"]
    assert [entry["is_verified"] for entry in entries] == [True, True, True, False, False]
    assert "chain.hash" in desk("why", "r")
    assert (
        desk.json("lift", "r", "--by", "user:dana", "--reason", "looks fine", exits=5)["error"]["code"] == "chain.hash"
    )
    assert desk.json("run", "flows:good", "--id", "other", "--input", "2")["status"] == "completed"

    connection = apsw.Connection(str(desk.folder / "runs.db"))
    good = connection.execute("SELECT value FROM entry WHERE run_key = 2 AND seq = 4").get
    connection.execute("UPDATE entry SET value = ? WHERE run_key = 1 AND seq = 4", (good,))
    connection.close()
    desk("lift", "r", "--by", "user:dana", "--reason", "restored from the backup")
    assert desk("verify", "r").startswith("1 of 1")
    assert desk.json("run", "flows:good", "--id", "r", "--input", "2")["status"] == "completed"


def test_check_says_whether_the_code_goes_on_and_runs_nothing(desk: Desk):  # proves: RUN-17
    (desk.folder / "die-at").write_text("2")
    desk.child("--store", "sqlite:///runs.db", "run", "flows:good", "--id", "r", "--input", "3")
    ran = desk.ran()
    assert desk.json("check", "r", "flows:good")["fit"] == "compatible"
    assert desk.json("check", "r", "flows:stricter")["fit"] == "compatible after the gate"
    (desk.folder / "flows.py").write_text(FLOWS.replace("range(count - 1)", "range(1)"))
    told = desk.json("check", "r", "flows:shorter", exits=4)
    assert (told["fit"], told["at"], told["recorded"]) == ("incompatible", "fetch#2", ["fetch#2"])
    assert desk.ran() == ran


def test_stored_text_can_not_steer_the_terminal(desk: Desk):
    """Attack 55: ids, reasons and outcomes with escapes, line ends, markup and bidi overrides."""
    (desk.folder / "broken").touch()
    desk("run", "flows:good", "--id", "[red]o'; DROP TABLE run;--", "--input", "1", exits=7)
    (desk.folder / "broken").unlink()
    desk("run", "flows:good", "--id", "fine", "--input", "1")
    for words in (
        ("list",),
        ("show", "fine"),
        ("show", "fine", "--raw"),
        ("explain", "fine"),
        ("why", "[red]o'; DROP TABLE run;--"),
    ):
        shown = desk(*words)
        assert not set(shown) & {"\x1b", "\u202e", "\x07"}, words
    assert "[red]o'" in desk("list")
    assert inert("a\x1b[2J\n\u202e\U000e0041é£") == "a\\x1b[2J\\n\\u202e\\U000e0041é£"
    assert preview(b"x" * 100, 20) == "x" * 19 + "…"


def test_commands_that_look_make_no_store(desk: Desk):
    for words in (
        ("list",),
        ("show", "r"),
        ("why", "r"),
        ("explain", "r"),
        ("verify",),
        ("doctor",),
        ("check", "r", "flows:good"),
    ):
        assert desk.json(*words, exits=6)["error"]["code"] == "store.missing"
    assert not (desk.folder / "runs.db").exists()


@pytest.mark.parametrize(
    ("words", "code", "exits"),
    [
        (("run", "flows:nothing", "--id", "r"), "flow.unknown", 2),
        (("run", "nowhere:good", "--id", "r"), "flow.unknown", 2),
        (("run", "flows", "--id", "r"), "flow.unknown", 2),
        (("run", "flows:good", "--id", "r", "--input", "{"), "value.unreadable", 2),
        (("run", "flows:good", "--id", "a\nb", "--input", "1"), "id.refused", 2),
        (("run", "flows:good", "--id", "r", "--input", "1", "--by", "dana"), "id.refused", 2),
        (("run", "flows:good", "--id", "r", "--input-file", "absent.json"), "input.unreadable", 2),
        (("run", "flows:good", "--id", "r", "--input", "1", "--store", "mysql://x"), "url.refused", 2),
        (("why", "absent"), "run.absent", 2),
        (("run", "flows:good", "--id", "taken", "--input", "2"), "input_mismatch", 2),
        (("run", "flows:good", "--id", "taken", "--input", "1", "--by", "agent:x"), "executor_mismatch", 2),
    ],
)
def test_bad_input_gets_a_code_and_a_hint(desk: Desk, words: tuple[str, ...], code: str, exits: int):
    desk("run", "flows:good", "--id", "taken", "--input", "1")
    error = desk.json(*words, exits=exits)["error"]
    assert error["code"] == code
    assert error["message"] and error["hint"]


def test_usage_is_told_on_standard_error_with_status_2(desk: Desk):
    told = desk.child("nosuch")
    assert (told.returncode, told.stdout) == (2, "")
    assert "No such command" in told.stderr


def test_doctor_examines_without_changing(desk: Desk):  # proves: OWN-8
    desk("run", "flows:good", "--id", "r", "--input", "1")
    found = {one["name"]: one["ok"] for one in desk.json("doctor")}
    assert found and all(found.values())
    assert desk("doctor", "sqlite:///runs.db").count("ok") >= len(found)


def test_every_command_and_exit_code_is_in_the_reference():
    page = Path("docs/reference/cli.md").read_text()
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        assert f"## remit {name}" in page, name
    for status in (0, 2, 3, 4, 5, 6, 7, 130):
        assert f"| {status} |" in page
