"""What must hold of the database after each commit, and of all that was seen at the end of a schedule."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from retinue.core.events import Called, Event, Finished, Observed, Paused, Replied, Said, Stopped
from retinue.core.serialization import load
from retinue.runs import Followed
from retinue.store.event_log import Entry, load_pieces
from retinue.store.run_row import ACTIVE

from .clients import Clients, Order
from .orders import Ledger, effects_of
from .store import Store
from .world import World

_ROWS = "SELECT id, status, driver, epoch, holds, thread_id FROM runs"
_LEFT = """SELECT id FROM runs AS r WHERE driver = 'members' AND status IN ('in_progress', 'cancelling')
    AND NOT EXISTS (SELECT 1 FROM runs AS m WHERE m.parent_id = r.id AND m.holds)"""


class Watch:
    """Looks at the runs after each commit."""

    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self._before: dict[str, tuple[Any, ...]] = {}
        self._seen = -1  # writes of runs
        store.observers.append(self.look)

    def look(self) -> None:
        """Compare the rows of all runs with those after the last commit that wrote to any."""
        if self._seen == (writes := self._store.writes["runs"]):
            return
        self._seen = writes
        world, rows = self._world, self._store.rows
        held: set[str] = set()
        members = False
        for row in rows(_ROWS):
            run_id, status, driver, epoch, holds, thread = row
            members = members or driver == "members"
            if holds and thread is not None:
                if thread in held:
                    world.failed(f"two runs hold the thread {thread}")
                held.add(thread)
            before = self._before.get(run_id)
            if before == row:
                continue
            self._before[run_id] = row
            if world.trace is not None:
                world.note(f"{run_id}: {status}, driven by {driver}, epoch {epoch}")
            if before is not None:
                self._compare(before, row)
        if members:
            for (run_id,) in rows(_LEFT):
                world.failed(f"the run {run_id} is left to members that have ended")

    def _compare(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        run_id, was, drove, epoch, *_ = before
        _, status, driver, now, *_ = after
        if was not in ACTIVE:
            self._world.failed(f"the run {run_id} had ended as {was} and is now {status}, epoch {epoch} → {now}")
        if now < epoch:
            self._world.failed(f"the epoch of {run_id} went back from {epoch} to {now}")
        driven = was in ("in_progress", "cancelling")
        taken = driven and drove not in (None, "members", driver) and driver not in (None, "members")
        if taken and drove in self._store.living():
            self._world.failed(f"{driver} took the run {run_id} of {drove}, which is alive")


def check_end(world: World, store: Store, clients: Clients, ledger: Ledger) -> None:
    """Check what became of all orders."""
    rows = {row[0]: row for row in store.rows("SELECT id, status, parent_id, root_id, waiting, epoch FROM runs")}
    logs = _logs(world, store)
    for run_id, status, parent, _, waiting, epoch in rows.values():
        _check_log(world, run_id, status, logs[run_id], epoch)
        _check_helpers(world, run_id, status, logs[run_id])
        if status == "requires_action" and not json.loads(waiting or "[]"):
            world.failed(f"the run {run_id} waits for nobody")
        if parent and rows[parent][1] not in ACTIVE and status in ACTIVE:
            world.failed(f"the member {run_id} is {status} although its caller has ended")
    for order in clients.orders:
        _check_order(world, order, rows, ledger)
        for found in order.streams:
            _check_stream(world, order, found, [entry for entry, _ in logs.get(order.run_id, ())], whole=True)
    for stream in clients.first_streams:
        run_id = stream.order.run_id
        whole = stream.over and run_id not in stream.server.cut
        _check_stream(world, stream.order, stream.found, [entry for entry, _ in logs.get(run_id, ())], whole=whole)
    _check_budgets(world, clients, rows, logs)
    creations = store.rows("SELECT count(*) FROM runs WHERE parent_id IS NULL")[0][0]
    if creations > len(clients.orders):
        world.failed(f"{len(clients.orders)} orders, each with a key, made {creations} runs")


def _logs(world: World, store: Store) -> dict[str, list[tuple[Entry, int]]]:
    logs: dict[str, list[tuple[Entry, int]]] = defaultdict(list)
    for run_id, seq, epoch, at, kind, payload, pieces in store.rows(
        "SELECT run_id, seq, epoch, at, kind, payload, pieces FROM events ORDER BY run_id, seq"
    ):
        event = load(kind, payload)
        if pieces and isinstance(event, Replied):
            logs[run_id] += [(one, epoch) for one in load_pieces(pieces, seq, event)]
        logs[run_id].append((Entry(seq, at, event), epoch))
    return logs


def _check_log(world: World, run_id: str, status: str, log: Sequence[tuple[Entry, int]], epoch: int) -> None:
    numbers = [entry.seq for entry, _ in log]
    epochs = [held for _, held in log]
    if numbers != list(range(1, len(log) + 1)):
        world.failed(f"the log of {run_id} has the numbers {numbers}")
    if epochs != sorted(epochs) or (epochs and epochs[-1] > epoch):
        world.failed(f"the log of {run_id} was written under the epochs {epochs}, and the run's is {epoch}")
    ends = bool(log) and isinstance(log[-1][0].event, Finished | Stopped)
    if log and ends != (status not in ("queued", "in_progress", "cancelling")) and status != "failed":
        world.failed(f"the run {run_id} is {status}, and its log ends with {type(log[-1][0].event).__name__}")
    begun: set[str] = set()
    settled: set[str] = set()
    for entry, _ in log:
        event: Event = entry.event
        if isinstance(event, Called | Paused):
            begun.add(event.action.id)
        elif isinstance(event, Observed):
            call = event.observation.call_id
            if call in settled:
                world.failed(f"the log of {run_id} has two outcomes of {call}")
            settled.add(call)
            if call not in begun and event.observation.outcome == "result":
                world.failed(f"the log of {run_id} has an outcome of {call}, which was not begun")
        elif isinstance(event, Finished) and entry.seq != log[-1][0].seq:
            world.failed(f"the log of {run_id} goes on after its answer")


def _check_helpers(world: World, run_id: str, status: str, log: Sequence[tuple[Entry, int]]) -> None:
    """Check that a run is told of each helper's end once: at the latest as it reads the answer, in its third step."""
    seen = [entry.event.observation for entry, _ in log if isinstance(entry.event, Observed)]
    states = [state for one in seen for state in one.helpers]
    begun = [one.call for one in states if not one.ended]
    told = [one.call for one in states if one.ended]
    read = [one for one in seen if one.call_id.startswith("call_3_") and one.outcome == "result"]
    if len(told) > len({*told}) or not {*told} <= {*begun}:
        world.failed(f"the log of {run_id} has the helpers {begun}, and tells that {told} have ended")
    if begun and read and status == "completed" and {*told} != {*begun}:
        world.failed(f"the log of {run_id} has the helpers {begun}, and tells only that {told} have ended")


