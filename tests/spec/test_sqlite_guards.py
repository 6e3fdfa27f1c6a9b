"""Where an SQLite file may live, which URL means what, and how the schema and its statements are found."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from remit.errors import Refused, StoreRefused
from remit.store.postgres.ends import Ends
from remit.store.queries import load_queries, parse_queries
from remit.store.rows import AskRow, RunRow
from remit.store.schema import migrations, names_of, pending, steps
from remit.store.sqlite import SqliteStore
from remit.store.sqlite.guards import check_mount, is_network, mount_of, read_mount, sqlite_path
from remit.store.url import store_for

MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /proc rw,nosuid - proc proc rw
40 22 0:40 / /home rw,relatime shared:5 master:2 - nfs4 files.example:/home rw,vers=4.2,local_lock=none
41 40 8:17 / /home/dana/disk rw - xfs /dev/sdb1 rw
42 22 0:42 / /mnt/with\040blank rw - cifs //nas/share rw,vers=3.1.1
43 22 0:43 / /mnt/over rw - ext4 /dev/sdc1 rw
44 43 0:44 / /mnt/over rw - fuse.sshfs dana@example:/ rw,user_id=0
45 22 0:45 / /mnt/c rw - 9p C:\134 rw,aname=drvfs;path=C:\134;uid=1000,trans=fd,rfd=5,wfd=5
46 22 0:46 / /shared rw - 9p hostshare rw,trans=virtio,version=9p2000.L
47 22 0:47 / /sandbox rw - 9p none rw,trans=fd,rfdno=4,wfdno=4,aname=/
48 22 0:48 / /tmp rw - tmpfs tmpfs rw
49 22 0:49 / /layers rw - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c
50 22 0:50 / /mnt/gluster rw - fuse.glusterfs node1:/v rw
51 22 0:51 / /mnt/ntfs rw - fuseblk /dev/sdd1 rw
52 22 0:52 / /Users rw - fakeowner /run/host_mark/Users rw,fakeowner
53 22 0:53 / /host rw - virtiofs virtiofs0 rw
54 22 0:54 / /mnt/blob rw - fuse.blobfuse2 blobfuse2 rw
55 22 0:55 / /mnt/d rw - drvfs D:\134 rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "refused"),
    [
        ("/var/lib/a.db", "ext4", False),
        ("/home/dana/a.db", "nfs4", True),
        ("/home/dana/disk/a.db", "xfs", False),
        ("/homework/a.db", "ext4", False),
        ("/mnt/with blank/a.db", "cifs", True),
        ("/mnt/over/a.db", "fuse.sshfs", True),
        ("/mnt/c/a.db", "9p", True),
        ("/shared/a.db", "9p", True),
        ("/sandbox/a.db", "9p", False),
        ("/tmp/a.db", "tmpfs", False),
        ("/layers/a.db", "overlay", False),
        ("/mnt/gluster/a.db", "fuse.glusterfs", True),
        ("/mnt/ntfs/a.db", "fuseblk", False),
        ("/Users/dana/a.db", "fakeowner", True),
        ("/host/a.db", "virtiofs", True),
        ("/mnt/blob/a.db", "fuse.blobfuse2", True),
        ("/mnt/d/a.db", "drvfs", True),
    ],
)
def test_a_network_file_system_is_told_from_a_disk(path: str, kind: str, refused: bool):  # proves: OWN-8
    mount = mount_of(path, MOUNTINFO)

    assert mount is not None
    assert (mount.kind, is_network(mount)) == (kind, refused)


def test_a_network_file_system_is_refused_with_advice():  # proves: OWN-8
    """Case C36."""
    with pytest.raises(StoreRefused, match=r"nfs4.*postgresql://") as caught:
        check_mount("/home/dana/a.db", mount_of("/home/dana/a.db", MOUNTINFO))
    assert caught.value.code == "store.network"


def test_a_system_that_does_not_say_is_taken():  # proves: OWN-8
    assert mount_of("/a.db", "") is None
    check_mount("/a.db", None)


def test_this_machine_can_be_asked(tmp_path: Path):  # proves: OWN-8
    mount = read_mount(str(tmp_path / "a.db"))

    assert mount is None or mount.point.startswith("/")


def test_a_url_names_a_file_literally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path.resolve())

    assert sqlite_path("sqlite:///a.db") == f"{here}/a.db"
    assert sqlite_path("sqlite:///sub/50%25?.db") == f"{here}/sub/50%25?.db"
    assert sqlite_path("sqlite:////var/none/a.db") == "/var/none/a.db"
    assert sqlite_path("a.db") == f"{here}/a.db"


def test_a_link_is_followed_so_that_all_use_the_same_companions(tmp_path: Path):  # proves: OWN-8
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")

    assert SqliteStore(tmp_path / "link.db").path == str((tmp_path / "real.db").resolve())


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://host/a.db"])
def test_a_url_without_a_file_is_refused(url: str):
    with pytest.raises(Refused) as caught:
        store_for(url)
    assert caught.value.code == "url.refused"


@pytest.mark.parametrize("url", ["", "mysql://dana:secret@host/db", "purchases.db", "memory:x", "file:", "postgresql:"])
def test_an_unknown_place_is_refused_without_showing_a_password(url: str):
    with pytest.raises(Refused) as caught:
        store_for(url)
    assert caught.value.code == "url.refused"
    assert "secret" not in str(caught.value)


def test_a_url_leads_to_its_store(tmp_path: Path):
    assert isinstance(store_for(f"sqlite:///{tmp_path}/a.db"), SqliteStore)


def test_a_new_store_needs_every_migration_and_a_current_one_none():
    known = [migration.number for migration in migrations("sqlite")]

    assert [migration.number for migration in pending("sqlite", [])] == known
    assert pending("sqlite", known) == steps("sqlite", known) == ()


def test_a_new_file_begins_with_the_tables_of_today_and_an_old_one_goes_its_way():
    """An application beside it may have a table of the name that one of Remit's had once."""
    whole, *later = steps("sqlite", [])
    assert ((whole.number, whole.name), tuple(later)) == ((3, "whole"), migrations("sqlite")[3:])
    assert not [name for step in steps("sqlite", []) for name in names_of(step) if not name.startswith("remit_")]
    assert steps("sqlite", [1]) == migrations("sqlite")[1:]
    assert steps("postgres", []) == migrations("postgres")


