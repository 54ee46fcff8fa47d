"""What `Agent(store=…)` costs: CPU a step and steps a second beside an agent without a store, and a server's `Runs`."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

from bench.by_hand import QUESTION, note
from bench.loop import in_turn
from bench.persistence import Noting, keep_runs
from fakes.postgres import postgres
from retinue import Agent, Budget

_STEPS, _ROUNDS, _AT_ONCE, _TIMES = 10, 40, 20, 5


def measure() -> str:
    """A table: CPU a step in milliseconds, and steps a second of runs side by side."""
    with tempfile.TemporaryDirectory() as folder, postgres(safe=True) as server:
        return asyncio.run(_table(Path(folder), server.database()))


def _agent(store: str | Path | None) -> Agent:
    return Agent(Noting(), [note], budget=Budget(_STEPS, stale_steps=None), store=store)


async def _table(folder: Path, url: str) -> str:
    agents = {"without a store": _agent(None), "`store=` SQLite": _agent(folder / "runs.db")}
    agents |= {"`store=` PostgreSQL": _agent(url)}
    opening = {}
    for name, agent in agents.items():
        began = time.perf_counter()
        await agent.run_async(QUESTION)
        opening[name] = time.perf_counter() - began
    server = await keep_runs(_agent(None), folder / "server.db", _ROUNDS)
    gc.freeze()
    works = {name: partial(agent.run_async, QUESTION) for name, agent in agents.items()}
    works["a server's `Runs`, SQLite"] = server.run  # type: ignore[assignment]
    costs = dict(zip(works, await in_turn(*works.values(), rounds=_ROUNDS), strict=True))
    rates = {name: median([await _rate(agent) for _ in range(_TIMES)]) for name, agent in agents.items()}
    lines = [
        f"| {name} | {cost / _STEPS * 1e3:.2f} | {f'{rates[name]:,.0f}' if name in rates else ''} |"
        for name, cost in costs.items()
    ]
    await server.cost(0)
    for agent in agents.values():
        await agent.aclose()
    first = ", ".join(f"{opening[name] * 1e3:.0f} ms ({name})" for name in agents)
    return (
        f"Runs of {_STEPS} steps of an agent in Python, with an instant model in the process: CPU of the process a "
        f"step (medians of {_ROUNDS} runs each, made in turn), and steps a second of {_AT_ONCE} runs side by side "
        f"(medians of {_TIMES}). Every commit is synced. The first run, which opens the store, took {first}.\n\n"
        "| | CPU a step, ms | steps a second |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    )


async def _rate(agent: Agent) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(agent.run_async(QUESTION) for _ in range(_AT_ONCE)))
    return _AT_ONCE * _STEPS / (time.perf_counter() - began)