def _check_order(world: World, order: Order, rows: dict[str, Any], ledger: Ledger) -> None:
    row = rows.get(order.run_id)
    if row is None:
        world.failed(f"the run of order {order.number} is lost")
        return
    status = row[1]
    waits = order.abandons and status == "requires_action"
    ended = {"completed"}
    if order.cancels_after is not None:
        ended |= {"cancelled"}
    if order.cancelled:
        ended = {"cancelled"}
    if order.interrupted:
        ended |= {"cancelled"}
    if order.expires:
        ended |= {"expired"}
    if status not in ended and not waits:
        world.failed(f"the run {order.run_id} of order {order.number} ended as {status}, not as {sorted(ended)}")
    _check_effects(world, order, status, ledger)


def _check_effects(world: World, order: Order, status: str, ledger: Ledger) -> None:
    for call in effects_of(order.number, order.steps, order.levels):
        tool, what = call
        times = ledger.effects[call]
        allowed = len(order.approved.get(call, ())) + (tool not in ("sign", "fetch")) + (tool == "fetch") * 99
        if tool in ("pay", "sign") and times > allowed:
            world.failed(f"{tool} {what} was done {times} times; a person approved {allowed} of them")
        if len(ledger.keys[call]) > 1:
            world.failed(f"{tool} {what} was called with several keys: {sorted(ledger.keys[call])}")
        if status == "completed" and not times and not order.rejected and order.agent not in ("tight", "hasty"):
            world.failed(f"{tool} {what} was not done, and its run {order.run_id} is completed")


def _timeless(entries: Sequence[Entry]) -> list[Entry]:
    """Entries without the times of pieces, which are not kept with their reply."""
    return [one._replace(at=0.0) if isinstance(one.event, Said) else one for one in entries]


def _check_stream(world: World, order: Order, found: Sequence[Followed], log: Sequence[Entry], *, whole: bool) -> None:
    """Check what a stream told. If it is not `whole`, it may have broken off."""
    told = [one for one in found if isinstance(one, Entry)]
    if order.done and not order.abandons and _timeless(told) != _timeless(log if whole else log[: len(told)]):
        numbers = [one.seq for one in told]
        world.failed(f"a stream of {order.run_id} told {numbers} of {len(log)} entries, or others than the log's")


def _check_budgets(
    world: World, clients: Clients, rows: dict[str, Any], logs: dict[str, list[tuple[Entry, int]]]
) -> None:
    agents = {order.run_id: order.agent for order in clients.orders}
    used: dict[str, int] = defaultdict(int)
    tops: dict[str, int] = defaultdict(int)
    for run_id, row in rows.items():
        top = row[3] or run_id
        used[top] += sum(isinstance(entry.event, Replied) for entry, _ in logs[run_id])
        tops[top] += row[2] is not None
    for top, replies in used.items():
        limit = _LIMITS[agents.get(top, "worker")]
        if replies > limit[0]:
            world.failed(f"the team of {top} used {replies} replies; its budget has {limit[0]}")
        if tops[top] > limit[1]:
            world.failed(f"the team of {top} had {tops[top]} members; its budget has {limit[1]}")


_LIMITS = {"worker": (8, 0), "lead": (14, 3), "chief": (40, 8), "tight": (5, 3), "giver": (40, 8), "hasty": (40, 8)}
