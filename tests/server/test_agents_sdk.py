"""The OpenAI Agents SDK and LangChain, which speak the Responses API: whole tool loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import openai
import pytest

from fakes.responses import HELLO
from fakes.sdk import DEGREES, MARKS
from fakes.served import Served

if TYPE_CHECKING:  # the SDKs take seconds to import: only the process that runs these tests does
    from agents import Agent

pytestmark = MARKS
BOTH = "Paris 21, London 19."


def get_weather(location: str) -> str:
    """The weather of a city."""
    return DEGREES[location]


@pytest.fixture(autouse=True, scope="module")
def no_tracing() -> None:
    import agents

    agents.set_tracing_disabled(True)


@pytest.fixture
async def async_client(deployed: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with deployed.async_client() as client:
        yield client


def agent(client: openai.AsyncOpenAI, **settings: Any) -> Agent[Any]:
    from agents import Agent, OpenAIResponsesModel, function_tool

    model = OpenAIResponsesModel(model="plain", openai_client=client)
    return Agent(name="Kim", instructions="Be kind.", tools=[function_tool(get_weather)], model=model, **settings)


async def test_a_loop(async_client: openai.AsyncOpenAI) -> None:
    """All that was said is sent each time."""
    from agents import Runner

    result = await Runner.run(agent(async_client), "Compare two cities.")
    assert result.final_output == BOTH
    again = await Runner.run(agent(async_client), [*result.to_input_list(), {"role": "user", "content": "Hello"}])
    assert again.final_output == HELLO


async def test_a_loop_that_goes_on_from_responses(async_client: openai.AsyncOpenAI) -> None:
    from agents import Runner

    result = await Runner.run(agent(async_client), "Compare two cities.", auto_previous_response_id=True)
    assert result.final_output == BOTH
    again = await Runner.run(agent(async_client), "Hello", previous_response_id=result.last_response_id)
    assert again.final_output == HELLO


async def test_a_streamed_loop(async_client: openai.AsyncOpenAI) -> None:
    from agents import ModelSettings, Runner

    result = Runner.run_streamed(agent(async_client, model_settings=ModelSettings(store=False)), "What is the weather?")
    kinds = [event.item.type async for event in result.stream_events() if event.type == "run_item_stream_event"]
    assert kinds == ["tool_call_item", "tool_call_output_item", "message_output_item"]
    assert result.final_output == "It is 21 degrees in Paris."


def waiter(client: openai.AsyncOpenAI, label: str = "waiter", **rules: Any) -> Agent[Any]:
    """An agent of the client's for whom a person approves what the server's agent does."""
    from agents import Agent, HostedMCPTool, OpenAIResponsesModel

    model = OpenAIResponsesModel(model="waiter", openai_client=client)
    config: Any = {"type": "mcp", "server_label": label, "require_approval": "always"}
    return Agent(name="Kim", model=model, tools=[HostedMCPTool(tool_config=config, **rules)])


@pytest.mark.parametrize(("approve", "answer"), [(True, "It is booked."), (False, "Then not.")])
@pytest.mark.parametrize("previous", [False, True])
async def test_a_hook_approves(async_client: openai.AsyncOpenAI, approve: bool, answer: str, previous: bool) -> None:
    from agents import Runner

    asked: list[Any] = []

    def decide(request: Any) -> Any:
        asked.append((request.data.name, request.data.server_label))
        return {"approve": approve} if approve else {"approve": False, "reason": "refused"}

    agent = waiter(async_client, on_approval_request=decide)
    result = await Runner.run(agent, "Please book a table.", auto_previous_response_id=previous)
    assert (result.final_output, asked) == (answer, [("book", "waiter")])


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_person_approves_between_two_runs(async_client: openai.AsyncOpenAI, streamed: bool) -> None:
    from agents import Runner

    agent = waiter(async_client)
    first = await Runner.run(agent, "Please book two tables.")
    assert [one.name for one in first.interruptions] == ["book", "book"]
    state = first.to_state()
    for one in first.interruptions:
        state.approve(one)
    if streamed:
        result: Any = Runner.run_streamed(agent, state)
        assert [event async for event in result.stream_events()]
    else:
        result = await Runner.run(agent, state)
    assert result.final_output == "It is booked."


@pytest.mark.full
@pytest.mark.parametrize("previous", [False, True])
def test_langchain(deployed: Served, previous: bool) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    weather = tool("get_weather")(get_weather)
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
