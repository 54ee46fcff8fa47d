"""What it costs to keep a run: CPU and bytes a step, with every step committed before the next begins."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import tempfile
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from bench.loop import cpu, note
from retinue import Agent, Budget
from retinue.core.events import Delta, Event
from retinue.core.prompt import Ask, Decided
from retinue.core.protocols import Chunks
from retinue.core.serialization import dump
from retinue.core.values import AgentAction, AgentFinish, Capabilities, Usage
from retinue.runs import RunInput, Runs
from retinue.store.database import Database
from retinue.store.run_row import RunRow
from retinue.store.run_store import insert_run

ROUNDS = {10: 60, 200: 11}  # by the number of a run's steps
_QUESTION = "What is there to note?"


def measure() -> str:
    """A table: CPU a step in milliseconds without and with persistence, and bytes a step on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_table(Path(folder)))


class Noting:
    """A model in the process, which takes no time: it notes something until it must answer."""

    name = "noting"

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """It does as it is told."""
        return Capabilities()

    async def reply(self, request: Ask) -> Chunks:
        """A note, or the end."""
        decided: Decided = AgentFinish({"output": "done"})
        if request.closing is not None:
            decided = (AgentAction("note", f"fact {len(request.news)}"),)
        reply = request.write(decided)
        yield Delta(reply.text)
        yield replace(reply, usage=Usage(100, 10, 0, 1))


async def _table(folder: Path) -> str:
    agent = Agent(Noting(), [note])
    lines = []
    for steps, rounds in ROUNDS.items():
        agent.budget = Budget(steps, stale_steps=None)
        gc.freeze()  # as `retinue serve` does when it is ready
        memory = await cpu(partial(agent.run_async, _QUESTION), rounds)
        floor = await _by_hand(agent, folder / f"hand-{steps}.db", rounds)
        kept, size, each = await _kept(agent, folder / f"runs-{steps}.db", rounds)
        cells = [f"{one / steps * 1e3:.3f}" for one in (memory, floor, kept)]
        lines.append(f"| {steps} | {' | '.join(cells)} | {kept / memory:.2f} | {size / each / steps:,.0f} |")
    head = "| steps | in memory, ms | kept by hand, ms | kept by `Runs`, ms | ratio | bytes a step |"
    return (
        "CPU of the process a step (median of 60 runs of 10 steps, 11 of 200), without the model's: it is in the "
        "process and takes no time. SQLite, WAL, every commit synced. By hand: the events of a step as JSON, in one "
        "transaction with sqlite3. `Runs`: the run's row, epoch, log, and the answer's message. Bytes: of the "
        "database, without those of an empty one, by all steps in it. Nothing that was there when it began is looked "
        "through for garbage, as in a server.\n\n" + "\n".join([head, "|---|---|---|---|---|---|", *lines]) + "\n"
    )


async def _by_hand(agent: Agent, path: Path, rounds: int) -> float:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE events (run, seq, kind, payload, PRIMARY KEY (run, seq)) WITHOUT ROWID")
    numbers = count()

    async def run() -> None:
        rows: list[tuple[int, int, str, str]] = []
        name = next(numbers)
        async for seq, event in _numbered(agent):
            rows.append((name, seq, *dump(event)))
            if type(event).__name__ in ("Observed", "Finished"):
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
                database.execute("COMMIT")
                rows.clear()

    taken = await cpu(run, rounds)
    database.close()
    return taken


async def _numbered(agent: Agent) -> Any:
    seq = 0
    async for event in agent.stream_async(_QUESTION):
        if isinstance(event, Event):
            seq += 1
            yield seq, event


async def _kept(agent: Agent, path: Path, rounds: int) -> tuple[float, int, int]:
    """Seconds of CPU a run, the bytes of the database, and the number of runs in it."""
    database = Database(f"sqlite:///{path}")
    empty = _size(path)

    async def assign(run: RunRow) -> RunInput:
        return RunInput(agent, _QUESTION)

    driven = Runs(database, assign)
    rows = [await database.write(partial(new_run, number)) for number in range(1, rounds + 2)]
    waiting = iter(rows)

    async def run() -> None:
        row = next(waiting)
        await driven.start(row.id, row)  # at hand, as where a request has just made it

    taken = await cpu(run, rounds)
    await driven.close(10.0)
    await database.close_async()
    return taken, _size(path) - empty, len(rows)


def _size(path: Path) -> int:
    """Bytes of a database's file, with what is still in its log of changes."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.stat().st_size


def new_run(number: int, connection: Connection) -> RunRow:
    """Add the run of this number, to be driven."""
    row = RunRow(
        id=f"run_{number:024}",
        tenant="default",
        thread_id=f"thread_{number}",
        created_at=0,
        status="queued",
        holds=True,
        expires_at=None,
        epoch=0,
        request={"model": "agent", "instructions": ""},
        agent="agent",
    )
    insert_run(connection, row)
    return row
