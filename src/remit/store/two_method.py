"""Two methods: any object that can load and save one mapping per run is a store for the list form.

    load(run_id)    the mapping that was saved last for this run; None where there is none
    save(mapping)   keep it under mapping["run"], whole, in place of the one before

Both may be plain or async. A plain one is called on a thread of the store's own, always the
same one, so that neither holds up the event loop nor two calls ever overlap. The mapping is
made of plain JSON types and belongs to whoever was given it:

    {"remit": 1, "ledger": "32 hex digits", "tenant": "default", "run": "po-1041", "gen": 1, "flow": "list",
     "by": ..., "status": ..., "code": ..., "opened_at": ..., "window_end": ..., "head": hex, "seq": 3,
     "post_head": hex, "post_seq": 0, "epoch": 1, "main": [entry, ...], "post": []}

An entry is {"header": text, "body": text, "salt": hex, "value": text}, as `plain.py` says. The
texts are hashed: they have to come back as they were. A mapping that was changed is found
by the chain at the next resume, and it is never saved over.

Where it is weaker than `file:`, and what such a store can't promise:

    no lock     two processes, or two calls, that go on with one run at once both run its steps; the later save wins
    no lease    who holds a run is known in this opening alone; an epoch is as old as the last save
    no list     only the runs of this opening are found, and a quarantine lasts as long as it;
                what happened is then told by the same chain again
    no keys     business keys, ceilings, open questions and announcements are known in this opening alone, like the
                journals of Remit's own: in the next one a key is free again and a ceiling unused
    no whole    several runs are saved one after the other, each for itself
    no sync     a step is as durable as `save` makes it before it returns

What `save` did when it raised is not known here. So the run is loaded anew before anything
is believed of it; a step whose save failed counts as done only if the mapping has it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from remit.canonical import Malformed
from remit.clock import Clock
from remit.errors import LoadError, Refused, SaveError, StoreRefused, StoreUnavailable
from remit.facts.entry import HEADER
from remit.facts.names import RESERVED_PREFIX
from remit.store.batch import Answers
from remit.store.memory import MemoryStore, draft_batch
from remit.store.plain import PlainRun, Unreadable, kept_run, plain_run
from remit.store.rows import Checkup, RunRow
from remit.store.state import Draft, KeptRun, State
from remit.store.units import Opening, Renewal, Unit

T = TypeVar("T")

FORM = 1

_NOT_SAVED: dict[str, Any] = {"quarantined": False, "worker": None, "lease_until": 0}


class TwoMethodStore(MemoryStore):
    """A store on an object's `load` and `save`; see the protocol. Raises Refused `store.methods` where it lacks one.

    clock: replaces this machine's clock.
    """

    keeps_own = False

    def __init__(self, keeper: Any, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        for name in ("load", "save"):
            if not callable(getattr(keeper, name, None)):
                raise Refused(
                    f"{type(keeper).__name__} has no method {name!r}; nothing was opened.",
                    code="store.methods",
                    hint="Give it `load(run_id)` and `save(mapping)`, or use a URL such as `file:state.json`.",
                )
        self.url = f"two-method:{type(keeper).__qualname__}"
        self._keeper = keeper
        self._epochs: dict[tuple[str, str], int] = {}  # of runs that are to be loaded anew: never given a second time
        self._turn: asyncio.Lock
        self._thread: ThreadPoolExecutor

    async def open(self) -> None:
        """Loads nothing yet: each run is loaded when it is first asked for, once."""
        if self._is_open:
            return
        self._state, self._ledger = State(), self._ledger or self._new_ledger()
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="remit-two-method")
        self._start(_RunCommitter(self))

    async def close(self) -> None:
        if self._is_open:
            try:
                await super().close()
            finally:
                self._thread.shutdown(wait=False)

    async def open_run(self, opening: Opening) -> RunRow | None:
        self._check()
        await self._fetch(opening.tenant, opening.run)
        if self._state.read_row(opening.tenant, opening.run) is not None:
            return None  # of whatever generation: there is one mapping for an id
        return await super().open_run(opening)

    async def read_row(self, tenant: str, run: str) -> RunRow | None:
        self._check()
        await self._fetch(tenant, run)
        return await super().read_row(tenant, run)

    def _findings(self) -> list[Checkup]:
        hint = "Use `file:` or `sqlite:` where two processes might go on with one run."
        return [Checkup("durability", True, f"as {type(self._keeper).__qualname__}.save makes it; no lock", hint)]

    async def _write(self, act: Callable[[Draft], T]) -> T:
        # Not while a save is under way: what it drafted would be laid over this.
        async with self._turn:
            return self.write_now(act)

    async def _renew(self, worker: str, leases: Sequence[Renewal], lease_ms: int) -> dict[int, bytes]:
        self._check_process()
        return self.write_now(lambda draft: draft.renew(worker, leases, lease_ms))

    async def commit_one(self, act: Callable[[Draft], T]) -> T:
        """Save the run that `act` adds entries to, then believe it. Raises SaveError: the run is loaded anew."""
        async with self._turn:
            now = self._clock.now()
            with self._lock:
                draft = Draft(self._state, now)
                answer = act(draft)
            for key in {key for key, _ in draft.added}:
                await self._save(draft, key)
            if draft:
                with self._lock:
                    # Drafted again: a renewal may have come from its thread while the save was under way.
                    draft = Draft(self._state, now)
                    answer = act(draft)
                    draft.merge()
            return answer

    def check_ledger(self, opening: Opening) -> None:
        """Raises StoreUnavailable where the opening was drawn up before another run said which ledger this is."""
        try:
            ledger = HEADER.read(opening.entry.header).ledger
        except Malformed:
            return  # the chain will say so
        if ledger != self.ledger.origin:
            raise StoreUnavailable(f"Run {opening.run!r} was not opened: another run was just loaded. Try again.")

    async def _fetch(self, tenant: str, run: str) -> None:
        """Load a run, unless it is here. Journals of Remit's own are never loaded or saved."""
        if run.startswith(RESERVED_PREFIX):
            return
        async with self._turn:
            if self._state.read_row(tenant, run) is not None:
                return
            try:
                loaded = await self._call(self._keeper.load, run)
            except Exception as exc:
                raise LoadError(f"Run {run!r} was not loaded: `load` raised {type(exc).__name__}: {exc}.") from exc
            if loaded is not None:
                origin, kept = _read(loaded, tenant, run, self._state.run_key_next)
                self._adopt(origin, run)
                row = kept.row
                kept.row = replace(row, epoch=max(row.epoch, self._epochs.get((tenant, run), 0)))
                with self._lock:
                    self._state.keep(kept)

    def _adopt(self, origin: str, run: str) -> None:
        """The first run that is loaded says which ledger this is; one of another ledger can't be served beside it."""
        if origin == self.ledger.origin:
            return
        if any(not kept.row.run.startswith(RESERVED_PREFIX) for kept in self._state.runs.values()):
            raise StoreRefused(
                f"Nothing was done: run {run!r} is of ledger {origin}, and this store has one of {self.ledger.origin}.",
                code="store.ledger",
                hint="Open a store of its own for it.",
            )
        with self._lock:
            for key in list(self._state.runs):
                self._state.forget(key)  # journals of Remit's own, of the ledger that this turned out not to be
        self._ledger = replace(self.ledger, origin=origin)

    async def _save(self, draft: Draft, key: int) -> None:
        row, kept = draft.rows[key], self._state.runs.get(key)
        if row.run.startswith(RESERVED_PREFIX):
            return
        main, post = (kept.main, kept.post) if kept is not None else ([], [])
        whole = plain_run(row, main + draft.added.get((key, "main"), []), post + draft.added.get((key, "post"), []))
        mapping = {"remit": FORM, "ledger": self.ledger.origin}
        mapping |= {name: value for name, value in whole.items() if name not in _NOT_SAVED}
        try:
            await self._call(self._keeper.save, mapping)
        except Exception as exc:
            with self._lock:
                self._epochs[row.tenant, row.run] = row.epoch
                if kept is not None:
                    self._state.forget(key)
            raise SaveError(f"Run {row.run!r} was not saved: `save` raised {type(exc).__name__}: {exc}.") from exc

    async def _call(self, method: Callable[[Any], Any], argument: Any) -> Any:
        if inspect.iscoroutinefunction(method):
            return await method(argument)
        context = contextvars.copy_context()
        answer = await asyncio.get_running_loop().run_in_executor(self._thread, context.run, method, argument)
        return await answer if inspect.isawaitable(answer) else answer


