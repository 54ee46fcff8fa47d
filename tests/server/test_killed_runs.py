"""Runs whose server is killed: a memory has each turn once, a model is shown the images it was to be shown, and is sent
its reasoning back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.openai_server import Answer, OpenAIServer
from fakes.pictures import data_url, png
from fakes.postgres import Postgres
from fakes.reasoning_server import reasoning_server
from fakes.served import Served, serving
from fakes.until import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

FILE = """
retinue: 1
components:
  - {{name: eyes, type: PromptModel, params: {{model_name_or_path: m, base_url: "{url}", api_key: k, sees: true}}}}
  - {{name: chat, type: ConversationMemory, params: {{window: 5}}}}
agents:
  - {{name: guide, params: {{model: eyes, strategy: tool_calling, memory: chat}}}}
"""


@pytest.fixture
def engine() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        server.always = lambda request: Answer("Red.")
        yield server


@pytest.mark.parametrize(
    "point", ["after claim", "before asking", "before reply is written", "before the end", "after the end"]
)
def test_a_run_goes_on_after_a_kill(engine: OpenAIServer, tmp_path: Path, point: str) -> None:
    with serving(tmp_path, FILE.format(url=engine.url)) as server:
        assistant, thread = made(server)
        server.stop()
        server.restart(RETINUE_CRASHPOINT=f"{point}:1")
        with server.client() as client, suppress(openai.APIError):
            client.beta.threads.runs.create(thread, assistant_id=assistant)
        until(lambda: server.process.poll() is not None)
        server.kill()
        server.restart()
        with server.client() as client:
            until(lambda: [run.status for run in client.beta.threads.runs.list(thread)] == ["completed"])
            found: Any = client.get("/memories", cast_to=object)
        (memory,) = found["data"]
        assert [one["question"] for one in memory["content"]["turns"]] == ["Which color?"]
        seen = base64.b64encode(png()).decode()
        assert all(seen in json.dumps(request.body["messages"]) for request in engine.asked)


def made(server: Served) -> tuple[str, str]:
    """An assistant, and a thread with an image."""
    parts: Any = [
        {"type": "text", "text": "Which color?"},
        {"type": "image_url", "image_url": {"url": data_url(png())}},
    ]
    with server.client() as client:
        assistant = client.beta.assistants.create(model="guide")
        return assistant.id, client.beta.threads.create(messages=[{"role": "user", "content": parts}]).id


THINKER = """
retinue: 1
components:
  - name: thinks
    type: PromptModel
    params: {{model_name_or_path: m, base_url: "{url}", api_key: k, dialect: openai}}
agents:
  - {{name: guide, params: {{model: thinks, strategy: tool_calling, tools: [calculator]}}}}
"""
POINTS = ["before event:2", "before asking:2", "before the end:1"]  # of a call and its result, and what follows


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def test_a_vendor_gets_its_reasoning_back_after_a_kill(a_postgres: Postgres, tmp_path: Path, kind: str) -> None:
    args = ("--db", a_postgres.database()) if kind == "postgresql" else ()
    weather: Any = {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    given: Any = {"model": "guide", "tools": [{"type": "function", "function": weather}]}
    asked: Any = {"role": "user", "content": "How is it?"}
    with reasoning_server() as vendor, serving(tmp_path, THINKER.format(url=vendor.url), args=args) as server:
        for number, point in enumerate(POINTS, 1):
            server.stop()
            server.restart(RETINUE_CRASHPOINT=point)
            with server.client() as client, suppress(openai.APIError):
                client.chat.completions.create(messages=[asked], **given)
            until(lambda: server.process.poll() is not None)
            server.kill()
            server.restart()
            with server.client() as client:
                (call_id,) = until(partial(waiting, client, number))
                call = {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
                if point == POINTS[-1]:  # while it waits for its client, too
                    server.kill()
                    server.restart()
                messages = [asked, {"role": "assistant", "tool_calls": [call]}]
                messages += [{"role": "tool", "tool_call_id": call_id, "content": "rain"}]
                answer = client.chat.completions.create(messages=messages, **given)
            assert answer.choices[0].message.content == "It is 3 and rain.", point


def waiting(client: openai.OpenAI, number: int) -> list[str]:
    """The calls that the newest of so many runs waits for."""
    runs: Any = client.get("/runs", cast_to=object)
    if len(runs["data"]) < number or runs["data"][0]["required_action"] is None:
        return []
    return [one["id"] for one in runs["data"][0]["required_action"]["submit_tool_outputs"]["tool_calls"]]
