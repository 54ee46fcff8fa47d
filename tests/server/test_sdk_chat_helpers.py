"""The SDK's chat helpers, `stream()` and `parse()`: they put a stream together, and read answers into types."""

from __future__ import annotations

from typing import Any

from openai import pydantic_function_tool
from pydantic import BaseModel

from fakes.sdk import MARKS, WEATHER, WeatherArguments, each, in_short, of, opened

pytestmark = MARKS
ASKED: Any = [{"role": "user", "content": "What is the weather?"}]
IN_JSON: Any = [{"role": "user", "content": "How warm is it, as JSON?"}]
TOOL: Any = pydantic_function_tool(WeatherArguments, name="get_weather")


class Weather(BaseModel):
    """What an answer is read into."""

    city: str
    degrees: int


PARIS = Weather(city="Paris", degrees=21)


async def test_a_stream_gives_events_and_the_whole_completion(client: Any) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]
    options: Any = {"stream_options": {"include_usage": True}}
    async with opened(client.chat.completions.stream(model="plain", messages=messages, **options)) as stream:
        events = [event async for event in each(stream)]
        whole = await of(stream.get_final_completion())
    told = in_short(event.type for event in events if event.type != "chunk")
    assert told == ["content.delta", "content.done"]
    deltas = [event.delta for event in events if event.type == "content.delta"]
    (done,) = [event for event in events if event.type == "content.done"]
    assert "".join(deltas) == done.content == whole.choices[0].message.content == "Hello, I am an agent."
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 0


async def test_a_streamed_call_is_put_together_and_its_arguments_read(client: Any) -> None:
    async with opened(client.chat.completions.stream(model="plain", messages=ASKED, tools=[TOOL])) as stream:
        events = [event async for event in each(stream)]
        whole = await of(stream.get_final_completion())
    assert "".join(event.delta for event in events if event.type == "content.delta") == ""
    (done,) = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert (done.name, done.index, done.parsed_arguments) == ("get_weather", 0, WeatherArguments(location="Paris"))
    (call,) = whole.choices[0].message.tool_calls
    assert (whole.choices[0].finish_reason, call.function.name) == ("tool_calls", "get_weather")
    assert call.function.parsed_arguments == WeatherArguments(location="Paris")


async def test_an_answer_is_read_into_a_type(client: Any) -> None:
    said = await of(client.chat.completions.parse(model="plain", messages=IN_JSON, response_format=Weather))
    assert said.choices[0].message.parsed == PARIS


async def test_a_streamed_answer_is_read_into_a_type(client: Any) -> None:
    asking = client.chat.completions.stream(model="plain", messages=IN_JSON, response_format=Weather)
    async with opened(asking) as stream:
        (done,) = [event async for event in each(stream) if event.type == "content.done"]
        whole = await of(stream.get_final_completion())
    assert done.parsed == whole.choices[0].message.parsed == PARIS


async def test_a_call_comes_before_an_answer_that_is_to_be_read(client: Any) -> None:
    options: Any = {"response_format": Weather, "tools": [WEATHER]}
    said = await of(client.chat.completions.parse(model="plain", messages=ASKED, **options))
    (call,) = said.choices[0].message.tool_calls
    assert (said.choices[0].message.parsed, call.function.parsed_arguments) == (None, {"location": "Paris"})
