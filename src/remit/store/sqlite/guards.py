"""Guards: what must be so before a file is trusted with a journal.

SQLite keeps several processes apart with locks on the file and with memory shared beside
it. Network file systems do neither reliably, and a write acknowledged there may be lost
without a word, so such a place is refused rather than hoped for. So is a file that others
may open under another name, or from another folder: each name has a log of its own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from remit.errors import Refused, StoreRefused

_NETWORK = re.compile(
    r"^(nfs4?|cifs|smb2|smb3|smbfs|ncpfs|afs|coda|ceph|glusterfs|lustre|gpfs|beegfs|orangefs|pvfs2|ocfs2|gfs2|davfs|"
    r"fhgfs|panfs|wekafs|acfs|vboxsf|prl_fs|vmhgfs|drvfs|virtiofs|fakeowner)$"
)
_NETWORK_FUSE = re.compile(
    r"^fuse\.(sshfs|ceph|glusterfs|s3fs|rclone|gcsfuse|goofys|mount-s3|davfs2?|smbnetfs|vmhgfs|juicefs|seaweedfs|"
    r"grpcfuse|osxfs|fakeowner|lustre|beegfs|curlftpfs|gvfsd|mfs|moosefs|lizardfs|blobfuse|cephfs|alluxio|quobyte|nfs)"
)
_OCTAL = re.compile(r"\\([0-7]{3})")
_MOUNTINFO = "/proc/self/mountinfo"


class Mount(NamedTuple):
    """A line of /proc/self/mountinfo, as far as it matters here."""

    point: str
    kind: str  # "ext4", "nfs4", "fuse.sshfs"
    source: str
    options: str  # of the file system itself


def mount_of(path: str, mountinfo: str) -> Mount | None:
    """The mount that an absolute path lies on: the longest mount point wins, then the later line.

    >>> mount_of("/data/db", "1 0 8:1 / / rw - ext4 /dev/sda rw\\n2 1 0:5 / /data rw - nfs4 srv:/x rw").kind
    'nfs4'
    """
    best: Mount | None = None
    for mount in _mounts(mountinfo):
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _mounts(mountinfo: str) -> Iterator[Mount]:
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if dash and len(left) >= 5 and len(right) >= 2:
            point = _OCTAL.sub(lambda m: chr(int(m[1], 8)), left[4])
            yield Mount(point, right[0], right[1], right[2] if len(right) > 2 else "")


def is_network(mount: Mount) -> bool:
    """Whether another machine may write to it, or its locks end at this one.

    9p is a folder shared by a host, except over `trans=fd` without WSL's drvfs: that is a sandbox's own disk.
    """
    if mount.kind == "9p":
        return "trans=fd" not in mount.options or "drvfs" in mount.options or "drvfs" in mount.source
    return bool(_NETWORK.match(mount.kind) or _NETWORK_FUSE.match(mount.kind))


def read_mount(path: str) -> Mount | None:
    """The mount of a path on this machine; None where the system does not say (only Linux does)."""
    try:
        with open(_MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
            return mount_of(path, file.read())
    except OSError:
        return None


def check_mount(path: str, mount: Mount | None) -> None:
    """Raises StoreRefused `store.network`."""
    if mount is not None and is_network(mount):
        raise StoreRefused(
            f"Nothing was opened: {path} is on {mount.source} ({mount.kind}), a network or shared file system, "
            "where SQLite's locks and syncs can't be relied on.",
            code="store.network",
            hint="Use a disk of this machine, or `postgresql://` for several machines.",
        )


def check_companions(path: str, mount: Mount | None) -> None:
    """Raises StoreRefused `store.companions` where not all who open the file need find the same `-wal` and `-shm`."""
    trouble = companions_trouble(path, mount)
    if trouble:
        raise StoreRefused(
            f"Nothing was opened: {path} {trouble}, and SQLite keeps its log and its locks beside the name: "
            "who opens another one does not see what is committed here.",
            code="store.companions",
            hint="Mount the folder instead of the file, and leave the file one name: copy it, don't link it.",
        )


def companions_trouble(path: str, mount: Mount | None) -> str:
    """What is wrong with how the file is reached; "" where nothing is. A folder that is mounted is fine."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    if not stat.S_ISREG(found.st_mode):
        return ""
    if mount is not None and mount.point == path:
        return "is mounted as a single file"
    return f"has {found.st_nlink} names, by hard links" if found.st_nlink > 1 else ""


def check_folder(path: str) -> None:
    """Raises StoreRefused `store.missing` where the folder that should hold the file does not exist."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreRefused(
            f"Nothing was opened: there is no folder {folder}.",
            code="store.missing",
            hint="Create the folder, or correct the path; a file is made by itself, a folder is not.",
        )


def sqlite_path(url: str) -> str:
    """The absolute path behind `sqlite:///relative.db`, `sqlite:////absolute.db` or a plain path, links followed.

    What follows the third slash is taken literally: `%` and `?` are characters of the name.
    Raises Refused `url.refused`.
    """
    path = url
    if url.startswith("sqlite:"):
        if not url.startswith("sqlite:///"):
            raise Refused(
                f"{url!r} is not a place for a store; nothing was opened.",
                code="url.refused",
                hint="Write `sqlite:///purchases.db`, or `sqlite:////var/lib/purchases.db` for an absolute path.",
            )
        path = url.removeprefix("sqlite:///")
    if not path or path == ":memory:" or "\0" in path:
        raise Refused(
            f"{url!r} names no file; nothing was opened.", code="url.refused", hint="Use `memory:` for tests."
        )
    return os.path.realpath(path)
