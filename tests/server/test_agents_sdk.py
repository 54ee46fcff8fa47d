"""The OpenAI Agents SDK and LangChain, which speak the Responses API: whole tool loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from fakes.responses import HELLO
from fakes.sdk import DEGREES, MARKS
from fakes.served import Served

pytestmark = MARKS
set_tracing_disabled(True)
BOTH = "Paris 21, London 19."


@function_tool
def get_weather(location: str) -> str:
    """The weather of a city."""
    return DEGREES[location]


@tool("get_weather")
def weather(location: str) -> str:
    """The weather of a city."""
    return DEGREES[location]


@pytest.fixture
async def async_client(deployed: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with deployed.async_client() as client:
        yield client


def agent(client: openai.AsyncOpenAI, **settings: Any) -> Agent[Any]:
    model = OpenAIResponsesModel(model="plain", openai_client=client)
    return Agent(name="Kim", instructions="Be kind.", tools=[get_weather], model=model, **settings)


async def test_a_loop(async_client: openai.AsyncOpenAI) -> None:
    """All that was said is sent each time."""
    result = await Runner.run(agent(async_client), "Compare two cities.")
    assert result.final_output == BOTH
    again = await Runner.run(agent(async_client), [*result.to_input_list(), {"role": "user", "content": "Hello"}])
    assert again.final_output == HELLO


async def test_a_loop_that_goes_on_from_responses(async_client: openai.AsyncOpenAI) -> None:
    result = await Runner.run(agent(async_client), "Compare two cities.", auto_previous_response_id=True)
    assert result.final_output == BOTH
    again = await Runner.run(agent(async_client), "Hello", previous_response_id=result.last_response_id)
    assert again.final_output == HELLO


async def test_a_streamed_loop(async_client: openai.AsyncOpenAI) -> None:
    result = Runner.run_streamed(agent(async_client, model_settings=ModelSettings(store=False)), "What is the weather?")
    kinds = [event.item.type async for event in result.stream_events() if event.type == "run_item_stream_event"]
    assert kinds == ["tool_call_item", "tool_call_output_item", "message_output_item"]
    assert result.final_output == "It is 21 degrees in Paris."


@pytest.mark.parametrize("previous", [False, True])
def test_langchain(deployed: Served, previous: bool) -> None:
    with openai.DefaultHttpxClient() as http:
        made: Any = {"base_url": deployed.url, "api_key": deployed.key, "max_retries": 0, "use_responses_api": True}
        model = ChatOpenAI(model="plain", use_previous_response_id=previous, http_client=http, **made)
        said: Any = [HumanMessage("Compare two cities.")]
        said.append(model.bind_tools([weather]).invoke(said))
        said += [ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in said[-1].tool_calls]
        answer = model.bind_tools([weather]).invoke(said)
        assert answer.text == BOTH
        pieces = [piece.text for piece in model.stream([*said, answer, HumanMessage("Hello")])]
        assert "".join(pieces) == HELLO
