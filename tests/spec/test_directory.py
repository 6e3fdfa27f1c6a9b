"""The directory: what the journal `remit:authority` makes of principals, roles, persons and policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from remit.authority.directory import (
    LOCAL,
    Authority,
    check_disable,
    check_enable,
    check_grant,
    check_link,
    check_policy,
    check_revoke,
    extend,
    fold_authority,
)
from remit.authority.policy import policy_digest
from remit.errors import IdRefused, Refused, Tampered
from remit.facts import chain
from remit.facts.entry import Entry, Identity, Pen, entry_hash, genesis, value_digest
from remit.facts.fact import Fact
from remit.facts.judgement import Who
from remit.facts.kinds import (
    CancelAsked,
    DoubtResolved,
    PolicySet,
    PrincipalDisabled,
    PrincipalEnabled,
    PrincipalLinked,
    RoleGranted,
    RoleRevoked,
    RunOpened,
    StepDone,
    write,
)
from remit.facts.names import AUTHORITY
from remit.facts.rules import ContractPin, PolicyPin

OLA, DANA, EVE, MAIL = "user:ola", "user:dana", "user:eve", "user:dana-at-home"
AGENT = "agent:buyer"
SALT = b"salt of 16 bytes"
IDENTITY = Identity("0" * 32, "default", AUTHORITY, 1, AUTHORITY)
OPENED = RunOpened(
    by="service:remit",
    contract=ContractPin(resume=["anyone"], risk="low", version="1", window=1),
    flow=AUTHORITY,
    window_end=1,
)
POLICY = PolicyPin(forbid=["wire"], version="1")


def granted(principal: str, role: str) -> RoleGranted:
    return RoleGranted(principal=principal, role=role)


def linked(principal: str, person: str) -> PrincipalLinked:
    return PrincipalLinked(person=person, principal=principal)


def journal(*acts: Fact | tuple[Fact, str]) -> list[chain.Read]:
    """A verified journal of these acts, each by Ola unless somebody is named."""
    pen = Pen(IDENTITY, lane="main", by=OLA, epoch=0, head=genesis(IDENTITY, value_digest(SALT, b"null")), seq=0)
    entries: list[Entry] = []
    for act in ((OPENED, "service:remit"), *acts):
        fact, by = act if isinstance(act, tuple) else (act, OLA)
        own = Pen(IDENTITY, lane="main", by=by, epoch=0, head=pen.head, seq=pen.seq)
        entries.append(own.seal(type(fact).__name__, write(fact), at=len(entries), value=(SALT, b"null")))
        pen = own
    opening = chain.Heads(pen.head, pen.seq, entry_hash(entries[0].header), 0)
    return chain.verify(IDENTITY, opening, entries, []).main


def after(*acts: Fact | tuple[Fact, str]) -> Authority:
    return fold_authority(journal(*acts))


def code_of(check: Callable[[], None]) -> str:
    with pytest.raises(Refused) as refused:
        check()
    assert "nothing was done" in refused.value.message
    return refused.value.code


def test_before_the_first_act_there_is_version_0_and_only_the_local_service_is_known():  # proves: GATE-3
    nobody = fold_authority([])
    assert (nobody.version, nobody.policy, nobody.policy_digest) == (0, None, "")
    assert nobody.who(LOCAL) == Who(known=True, principal=LOCAL)
    assert nobody.who(DANA) == Who(principal=DANA)
    assert after().version == 1


def test_roles_are_those_granted_and_not_revoked_with_the_seq_of_the_grant_that_holds():  # proves: GATE-3, APR-3
    acts = [granted(DANA, "director"), granted(DANA, "buyer"), RoleRevoked(principal=DANA, role="director")]
    assert after(*acts[:2]).who(DANA) == Who(known=True, principal=DANA, roles=["buyer", "director"])
    assert after(*acts[:2]).granted_at(DANA, "director") == 2
    assert after(*acts).who(DANA).roles == ["buyer"]
    assert after(*acts).granted_at(DANA, "director") is None
    # Granted again it is a new grant: an approval asked for in between does not count on it.
    assert after(*acts, granted(DANA, "director")).granted_at(DANA, "director") == 5
    assert after(*acts, RoleRevoked(principal=DANA, role="buyer")).who(DANA) == Who(known=True, principal=DANA)


def test_whoever_is_disabled_is_so_until_enabled_again_and_keeps_the_roles():  # proves: GATE-3
    acts = [granted(DANA, "director"), PrincipalDisabled(principal=DANA)]
    assert after(*acts).who(DANA) == Who(disabled=True, known=True, principal=DANA, roles=["director"])
    assert not after(*acts, PrincipalEnabled(principal=DANA)).who(DANA).disabled
    assert after(PrincipalDisabled(principal=EVE)).who(EVE) == Who(disabled=True, known=True, principal=EVE)


def test_linked_principals_are_one_person_and_do_not_share_roles():  # proves: APR-4
    authority = after(granted(DANA, "director"), linked(MAIL, DANA), linked(AGENT, MAIL))
    assert authority.who(AGENT) == Who(known=True, person=DANA, principal=AGENT)
    assert authority.who(DANA) == Who(known=True, principal=DANA, roles=["director"])
    assert {authority.person_of(each) for each in (AGENT, MAIL, DANA)} == {DANA}
    assert authority.person_of("user:unheard-of") == "user:unheard-of"
    assert after(linked(MAIL, EVE)).who(EVE) == Who(known=True, principal=EVE)
    # The person's own principal may turn out to be another person's.
    joined = after(granted(DANA, "director"), linked(MAIL, DANA), linked(AGENT, MAIL), linked(DANA, EVE))
    assert joined.person_of(AGENT) == EVE


def test_whoever_is_linked_to_somebody_disabled_is_disabled_and_not_the_other_way():  # proves: GATE-3, APR-4
    links = [linked(MAIL, DANA), linked(AGENT, MAIL)]
    assert after(*links, PrincipalDisabled(principal=DANA)).who(AGENT).disabled
    assert after(*links, PrincipalDisabled(principal=MAIL)).who(AGENT).disabled
    assert not after(*links, PrincipalDisabled(principal=MAIL)).who(DANA).disabled
    assert not after(*links, PrincipalDisabled(principal=AGENT)).who(MAIL).disabled


def test_the_policy_is_the_one_set_last():  # proves: GATE-4
    second = PolicyPin(version="2")
    authority = after(PolicySet(policy=POLICY), granted(DANA, "buyer"), PolicySet(policy=second))
    assert (authority.version, authority.policy, authority.policy_digest) == (4, second, policy_digest(second))


def test_extended_entry_by_entry_it_is_the_same_and_what_was_read_before_stays_as_it_was():  # proves: GATE-4
    reads = journal(
        granted(DANA, "director"),
        linked(MAIL, DANA),
        PolicySet(policy=POLICY),
        PrincipalDisabled(principal=DANA),
        PrincipalEnabled(principal=DANA),
        RoleRevoked(principal=DANA, role="director"),
    )
    seen, authority = [], Authority()
    for read in reads:
        authority = extend(authority, [read])
        seen.append(authority)
    assert seen == [fold_authority(reads[:count]) for count in range(1, len(reads) + 1)]
    assert [each.version for each in seen] == [1, 2, 3, 4, 5, 6, 7]
    assert [each.granted_at(DANA, "director") for each in seen] == [None, 2, 2, 2, 2, 2, None]


@pytest.mark.parametrize(
    ("acts", "place"),
    [
        ([StepDone(took=1)], 2),
        ([(granted(OLA, "director"), OLA)], 2),
        ([granted(DANA, "buyer"), granted(DANA, "buyer")], 3),
        ([granted(DANA, "anyone")], 2),
        ([linked(MAIL, DANA), linked(DANA, MAIL)], 3),
        ([PrincipalDisabled(principal=EVE), (granted(DANA, "buyer"), EVE)], 3),
        ([OPENED], 2),
    ],
    ids=["other kind", "self grant", "twice", "anyone", "cycle", "by a disabled one", "opened again"],
)
def test_an_entry_that_was_never_allowed_is_tampered(acts: list[Fact], place: int):  # proves: LOG-1
    with pytest.raises(Tampered) as found:
        after(*acts)
    assert (found.value.code, found.value.run, found.value.seq) == ("chain.move", AUTHORITY, place)


def test_an_entry_that_does_not_follow_is_tampered():  # proves: LOG-1
    reads = journal(granted(DANA, "buyer"), granted(DANA, "director"), RoleRevoked(principal=DANA, role="buyer"))
    for wrong in (reads[1:], reads[:2] + reads[3:], reads + reads[3:]):
        with pytest.raises(Tampered) as found:
            fold_authority(wrong)
        assert found.value.code == "chain.move"


def test_nobody_gives_themselves_anything():  # proves: APR-4
    """Attack 22."""
    authority = after(linked(MAIL, DANA), linked(AGENT, DANA), PrincipalDisabled(principal=MAIL))
    pairs = [(DANA, DANA), (AGENT, DANA), (DANA, AGENT), (AGENT, MAIL), ("user:new", "user:new")]
    for by, principal in pairs:
        assert code_of(partial(check_grant, authority, principal, "director", by)) == "authority.self_grant"
    assert code_of(lambda: check_enable(authority, MAIL, DANA)) == "authority.self_grant"
    check_grant(authority, DANA, "director", EVE)
    check_enable(authority, MAIL, EVE)


def test_what_is_so_already_is_no_act():
    authority = after(
        granted(DANA, "buyer"), linked(MAIL, DANA), PrincipalDisabled(principal=EVE), PolicySet(policy=POLICY)
    )
    for check in (
        lambda: check_grant(authority, DANA, "buyer", OLA),
        lambda: check_revoke(authority, DANA, "director", OLA),
        lambda: check_revoke(authority, "user:unheard-of", "director", OLA),
        lambda: check_disable(authority, EVE, OLA),
        lambda: check_enable(authority, DANA, OLA),
        lambda: check_link(authority, MAIL, DANA, OLA),
        lambda: check_policy(authority, PolicyPin(forbid=["wire"], version="1"), OLA),
    ):
        assert code_of(check) == "authority.no_change"
    check_revoke(authority, DANA, "buyer", DANA)
    check_disable(authority, DANA, DANA)
    check_policy(authority, PolicyPin(version="1"), OLA)


def test_a_link_is_for_good_and_leads_to_a_person():  # proves: APR-4
    authority = after(linked(MAIL, DANA))
    for principal, person in [(MAIL, EVE), (DANA, MAIL), (DANA, DANA), (EVE, AGENT), (EVE, LOCAL)]:
        assert code_of(partial(check_link, authority, principal, person, OLA)) == "authority.link"
    check_link(authority, DANA, EVE, OLA)
    check_link(authority, AGENT, MAIL, AGENT)


def test_somebody_disabled_does_nothing():  # proves: GATE-3
    authority = after(granted(DANA, "buyer"), linked(MAIL, DANA), PrincipalDisabled(principal=DANA))
    for by in (DANA, MAIL):
        for check in (
            partial(check_grant, authority, EVE, "buyer", by),
            partial(check_revoke, authority, DANA, "buyer", by),
            partial(check_disable, authority, EVE, by),
            partial(check_enable, authority, DANA, by),
            partial(check_link, authority, EVE, OLA, by),
            partial(check_policy, authority, POLICY, by),
        ):
            assert code_of(check) == "authority.disabled"


@pytest.mark.parametrize("role", ["", "anyone", "Director", "a b", "x" * 65, "dirеctor", "a\n", 7])
def test_a_role_has_one_spelling(role: str):
    for check in (check_grant, check_revoke):
        assert code_of(partial(check, Authority(), DANA, role, OLA)) == "authority.role"
    check_grant(Authority(), DANA, "x" * 64, OLA)
    check_grant(Authority(), DANA, "finance.director-2_b", OLA)


@pytest.mark.parametrize("name", ["dana", "user:", "robot:x", "user:" + "x" * 196, "", 7])
def test_whoever_acts_or_is_acted_on_is_a_principal(name: str):
    for check in (
        lambda: check_grant(Authority(), name, "buyer", OLA),
        lambda: check_grant(Authority(), DANA, "buyer", name),
        lambda: check_disable(Authority(), name, OLA),
        lambda: check_link(Authority(), MAIL, name, OLA),
        lambda: check_policy(Authority(), POLICY, name),
    ):
        with pytest.raises(IdRefused):
            check()


def test_what_another_unicode_let_in_is_no_forgery():  # proves: LOG-2
    """Which characters are assigned depends on the interpreter, so that an older one would refuse a whole directory."""
    unheard_of = "user:\U0003fffd"  # assigned in no version yet
    assert after(granted(unheard_of, "director")).who(unheard_of).roles == ["director"]


def test_whatever_a_principal_did_says_how_surely_it_was_known():  # proves: LOG-10, APR-13
    """Each of these is asserted as long as nobody signs; a later version says so where it knows better."""
    policy = PolicySet(policy=POLICY)
    acts = (granted(DANA, "lead"), RoleRevoked(principal=DANA, role="lead"), linked(MAIL, DANA), policy)
    others = (PrincipalDisabled(principal=EVE), PrincipalEnabled(principal=EVE), CancelAsked())
    resolved = DoubtResolved(authority=3, call="pay", intended="0" * 64, state="ok")
    assert {act.assurance for act in (*acts, *others, resolved)} == {"asserted"}
    assert write(CancelAsked(assurance="passkey")) == b'{"assurance":"passkey"}'
