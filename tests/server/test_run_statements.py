"""What a run asks of the database, counted where SQLite executes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from fakes.app_server import Serving
from fakes.until import until
from retinue import Agent, PromptModel, tool

SCRIPT: list[dict[str, Any]] = [
    {"when": "seen 2", "say": "I saw it."},
    {"when": "seen 1", "call": {"tool": "see", "input": {"what": 2}}},
    {"when": "", "call": {"tool": "see", "input": {"what": 1}}},
]
STEPS = 3


@tool(effects="read")
async def see(what: int) -> str:
    """See."""
    return f"seen {what}"


@contextmanager
def statements() -> Iterator[list[str]]:
    """The statements of the connections that are made in the block, as they are executed."""
    made: list[str] = []

    def connected(connection: Any, _record: Any) -> None:
        connection.set_trace_callback(made.append)

    event.listen(Engine, "connect", connected)
    try:
        yield made
    finally:
        event.remove(Engine, "connect", connected)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Serving, str, list[str]]]:
    agent = Agent(PromptModel(engine="scripted", script=SCRIPT), [see], name="agent-1", strategy="tool_calling")
    with statements() as made, Serving(tmp_path, {"agent-1": agent}) as served:
        assistant = served.ask("POST", "/v1/assistants", {"model": "agent-1"}).body["id"]
        yield served, assistant, made


def run(served: Serving, assistant: str) -> str:
    thread = {"messages": [{"role": "user", "content": "Look"}]}
    asked = {"assistant_id": assistant, "thread": thread, "stream": True}
    return served.ask("POST", "/v1/threads/runs", asked).text


def test_a_streamed_run_reads_no_row_that_its_server_has_just_written(
    made: tuple[Serving, str, list[str]],
) -> None:
    served, assistant, executed = made
    run(served, assistant)  # which connects, and writes the agent's snapshot
    # its thread, its assistant, what was said; the quotas of runs and of texts, and what these count;
    # its row before each change; whether its agent's snapshot is there; how far its use is counted; whether others wait
    expected = ["threads", "assistants", "messages", *["quotas"] * 2, "storage_used", "snapshots", *["runs"] * 4]
    expected.sort()
    # a stream that begins after its run, as on a busy machine, reads the log once
    until(lambda: asked(served, assistant, executed) == expected)


def asked(served: Serving, assistant: str, executed: list[str]) -> list[str]:
    """The tables that a run reads, in order of their names; it commits once a step, and three times more."""
    executed.clear()
    told = run(served, assistant)
    assert "thread.run.completed" in told
    ids = {assistant, *re.findall(r'"id":"((?:run|thread)_[0-9a-f]+)"', told)}
    reads, commits, own = list[str](), 0, False
    for one in executed[:]:  # those of the server's maintenance are about nothing of this
        own = any(id_ in one for id_ in ids) or (own and not one.startswith("BEGIN"))
        if own and one.startswith("SELECT"):
            reads += re.findall(r"FROM (\w+)", one)[:1]
        commits += own and one == "COMMIT"
    return sorted(reads) if commits <= 3 + STEPS else [f"{commits} commits"]  # or one was maintenance's, in between
