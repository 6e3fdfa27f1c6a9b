"""The difference: what an approver sees when asked again, leaf by leaf, with nothing left out.

    difference      each place where two requests part: what stood there, what stands there now
    shown_digest    what an approval is bound to of all that was shown

Old and new are JSON text, because that tells 1 from 1.0, "1", true, null and nothing at all. A
change that the rule calls immaterial is listed like any other; it only does not void a yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from msgspec.structs import replace

from remit.authority.leaves import Leaves, Path, covers, leaves_of, path_text
from remit.canonical import encode
from remit.facts.judgement import Bound

_SHOWN_TAG = b"remit/shown/1\n"


@dataclass(frozen=True, slots=True)
class Change:
    """One place where two requests part."""

    place: Path  # keys and positions from the root
    old: str | None  # JSON text; None where nothing stood there
    new: str | None  # JSON text; None where nothing stands there now
    is_material: bool  # a yes to the old request does not hold for the new one

    @property
    def path(self) -> str:
        """The place for people: $.lines[3].amount."""
        return path_text(self.place)


@dataclass(frozen=True, slots=True)
class Difference:
    """All changes, in order of their places, and how many leaves are as they were."""

    changes: tuple[Change, ...]
    unchanged: int

    @property
    def is_material(self) -> bool:
        return any(change.is_material for change in self.changes)


def difference(old: bytes | None, new: bytes, immaterial: Sequence[str] = ()) -> Difference:
    """Where two requests part. Items of lists are compared by position, containers by what they hold.

    old: stored bytes of the request that was looked at last; None where there was none, and all is new.
    immaterial: fields ("note", "order.comment") that a yes does not depend on, with all below them.

    >>> changes = difference(b'{"amount":3800000,"note":"x"}', b'{"amount":2500000,"note":"x"}').changes
    >>> [(change.path, change.old, change.new) for change in changes]
    [('$.amount', '3800000', '2500000')]
    """
    before: Leaves = {} if old is None else leaves_of(old)
    after = leaves_of(new)
    places = sorted(before.keys() | after.keys(), key=_order)
    changes = tuple(
        Change(place, before.get(place), after.get(place), not covers(immaterial, place))
        for place in places
        if before.get(place) != after.get(place)
    )
    return Difference(changes, len(places) - len(changes))


def shown_digest(bound: Bound, payload: bytes, *, call: str, salt: bytes) -> str:
    """Hex digest of what an approver is shown: the request, the name of its call and all that a yes is bound to.

    bound: its own `shown` does not count. salt: of the stored request, so that once both are erased nobody can find
    the request by trying.
    """
    said = encode({"bound": replace(bound, shown=""), "call": call})
    return sha256(_SHOWN_TAG + salt + said + b"\n" + payload).hexdigest()


def _order(place: Path) -> tuple[tuple[bool, int, str], ...]:
    """Keys by their text, positions by number, and a container before what it holds."""
    return tuple((False, part, "") if isinstance(part, int) else (True, 0, part) for part in place)
