"""What the loop costs beside the model: CPU a step, next to the same requests made by hand."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import aiohttp

from retinue import Agent, Budget, PromptModel, tool
from retinue.core.events import Observed

STEPS = (10, 50, 200)
ROUNDS = 7
EARLY, LATE = range(3, 9), range(192, 198)  # steps of a run of 200: around the 5th, and near its end


@tool(effects="read")
async def note(fact: str) -> str:
    """Note a fact."""
    return f"{fact} is noted, and here is a sentence of some length that a tool might give back."


def measure() -> str:
    """A table: CPU a step in milliseconds, by hand and by Retinue, and their ratio."""
    with model_server() as url:
        return asyncio.run(_table(url))


@contextmanager
def model_server() -> Iterator[str]:
    """The address of a model's server that answers at once, in a process of its own."""
    server = subprocess.Popen([sys.executable, "-m", "bench.server"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    finally:
        server.kill()
        server.wait()


async def _table(url: str) -> str:
    model = PromptModel("m", base_url=url, api_key="none", api="completions", dialect="none")
    agent = Agent(model, [note])
    async with aiohttp.ClientSession() as session:
        rows = []
        for steps in STEPS:
            floor = await cpu(lambda: _by_hand(session, url, steps))  # noqa: B023 -- awaited at once
            ours = await cpu(lambda: _by_retinue(agent, steps))  # noqa: B023
            rows.append((steps, floor / steps * 1e3, ours / steps * 1e3))
    early, late = await _growth(agent)
    await model.close()
    lines = [f"| {steps} | {floor:.3f} | {ours:.3f} | {ours / floor:.2f} |" for steps, floor, ours in rows]
    table = "\n".join(["| steps | by hand, ms | Retinue, ms | ratio |", "|---|---|---|---|", *lines])
    return (
        f"CPU of the client's process a step (median of {ROUNDS} runs): prompt sent, reply streamed and parsed, tool "
        f"run. By hand: aiohttp, the prompt kept as one text, no checks. Both keep their connection.\n\n{table}\n\n"
        f"In a run of 200 steps, the steps around the 5th take {early:.3f} ms each, those around the 195th "
        f"{late:.3f} ms: {late / early:.2f} times as much.\n"
    )


async def cpu(work: Callable[[], Awaitable[Any]], rounds: int = ROUNDS) -> float:
    """Seconds of CPU, the median of several rounds."""
    await work()  # warm: imports, connections
    times = []
    for _ in range(rounds):
        began = time.process_time()
        await work()
        times.append(time.process_time() - began)
    return median(times)


async def _growth(agent: Agent) -> tuple[float, float]:
    """CPU in milliseconds of a step early in a run and late in it, medians over several runs."""
    early, late = [], []
    for _ in range(ROUNDS):
        agent.budget = Budget(LATE.stop + 3)
        events = agent.stream_async("What is there to note?")
        at = [time.process_time() async for event in events if isinstance(event, Observed)]
        early += [at[step] - at[step - 1] for step in EARLY]
        late += [at[step] - at[step - 1] for step in LATE]
    return median(early) * 1e3, median(late) * 1e3


async def _by_retinue(agent: Agent, steps: int) -> None:
    agent.budget = Budget(steps)
    result = await agent.run_async("What is there to note?")
    assert result.answer == "done", result
    assert len(result.steps) == steps - 1


async def _by_hand(session: aiohttp.ClientSession, url: str, steps: int) -> None:
    prompt = "x" * 900
    for step in range(steps):
        prompt += "Final Answer:" if step == steps - 1 else "Thought:"
        body = json.dumps({"model": "m", "stream": True, "prompt": prompt})
        text = ""
        async with session.post(f"{url}/completions", data=body) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    choices = json.loads(line[6:])["choices"]
                    text += choices[0]["text"] if choices else ""
        if step < steps - 1:
            given = text.split("Action Input: ", 1)[1].strip()
            prompt += f"{text}Observation: {await note.something(given)}\n"
