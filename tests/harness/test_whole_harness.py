"""`harness: true` in a file: an agent with all pieces, in a chat and served, written and kept as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from fakes import command_line
from fakes.served import serving
from retinue import Agent
from retinue.config.agent_snapshot import rebuild, take_snapshot
from retinue.harness import Harness

FILE = """
retinue: 1
agents:
  - name: clerk
    params:
      model: scripted
      strategy: tool_calling
      script:
        - when: ^Begin
          call: {tool: write_todos, input: {items: [{text: Write it down, status: in_progress}]}}
        - {when: 0 of them completed, call: {tool: task, input: {description: Say when.}}}
        - {when: ^Say when, finish: Now is the time.}
        - {when: Now is the time, call: {tool: write_file, input: {path: notes/when.md, content: "Now.\\n"}}}
        - {when: is written, finish: It is written down.}
        - {when: ^And, call: {tool: read_file, input: {path: notes/when.md}}}
        - {when: "^Now", finish: It said now.}
        - {finish: What?}
      harness: true
"""
TOOLS = [
    "list_files",
    "read_file",
    "write_file",
    "edit_file",
    "search_files",
    "run_command",
    "write_todos",
    "task",
    "task_result",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "agents.yml").write_text(FILE)
    return tmp_path / "agents.yml"


def test_it_has_all_pieces_and_stays_what_it_is(file: Path) -> None:
    agent = Agent.load_from_yaml(file)
    assert sorted(one.name for one in agent.tools) == sorted(TOOLS)
    agent.save_to_yaml(file.with_name("again.yml"))
    again = Agent.load_from_yaml(file.with_name("again.yml"))
    assert again == agent
    assert "harness: true" in file.with_name("again.yml").read_text()
    assert take_snapshot(again).hash == take_snapshot(agent).hash
    made = rebuild(json.loads(json.dumps(take_snapshot(agent).body)), again)
    assert [one.name for one in made.tools] == [one.name for one in agent.tools]
    assert made.spec.harness == agent.spec.harness == Harness(pins=file.parent / "retinue.pins.json")


def test_it_works_in_a_chat(file: Path) -> None:
    done = command_line.retinue("chat", file, said="Begin.\nAnd what does it say?\n")
    for shown in ("[>] Write it down", "helper · tool_calling", "+ notes/when.md (5 bytes)", "It is written down."):
        assert shown in done.stdout
    assert "It said now." in done.stdout


def test_it_works_on_a_server(file: Path) -> None:
    with serving(file.parent, FILE) as server, server.client() as client:
        ask: Any = client.responses.create
        first = ask(model="clerk", input="Begin.")
        assert first.output_text == "It is written down."
        assert (
            ask(model="clerk", input="And what does it say?", previous_response_id=first.id).output_text
            == "It said now."
        )
        headers = {"Authorization": f"Bearer {server.key}"}
        runs = httpx.get(f"{server.url}/runs", headers=headers).json()["data"]
        found = [httpx.get(f"{server.url}/runs/{one['id']}/workspace", headers=headers).json() for one in runs]
        paths = [file["path"] for one in found for file in one.get("files", ())]
        assert set(paths) == {"notes/when.md"}
