"""Bugs planted on purpose, by which the simulator shows that it finds such: each patches the product at run time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import bindparam, insert, select

from retinue.core.budgets import Budget, Meter
from retinue.core.tools.helpers import RunHelpers
from retinue.core.values import AgentAction, Observation
from retinue.errors import StoreUnavailable
from retinue.runs import Followed, Runs, Subscriptions, cancellation, drive, drive_context, follow, leases
from retinue.runs.drive_context import DriveContext
from retinue.runs.log_writer import LogWriter
from retinue.server.http.idempotency import Repeat
from retinue.store import due, event_log, processes, run_queries
from retinue.store.prepared_statements import Prepared
from retinue.store.run_row import BY_MEMBERS, RunRow
from retinue.store.tables import events, runs

from .schedule import Plan

Patch = tuple[Any, str, Any]


def _no_epoch_check() -> list[Patch]:
    run_queries._updating.cache_clear()
    names = event_log._COLUMNS
    values = (bindparam(name, type_=events.c[name].type) for name in names[1:])
    append = insert(events).from_select(names, select(runs.c.id, *values).where(runs.c.id == bindparam("run")))
    guard = {bound: read for bound, read in run_queries._GUARD.items() if read != "epoch"}
    return [(event_log, "_APPEND", Prepared(append)), (run_queries, "_GUARD", guard)]


def _signal_dropped() -> list[Patch]:
    """A member's end says nothing to its caller."""
    return [(drive_context, "settle_caller", lambda *_: iter(()))]


def _lease_too_long() -> list[Patch]:
    again = [(processes, name, Prepared(getattr(processes, name)._statement)) for name in ("_ALIVE", "_FIRST")]
    return [(processes, "DEAD_AFTER", 1e9), *again]


def _intent_late() -> list[Patch]:
    """A call begins while its intent is being written."""

    async def may_act(self: LogWriter) -> bool:
        self.write()
        return True

    return [(LogWriter, "may_act", may_act)]


def _settled_apart() -> list[Patch]:
    """A member's end tells its caller, but in a transaction of its own."""
    real = DriveContext.settling

    def settling(self: DriveContext, run_id: str, *, acquires: bool = False) -> tuple[Callable[..., None], list[Any]]:
        settle, changed = real(self, run_id, acquires=acquires)

        def later(connection: Any, after: Any = None) -> None:
            asyncio.get_running_loop().create_task(_quietly(self, settle))

        return later, changed

    return [(DriveContext, "settling", settling)]


async def _quietly(context: DriveContext, settle: Callable[..., None]) -> None:
    await context.database.write(lambda connection: settle(connection))


def _liveness_ignored() -> list[Patch]:
    """Recovery takes runs whether or not their servers live."""
    free = (runs.c.holds, due.is_driven(runs.c.status), runs.c.driver.is_distinct_from(BY_MEMBERS))
    patches = [(due, "_FREE", free), (due, "may_take", lambda _: runs.c.driver.is_distinct_from(BY_MEMBERS))]
    with patched(patches):
        found = (due._due("sqlite"), due._due("postgresql"))
    return [(leases, "is_alive", lambda *_: False), (due, "_DUE", found), *patches]


def _keys_ignored() -> list[Patch]:
    """A request that comes again is done again."""
    return [(Repeat, "once", lambda self, work: work)]


def _cancel_kept() -> list[Patch]:
    """A cancel is not passed on to the members of a team."""
    return [(cancellation, "cancel_members", lambda *_: False), (drive, "cancel_members", lambda *_: False)]


async def _follow(
    self: Subscriptions, run_id: str, after: int = 0, *, listens: bool = True, run: RunRow | None = None
) -> AsyncGenerator[Followed, None]:
    with self._reading(run_id, follow._Reader(after, listens)) as reader:
        items: Sequence[Followed] | None = None
        while True:
            if items is None:
                read = await self._database.read(partial(follow._from, run_id, None, reader.after))
                reader.catch_up()
                items = reader.note(read)
            for item in items:
                yield item
            if reader.over:
                return
            items = await reader.take()


async def _take(self: Any) -> list[Followed] | None:
    await self._more.wait()
    self._more.clear()
    if self._behind:
        return None
    items, self._items = self._items, []
    return [item for item in items if not self.over and self._is_new(item)]