@pytest.mark.parametrize(("applied", "code"), [([999], "store.newer"), ([0, 1], "store.broken")])
def test_a_schema_from_elsewhere_is_refused(applied: list[int], code: str):
    with pytest.raises(StoreRefused) as caught:
        pending("sqlite", applied)
    assert caught.value.code == code


def test_the_columns_that_statements_share_are_those_of_the_rows():
    for dialect in ("sqlite", "postgres"):
        queries = load_queries(dialect)
        assert selected(queries["read_row"]) == [field.name for field in fields(RunRow)]
        assert selected(queries["read_ask"]) == [field.name for field in fields(AskRow)][:-1]
    assert selected(load_queries("postgres")["read_ends"]) == list(Ends._fields)[:-1]


def selected(sql: str) -> list[str]:
    """Names of the plain columns that a query gives, in order."""
    listed = re.sub(r"\s", "", sql.partition("SELECT")[2].partition("FROM")[0]).replace('"', "").split(",")
    return [name.removeprefix("a.") for name in listed if re.fullmatch(r"(a\.)?[a-z_]+", name)]


def test_every_statement_says_what_it_is_for():
    assert load_queries("sqlite")["advance"].startswith("UPDATE remit_run SET head")
    with pytest.raises(AssertionError, match="what it is for"):
        parse_queries("-- name: silent\nSELECT 1;")
