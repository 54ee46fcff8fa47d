"""What hooks cost: CPU a step without any, and with five that let everything pass, in the library and where runs are
kept."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.by_hand import QUESTION, note
from bench.loop import agent_at, in_turn, model_server
from bench.metrics import repeat
from bench.persistence import Noting, keeping
from retinue import Agent, Budget, Hook
from retinue.core.events import Point

STEPS, RUNS, ROUNDS = 20, 2, 25
ONE_EACH: tuple[Point, ...] = ("before_model", "after_model", "before_tool", "after_tool", "before_answer")
SETS: dict[str, list[Point]] = {
    "five, one at each of five points": [*ONE_EACH],
    "five at each of three points": [*ONE_EACH[:1], *ONE_EACH[2:4]] * 5,
}


def measure() -> str:
    """A table: CPU a step in milliseconds without and with hooks, and their ratio."""
    with model_server() as url, tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_table(url, Path(folder)))


def _pass(event: Any, context: Any) -> None:
    """Let everything pass."""


async def _table(url: str, folder: Path) -> str:
    lines = []
    for name, points in SETS.items():
        hooks = [Hook(point, _pass) for point in points]
        plain, hooked = agent_at(url, "chat"), agent_at(url, "chat")
        hooked.hooks = tuple(hooks)
        lines.append(await _compare(f"library, {name}", partial(_run, plain), partial(_run, hooked)))
        kept, judged = Agent(Noting(), [note]), Agent(Noting(), [note], hooks=hooks)
        most, at = RUNS * (ROUNDS + 1), len(lines)
        for agent in (kept, judged):
            agent.budget = Budget(STEPS, stale_steps=None)
        gc.freeze()
        async with (
            keeping(kept, folder / f"off-{at}.db", most) as off,
            keeping(judged, folder / f"on-{at}.db", most) as on,
        ):
            lines.append(await _compare(f"runs that are kept, {name}", off, on))
    return (
        f"CPU of the process a step (medians of {ROUNDS} rounds of {RUNS} runs of {STEPS} steps each, made in turn). "
        "In the library, the model is at a server of its own process; runs that are kept are committed to SQLite, with "
        "an instant model in the process. The hooks are sync, and let everything pass.\n\n"
        "| hooks | without, ms | with, ms | ratio |\n|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


async def _compare(name: str, off: Callable[[], Awaitable[Any]], on: Callable[[], Awaitable[Any]]) -> str:
    without, judged = await in_turn(partial(repeat, off, RUNS), partial(repeat, on, RUNS), rounds=ROUNDS)
    a_step = RUNS * STEPS / 1e3
    return f"| {name} | {without / a_step:.3f} | {judged / a_step:.3f} | {judged / without:.3f} |"


async def _run(agent: Agent) -> None:
    agent.budget = Budget(STEPS)
    assert (await agent.run_async(QUESTION)).answer == "done"
