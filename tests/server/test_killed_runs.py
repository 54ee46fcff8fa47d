"""Runs whose server is killed: a memory has each turn once, and a model is shown the images it was to be shown."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.openai_server import Answer, OpenAIServer
from fakes.pictures import data_url, png
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
