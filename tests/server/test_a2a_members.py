"""Served agents that have members at an A2A server which is not ours: crashes, people and cancels in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.a2a_client import a2a_client, asks, sent, state_of, task_of, text_of
from fakes.app_server import KEY, Serving
from fakes.served import serving
from fakes.until import until
from retinue import A2AAgent, Agent, PromptModel

TESTS = Path(__file__).parents[1]


def agents(a2a_sample: str) -> dict[str, Agent]:
    remote = A2AAgent(f"{a2a_sample}/rest", name="remote")
    script: list[Any] = [
        {"when": "Please find out", "call": {"tool": "remote", "input": {"query": "ask"}}},
        {"when": "You said Lyon", "finish": "It is Lyon."},
        {"when": "Please", "call": {"tool": "remote", "input": {"query": "say this"}}},
        {"when": "Echo", "finish": "It works."},
    ]
    leader = Agent(PromptModel(script=script, retries=0), [remote], name="leader", strategy="tool_calling")
    return {"remote": remote, "leader": leader}


def begun(served: Serving, said: str) -> str:
    """A run of the remote agent."""
    assistant = served.ask("POST", "/v1/assistants", {"model": "remote"}).body["id"]
    asked = {"assistant_id": assistant, "thread": {"messages": [{"role": "user", "content": said}]}}
    run: str = served.ask("POST", "/v1/threads/runs", asked).body["id"]
    return run


def status(served: Serving, run: str) -> str:
    return str(served.ask("GET", f"/v1/runs/{run}").body["status"])


def test_a_served_agent_asks_its_member(a2a_sample: str, tmp_path: Path) -> None:
    with Serving(tmp_path, agents(a2a_sample)) as served:
        asked = {"model": "leader", "messages": [{"role": "user", "content": "Please ask"}]}
        said = served.ask("POST", "/v1/chat/completions", asked).body
        assert said["choices"][0]["message"]["content"] == "It works."


def test_a_server_that_stops_leaves_the_task_alone_and_finds_it_again(a2a_sample: str, tmp_path: Path) -> None:
    with Serving(tmp_path, agents(a2a_sample)) as served:
        before, followed = counted(a2a_sample), counted(a2a_sample, "followed")
        run = begun(served, "hang")
        until(lambda: counted(a2a_sample, "followed") == followed + 1)
    with Serving(tmp_path, agents(a2a_sample)) as served:
        until(lambda: counted(a2a_sample, "followed") == followed + 2)
        assert counted(a2a_sample) == before
        assert status(served, run) == "in_progress"
        thread = served.ask("GET", f"/v1/runs/{run}").body["thread_id"]
        served.ask("POST", f"/v1/threads/{thread}/runs/{run}/cancel")
        until(lambda: status(served, run) == "cancelled")
        until(lambda: counted(a2a_sample) == before + 1)


@pytest.mark.anyio
async def test_a_question_travels_from_server_to_server(a2a_sample: str, tmp_path: Path) -> None:
    with Serving(tmp_path, agents(a2a_sample)) as served:
        async with a2a_client(f"{served.url}/a2a/remote", KEY) as client:
            task = await task_of(client, asks("ask"))
            assert state_of(task) == "INPUT_REQUIRED"
            assert task.status.message.parts[0].text == "Which city?"
            done = await task_of(client, asks("Lyon", task_id=task.id))
            assert (state_of(done), text_of(done)) == ("COMPLETED", "You said Lyon.")
        async with a2a_client(f"{served.url}/a2a/leader", KEY, streaming=False) as client:
            (event,) = await sent(client, asks("Please find out"))
            assert state_of(event.task) == "INPUT_REQUIRED"
            assert event.task.status.message.parts[0].text == "Which city?"
            (event,) = await sent(client, asks("Lyon", task_id=event.task.id))
            assert (state_of(event.task), text_of(event.task)) == ("COMPLETED", "It is Lyon.")


FILE = """\
components:
  - {name: travel, type: A2AAgent, params: {url: "URL/rest", name: travel, seconds: 600}}
agents:
  - name: leader
    params:
      script:
        - {when: Please hang, call: {tool: travel, input: {query: hang}}}
      strategy: tool_calling
      tools: [{name: travel, pipeline_or_node: travel, description: travels}]
"""


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_member_of_a_file_goes_on_after_a_kill_and_ends_with_its_top(a2a_sample: str, tmp_path: Path) -> None:
    with serving(tmp_path, FILE.replace("URL", a2a_sample)) as served, served.client() as client:
        before, followed, talks = counted(a2a_sample), counted(a2a_sample, "followed"), client.beta.threads
        assistant = client.beta.assistants.create(model="leader").id
        said: Any = {"messages": [{"role": "user", "content": "Please hang"}]}
        run = talks.create_and_run(assistant_id=assistant, thread=said)
        until(lambda: counted(a2a_sample, "followed") == followed + 1)
        served.kill()
        served.restart()
        client.base_url = served.url
        until(lambda: counted(a2a_sample, "followed") == followed + 2)
        assert counted(a2a_sample) == before
        talks.runs.cancel(run.id, thread_id=run.thread_id)
        until(lambda: talks.runs.retrieve(run.id, thread_id=run.thread_id).status == "cancelled")
        until(lambda: counted(a2a_sample) == before + 1)


def counted(a2a_sample: str, what: str = "count") -> int:
    """How many tasks were cancelled, or how often they were followed, at the other server."""
    poll = A2AAgent(f"{a2a_sample}/poll")  # which follows nothing itself
    return int(poll.run(what).answer)
