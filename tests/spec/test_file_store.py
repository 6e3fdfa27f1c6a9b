"""The file store on its disk: what the document looks like, who may have it, and what is left when writing fails."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from remit.errors import Refused, StoreError, StoreRefused, StoreUnavailable, Tampered
from remit.facts.announced import AskOpened
from remit.store.file import FileStore
from remit.store.marks import Announce, OpenAsk, Reserve, TakeKey
from remit.store.rows import AskFilter, RunFilter, WorkerRow
from tests.support.journal import TENANT, WORKER, Hand, open_held, open_run, opening, read_stored, read_view

ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import asyncio, os, sys
from remit.store.file import FileStore
from remit.store.rows import WorkerRow
from tests.support.journal import open_held

async def main(path):
    store = FileStore(path)
    await store.open()
    hand = await open_held(store, "po-1")
    await store.append(hand.step(b'"kept"'))
    print("held", flush=True)
    sys.stdin.read()

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


async def opened(path: Path | str, **options: Any) -> FileStore:
    store = FileStore(path, **options)
    await store.open()
    return store


async def written(path: Path) -> bytes:
    """A document with one run of three entries."""
    store = await opened(path)
    hand = await open_held(store, "po-1")
    await store.append(hand.step(b'{"total":3}', name="total"))
    await store.close()
    return path.read_bytes()


async def refusal(path: Path | str) -> StoreRefused:
    with pytest.raises(StoreRefused) as refused:
        await opened(path)
    return refused.value


# -- the document ------------------------------------------------------------------------------------------------------


async def test_a_reader_finds_each_entry_on_a_line_of_its_own(path):  # proves: RUN-19
    text = (await written(path)).decode()
    document = json.loads(text)
    assert document["remit"] == 2
    run = document["runs"]["1"]
    assert (run["run"], run["status"], run["seq"], run["worker"]) == ("po-1", "running", 3, WORKER)
    assert [json.loads(entry["header"])["kind"] for entry in run["main"]] == ["RunOpened", "AttemptStarted", "StepDone"]
    assert run["main"][2]["value"] == '{"total":3}'
    assert sum('"header"' in line for line in text.splitlines()) == 3


async def test_a_document_that_was_written_in_another_shape_is_the_same(path):  # proves: LOG-1
    document = json.loads(await written(path))
    path.write_text(json.dumps(document, indent=4, sort_keys=True, ensure_ascii=True))
    store = await opened(path)
    view = await read_view(store, 1)
    assert [call.value for call in view.calls.values()] == [b'{"total":3}']
    await store.append(Hand(store, (await read_stored(store, 1)).row).step())
    await store.close()


async def test_a_changed_byte_is_found_by_the_chain_and_left_alone(path):  # proves: LOG-2
    data = await written(path)
    spoiled = data.replace(rb"\"total\":3", rb"\"total\":4")
    assert spoiled != data
    path.write_bytes(spoiled)
    store = await opened(path)
    with pytest.raises(Tampered):
        await read_view(store, 1)
    await store.close()
    assert path.read_bytes() == spoiled


async def test_a_value_that_is_no_text_comes_back(path):  # proves: LOG-1
    store = await opened(path)
    hand = await open_held(store, "po-1")
    await store.append(hand.step(b"\xff\x00"))
    await store.close()
    store = await opened(path)
    assert (await read_stored(store, 1)).main[2].value == b"\xff\x00"
    await store.close()


BROKEN: list[Callable[[bytes], bytes]] = [
    lambda data: b"",
    lambda data: data[:-3],
    lambda data: data[: len(data) // 2],
    lambda data: b"[1, 2]",
    lambda data: b'{"steps": ["of", "another", "program"]}',
    lambda data: data.replace(b'"seq":3', b'"seq":"3"'),
    lambda data: data.replace(b'"head":"', b'"head":"zz'),
    lambda data: data.replace(b'"salt":"', b'"salt":"x'),
    lambda data: data.replace(b'"epoch":1,"worker"', b'"worker"'),
    lambda data: data.replace(b'"1":{"tenant"', b'"01":{"tenant"'),
    lambda data: data.replace(b'"run_key_next":2', b'"run_key_next":1'),
    lambda data: data.replace(b'"origin":"', b'"origin":"0'),
    lambda data: data.replace(b"\n}}\n", b',"2":' + data.split(b'"1":')[1]),
    lambda data: b'{"remit":1,"x":' + b"[" * 100_000,
    lambda data: b"SQLite format 3\0",
]


@pytest.mark.parametrize("spoil", BROKEN)
async def test_what_is_not_a_whole_document_is_refused_and_left_alone(path, spoil):  # proves: LOG-3
    spoiled = spoil(await written(path))
    path.write_bytes(spoiled)
    assert (await refusal(path)).code == "store.broken"
    assert path.read_bytes() == spoiled
    assert sorted(p.name for p in path.parent.iterdir()) == ["state.json", "state.json.lock"]


async def test_a_newer_document_is_refused_and_left_alone(path):
    newer = b'{"remit":3,"tables":{}}'
    path.write_bytes(newer)
    assert (await refusal(path)).code == "store.newer"
    assert path.read_bytes() == newer


async def test_a_document_of_form_1_is_read_and_written_as_form_2(path):  # proves: LOG-1
    document = json.loads(await written(path))
    before = document["runs"]
    for name in ("business_keys", "ceilings", "asks", "outbox"):
        assert document.pop(name) == []
    path.write_text(json.dumps(document | {"remit": 1}))

    store = await opened(path)
    assert store.ledger.schema == 2
    hand = Hand(store, (await read_stored(store, 1)).row)
    await store.close()

    document = json.loads(path.read_bytes())
    assert (document["remit"], document["business_keys"], document["runs"]) == (2, [], before)
    store = await opened(path)
    unit = hand.step()
    unit.marks = (TakeKey("5eed", "pay"), Reserve("per run", 5, 10), Announce(AskOpened(ask="a")))
    await store.append(unit)
    await store.close()
    assert json.loads(path.read_bytes())["ceilings"] == [{"tenant": TENANT, "scope": "per run", "used": 5}]


# -- the place ---------------------------------------------------------------------------------------------------------


async def test_a_missing_file_is_an_empty_ledger_and_a_missing_folder_is_refused(tmp_path, path):
    store = await opened(path)
    assert await store.read_row(TENANT, "po-1") is None
    await store.close()
    assert (await refusal(tmp_path / "no" / "state.json")).code == "store.missing"
    assert (await refusal(tmp_path)).code == "store.broken"


@pytest.mark.parametrize("given", ["", "//host/state.json", "a\0b"])
def test_a_place_that_is_none_is_refused(given):
    with pytest.raises(Refused) as refused:
        FileStore(given)
    assert refused.value.code == "url.refused"


def test_three_slashes_are_an_absolute_path(tmp_path):
    assert FileStore(f"//{tmp_path}/state.json").path == f"{tmp_path}/state.json"


async def test_a_new_document_is_its_owners_and_an_old_one_keeps_its_mode(path):
    await written(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    store = await opened(path)
    await open_run(store, "po-2")
    await store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


async def test_a_link_stays_a_link(tmp_path, path):
    target = tmp_path / "elsewhere"
    target.mkdir()
    path.symlink_to(target / "real.json")
    await written(path)
    assert path.is_symlink()
    assert json.loads((target / "real.json").read_bytes())["remit"] == 2
    assert sorted(p.name for p in target.iterdir()) == ["real.json", "real.json.lock"]


async def test_what_a_crash_left_beside_it_is_not_in_the_way(path):
    await written(path)
    left = path.with_name("state.json.tmp")
    left.write_bytes(b'{"remit":1,"half')
    store = await opened(path)
    await open_run(store, "po-2")
    await store.close()
    assert not left.exists()


# -- one process -------------------------------------------------------------------------------------------------------


async def test_a_second_store_of_one_process_is_refused(tmp_path, path):  # proves: OWN-1
    store = await opened(path)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    for other in (path, link):
        refused = await refusal(other)
        assert refused.code == "store.locked" and f"({os.getpid()})" in refused.message
    await store.close()
    await (await opened(path)).close()


@contextmanager
def another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


async def test_a_second_process_is_refused_and_told_who_has_it(path):  # proves: OWN-1
    with another_process(path) as holder:
        refused = await refusal(path)
        assert refused.code == "store.locked" and f"process {holder.pid}," in refused.message


async def test_what_a_killed_process_had_appended_is_there(path):  # proves: RUN-3, RUN-5
    with another_process(path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    store = await opened(path)
    view = await read_view(store, 1)
    assert [call.value for call in view.calls.values()] == [b'"kept"']
    await store.close()


async def test_the_lock_outlives_whoever_of_its_process_reads_the_folder(path):  # proves: OWN-1
    store = await opened(path)
    for file in path.parent.iterdir():
        file.read_bytes()
    with subprocess.Popen([sys.executable, "-c", _OPENS, str(path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.read() == "store.locked\n"
    await store.close()


_OPENS = """
import asyncio, sys
from pathlib import Path
from remit.errors import StoreRefused
from remit.store.file import FileStore
try:
    asyncio.run(FileStore(Path(sys.argv[1])).open())
