"""Which order of entries at the boundary is legal: docs/formats.md, "Legal order", and nothing else."""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]


class Wrong(Exception):
    """The journal does not hold; the code says how."""


class Boundary:
    """What a run did at the boundary, entry by entry. Lane `post` is taken first."""

    def __init__(self) -> None:
        self.in_doubt: set[str] = set()
        self._effects: dict[str, Fields] = {}  # by call: fact of the newest intention, its hash, state
        self._asks: dict[str, Fields] = {}  # by id: fact, hash, whether it is void, the call that used it
        self._asked_last: dict[str, str] = {}  # by call: id
        self._evidence: dict[str, tuple[str, str]] = {}  # by the call that stated it: name, salt
        self._decisions: list[tuple[Fields, str]] = []
        self._resolved: list[tuple[Fields, str]] = []
        self._judged: Fields | None = None  # the question of the newest judgement that was not `resume`
        self._posts, self._posts_read = 0, 0  # of lane post: what is there, and what was judged by
        self._permitted: tuple[str, Fields] | None = None  # the call that was let pass, and the question

    def take_post(self, kind: str, body: Fields, hash_: str) -> None:
        self._posts += 1
        if kind == "ApprovalDecided":
            self._decisions.append((body, hash_))
        elif kind == "DoubtResolved":
            self._resolved.append((body, hash_))

    def take(self, kind: str, header: Fields, body: Fields, hash_: str) -> None:
        permitted, self._permitted = self._permitted, None
        _demand(permitted is None or (kind in ("EffectIntended", "ApprovalUsed") and header["name"] == permitted[0]))
        question = permitted[1] if permitted is not None else None
        if kind == "GateJudged":
            self._judge(header, body)
        elif kind == "EffectIntended":
            self._intend(header, body, hash_, question)
        elif kind == "EffectSettled":
            self._settle(header, body)
        elif kind == "EffectRefused":
            self._refuse(header, body)
        elif kind == "ApprovalAsked":
            self._ask(header, body, hash_)
        elif kind == "ApprovalVoided":
            self._standing(body["ask"])["void"] = True
        elif kind == "ApprovalUsed":
            _demand(question is not None and not question["effect"]["bound"]["effect"])
            self._use(body["ask"], body["item"], header["name"])
        elif kind == "EvidenceTaken":
            told = body["evidence"], header["salt"]
            _demand(not body.get("again") or self._evidence.get(header["name"]) == told)
            self._evidence[header["name"]] = told
        elif kind == "RaceWon":
            _demand(all(call in self._effects for call in body.get("beside", [])))
            _demand(0 <= body["winner"] < len(body["sides"]))

    def end(self) -> None:
        _demand(self._permitted is None)

    def _judge(self, header: Fields, body: Fields) -> None:
        question = body["question"]
        effect = question.get("effect")
        _demand(effect is None or effect["name"] == header["name"])
        read, is_end = question.get("post", 0), body["verdict"]["decision"] == "abandon"
        _demand(read <= self._posts and (is_end or read >= self._posts_read))
        self._posts_read = max(self._posts_read, read)
        if body["verdict"]["decision"] != "resume":
            self._judged = question
        elif effect is not None:
            self._permitted = header["name"], question

    def _intend(self, header: Fields, body: Fields, hash_: str, question: Fields | None) -> None:
        _demand(question is not None)
        assert question is not None
        call, crossing = header["name"], question["effect"]
        bound = crossing["bound"]
        told = (bound["request"], bound["effect"], crossing.get("key", ""), question["authority"])
        _demand(told == (body["request"], body["effect"], body["key"], body["authority"]))
        _demand(header["value"] == body["request"])
        approval = body.get("ask", "")
        _demand(bool(approval) == bool(question.get("needs") or question.get("unanswered")))
        before = self._effects.get(call)
        if before is not None:
            _demand(before["state"] in ("in_doubt", "did_not_happen") and before["key"] == body["key"])
            _demand(before["request"] == body["request"])
        is_resent = before is not None and before["state"] == "in_doubt" and before.get("ask", "") == approval
        if approval and not is_resent:
            self._use(approval, body.get("item", ""), call)
        self._effects[call] = {**body, "hash": hash_, "state": "in_doubt"}
        self.in_doubt.add(call)

    def _settle(self, header: Fields, body: Fields) -> None:
        _demand(header["name"] in self.in_doubt)
        effect = self._effects[header["name"]]
        if body.get("found") == "person":
            said = [(told["intended"], told["state"], hash_) for told, hash_ in self._resolved]
            _demand((effect["hash"], body["state"], body.get("item")) in said)
        effect["state"] = body["state"]
        self.in_doubt.discard(header["name"])
        if body["state"] == "did_not_happen" and effect.get("ask"):
            self._asks[effect["ask"]]["used_by"] = ""

    def _refuse(self, header: Fields, body: Fields) -> None:
        _demand(header["name"] not in self.in_doubt)
        if body.get("ask"):
            ask = self._standing(body["ask"])
            self._check_decision(ask, body.get("item", ""), "deny")
            ask["void"] = True

    def _ask(self, header: Fields, body: Fields, hash_: str) -> None:
        call, last = body["call"], self._asks.get(self._asked_last.get(body["call"], ""))
        _demand(body["ask"] not in self._asks)
        _demand(last is None or last["void"] or bool(last["used_by"]))
        _demand(header["value"] == body["bound"]["request"])
        crossing = (self._judged or {}).get("effect")
        _demand(crossing is not None and (crossing["name"], crossing["bound"]) == (call, body["bound"]))
        self._asks[body["ask"]] = {**body, "hash": hash_, "void": False, "used_by": ""}
        self._asked_last[call] = body["ask"]

    def _use(self, ask_id: str, item: str, call: str) -> None:
        ask = self._standing(ask_id)
        self._check_decision(ask, item, "approve")
        _demand(ask["call"] == call)
        ask["used_by"] = call

    def _standing(self, ask_id: str) -> Fields:
        """A question that is neither void nor used up."""
        ask = self._asks.get(ask_id, {"void": True})
        _demand(not ask["void"] and not ask["used_by"])
        return ask

    def _check_decision(self, ask: Fields, item: str, choice: str) -> None:
        """The first decision that names this very question is this one, and says so."""
        about = [(body, hash_) for body, hash_ in self._decisions if body["asked"] == ask["hash"]]
        about = [each for each in about if each[0]["ask"] == ask["ask"]]
        _demand(bool(about) and about[0][1] == item and about[0][0]["choice"] == choice)


def _demand(holds: bool) -> None:
    if not holds:
        raise Wrong("chain.move")