class _OneAtATime(Exception):
    """Runs are saved one by one, so each unit is answered for itself."""


class _RunCommitter:
    """Takes a batch only if it is a batch of one; group commit then tries each alone."""

    inline_max = 0

    def __init__(self, store: TwoMethodStore) -> None:
        self._store = store

    async def commit(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        if len(units) + len(openings) > 1:
            raise _OneAtATime

        def act(draft: Draft) -> Answers:
            for opening in openings:
                self._store.check_ledger(opening)
            return draft_batch(draft, units, openings)

        return await self._store.commit_one(act)

    def commit_now(self, units: Sequence[Unit], openings: Sequence[Opening]) -> Answers:
        raise AssertionError("inline_max is 0")


def _read(loaded: object, tenant: str, run: str, run_key: int) -> tuple[str, KeptRun]:
    """Ledger and run of what `load` gave. Raises StoreRefused `store.broken` or `store.newer`."""
    try:
        if not isinstance(loaded, Mapping):
            raise Unreadable(f"it is {type(loaded).__name__} and not a mapping")
        fields = dict(loaded)
        form, origin = fields.pop("remit", None), fields.pop("ledger", None)
        if isinstance(form, int) and form > FORM:
            raise StoreRefused(
                f"Nothing was done: `load` gave run {run!r} in form {form}, and this version knows {FORM}.",
                code="store.newer",
                hint="Use the version of Remit that wrote it, or a later one.",
            )
        if form != FORM or not isinstance(origin, str) or len(bytes.fromhex(origin)) != 16:
            raise Unreadable("its `remit` and `ledger` are not as they were saved")
        kept = kept_run(msgspec.convert({**fields, **_NOT_SAVED}, PlainRun), run_key)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as exc:
        raise _broken(run, str(exc)) from exc
    found = kept.row
    if (found.tenant, found.run) != (tenant, run):
        raise _broken(run, f"it is run {found.run!r} of tenant {found.tenant!r}")
    return origin, kept


def _broken(run: str, what: str) -> StoreRefused:
    return StoreRefused(
        f"Nothing was done: what `load` gave for run {run!r} is not what was saved: {what}.",
        code="store.broken",
        hint="Let `load` give back the mapping that was saved under that id, and None where there is none.",
    )
