"""What the loop costs beside the model: CPU a step, next to the same requests made by hand."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import aiohttp

from bench import by_hand
from bench.by_hand import QUESTION, note
from retinue import Agent, Budget, PromptModel
from retinue.core.events import Observed
from retinue.models.settings import Api

STEPS = (10, 50, 200)
ROUNDS = 15
DELAY = 0.3  # seconds that a hosted model takes at least
EARLY, LATE = range(3, 9), range(192, 198)  # steps of a run of 200: around the 5th, and near its end
WAYS: dict[str, tuple[Api, Callable[[aiohttp.ClientSession, str, int], Awaitable[None]]]] = {
    "native": ("chat", by_hand.with_native_calls),
    "text": ("completions", by_hand.with_text),
}
"""How tools are called: the API that Retinue is given, and the loop by hand."""


def measure() -> str:
    """A table: CPU a step in milliseconds, by hand and by Retinue, and their ratio."""
    with model_server() as url:
        table = asyncio.run(_table(url))
    with model_server(DELAY) as url:
        return table + "\n" + asyncio.run(_beside_a_slow_model(url))


@contextmanager
def model_server(delay: float = 0.0) -> Iterator[str]:
    """The address of a model's server that answers after `delay` seconds, in a process of its own."""
    server = subprocess.Popen([sys.executable, "-m", "bench.server", str(delay)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    finally:
        server.kill()
        server.wait()


def agent_at(url: str, api: Api) -> Agent:
    """An agent with one tool, whose model is at `url`."""
    return Agent(PromptModel("m", base_url=url, api_key="none", api=api, dialect="none"), [note])


async def _table(url: str) -> str:
    lines, growths = [], []
    for way, (api, bare) in WAYS.items():
        agent = agent_at(url, api)
        async with aiohttp.ClientSession() as session:
            for steps in STEPS:
                agent.budget = Budget(steps)
                floor, ours = await in_turn(partial(bare, session, url, steps), partial(_by_retinue, agent, steps))
                cells = f"{floor / steps * 1e3:.3f} | {ours / steps * 1e3:.3f} | {ours / floor:.2f}"
                lines.append(f"| {way} | {steps} | {cells} |")
        early, late = await _growth(agent)
        growths.append(f"{early:.3f} and {late:.3f} ms ({way}, {late / early:.2f} times as much)")
        await agent.model.close()  # type: ignore[attr-defined]
    table = "\n".join(["| tool calls | steps | by hand, ms | Retinue, ms | ratio |", "|---|---|---|---|---|", *lines])
    return (
        f"CPU of the client's process a step (medians of {ROUNDS} runs each, made in turn): prompt sent, reply "
        "streamed and parsed, tool run. By hand: aiohttp, no checks; the prompt is kept as one text, or as a list of "
        f"messages for native tool calls. Both keep their connection.\n\n{table}\n\n"
        f"In a run of 200 steps, a step around the 5th and one around the 195th take {' and '.join(growths)}.\n"
    )


async def _beside_a_slow_model(url: str) -> str:
    """A table: the seconds of a run whose model takes 300 ms, and how many of them are not the model's."""
    agent, lines = agent_at(url, "chat"), []
    agent.budget = Budget(2)
    await _by_retinue(agent, 2)  # warm: imports, connections
    for steps, rounds in ((10, 5), (200, 1)):
        agent.budget = Budget(steps)
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            await _by_retinue(agent, steps)
            times.append(time.perf_counter() - began)
        seconds = median(times)
        lines.append(f"| {steps} | {seconds:.2f} | {(seconds - steps * DELAY) * 1e3:.0f} |")
    await agent.model.close()  # type: ignore[attr-defined]
    head = f"Beside a model that takes {DELAY * 1e3:.0f} ms a reply, in seconds as the user waits:\n\n"
    return head + "\n".join(["| steps | run, s | of it not the model, ms |", "|---|---|---|", *lines]) + "\n"


async def cpu(work: Callable[[], Awaitable[Any]], rounds: int = ROUNDS) -> float:
    """Seconds of CPU, the median of several rounds."""
    return (await in_turn(work, rounds=rounds))[0]


async def in_turn(*works: Callable[[], Awaitable[Any]], rounds: int = ROUNDS) -> list[float]:
    """Seconds of CPU of each, medians of several rounds. They take turns, so that a busy minute is everyone's."""
    times: list[list[float]] = [[] for _ in works]
    for work in works:
        await work()  # warm: imports, connections
    for _ in range(rounds):
        for work, mine in zip(works, times, strict=True):
            began = time.process_time()
            await work()
            mine.append(time.process_time() - began)
    return [median(mine) for mine in times]


async def _growth(agent: Agent) -> tuple[float, float]:
    """CPU in milliseconds of a step early in a run and late in it, medians over several runs."""
    early, late = [], []
    for _ in range(ROUNDS // 2):
        agent.budget = Budget(LATE.stop + 3)
        events = agent.stream_async(QUESTION)
        at = [time.process_time() async for event in events if isinstance(event, Observed)]
        early += [at[step] - at[step - 1] for step in EARLY]
        late += [at[step] - at[step - 1] for step in LATE]
    return median(early) * 1e3, median(late) * 1e3


async def _by_retinue(agent: Agent, steps: int) -> None:
    result = await agent.run_async(QUESTION)
    assert result.answer == "done", result
    assert len(result.steps) == steps - 1
