"""Vectors of the boundary: effects, questions and answers, evidence, doubts, and the journal of the authority.

The verdicts are the gate's own, and all digests are those that docs/formats.md describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from remit.authority.contract import digest as contract_digest
from remit.authority.difference import shown_digest
from remit.authority.gate import judge
from remit.authority.policy import policy_digest
from remit.authority.rules import material_of
from remit.canonical import encode
from remit.engine.declared.outward import connector_digest
from remit.facts import kinds
from remit.facts.entry import value_digest
from remit.facts.judgement import Answer, Basis, Bound, Crossing, Limit, Need, Question, Who
from remit.facts.rules import ApprovalPin, CeilingPin, ContractPin, PolicyPin, RulePin
from tests.vectors.writer import AT, Journal, Writer

HOUR = 3_600_000_000
BUYER, DANA, DORA = "agent:buyer", "user:dana", "user:dora"
POLICY = PolicyPin(
    approvals={"wire": ApprovalPin(roles=["director", "treasurer"], within=24 * HOUR)},
    ceilings={"pay": [CeilingPin(currency="GBP", field="amount", max=9_000_000, per="month")]},
    evidence={"quote": 48 * HOUR},
    forbid=["gamble"],
    version="4",
    windows={"high": HOUR // 2},
)
CONTRACT = ContractPin(
    effects={
        "pay": RulePin(
            approval=ApprovalPin(immaterial=["note"], roles=["director"], within=72 * HOUR),
            ceilings=[CeilingPin(currency="GBP", field="amount", max=2_500_000, per="run")],
            evidence=["quote"],
        )
    },
    others="free",
    resume=["buyer"],
    risk="medium",
    version="3",
    window=120 * HOUR,
)
QUOTE = b'{"price":2400000}'
ORDER = b'{"amount":2400000,"currency":"GBP","invoice":"I-7","note":"thanks","payee":"ACME Ltd"}'
REWORDED = ORDER.replace(b"thanks", b"many thanks")
SALT, OTHER_SALT = b"a salt: request.", b"a salt: evidence"
AUTHORITY = 7  # version of directory and policy
ASK = "00" * 15 + "01"

NEEDS = [Need(immaterial=["note"], roles=["director"], source="contract", within=72 * HOUR)]


class Purchase:
    """A run that pays, and what the gate is asked in it."""

    def __init__(self) -> None:
        opened = kinds.RunOpened(
            authority=AUTHORITY,
            behalf=DANA,
            by=BUYER,
            contract=CONTRACT,
            flow="purchase",
            policy=policy_digest(POLICY),
            window_end=AT + CONTRACT.window,
        )
        self.w = Writer("po-2001", "purchase", by=BUYER, given=b'{"invoice":"I-7"}', opened=opened)
        self.w.attempt(1, "4711-a1")
        self.evidence: list[Basis] = []
        self.posted = 0

    def take_evidence(self, value: bytes = QUOTE, *, again: bool = False) -> None:
        fact = kinds.EvidenceTaken(again=again, as_of=AT, evidence="quote", until=AT + 48 * HOUR)
        self.w.add(fact, name="run.evidence.quote", value=value, salt=OTHER_SALT)
        self.evidence = [Basis(digest=value_digest(OTHER_SALT, value), name="quote", until=AT + 48 * HOUR)]

    def crossing(self, call: str, request: bytes, *, effect: str, is_asked: bool) -> Crossing:
        bound = Bound(
            connector=connector(effect) if effect else "",
            contract=contract_digest(CONTRACT),
            effect=effect,
            policy=policy_digest(POLICY),
            request=value_digest(SALT, request),
            version="1" if effect else "",
        )
        if is_asked:
            bound = msgspec.structs.replace(
                bound,
                evidence={basis.name: basis.digest for basis in self.evidence},
                material=value_digest(SALT, material_of(request, ["note"])) if effect else "",
                roles=[["director"]],
                within=72 * HOUR,
            )
            bound = msgspec.structs.replace(bound, shown=shown_digest(bound, request, call=call, salt=SALT))
        key = business = ""
        if effect:
            identity = self.w.identity
            told = [identity.ledger, identity.tenant, identity.run, identity.gen, call]
            key = sha256(b"remit/key/1\n" + encode(told)).hexdigest()
            business = sha256(b"remit/business/1\n" + encode([effect, "I-7"])).hexdigest()
        return Crossing(bound=bound, business=business, key=key, name=call)

    def judged(
        self, crossing: Crossing, *, needs: Sequence[Need] = (), answer: Answer | None = None, **parts: Any
    ) -> kinds.GateJudged:
        head, seq = self.w.place
        ceilings = [Limit(amount=2_400_000, currency="GBP", field="amount", max=2_500_000, per="run",
                          scope="pay.amount/GBP/run", source="contract", stated="GBP"),
                    Limit(amount=2_400_000, currency="GBP", field="amount", max=9_000_000, per="month",
                          scope="pay.amount/GBP/month/2025-12", source="policy", stated="GBP",
                          used=1_000_000)]  # fmt: skip
        question = Question(
            answer=answer,
            authority=AUTHORITY,
            behalf=Who(known=True, principal=DANA, roles=["requester"]),
            ceilings=ceilings if crossing.bound.effect == "pay" else [],
            effect=crossing,
            evidence=self.evidence,
            executor=Who(known=True, principal=BUYER, roles=["buyer"]),
            head=head,
            needs=list(needs),
            now=self.w.now,
            post=self.posted,
            resume=[["buyer"]],
            risk="medium",
            seq=seq,
            window_end=AT + CONTRACT.window,
            **parts,
        )
        return kinds.GateJudged(question=question, verdict=judge(question))

    def ask(self, crossing: Crossing, request: bytes, *, ask: str = ASK, instead_of: str = "") -> str:
        """The judgement that a person is needed, and the question; its hash."""
        self.w.add(self.judged(crossing, needs=NEEDS), name=crossing.name)
        asked = kinds.ApprovalAsked(
            ask=ask,
            authority=AUTHORITY,
            bound=crossing.bound,
            call=crossing.name,
            instead_of=instead_of,
            until=self.w.now + 72 * HOUR,
        )
        return self.w.add(asked, name=crossing.name, value=request, salt=SALT)

    def decide(self, asked: str, choice: Any, *, ask: str = ASK, meaning: str = "pay as pay may happen") -> str:
        fact = kinds.ApprovalDecided(
            ask=ask, asked=asked, authority=AUTHORITY, choice=choice, meaning=meaning, roles=["director"]
        )
        self.posted += 1
        return self.w.post(fact, value=b'{"detail":"as agreed"}', by=DORA)

    def answer(self, bound: Bound, choice: Any, *, ask: str = ASK) -> Answer:
        return Answer(
            ask=ask,
            asked_at=AT,
            at=self.w.now,
            bound=bound,
            by=Who(known=True, principal=DORA, roles=["director"]),
            choice=choice,
            immaterial=bound.immaterial if choice == "deny" else [],
            roles=["director"],
            same=choice == "deny",
            until=AT + 72 * HOUR,
        )

    def pass_(self, judged: kinds.GateJudged, request: bytes, *, ask: str = "", item: str = "") -> str:
        """Judgement and intention; the hash of the latter."""
        crossing = judged.question.effect
        assert crossing is not None and judged.verdict.decision == "resume", judged.verdict
        shared = [limit for limit in judged.question.ceilings if limit.per != "effect" and limit.amount is not None]
        intended = kinds.EffectIntended(
            ask=ask,
            authority=judged.question.authority,
            business=crossing.business,
            effect=crossing.bound.effect,
            function=f"shop.{crossing.bound.effect}",
            item=item,
            key=crossing.key,
            request=crossing.bound.request,
            reserved=tuple(kinds.Reservation(amount=limit.amount or 0, scope=limit.scope) for limit in shared),
        )
        self.w.add(judged, name=crossing.name)
        return self.w.add(intended, name=crossing.name, value=request, salt=SALT)

    def send(self, call: str, request: bytes) -> str:
        """An effect that no rule is about, up to its intention."""
        crossing = self.crossing(call, request, effect="send", is_asked=False)
        return self.pass_(self.judged(crossing), request)


def connector(effect: str) -> str:
    """Where it goes: as the object stands in docs/formats.md."""
    return connector_digest(f"shop.{effect}", {"connector": "bank", "doubt": "ask", "sink": None})


def holds() -> list[Journal]:
    return [_approved(), _doubted(), _refused_and_cancelled(), _unnamed(), _authority()]


def _approved() -> Journal:
    p, call = Purchase(), "pay"
    p.take_evidence()
    crossing = p.crossing(call, ORDER, effect="pay", is_asked=True)
    asked = p.ask(crossing, ORDER)
    p.w.add(
        kinds.RunParked(code="approval_needed", waits_for="approval"), value=b'{"detail":"a director has to say yes"}'
    )
    decided = p.decide(asked, "approve")
    p.w.attempt(2, "4712-b2")
    p.take_evidence(again=True)
    judged = p.judged(crossing, needs=NEEDS, answer=p.answer(crossing.bound, "approve"))
    p.pass_(judged, ORDER, ask=ASK, item=decided)
    p.w.add(kinds.EffectSettled(state="ok", took=41_000), name=call, value=b'{"receipt":"R-1"}')
    p.w.add(kinds.RunEnded(status="completed"), value=b'{"receipt":"R-1"}')
    return p.w.journal("an effect that a director approved: asked, decided, judged, intended, settled")


def _doubted() -> Journal:
    p, call = Purchase(), "send"
    intended = p.send(call, b'"hello"')
    p.w.add(kinds.RunParked(code="effect.in_doubt", waits_for="doubt"), value=b'{"detail":"nobody knows"}')
    told = kinds.DoubtResolved(authority=AUTHORITY, call=call, intended=intended, state="did_not_happen")
    item = p.w.post(told, value=b'{"evidence":"the post office has no letter","outcome":null}', by=DORA)
    p.posted += 1
    p.w.attempt(2, "4712-b2")
    settled = kinds.EffectSettled(error="DidNotHappen", found="person", item=item, state="did_not_happen")
    p.w.add(settled, name=call, value=b'{"detail":"user:dora said so"}')
    p.send(call, b'"hello"')
    p.w.attempt(3, "4713-c3", "4712-b2")
    p.w.add(kinds.EffectSettled(found="probe", state="ok"), name=call, value=b'"sent"')
    p.send("send#2", b'"bye"')
    late = kinds.EffectSettled(error="DidNotHappen", found="unsent", state="did_not_happen")
    p.w.add(late, name="send#2", value=b'{"detail":"its time was over before it began"}')
    p.send("send#2", b'"bye"')
    p.w.add(kinds.RaceWon(beside=["send#2"], sides=["wait", "send#2"], winner=0), name="run.first")
    lost = kinds.EffectSettled(lost=kinds.ValueLost(code="value.refused"), state="ok", took=9)
    p.w.add(lost, name="send#2", value=b'{"detail":"the outcome can\'t be stored"}')
    p.w.add(kinds.RunParked(code="effect.value_lost", waits_for="repair"), value=b'{"detail":"send#2 happened"}')
    return p.w.journal(
        "a doubt that a person ended, the same call again under its key, and an outcome that was lost behind a race"
    )


def _refused_and_cancelled() -> Journal:
    p = Purchase()
    p.take_evidence()
    first = p.crossing("pay", ORDER, effect="pay", is_asked=True)
    p.ask(first, ORDER)
    larger = ORDER.replace(b"2400000", b"2400001")
    changed = p.crossing("pay", larger, effect="pay", is_asked=True)
    p.w.add(p.judged(changed, needs=NEEDS), name="pay")
    p.w.add(kinds.ApprovalVoided(ask=ASK, codes=["approval.payload", "approval.shown"]), name="pay")
    asked = p.ask(changed, larger, ask="00" * 15 + "02", instead_of=ASK)
    item = p.decide(asked, "deny", ask="00" * 15 + "02", meaning="pay as pay must not happen")
    no = p.answer(changed.bound, "deny", ask="00" * 15 + "02")
    p.w.add(p.judged(changed, needs=NEEDS, answer=no), name="pay")
    refused = kinds.EffectRefused(ask="00" * 15 + "02", code="approval.denied", item=item)
    p.w.add(refused, name="pay", value=b'{"detail":"user:dora said no"}')
    terms = p.crossing("terms", b'"as they are"', effect="", is_asked=True)
    asked = p.ask(terms, b'"as they are"', ask="00" * 15 + "03")
    item = p.decide(asked, "approve", ask="00" * 15 + "03", meaning="terms may happen")
    judged = p.judged(terms, needs=NEEDS, answer=p.answer(terms.bound, "approve", ask="00" * 15 + "03"))
    assert judged.verdict.decision == "resume", judged.verdict
    p.w.add(judged, name="terms")
    p.w.add(kinds.ApprovalUsed(ask="00" * 15 + "03", item=item), name="terms", value=b'{"detail":"as agreed"}')
    cancel = p.w.post(kinds.CancelAsked(), value=b'{"detail":"no longer needed"}')
    ended = kinds.RunEnded(code="cancelled", item=cancel, status="cancelled")
    p.w.add(ended, value=b'{"detail":"user:dana cancelled it: no longer needed"}')
    return p.w.journal(
        "a question that became another one, a no, a yes to the flow's own question, and a cancelled run"
    )


def _unnamed() -> Journal:
    p = Purchase()
    p.w.add(p.judged(p.crossing("send", b'"hello"', effect="send", is_asked=False), unnamed=True), name="send")
    p.w.add(kinds.RunParked(code="policy_unnamed", waits_for="repair"), value=b'{"detail":"no rule is about send"}')
    return p.w.journal("a call that no rule names, in code whose contract refuses such calls")


def _authority() -> Journal:
    forever = 2**53 - 1
    pin = ContractPin(resume=["anyone"], risk="low", version="1", window=forever)
    opened = kinds.RunOpened(by="service:remit", contract=pin, flow="remit:authority", window_end=forever)
    w = Writer("remit:authority", "remit:authority", by="service:remit", given=b"null", opened=opened)
    w.under("user:root")
    for fact in (
        kinds.RoleGranted(principal=BUYER, role="buyer"),
        kinds.RoleGranted(principal=DORA, role="director"),
        kinds.PolicySet(policy=POLICY),
        kinds.PrincipalLinked(person=DANA, principal=BUYER),
        kinds.PrincipalDisabled(principal=DANA),
        kinds.PrincipalEnabled(principal=DANA),
        kinds.RoleRevoked(principal=DORA, role="director"),
    ):
        w.add(fact, value=b'{"detail":""}')
    return w.journal("the journal of the authority")
