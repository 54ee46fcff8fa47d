"""What metrics cost: CPU a step of kept runs, without and with what `--metrics-port` counts, and of a scrape."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from bench.by_hand import note
from bench.loop import in_turn
from bench.persistence import Noting, keeping
from retinue import Agent, Budget
from retinue.runs import Runs
from retinue.runs.run_metrics import RunMetrics
from retinue.server.metrics.process_metrics import add_transactions

STEPS = {10: 20, 200: 1}  # by the steps of a run, how many of them are measured together
ROUNDS = 9


def measure() -> str:
    """A table: CPU a step in milliseconds without and with metrics, and their ratio; and CPU of a scrape."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_table(Path(folder)))


async def _table(folder: Path) -> str:
    agent, lines = Agent(Noting(), [note]), []
    for steps, runs in STEPS.items():
        agent.budget = Budget(steps, stale_steps=None)
        registry, most = CollectorRegistry(), runs * (ROUNDS + 1)
        gc.freeze()
        async with (
            keeping(agent, folder / f"off-{steps}.db", most) as off,
            keeping(agent, folder / f"on-{steps}.db", most, partial(count, registry)) as on,
        ):
            without, counted = await in_turn(partial(repeat, off, runs), partial(repeat, on, runs), rounds=ROUNDS)
            (scrape,) = await in_turn(partial(scraped, registry), rounds=ROUNDS)
        assert registry.get_sample_value("retinue_steps_total") == most * steps
        cells = f"{without / steps / runs * 1e3:.3f} | {counted / steps / runs * 1e3:.3f} | {counted / without:.2f}"
        lines.append(f"| {steps} | {cells} | {scrape * 1e3:.2f} |")
    return (
        f"CPU of the process a step (medians of {ROUNDS} rounds each, made in turn) of runs that are committed to "
        "SQLite, with an instant model in the process: metrics off, and on, where runs, models, tools and transactions "
        "are counted. A scrape encodes these, in a thread of its own in a server.\n\n"
        "| steps | off, ms | on, ms | ratio | a scrape, ms |\n|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


def count(registry: CollectorRegistry, runs: Runs) -> None:
    """Have what becomes of runs counted, as a process with `--metrics-port` has."""
    runs.meter = RunMetrics(registry, lambda tool: tool == "note")
    add_transactions(registry, runs.database)


async def repeat(work: Callable[[], Awaitable[None]], times: int) -> None:
    """Do it so often."""
    for _ in range(times):
        await work()


async def scraped(registry: CollectorRegistry) -> None:
    """One answer to Prometheus."""
    generate_latest(registry)