except StoreRefused as refused:
    print(refused.code)
"""


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing but ask
async def test_the_lock_outlives_a_fork_and_is_not_inherited(path):  # proves: OWN-1
    store = await opened(path)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            store.close().send(None)
        except StopIteration:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (await refusal(path)).code == "store.locked"
    await open_run(store, "po-1")
    await store.close()


# -- writing -----------------------------------------------------------------------------------------------------------


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes: the kernel refuses the write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_after_a_full_disk_the_store_says_what_the_file_says(path):  # proves: RUN-3
    store = await opened(path)
    hand = await open_held(store, "po-1")
    data, before = path.read_bytes(), await read_stored(store, 1)
    lost = hand.step(b'"' + b"x" * 50_000 + b'"')

    with full_disk(len(data) + 1_000):
        with pytest.raises(StoreUnavailable):
            await store.append(lost)
        with pytest.raises(StoreUnavailable):
            await store.open_run(opening(store, "po-2", value=b'"' + b"x" * 50_000 + b'"'))
        assert await read_stored(store, 1) == before
        assert await store.read_row(TENANT, "po-2") is None
        assert path.read_bytes() == data

    await store.append(lost)
    await open_run(store, "po-2")
    after = await read_stored(store, 1)
    await store.close()
    store = await opened(path)
    assert await read_stored(store, 1) == after
    assert after.row.seq == 3
    await store.close()


async def test_what_stands_beside_the_runs_is_in_every_later_document(path):  # proves: RUN-3
    store = await opened(path)
    hand = await open_held(store, "po-1")
    for amount in (2, 0, 3):
        unit = hand.step()
        unit.marks = (Reserve("per run", amount, 10),) if amount else ()
        await store.append(unit)
        await store.append(hand.step())
        assert json.loads(path.read_bytes())["ceilings"][0]["used"] == await store.read_used(TENANT, "per run")
    await store.close()


async def test_what_stands_beside_the_runs_is_as_it_was_after_a_full_disk(path):  # proves: RUN-3
    store = await opened(path)
    hand = await open_held(store, "po-1")
    first, second = hand.step(), hand.step(b'"' + b"x" * 50_000 + b'"')
    first.marks = (Reserve("per run", 5, 10),)
    second.marks = (Reserve("per run", 5, 10), OpenAsk("a-1", "pay", ("buyer",), 1, 2))
    await store.append(first)
    data = path.read_bytes()
    with full_disk(len(data) + 1_000), pytest.raises(StoreUnavailable):
        await store.append(second)
    assert (path.read_bytes(), await store.read_used(TENANT, "per run")) == (data, 5)
    assert await store.read_ask(TENANT, "a-1") is None

    await store.append(second)
    await store.close()
    store = await opened(path)
    assert await store.read_used(TENANT, "per run") == 10
    assert [row.ask for row in await store.list_asks(AskFilter(TENANT, role="buyer"))] == ["a-1"]
    await store.close()


async def test_a_folder_that_takes_no_file_is_unavailable_and_then_serves_again(path):  # proves: RUN-3
    store = await opened(path)
    row = await open_run(store, "po-1", worker=None)
    in_the_way = path.with_name("state.json.tmp")
    (in_the_way / "x").mkdir(parents=True)
    with pytest.raises(StoreUnavailable):
        await open_run(store, "po-2")
    assert await store.read_row(TENANT, "po-1") == row
    (in_the_way / "x").rmdir()
    in_the_way.rmdir()
    await open_run(store, "po-2")
    await store.close()


async def test_a_new_file_that_can_not_be_written_is_refused_and_let_go(path):
    in_the_way = path.with_name("state.json.tmp")
    (in_the_way / "x").mkdir(parents=True)
    assert (await refusal(path)).code == "store.unwritable"
    (in_the_way / "x").rmdir()
    in_the_way.rmdir()
    await (await opened(path)).close()


@pytest.mark.parametrize("meddle", [Path.unlink, lambda path: path.write_bytes(path.read_bytes() + b"\n")])
async def test_a_file_that_somebody_else_changed_is_not_overwritten(path, meddle):  # proves: LOG-3
    store = await opened(path)
    hand = await open_held(store, "po-1")
    meddle(path)
    found = path.read_bytes() if path.exists() else None
    reads = [store.read_row(TENANT, "po-1"), store.read_run(1), store.list_rows(RunFilter(TENANT))]
    acts = [store.append(hand.step()), open_run(store, "po-2"), *reads]
    for act in acts:
        with pytest.raises(StoreError) as refused:
            await act
        assert refused.value.code == "store.moved"
    assert "file" in [finding.name for finding in await store.examine() if not finding.ok]
    await store.close()
    assert (path.read_bytes() if path.exists() else None) == found


async def test_appends_that_wait_together_share_one_rewrite(path):  # proves: RUN-3
    store = await opened(path)
    hands = [await open_held(store, f"r-{i}") for i in range(20)]
    before = path.stat().st_ino, store.counters.commits
    await asyncio.gather(*(store.append(hand.step()) for hand in hands))
    assert store.counters.commits - before[1] == 1
    await store.close()


async def test_workers_that_hold_nothing_are_forgotten_when_it_is_opened_again(path):
    store = await opened(path)
    await store.put_worker(WorkerRow(WORKER, "boot/ns", 5))
    await store.close()
    store = await opened(path)
    assert await store.read_worker(WORKER) is None
    await store.close()
