"""Served agents that have members at an A2A server which is not ours: crashes, people and cancels in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.a2a_client import a2a_client, asks, state_of, task_of, text_of
from fakes.app_server import KEY, Serving
from fakes.until import until
from retinue import A2AAgent, Agent, PromptModel

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def sample() -> Iterator[str]:
    command = [sys.executable, "-m", "fakes.a2a_sample"]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def agents(sample: str) -> dict[str, Agent]:
    remote = A2AAgent(f"{sample}/rpc", name="remote")
    script: list[Any] = [
        {"when": "Please", "call": {"tool": "remote", "input": {"query": "say this"}}},
        {"when": "Echo", "finish": "It works."},
    ]
    leader = Agent(PromptModel(script=script, retries=0), [remote], name="leader", strategy="tool_calling")
    return {"remote": remote, "leader": leader}


def begun(served: Serving, said: str) -> str:
    """A run of the remote agent, once its task is followed."""
    assistant = served.ask("POST", "/v1/assistants", {"model": "remote"}).body["id"]
    asked = {"assistant_id": assistant, "thread": {"messages": [{"role": "user", "content": said}]}}
    run: str = served.ask("POST", "/v1/threads/runs", asked).body["id"]
    until(lambda: '"follow"' in served.ask("GET", f"/v1/runs/{run}/events?limit=100").text)
    return run


def status(served: Serving, run: str) -> str:
    return str(served.ask("GET", f"/v1/runs/{run}").body["status"])


def cancels(served: Serving) -> int:
    """How many tasks were cancelled at the other server."""
    asked = {"model": "remote", "messages": [{"role": "user", "content": "count"}]}
    said = served.ask("POST", "/v1/chat/completions", asked).body
    return int(said["choices"][0]["message"]["content"])


def test_a_served_agent_asks_its_member(sample: str, tmp_path: Path) -> None:
    with Serving(tmp_path, agents(sample)) as served:
        asked = {"model": "leader", "messages": [{"role": "user", "content": "Please ask"}]}
        said = served.ask("POST", "/v1/chat/completions", asked).body
        assert said["choices"][0]["message"]["content"] == "It works."


def test_a_server_that_stops_leaves_the_task_alone_and_finds_it_again(sample: str, tmp_path: Path) -> None:
    with Serving(tmp_path, agents(sample)) as served:
        before, run = cancels(served), begun(served, "hang")
    with Serving(tmp_path, agents(sample)) as served:
        until(lambda: served.ask("GET", f"/v1/runs/{run}/events?limit=100").text.count('"called"') >= 2)
        assert cancels(served) == before
        assert status(served, run) == "in_progress"
        thread = served.ask("GET", f"/v1/runs/{run}").body["thread_id"]
        served.ask("POST", f"/v1/threads/{thread}/runs/{run}/cancel")
        until(lambda: status(served, run) == "cancelled")
        until(lambda: cancels(served) == before + 1)


@pytest.mark.anyio
async def test_a_question_travels_from_server_to_server(sample: str, tmp_path: Path) -> None:
    with Serving(tmp_path, agents(sample)) as served:
        async with a2a_client(f"{served.url}/a2a/remote", KEY) as client:
            task = await task_of(client, asks("ask"))
            assert state_of(task) == "INPUT_REQUIRED"
            assert task.status.message.parts[0].text == "Which city?"
            done = await task_of(client, asks("Lyon", task_id=task.id))
            assert (state_of(done), text_of(done)) == ("COMPLETED", "You said Lyon.")
