"""What it costs to go on with a long run: its log read and replayed, up to where it stood."""

from __future__ import annotations

import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

from sqlalchemy import Connection, delete, func, select, update

from bench.by_hand import note
from bench.persistence import Noting, new_run
from retinue import Agent, Budget
from retinue.runs import RunInput, Runs
from retinue.store.database import Database
from retinue.store.run_row import RunRow
from retinue.store.tables import events, runs

_STEPS = (10, 100, 1_000)
_ROUNDS = 9


def measure() -> str:
    """A table: seconds from the claim of a run until it does something new, by the number of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [asyncio.run(_line(steps, Path(folder) / f"{steps}.db")) for steps in _STEPS]
    return (
        f"A run that lacks only its last event is driven again (median of {_ROUNDS}): its log is read, checked, "
        "replayed and ended.\n\n"
        "| steps | events | bytes of them | milliseconds | milliseconds a step |\n|---|---|---|---|---|\n"
        + "".join(lines)
    )


async def _line(steps: int, path: Path) -> str:
    database = Database(f"sqlite:///{path}")
    agent = Agent(Noting(), [note], budget=Budget(steps, stale_steps=None))

    async def assign(run: RunRow) -> RunInput:
        return RunInput(agent, "What is there to note?")

    driven = Runs(database, assign)
    await database.write(partial(new_run, 1))
    run_id = await database.read(lambda connection: connection.execute(select(runs.c.id)).scalar())
    assert run_id is not None
    await driven.start(run_id)
    size = func.count(), func.sum(func.length(events.c.payload))
    number, length = await database.read(lambda connection: connection.execute(select(*size)).one())
    times = []
    for _ in range(_ROUNDS):
        await database.write(_unfinished)
        began = time.perf_counter()
        await driven.start(run_id)
        times.append(time.perf_counter() - began)
    await driven.close(10.0)
    await database.close_async()
    took = median(times) * 1e3
    return f"| {steps:,} | {number:,} | {length:,} | {took:.1f} | {took / steps:.3f} |\n"


def _unfinished(connection: Connection) -> None:
    last = select(func.max(events.c.seq)).scalar_subquery()
    connection.execute(delete(events).where(events.c.seq == last))
    connection.execute(update(runs).values(status="queued", holds=True))
