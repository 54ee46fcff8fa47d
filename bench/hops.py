"""What a team costs: CPU of one hop, from an agent to a member and back, at several depths."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from bench.by_hand import note
from bench.loop import cpu
from bench.persistence import new_run
from retinue import Agent, Budget
from retinue.core.events import Delta
from retinue.core.prompt import Ask, Decided
from retinue.core.protocols import Chunks
from retinue.core.values import AgentAction, AgentFinish, Capabilities, Usage
from retinue.runs import RunInput, Runs
from retinue.runs.agent_versions import agent_at
from retinue.server.process import collect_seldom
from retinue.store.database import Database
from retinue.store.run_row import RunRow

Work: TypeAlias = Callable[[], Awaitable[Any]]
DEPTHS = (1, 2, 4, 8)
_ROUNDS = 100
_QUESTION = "What is there to note?"


class Delegating:
    """A model in the process, which takes no time: it uses its tool once, and then answers."""

    name = "delegating"

    def __init__(self, tool: str) -> None:
        self._tool = tool

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """It does as it is told."""
        return Capabilities()

    async def reply(self, request: Ask) -> Chunks:
        """A call, or the end."""
        decided: Decided = AgentFinish({"output": "done"})
        if len(request.prompt.messages) < 3:
            decided = (AgentAction(self._tool, "What is there?"),)
        reply = request.write(decided)
        yield Delta(reply.text)
        yield replace(reply, usage=Usage(100, 10, 0, 1))


def team(depth: int) -> Agent:
    """Agents one below the other: `depth` hops, and a function at the end."""
    made = Agent(Delegating("note"), [note], name="note_taker", budget=_BUDGET)
    for _ in range(depth):
        made = Agent(Delegating(made.name), [made], name=f"above_{made.name}"[:60], budget=_BUDGET)
    return made


_BUDGET = Budget(depth=None, children=None, total_steps=1_000)


def measure() -> str:
    """A table: CPU of a hop in milliseconds, where members run in the process and where each is a stored run."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_table(Path(folder)))


async def _table(folder: Path) -> str:
    collect_seldom()  # as the server does
    lines = []
    for depth in DEPTHS:
        nested = await _hop(depth, _nested)
        kept = await _hop(depth, partial(_kept, folder / f"{depth}.db"))
        lines.append(f"| {depth} | {_row(nested)} | {_row(kept)} |")
    return (
        "CPU of the process for one hop: an agent calls another, which has a run of its own, and gets its answer. From "
        "the CPU of a team of so many agents one below the other, that of as many runs of a single one (a reply, a "
        "call, a reply) is taken off; the two are measured in turn. The model is in the process and takes no time. "
        "Stored: SQLite, every commit synced; each member is a run in the database, and its caller rests meanwhile. "
        f"Medians of {_ROUNDS} runs.\n\n"
        "| hops | in memory: a single run, ms | ms a hop | stored: a single run, ms | ms a hop |\n"
        "|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


def _row(taken: tuple[float, float]) -> str:
    alone, hop = taken
    return f"{alone * 1e3:.2f} | {hop * 1e3:.3f}"


async def _hop(depth: int, running: Callable[[Agent], AbstractAsyncContextManager[Work]]) -> tuple[float, float]:
    """Seconds of CPU of a single run, and of a hop in a team of this depth."""
    async with running(team(0)) as alone, running(team(depth)) as whole:
        taken = [(await cpu(alone, 1), await cpu(whole, 1)) for _ in range(_ROUNDS)]
    single = median(one for one, _ in taken)
    return single, (median(team for _, team in taken) - (depth + 1) * single) / depth


@asynccontextmanager
async def _nested(agent: Agent) -> AsyncIterator[Work]:
    yield partial(agent.run_async, _QUESTION)


@asynccontextmanager
async def _kept(path: Path, agent: Agent) -> AsyncIterator[Work]:
    database = Database(f"sqlite:///{path.with_stem(f'{path.stem}_{agent.name}')}")
    ended: dict[str, Callable[[], None]] = {}

    async def assign(run: RunRow) -> RunInput:
        return RunInput(agent_at({"agent": agent}, run.agent) or agent, run.request.get("question", _QUESTION))

    driven = Runs(database, assign, lambda run: ended.pop(run.id, lambda: None)())
    rows = [await database.write(partial(new_run, number)) for number in range(1, 2 * _ROUNDS + 1)]
    number = count()

    async def run() -> None:
        row = rows[next(number)]
        over = asyncio.Event()
        ended[row.id] = over.set
        driven.start(row.id, row)
        await over.wait()

    yield run
    await driven.close(10.0)
    await database.close_async()
