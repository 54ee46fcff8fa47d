"""The OpenAI Agents SDK, with its session in a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.sdk import DEGREES, MARKS
from fakes.served import Served

pytestmark = MARKS
BOTH = "Paris 21, London 19."


def get_weather(location: str) -> str:
    """The weather of a city."""
    return DEGREES[location]


def kinds(items: list[Any]) -> list[str]:
    return [item.get("type", "message") for item in items]


@pytest.mark.full
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_session(deployed: Served, streamed: bool) -> None:
    """What is said and done in a tool loop is in the conversation, and the next question stands on it."""
    from agents import (
        Agent,
        OpenAIConversationsSession,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )

    set_tracing_disabled(True)
    async with deployed.async_client() as client:
        session = OpenAIConversationsSession(openai_client=client)
        model = OpenAIResponsesModel(model="plain", openai_client=client)
        agent = Agent(name="Kim", instructions="Be kind.", tools=[function_tool(get_weather)], model=model)
        if streamed:
            running = Runner.run_streamed(agent, "Compare two cities.", session=session)
            assert [event async for event in running.stream_events()]
            assert running.final_output == BOTH
        else:
            assert (await Runner.run(agent, "Compare two cities.", session=session)).final_output == BOTH
        called = ["message", *["function_call"] * 2, *["function_call_output"] * 2, "message"]
        assert sorted(kinds(await session.get_items())) == sorted(called)
        again = await Runner.run(agent, "Hello", session=session)
        assert again.final_output == "Hello, I am an agent."
        items = await session.get_items()
        assert len(items) == len(called) + 2
        assert [item["content"][0]["text"] for item in items[-2:]] == ["Hello", "Hello, I am an agent."]  # type: ignore[typeddict-item, index]
        assert [item["type"] for item in await session.get_items(limit=1)] == ["message"]
        popped: Any = await session.pop_item()
        assert popped["content"][0]["text"] == "Hello, I am an agent."
        assert len(await session.get_items()) == len(items) - 1
        await session.clear_session()


async def test_a_session_that_is_there_already(deployed: Served) -> None:
    from agents import OpenAIConversationsSession

    async with deployed.async_client() as client:
        made = await client.conversations.create(items=[{"role": "user", "content": "Before"}])
        session = OpenAIConversationsSession(conversation_id=made.id, openai_client=client)
        assert kinds(list(await session.get_items())) == ["message"]
        await session.add_items([{"role": "assistant", "content": "After"}])
        page = await client.conversations.items.list(made.id)
        assert [item.role async for item in page] == ["assistant", "user"]  # type: ignore[union-attr]
