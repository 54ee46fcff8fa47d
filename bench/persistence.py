"""What it costs to keep a run: CPU and bytes a step, with every step committed before the next begins."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection

from bench.by_hand import QUESTION, note
from bench.loop import in_turn
from retinue import Agent, Budget
from retinue.core.events import Delta, Event, Finished, Observed
from retinue.core.prompt import Ask, Decided
from retinue.core.protocols import Chunks
from retinue.core.serialization import dump
from retinue.core.values import AgentAction, AgentFinish, Capabilities, Usage
from retinue.runs import RunInput, Runs
from retinue.store.database import Database
from retinue.store.prepared_statements import insert_once
from retinue.store.run_queries import insert_run
from retinue.store.run_row import RunRow
from retinue.store.tables import threads

ROUNDS = {10: 60, 200: 11}  # by the number of a run's steps


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
        by_hand = await _by_hand(agent, folder / f"hand-{steps}.db")
        kept = await keep_runs(agent, folder / f"runs-{steps}.db", rounds)
        in_memory = partial(agent.run_async, QUESTION)
        memory, *times = await in_turn(in_memory, by_hand.run, kept.run, rounds=rounds)
        floor, ours = [await one.cost(seconds) for one, seconds in zip((by_hand, kept), times, strict=True)]
        cells = [f"{one / steps * 1e3:.3f}" for one in (memory, floor.seconds, ours.seconds)]
        sizes = [f"{one / steps:,.0f}" for one in (ours.size, ours.written, floor.written)]
        lines.append(f"| {steps} | {' | '.join([*cells, f'{ours.seconds / floor.seconds:.2f}', *sizes])} |")
    columns = ["steps", "in memory, ms", "appended by hand, ms", "kept by `Runs`, ms", "`Runs` to by hand"]
    columns += ["bytes kept a step", "bytes written a step", "by hand"]
    return (
        "CPU of the process a step (medians of 60 runs of 10 steps, 11 of 200, made in turn), without the model's: it "
        "is in the process and takes no time. SQLite, WAL, every commit synced. By hand: only the events of a step, "
        "which are there already, as JSON, appended in one transaction with sqlite3. `Runs`: the whole run, with its "
        "row, epoch, log, and the answer's message. Bytes kept: of the database, without those of an empty one, by all "
        "steps in it; written: by the process, to the database's log and from there to its file. What was there "
        "before is not looked through for garbage, as in a server.\n\n"
        f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n" + "\n".join(lines) + "\n"
    )


class Cost(NamedTuple):
    """Seconds of CPU of a run, and the bytes that it keeps and has written."""

    seconds: float
    size: float
    written: float


class Kept:
    """A way to keep runs in the database at `path`: `work` keeps one, `close` is called in the end."""

    def __init__(self, path: Path, work: Callable[[], Awaitable[None]], close: Callable[[], Awaitable[None]]) -> None:
        self._path, self._work, self._close = path, work, close
        self._empty = _size(path)
        self._runs = self._bytes = 0

    async def run(self) -> None:
        """Keep a run."""
        before = _written()
        await self._work()
        self._runs += 1
        self._bytes += _written() - before

    async def cost(self, seconds: float) -> Cost:
        """Close the database, and return the costs of a run that takes so many `seconds`."""
        await self._close()
        return Cost(seconds, (_size(self._path) - self._empty) / self._runs, self._bytes / self._runs)


async def _by_hand(agent: Agent, path: Path) -> Kept:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE events (run, seq, kind, payload, PRIMARY KEY (run, seq)) WITHOUT ROWID")
    numbers = count()
    events = [event async for event in agent.stream_async(QUESTION) if isinstance(event, Event)]

    async def run() -> None:
        rows: list[tuple[int, int, str, str]] = []
        name = next(numbers)
        for seq, event in enumerate(events):
            rows.append((name, seq, *dump(event)))
            if isinstance(event, Observed | Finished):
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
                database.execute("COMMIT")
                rows.clear()

    async def close() -> None:
        database.close()

    return Kept(path, run, close)


async def keep_runs(agent: Agent, path: Path, rounds: int) -> Kept:
    """Keep runs as a server does, at most so many."""
    stack = AsyncExitStack()
    return Kept(path, await stack.enter_async_context(keeping(agent, path, rounds + 1)), stack.aclose)


@asynccontextmanager
async def keeping(
    agent: Agent, path: Path, most: int, prepare: Callable[[Runs], None] = lambda runs: None
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """What drives a new run of `agent` to its end in the database at `path`, at most so often. `prepare` is told of the
    runs before the first."""
    database = Database(f"sqlite:///{path}")

    async def assign(run: RunRow) -> RunInput:
        return RunInput(agent, QUESTION)

    driven = Runs(database, assign)
    prepare(driven)
    rows = [await database.write(partial(new_run, number)) for number in range(1, most + 1)]
    waiting = iter(rows)

    async def run() -> None:
        row = next(waiting)
        await driven.start(row.id, row)  # at hand, as where a request has just made it

    try:
        yield run
    finally:
        await driven.close(10.0)
        await database.close_async()


def _written() -> int:
    """Bytes that this process has given to the system to be written."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
    return int(fields["wchar"])


def _size(path: Path) -> int:
    """Bytes of a database's file, with what is still in its log of changes."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.stat().st_size


def new_run(number: int, connection: Connection) -> RunRow:
    """Add the run of this number, to be driven, and its thread."""
    there = {"tenant": "default", "id": f"thread_{number}", "created_at": 1, "body": {}}
    insert_once(connection, threads, there)
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
    insert_once(connection, threads, {"tenant": row.tenant, "id": row.thread_id, "created_at": 0, "body": {}})
    insert_run(connection, row)
    return row
