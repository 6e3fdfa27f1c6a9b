"""At work: where calls in doubt may still be, as the journal has it and as far as can be told from here.

The number of a process is one of its machine and container. So one that is not where this process is, as far as its
worker's row tells, is named with its worker, and told to be elsewhere: nobody is to look for that number here.
"""

from __future__ import annotations

from collections.abc import Iterable

from remit.engine.process.host import Host
from remit.engine.process.liveness import is_proven_dead, place, place_of
from remit.facts.view import RunView


async def left_at_work(host: Host, view: RunView) -> dict[str, str]:
    """Calls in doubt that may still be at work, with their processes. What this process has is known."""
    effects = view.boundary.effects
    here = {name for name in view.boundary.in_doubt if effects[name].intended.key in host.outstanding}
    return await _left(host, view, here)


async def left_elsewhere(host: Host, view: RunView) -> dict[str, str]:
    """The same of other processes alone."""
    return await _left(host, view, set()) if view.at_work else {}


async def _left(host: Host, view: RunView, here: set[str]) -> dict[str, str]:
    """here: calls of which this process is named as well."""
    found = dict[str, str]()
    for name in view.boundary.in_doubt:
        workers = [at for at in view.at_work.get(name, ()) if name in here or not host.lock.has(at)]
        if told := listed((await places_of(host, workers)).values()):
            found[name] = told
    return found


async def places_of(host: Host, workers: Iterable[str]) -> dict[str, str]:
    """By worker, its process as people find it; "" of one that is proven dead."""
    found = dict[str, str]()
    for worker in workers:
        row = None if host.lock.has(worker) else await host.store.read_worker(worker)
        if row is None:
            found[worker] = place() if host.lock.has(worker) else place_of(worker, "")
        else:
            found[worker] = "" if is_proven_dead(row) else place_of(worker, row.host)
    return found


def listed(places: Iterable[str]) -> str:
    """Places in words, each once."""
    return " and ".join(dict.fromkeys(filter(None, places)))
