"""`/completions`, OpenAI's first API, by the SDK: a prompt is a chat's only message."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from fakes.sdk import MARKS, of
from fakes.served import Served

pytestmark = MARKS
HELLO = "Hello, I am an agent."


async def test_a_completion(client: Any) -> None:
    asked: Any = {"max_tokens": 100, "temperature": 0.5, "stop": ["x"], "seed": 1, "n": 1, "user": "kim", "echo": False}
    said = await of(client.completions.create(model="plain", prompt="Hello", **asked))
    (choice,) = said.choices
    assert (said.object, said.id[:5], said.model) == ("text_completion", "cmpl-", "plain")
    assert (choice.text, choice.finish_reason, choice.index) == (HELLO, "stop", 0)
    assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens > 0
    listed = await of(client.completions.create(model="tool_calling", prompt=["What is 2 to the power of 3?"]))
    assert listed.choices[0].text == "It is 8."


def streamed(deployed: Served, model: str, prompt: str) -> list[Any]:
    """The chunks; OpenAI's own have `null` as the reason before the last, against the SDK's types."""
    with deployed.client(_strict_response_validation=False) as client:
        asked: Any = {"stream": True, "stream_options": {"include_usage": True}}
        return list(client.completions.create(model=model, prompt=prompt, **asked))


def test_a_streamed_completion(deployed: Served) -> None:
    chunks = streamed(deployed, "plain", "Hello")
    told = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.text for choice in told) == HELLO
    assert [choice.finish_reason for choice in told][-2:] == [None, "stop"]
    assert {chunk.object for chunk in chunks} == {"text_completion"}
    assert chunks[-1].usage.total_tokens > 0
    with pytest.raises(openai.APIError):
        streamed(deployed, "plain", "Something unheard of")


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [[1], [2]]}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"logprobs": 1}, "logprobs"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"n": 2}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"max_tokens": 2**31}, "max_tokens"),
        ({"seed": 2**63}, "seed"),
    ],
)
async def test_what_no_completion_has(client: Any, more: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await of(client.completions.create(**{"model": "plain", "prompt": "Hello", **more}))
    assert refused.value.param == param


async def test_an_approval_has_no_place_in_it(client: Any, deployed: Served) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await of(client.completions.create(model="waiter", prompt="Please book a table."))
    assert (refused.value.code, refused.value.response.headers["x-should-retry"]) == ("awaiting_human", "false")
    with pytest.raises(openai.APIError) as told:
        streamed(deployed, "waiter", "Please book a table.")
    assert told.value.code == "awaiting_human"
