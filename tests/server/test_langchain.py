"""LangChain's runnable for assistants, given our clients: a whole tool loop, by hand and by its executor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import openai
import pytest

from fakes.sdk import DEGREES, MARKS
from fakes.served import Served

if TYPE_CHECKING:  # takes two seconds to import: only the process that runs these tests does
    from langchain_classic.agents.openai_assistant import OpenAIAssistantRunnable

pytestmark = MARKS
BOTH = "Paris 21, London 19."


def weather_tool() -> Any:
    from langchain_core.tools import tool

    @tool
    def get_weather(location: str) -> str:
        """The weather of a city."""
        return DEGREES[location]

    return get_weather


@pytest.fixture
async def clients(deployed: Served) -> AsyncIterator[dict[str, Any]]:
    """What the runnable talks through; without these it would look for OpenAI's own server."""
    with deployed.client() as client:
        async with deployed.async_client() as async_client:
            yield {"client": client, "async_client": async_client, "check_every_ms": 50, "as_agent": True}


def agent(clients: dict[str, Any]) -> OpenAIAssistantRunnable:
    from langchain_classic.agents.openai_assistant import OpenAIAssistantRunnable

    made: Any = {"name": "Kim", "instructions": "Be kind.", "tools": [weather_tool()], "model": "plain"}
    return OpenAIAssistantRunnable.create_assistant(**made, **clients)


def tool_outputs(actions: Any) -> dict[str, Any]:
    """What the tools say to LangChain's actions, as its next input."""
    outputs = [{"tool_call_id": one.tool_call_id, "output": weather_tool().invoke(one.tool_input)} for one in actions]
    return {"tool_outputs": outputs, "run_id": actions[0].run_id, "thread_id": actions[0].thread_id}


async def test_a_loop_by_hand(clients: dict[str, Any]) -> None:
    from langchain_classic.agents.openai_assistant.base import OpenAIAssistantAction, OpenAIAssistantFinish

    runnable = agent(clients)
    actions: Any = runnable.invoke({"content": "Compare two cities."})
    assert all(isinstance(action, OpenAIAssistantAction) for action in actions)
    assert [(action.tool, action.tool_input) for action in actions] == [
        ("get_weather", {"location": "Paris"}),
        ("get_weather", {"location": "London"}),
    ]
    finish: Any = runnable.invoke(tool_outputs(actions))
    assert isinstance(finish, OpenAIAssistantFinish)
    assert finish.return_values["output"] == BOTH
    assert (finish.run_id, finish.thread_id) == (actions[0].run_id, actions[0].thread_id)
    again: Any = runnable.invoke({"content": "Hello", "thread_id": finish.thread_id})
    assert again.return_values["output"] == "Hello, I am an agent."


async def test_a_loop_by_the_executor(clients: dict[str, Any]) -> None:
    from langchain_classic.agents import AgentExecutor

    executor = AgentExecutor(agent=agent(clients), tools=[weather_tool()], return_intermediate_steps=True)
    found = executor.invoke({"content": "Compare two cities."})
    assert found["output"] == BOTH
    assert [said for _, said in found["intermediate_steps"]] == ["21 degrees", "19 degrees"]


async def test_its_async_half_gets_as_far_as_it_can(clients: dict[str, Any]) -> None:
    runnable = agent(clients)
    actions: Any = await runnable.ainvoke({"content": "What is the weather?"})
    assert [(action.tool, action.tool_input) for action in actions] == [("get_weather", {"location": "Paris"})]
    # LangChain goes over a page of the SDK's asynchronous client with a plain `for`, which gives its fields.
    with pytest.raises(AttributeError, match="'tuple' object has no attribute 'run_id'"):
        await runnable.ainvoke(tool_outputs(actions))
    client: openai.OpenAI = clients["client"]
    assert client.beta.threads.runs.poll(actions[0].run_id, thread_id=actions[0].thread_id).status == "completed"


async def test_without_an_agent_it_gives_the_messages(clients: dict[str, Any]) -> None:
    from langchain_classic.agents.openai_assistant import OpenAIAssistantRunnable

    runnable: Any = OpenAIAssistantRunnable(assistant_id=agent(clients).assistant_id, **{**clients, "as_agent": False})
    (call,) = runnable.invoke({"content": "What is the weather?"})
    assert call.function.name == "get_weather"
    (message,) = runnable.invoke({"content": "Hello"})
    assert message.content[0].text.value == "Hello, I am an agent."
