"""What the server said, sent back as the SDK has it, to a server that refuses unknown parameters (`--strict`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from fakes.app_server import KEY, Serving
from retinue import Agent, PromptModel, tool
from retinue.server.context import Options

CALL: Any = {"tool": "look", "input": {"place": "Paris"}}
SCRIPT: list[Any] = [
    {"when": "21 degrees", "say": "It is warm."},
    {"when": "weather", "call": CALL},
    {"when": "count", "call": {"tool": "count", "input": {}}},
    {"when": "^3$", "say": "Three."},
    {"say": "Hello."},
]
FUNCTION: Any = {"name": "look", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}


@tool(effects="read")
def count() -> str:
    """Count."""
    return "3"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    agent = Agent(PromptModel(script=SCRIPT), [count], strategy="tool_calling", name="a")
    with (
        Serving(tmp_path_factory.mktemp("strict"), {"a": agent}, Options(strict=True)) as served,
        openai.OpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0) as client,
    ):
        yield client


@pytest.mark.parametrize("whole", [True, False])
def test_a_chat(client: openai.OpenAI, whole: bool) -> None:
    tools: Any = [{"type": "function", "function": FUNCTION}]
    said: list[Any] = []
    for question in ("Hi", "How is the weather?"):
        said.append({"role": "user", "content": question})
        message = client.chat.completions.create(model="a", messages=said, tools=tools).choices[0].message
        said.append(message.model_dump() if whole else message)
    (call,) = message.tool_calls or []
    said.append({"role": "tool", "tool_call_id": call.id, "content": "21 degrees"})
    answer = client.chat.completions.create(model="a", messages=said, tools=tools)
    assert answer.choices[0].message.content == "It is warm."


@pytest.mark.parametrize("whole", [True, False])
def test_responses(client: openai.OpenAI, whole: bool) -> None:
    asked: Any = {
        "model": "a", "tools": [{"type": "function", **FUNCTION}, {"type": "custom", "name": "run"}], "store": False,
        "include": ["mcp_call"],
    }  # fmt: skip
    said: list[Any] = []
    for question in ("Hi", "Please count", "How is the weather?"):
        said.append({"role": "user", "content": question})
        output = client.responses.create(input=said, **asked).output
        said += [item.model_dump() for item in output] if whole else output
    said.append(
        {
            "type": "function_call_output",
            "call_id": said[-1]["call_id"] if whole else said[-1].call_id,
            "output": "21 degrees",
        }
    )
    assert client.responses.create(input=said, **asked).output_text == "It is warm."
    parsed = client.responses.parse(input="Hi", **asked).output
    again: list[Any] = [{"role": "user", "content": "Hi"}, *(item.model_dump() if whole else item for item in parsed)]
    assert client.responses.create(input=[*again, {"role": "user", "content": "Hi"}], **asked).output_text == "Hello."
