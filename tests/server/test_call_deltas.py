"""A call as streams tell it: first that it is made, with its name, then what it is given."""

from __future__ import annotations

import json
from typing import Any

from fakes.sdk import MARKS, WEATHER, each, of, opened, recorder

pytestmark = MARKS
QUESTION: Any = [{"role": "user", "content": "Compare two cities."}]
GIVEN = [{"location": "Paris"}, {"location": "London"}]


async def test_the_helpers_of_the_assistants_tell_of_deltas(client: Any) -> None:
    assistant = await of(client.beta.assistants.create(model="plain", tools=[WEATHER]))
    thread = await of(client.beta.threads.create(messages=QUESTION))
    seen = recorder(client)
    options: Any = {"thread_id": thread.id, "assistant_id": assistant.id, "event_handler": seen}
    async with opened(client.beta.threads.runs.stream(**options)) as stream:
        await of(stream.until_done())
    calls = [(name, given) for name, given in seen.calls if name.startswith("tool_call_")]
    names = ["tool_call_created", "tool_call_delta", "tool_call_done"]
    assert [name for name, _ in calls] == names * 2
    for number, given in enumerate(GIVEN):
        created, delta, done = (one for _, one in calls[3 * number : 3 * number + 3])
        assert (created.function.name, created.function.arguments) == ("get_weather", "")
        assert (delta.id, delta.function.name, json.loads(delta.function.arguments)) == (None, None, given)
        assert (done.id, json.loads(done.function.arguments)) == (created.id, given)


async def test_a_chats_deltas_begin_with_the_name(client: Any) -> None:
    options: Any = {"model": "plain", "messages": QUESTION, "tools": [WEATHER], "stream": True}
    chunks = [chunk.choices[0] async for chunk in each(await of(client.chat.completions.create(**options)))]
    deltas = [call for choice in chunks for call in choice.delta.tool_calls or ()]
    assert [(one.index, one.function.name, one.function.arguments == "") for one in deltas] == [
        (0, "get_weather", True), (0, None, False), (1, "get_weather", True), (1, None, False),
    ]  # fmt: skip


async def test_a_responses_deltas_follow_the_item(client: Any) -> None:
    tool = {"type": "function", **WEATHER["function"]}
    options: Any = {"model": "plain", "input": QUESTION, "tools": [tool], "stream": True}
    events = [event async for event in each(await of(client.responses.create(**options)))]
    told = [event for event in events if "function_call" in event.type or event.type == "response.output_item.added"]
    kinds = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done"]
    assert [event.type for event in told] == [f"response.{kind}" for kind in kinds] * 2
    assert [event.item.arguments for event in told[::3]] == ["", ""]
    assert [json.loads(event.delta) for event in told[1::3]] == GIVEN
