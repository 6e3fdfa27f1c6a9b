"""Writes journals of given facts: times, salts and ids are fixed, so that a vector is the same each time it is made."""

from __future__ import annotations

from typing import Any

from remit.facts import kinds
from remit.facts.entry import HEADER, Entry, Identity, Pen, entry_hash, genesis, value_digest
from remit.facts.fact import Fact
from remit.facts.rules import ContractPin

LEDGER = "00112233445566778899aabbccddeeff"
AT = 1_764_590_400_000_000  # 2025-12-01T12:00:00Z
PIN = ContractPin(resume=["anyone"], risk="low", version="1", window=86_400_000_000)

Journal = dict[str, Any]


class Writer:
    """Writes a journal of given facts, with salts that count up."""

    def __init__(self, run: str, flow: str, *, by: str, given: bytes, opened: kinds.RunOpened) -> None:
        self.identity, self.by, self._salts = Identity(LEDGER, "default", run, 1, flow), by, 0
        self.lanes: dict[str, list[Entry]] = {"main": [], "post": []}
        self.input_digest = value_digest(self._salt(peek=True), given)
        self._main = self._pen(0, genesis(self.identity, self.input_digest), 0)
        self.add(opened, value=given)
        self._post = Pen(self.identity, lane="post", by="user:dana", epoch=0, head=self._main.head, seq=0)

    def attempt(self, epoch: int, worker: str, *dead: str) -> None:
        self._main = self._pen(epoch, self._main.head, self._main.seq)
        told: dict[str, Any] = {"dead": list(dead)}
        if dead:
            told |= {"host": "2f1d9a7c-5b0e-4c2a-9d57-0e6f4b8a1c33/4026531836", "up": 93_000_000}
        self.add(kinds.AttemptStarted(contract="c0" * 32, version="1", worker=worker, **told))

    def add(self, fact: Fact, *, name: str | None = None, value: bytes | None = None, salt: bytes | None = None) -> str:
        """An entry of lane `main`; its hash."""
        return self._seal("main", self._main, fact, name, value, salt)

    def post(self, fact: Fact, *, name: str | None = None, value: bytes | None = None, by: str = "user:dana") -> str:
        """An entry of lane `post`; its hash."""
        end = self._post
        self._post = Pen(self.identity, lane="post", by=by, epoch=0, head=end.head, seq=end.seq)
        return self._seal("post", self._post, fact, name, value, None)

    def under(self, by: str) -> None:
        """The next entries of lane `main` are somebody else's, as in a journal that is Remit's own."""
        self.by = by
        self._main = self._pen(0, self._main.head, self._main.seq)

    @property
    def place(self) -> tuple[str, int]:
        """Hash and seq of the last entry of lane `main`."""
        return self._main.head.hex(), self._main.seq

    @property
    def now(self) -> int:
        """The time of the next entry."""
        return AT + 1_000 * sum(map(len, self.lanes.values()))

    def journal(self, title: str) -> Journal:
        post_end = self._post.head.hex()
        return {
            "title": title,
            "identity": {key: getattr(self.identity, key) for key in ("flow", "gen", "ledger", "run", "tenant")},
            "input": self.input_digest,
            "genesis": genesis(self.identity, self.input_digest).hex(),
            "heads": {
                "main": self._main.head.hex(),
                "main_seq": self._main.seq,
                "post": post_end,
                "post_seq": self._post.seq,
            },
            "main": [_shown(entry) for entry in self.lanes["main"]],
            "post": [_shown(entry) for entry in self.lanes["post"]],
        }

    def _pen(self, epoch: int, head: bytes, seq: int) -> Pen:
        return Pen(self.identity, lane="main", by=self.by, epoch=epoch, head=head, seq=seq)

    def _seal(self, lane: str, pen: Pen, fact: Fact, name: str | None, value: bytes | None, salt: bytes | None) -> str:
        salted = None if value is None else (salt or self._salt(), value)
        entry = pen.seal(type(fact).__name__, kinds.write(fact), at=self.now, name=name, value=salted)
        self.lanes[lane].append(entry)
        return entry_hash(entry.header).hex()

    def _salt(self, *, peek: bool = False) -> bytes:
        self._salts += not peek
        return (self._salts + peek).to_bytes(16, "big")


def _shown(entry: Entry) -> dict[str, Any]:
    header = HEADER.read(entry.header)
    return {
        "fields": {"kind": header.kind, "name": header.name, "at": header.at, "by": header.by, "epoch": header.epoch},
        "header": entry.header.decode(),
        "body": entry.body.decode(),
        "salt": None if entry.salt is None else entry.salt.hex(),
        "value": None if entry.value is None else entry.value.decode(),
        "hash": entry_hash(entry.header).hex(),
    }
