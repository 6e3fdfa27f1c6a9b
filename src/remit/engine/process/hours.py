"""Hours: what time it is for a decision, and what time an entry may state.

    latest     of this machine's clock, the store's, and every entry that this process read verified or wrote
    earliest   of the two clocks, for what must surely be over
    begin      since when a span counts that begins now: the earliest, so that it ends for nobody too late
    date       what an entry states: this machine's clock, refused where that runs ahead of the store's

A clock that is behind or was set back must not revive what expired, and one date far ahead would
expire everything. The store's clock is read with each look at the authority, and carried on in
between by one that nobody can set. One that ran ahead and was put right goes on expiring in here, as
far ahead as it was read: what it let expire may have been refused by then. What must surely be over is
told by what it says now.
"""

from __future__ import annotations

from remit.authority.moments import dated
from remit.clock import Clock, elapsed_us, up_us
from remit.errors import ClockJumped

AGREE_US = 1_000_000  # clocks that part by no more say the same
JUMP_US = 600_000_000  # this far ahead of the store's clock, a clock of this machine's is not believed


class Hours:
    """A clock beside the store's. is_given: the clock is the caller's and the store's as well, so neither is checked.

    Times are microseconds UTC.
    """

    __slots__ = ("_ahead", "_believed", "_clock", "_furthest", "_high", "_is_given")

    def __init__(self, clock: Clock, *, is_given: bool) -> None:
        self._clock, self._is_given = clock, is_given
        self._high = 0  # the latest that an entry stated
        self._ahead: int | None = None  # how far the store's clock is ahead of `elapsed_us`; None before it was seen
        self._furthest: int | None = None  # the same, as far as it was ever
        self._believed = 0  # up to when the store's clock contradicts no date: not before this, as it goes forward

    def now(self) -> int:
        """Wall time of this machine, as it is."""
        return self._clock.now()

    def latest(self) -> int:
        """The time that expires things."""
        now = self._clock.now()
        if self._high > now:
            now = self._high
        if self._furthest is None:
            return now
        carried_on = elapsed_us() + self._furthest
        return carried_on if carried_on > now else now

    def earliest(self) -> int:
        """A time that surely has come."""
        return min(self._clock.now(), self._store_now() or self._clock.now())

    def begin(self, span: int, last_at: int = 0) -> int:
        """Since when a span of time counts that begins now: since the earliest, so that it ends for nobody too late.

        Where clocks agree as far as they are believed, at least half of it is left by the latest: what is shorter than
        they part would be over before it began, and lasts up to half as long again for others.
        span: microseconds. last_at: the latest time that an entry states which only the caller has read.
        """
        earliest = self.earliest()
        latest = max(self.latest(), last_at)
        return earliest if latest - earliest > JUMP_US else max(earliest, latest - span // 2)

    def check_opens(self, until: int) -> None:
        """Raises ClockJumped `clock.apart` where a run whose window ends then would be over by one clock alone."""
        earliest, latest = self.earliest(), self.latest()
        if earliest <= until < latest and latest - earliest > AGREE_US:
            said = ", ".join([f"{name} says {dated(at)}" for name, at, _ in self._told(0) if at])
            raise ClockJumped(
                f"The run would be over before it began: {said}; nothing was done.",
                code="clock.apart",
                hint="Set the clock right that is wrong, and restart this process where it heard a time that was.",
            )

    def apart(self, until: int, last_at: int = 0) -> str:
        """By which clocks what held until then is over, and by which it is not; "" where both of them say it is."""
        told = self._told(last_at)
        left = [name for name, at, is_sure in told if is_sure and at <= until]
        over = [name for name, at, _ in told if at > until]
        if not left or not over:
            return ""
        return f"over by {' and '.join(over)}, and not by {' and '.join(left)}"

    def _told(self, last_at: int) -> list[tuple[str, int, bool]]:
        """What told the time: its name, what it says, and whether it says so now. last_at: as for `begin`."""
        told = [("this machine's clock", self._clock.now(), True)]
        if self._ahead is not None and self._furthest is not None:
            now = elapsed_us()
            told.append(("the store's clock", now + self._ahead, True))
            if self._furthest > self._ahead:
                told.append(("the store's clock as it was before it was put right", now + self._furthest, False))
        told.append(("an entry", max(self._high, last_at), False))
        return told

    def up(self) -> int | None:
        """How long this machine has been up, which nobody can set; None where that is unknown, or time is given."""
        return None if self._is_given else up_us()

    def date(self, *, is_final: bool = False) -> int:
        """What an entry states. is_final: it must be written, under the store's time where this machine's is wrong.

        Raises ClockJumped.
        """
        now = self._clock.now()
        if self._ahead is None or now <= self._believed or now <= self._believable():
            return now
        store_now = self._store_now()
        if is_final:
            return store_now
        ahead_s = (now - store_now) // 1_000_000
        raise ClockJumped(f"This machine's clock is {ahead_s:,} s ahead of the store's; nothing was done.")

    def check(self) -> None:
        """Raises ClockJumped where nothing may be written under this machine's clock."""
        self.date()

    def saw(self, store_now: int) -> None:
        """What the store's clock says at this moment."""
        if not self._is_given:
            self._ahead = store_now - elapsed_us()
            self._furthest = self._ahead if self._furthest is None else max(self._furthest, self._ahead)
            self._believed = 0

    def note(self, at: int) -> None:
        """A verified entry states this. One that the store's clock contradicts is its own run's matter.

        Before the store's clock was read, this machine's speaks for it.
        """
        if at > self._high and (at <= self._believed or at <= self._believable()):
            self._high = at

    def _believable(self) -> int:
        """The furthest date that nothing contradicts."""
        if self._ahead is None:
            return self._clock.now() + JUMP_US
        self._believed = self._store_now() + JUMP_US
        return self._believed

    def _store_now(self) -> int:
        return 0 if self._ahead is None else elapsed_us() + self._ahead