def _reader_late() -> list[Patch]:
    """A reader misses what is written between its reading and its listening, and looks for no gaps."""
    return [(Subscriptions, "follow", _follow), (follow._Reader, "take", _take)]


def _park_ends() -> list[Patch]:
    """A server that stops ends its runs as cancelled."""

    async def close(self: Runs, grace: float) -> None:
        for task in (*self._beside, *self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    return [(Runs, "close", close), (drive.Drive, "_is_left", lambda self: False)]


def _approval_counts_again() -> list[Patch]:
    """An approval counts for each time that its call waits."""
    return [(drive, "decisions", lambda run, log: run.decisions)]


def _budget_undivided() -> list[Patch]:
    """Each of the members called at once may use all that is left."""
    real = Meter.divide_rest

    def divide_rest(self: Meter, parts: int, seconds_left: float | None) -> Budget:
        return replace(real(self, 1, seconds_left))

    return [(Meter, "divide_rest", divide_rest)]


def _lost_counts_as_written() -> list[Patch]:
    """A call begins although nobody knows whether its intent was written."""

    async def may_act(self: LogWriter) -> bool:
        self._planned = False
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self._writing = self._submit()
        with suppress(StoreUnavailable):
            await asyncio.shield(self._writing)
        self._writing = None
        return True

    return [(LogWriter, "may_act", may_act)]


def _end_forgotten() -> list[Patch]:
    """A drive forgets that the model was told of a helper's end."""
    real = RunHelpers.note

    def note(self: RunHelpers, action: AgentAction, seen: Observation) -> None:
        real(self, action, replace(seen, helpers=tuple(one for one in seen.helpers if not one.ended)))

    return [(RunHelpers, "note", note)]


def _helpers_left() -> list[Patch]:
    """An answer leaves the helpers at work that are in the background."""
    return [(drive, "makes_helpers", lambda tool: False)]


BUGS: dict[str, Callable[[], list[Patch]]] = {
    "an epoch check left out": _no_epoch_check,
    "a signal dropped": _signal_dropped,
    "a lease too long": _lease_too_long,
    "an intent written late": _intent_late,
    "a caller settled outside the transaction": _settled_apart,
    "a recovery that ignores liveness": _liveness_ignored,
    "an idempotency key ignored": _keys_ignored,
    "a cancel not passed to members": _cancel_kept,
    "a reader that listens too late": _reader_late,
    "a park that ends the run": _park_ends,
    "an approval that counts again": _approval_counts_again,
    "a budget not divided": _budget_undivided,
    "a lost write that counts as done": _lost_counts_as_written,
    "an end of a helper told twice": _end_forgotten,
    "an answer that leaves helpers at work": _helpers_left,
}


def concerns(name: str, plan: Plan) -> bool:
    """Whether a plan has what a bug is about: for some, most have not."""
    match name:
        case "an epoch check left out":
            pauses = any(fault.kind == "pause" and fault.size > 10 for fault in plan.faults)
            return pauses and any(order.expires for order in plan.orders)
        case "a park that ends the run":
            return any(fault.kind == "stop" and fault.size < 5 for fault in plan.faults)
        case "a lost write that counts as done":
            return any(fault.kind in ("statement lost", "database away") for fault in plan.faults)
        case "a reader that listens too late":
            return sum(order.reads for order in plan.orders) > 1
        case "an end of a helper told twice":
            return any(order.agent == "giver" for order in plan.orders)
        case "an answer that leaves helpers at work":
            return any(order.agent == "hasty" for order in plan.orders)
        case "an approval that counts again":
            return any("kill" in fault.kind for fault in plan.faults) and any(
                "sign" in one.steps for one in plan.orders
            )
    return True


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have a bug in the block."""
    with patched(BUGS[name]()):
        yield


@contextmanager
def patched(patches: list[Patch]) -> Iterator[None]:
    """Have these attributes of the product replaced in the block."""
    before = [(where, what, getattr(where, what)) for where, what, _ in patches]
    for where, what, value in patches:
        setattr(where, what, value)
    try:
        yield
    finally:
        for where, what, value in before:
            setattr(where, what, value)
        run_queries._updating.cache_clear()
