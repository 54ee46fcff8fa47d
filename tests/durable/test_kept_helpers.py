"""Helpers whose runs a store keeps: in the background, after a cancel, and after `kill -9` at each event."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fakes.until import until_async
from retinue import Agent, Decision, PromptModel, StopReason, Tool
from retinue.core.events import Event, Observed, Stopped
from retinue.core.run_context import idempotency_key
from retinue.core.run_result import RunResult
from retinue.harness import Harness
from retinue.runs.failpoints import await_crash

pytestmark = pytest.mark.anyio
HELPERS = 4
CALLS = [f"call_1_{at}" for at in range(HELPERS)]
POINTS: tuple[str, ...] = (
    "before event",
    "before asking",
    "before reply is written",
    "before intent",
    "after intent",
    "before the end",
)
POINTS += ("after the end", "before members have it", "after members have it")


def top(store: str, folder: Path, **more: Any) -> Agent:
    """Gives four tasks to helpers in the background, looks at something meanwhile, and reads what they answer."""

    def note(word: str) -> str:
        """Notes a word."""
        with (folder / "noted").open("a") as file:
            file.write(f"{idempotency_key()}\n")
        return f"noted {word}"

    def look(word: str) -> str:
        """Looks."""
        return "looked"

    asked = [{"tool": "task", "input": {"description": f"part {at}", "background": True}} for at in range(HELPERS)]
    script = [
        {"when": "^go", "call": asked},
        {"when": "is at work", "call": {"tool": "look", "input": {"word": "a"}}},
        {"when": "^looked", "call": [{"tool": "task_result", "input": {"helper": call}} for call in CALLS]},
        {"when": r"^part (?=\d)", "call": {"tool": "note", "input": {"word": "w"}}},
        {"when": "^noted", "say": "found it"},
        {"when": "found it", "say": "all found"},
    ]
    tools = [Tool("note", note, effects="idempotent", **more), Tool("look", look, effects="read")]
    harness = Harness(workspace=False, shell=False, todos=False)
    model = PromptModel(script=script, retries=0)
    return Agent(model, tools, name="top", strategy="tool_calling", harness=harness, store=store)


def ends(log: Sequence[Event]) -> list[str]:
    seen = [event.observation for event in log if isinstance(event, Observed)]
    return sorted(state.call for one in seen for state in one.helpers if state.ended)


def problems(result: RunResult[Any], folder: Path) -> list[str]:
    """What is wrong with a run that has ended."""
    noted = (folder / "noted").read_text().split()
    found = [f"answered {result.text!r}"] if result.text != "all found" else []
    found += [f"told of {ends(result.events)}"] if ends(result.events) != CALLS else []
    found += [f"has the members {list(result.children)}"] if sorted(result.children) != CALLS else []
    found += [f"noted {Counter(noted)}"] if len({*noted}) != HELPERS else []
    return found + ([f"used {result.usage.runs} runs"] if result.usage.runs != HELPERS else [])


def test_four_in_the_background_are_kept_and_told_of_once(any_url: str, tmp_path: Path) -> None:
    with top(any_url, tmp_path) as agent:
        assert problems(agent.run("go"), tmp_path) == []


def test_a_question_of_a_helper_in_the_background_is_its_callers(any_url: str, tmp_path: Path) -> None:
    with top(any_url, tmp_path, approval=True) as agent:
        parked = agent.run("go")
        assert parked.stop_reason is StopReason.AWAITING_HUMAN
        while parked.waiting:
            decisions = {call.id: Decision("approve") for call in parked.waiting}
            parked = agent.runs.resume(parked.run, decisions)
        assert problems(parked, tmp_path) == []


async def test_a_cancel_ends_the_helpers(any_url: str, tmp_path: Path) -> None:
    agent = top(any_url, tmp_path)
    waiting, ended = [], []
    all_wait, all_ended = asyncio.Event(), asyncio.Event()

    async def note(word: str) -> str:
        """Waits."""
        waiting.append(word)
        if len(waiting) == HELPERS:
            all_wait.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(word)
            if len(ended) == HELPERS:
                all_ended.set()
        return "noted"

    agent.tools = [*[one for one in agent.tools if one.name != "note"], Tool("note", note, effects="read")]
    run = agent.start("go")
    work = asyncio.ensure_future(run.finish())
    await all_wait.wait()
    await agent.runs.cancel_async(run.key)
    done = await work
    await asyncio.wait_for(all_ended.wait(), 1)
    assert done.stop_reason is StopReason.CANCELLED

    async def cancelled() -> bool:
        last = [log[-1] for log in (await agent.runs.result_async(run.key)).children.values()]
        return [one.reason for one in last if isinstance(one, Stopped)] == [StopReason.CANCELLED] * HELPERS

    await until_async(cancelled, 1)
    await agent.runs.close_async()


def in_child(store: str, folder: Path, crash: str) -> int:
    """Begin the run in another process, which is to die there. Return its exit status."""
    if not (pid := os.fork()):
        try:
            await_crash(crash)
            with top(store, folder) as agent:
                agent.run("go", key="k")
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


@pytest.mark.parametrize("point", POINTS)
def test_wherever_the_process_dies_each_helper_goes_on_once(point: str, tmp_path: Path, full: bool) -> None:
    for number in range(1, 100 if full else 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        store = str(folder / "runs.db")
        if in_child(store, folder, f"{point}:{number}") == 0:
            return
        with top(store, folder) as agent:
            found = agent.recover() or [agent.run("go", key="k")]
            assert problems(found[-1], folder) == [], (point, number)
