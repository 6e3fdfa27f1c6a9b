"""The long way: a transaction that locks what its units rest on, decides, and then writes.

Everybody locks in one order, so that two who want the same rows never wait for each other:

    journals of authority     for all to share; where the batch moves a journal of Remit's own, for itself; in line
    runs                      by run key
    business keys, ceilings   by key, by scope
    new ids                   by id
    numbers                   of questions and announcements, which everybody waits for

A unit that is refused has changed nothing that the others see: what it wishes is decided
before anything of it is written. A crash anywhere leaves nothing of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from remit.store.batch import Answers
from remit.store.postgres.append import append, append_post, keep_large, open_runs
from remit.store.postgres.connection import Connection
from remit.store.postgres.ends import Ends, after, ends_of, loss_of
from remit.store.postgres.marks import Marks, hold
from remit.store.postgres.rows import Q
from remit.store.rows import RunRow
from remit.store.units import Loss, Opening, Unit


async def write_locked(
    connection: Connection, units: Sequence[Unit], openings: Sequence[Opening], now: int | None
) -> Answers:
    """Inside a transaction that somebody else begins and ends. now: of a given clock. Raises what Postgres raises."""
    lost: list[Loss | None] = []
    marks = Marks({}, {})
    if units:
        ends = await _lock(connection, units, now)
        at = max((own.now for own in ends.values()), default=0)
        if any(unit.marks for unit in units):
            marks = await hold(connection, units, ends)
        lost = _decide(units, ends, marks)
        kept = [unit for unit, why in zip(units, lost, strict=True) if why is None]
        await _write(connection, kept, at)
        await marks.settle(connection)
    else:
        kept = []
    opened = await open_runs(connection, openings, now) if openings else []
    await keep_large(connection, [(unit.run_key, entry) for unit in kept for entry in unit.entries])
    made = [(row.run_key, o.entry) for row, o in zip(opened, openings, strict=True) if isinstance(row, RunRow)]
    await keep_large(connection, made)
    await marks.tell(connection, now)
    return Answers(lost, opened)


async def _lock(connection: Connection, units: Sequence[Unit], now: int | None) -> dict[int, Ends]:
    """All rows of runs that the units rest on."""
    fences = {unit.fence.run_key for unit in units if unit.fence is not None}
    keys = {unit.run_key for unit in units} | {u.quarantine.run_key for u in units if u.quarantine is not None}
    ends: dict[int, Ends] = {}
    if any(unit.epoch is None and unit.lane == "main" for unit in units) or fences & keys:
        keys |= fences  # who shares a journal and then moves it may meet another who does the same
    elif fences:
        ends |= ends_of(await connection.fetch(Q["share_fences"], sorted(fences)))
    return ends | ends_of(await connection.fetch(Q["lock_runs"], sorted(keys), now))


def _decide(units: Sequence[Unit], ends: dict[int, Ends], marks: Marks) -> list[Loss | None]:
    """Each unit by what those before it made of the rows: first the journals that fence others, lane post last."""
    fences = {unit.fence.run_key for unit in units if unit.fence is not None}

    def place(number: int) -> tuple[bool, bool, int]:
        unit = units[number]
        return (unit.lane == "post", unit.run_key not in fences, number)

    lost: list[Loss | None] = [None] * len(units)
    for number in sorted(range(len(units)), key=place):
        unit, aside = units[number], units[number].quarantine
        unlaid = None if aside is None else unit.lay(ends.get(aside.run_key))
        why = loss_of(unit, ends) or unlaid or marks.make(unit, ends[unit.run_key])
        if why is None:
            ends[unit.run_key] = after(unit, ends[unit.run_key])
            if aside is not None:
                ends[aside.run_key] = ends[aside.run_key]._replace(quarantined=aside.is_set)
        lost[number] = why
    return lost


async def _write(connection: Connection, units: Sequence[Unit], now: int) -> None:
    """Those that can be written. now: when their rows were locked."""
    main, post = [u for u in units if u.lane == "main"], [u for u in units if u.lane == "post"]
    if main:
        won = await append(connection, main, now, is_judged=True)
        assert won == {u.run_key for u in main}, "what was decided under locks holds"
    if post:
        won = await append_post(connection, post)
        assert won == {u.run_key for u in post}, "what was decided under locks holds"
    for unit in units:
        if unit.quarantine is not None:
            await connection.execute(Q["set_quarantine"], unit.quarantine.run_key, unit.quarantine.is_set)
