"""Chat completions through the SDK: whole and streamed, with the client's own tools, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from fakes.sdk import DEGREES, MARKS, WEATHER, each, of, place as city_of, refused

pytestmark = MARKS
HELLO: Any = [{"role": "user", "content": "Hello"}]
ASKED: Any = [{"role": "user", "content": "What is the weather?"}]
SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "weather",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
            "required": ["city", "degrees"],
            "additionalProperties": False,
        },
    },
}


async def test_an_answer(client: Any) -> None:
    messages = [{"role": "system", "content": "Be kind."}, *HELLO]
    said = await of(client.chat.completions.create(model="plain", messages=messages))
    assert (said.object, said.model, said.id[:9]) == ("chat.completion", "plain", "chatcmpl-")
    (choice,) = said.choices
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "stop", None)
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello, I am an agent.")
    assert (choice.message.refusal, choice.message.tool_calls) == (None, None)
    assert said.usage.prompt_tokens > 0
    assert said.usage.completion_tokens > 0
    assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens
    assert said._request_id


@pytest.mark.parametrize("model", ["react", "react_json", "planexec", "echo"])
async def test_whatever_it_is_made_of_a_model_answers(client: Any, model: str) -> None:
    said = await of(client.chat.completions.create(model=model, messages=HELLO))
    assert said.choices[0].message.content == "Hello, I am an agent."
    stream = await of(client.chat.completions.create(model=model, messages=HELLO, stream=True))
    chunks = [chunk async for chunk in each(stream)]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello, I am an agent."


@pytest.mark.parametrize("model", ["tool_calling", "react", "react_json", "planexec"])
async def test_the_servers_own_tools_are_not_the_clients_business(client: Any, model: str) -> None:
    messages: Any = [{"role": "user", "content": "What is 2 to the power of 3?"}]
    said = await of(client.chat.completions.create(model=model, messages=messages))
    (choice,) = said.choices
    assert (choice.finish_reason, choice.message.content, choice.message.tool_calls) == ("stop", "It is 8.", None)


async def test_a_conversation_in_parts_and_roles(client: Any) -> None:
    messages: Any = [
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "name": "kim", "content": "Is it warm?"},
        {"role": "assistant", "content": "It is."},
        {"role": "user", "content": [{"type": "text", "text": "Say that"}, {"type": "text", "text": " as JSON"}]},
    ]
    settings: Any = {
        "temperature": 0.5, "top_p": 0.9, "seed": 7, "max_completion_tokens": 100, "stop": ["\n\n"], "user": "kim",
        "metadata": {"place": "kitchen"}, "n": 1, "presence_penalty": 0, "frequency_penalty": 0, "store": False,
        "parallel_tool_calls": True, "response_format": {"type": "text"}, "tools": [WEATHER], "tool_choice": "auto",
    }  # fmt: skip
    said = await of(client.chat.completions.create(model="plain", messages=messages, **settings))
    assert json.loads(said.choices[0].message.content) == {"city": "Paris", "degrees": 21}


# ── streamed ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_stream_is_a_role_then_text_then_why_it_ended_then_usage(client: Any) -> None:
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    stream = await of(client.chat.completions.create(model="plain", messages=HELLO, **options))
    first, *deltas, last, usage = [chunk async for chunk in each(stream)]
    assert first.choices[0].delta.to_dict() == {"role": "assistant", "content": ""}
    assert len(deltas) > 1
    assert "".join(chunk.choices[0].delta.content for chunk in deltas) == "Hello, I am an agent."
    assert (last.choices[0].delta.to_dict(), last.choices[0].finish_reason) == ({}, "stop")
    assert {chunk.choices[0].finish_reason for chunk in (first, *deltas)} == {None}
    assert usage.choices == []
    assert usage.usage.total_tokens == usage.usage.prompt_tokens + usage.usage.completion_tokens > 0
    assert {chunk.usage for chunk in (first, *deltas, last)} == {None}
    chunks = [first, *deltas, last, usage]
    assert {(chunk.object, chunk.model) for chunk in chunks} == {("chat.completion.chunk", "plain")}
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1


async def test_without_being_asked_a_stream_says_no_usage(client: Any) -> None:
    stream = await of(client.chat.completions.create(model="plain", messages=HELLO, stream=True))
    chunks = [chunk async for chunk in each(stream)]
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)


async def test_a_streamed_call_says_its_id_and_name_once(client: Any) -> None:
    options: Any = {"tools": [WEATHER], "stream": True}
    messages: Any = [{"role": "user", "content": "Compare two cities."}]
    stream = await of(client.chat.completions.create(model="plain", messages=messages, **options))
    chunks = [chunk.choices[0] async for chunk in each(stream)]
    calls = [call for choice in chunks for call in choice.delta.tool_calls or []]
    assert chunks[-1].finish_reason == "tool_calls"
    assert [call.index for call in calls] == sorted(call.index for call in calls)
    for index, city in enumerate(["Paris", "London"]):
        first, *more = [call for call in calls if call.index == index]
        assert (first.type, first.function.name, first.id[:5]) == ("function", "get_weather", "call_")
        assert {(call.id, call.type, call.function.name) for call in more} <= {(None, None, None)}
        pieces = [call.function.arguments or "" for call in (first, *more)]
        assert json.loads("".join(pieces)) == {"location": city}


# ── the client's tools ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["plain", "tool_calling", "react", "react_json"])
async def test_a_tools_round_trip(client: Any, model: str) -> None:
    said = await of(client.chat.completions.create(model=model, messages=ASKED, tools=[WEATHER]))
    (choice,) = said.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name, city_of(call)) == ("function", "get_weather", "Paris")
    answer = {"role": "tool", "tool_call_id": call.id, "content": DEGREES["Paris"]}
    messages = [*ASKED, choice.message, answer]  # a client sends back what it got, as it is
    said = await of(client.chat.completions.create(model=model, messages=messages, tools=[WEATHER]))
    assert (said.choices[0].finish_reason, said.choices[0].message.content) == ("stop", "It is 21 degrees in Paris.")


async def test_several_calls_in_one_reply_are_answered_together(client: Any) -> None:
    messages: Any = [{"role": "user", "content": "Compare two cities."}]
    said = await of(client.chat.completions.create(model="plain", messages=messages, tools=[WEATHER]))
    message = said.choices[0].message
    assert [city_of(call) for call in message.tool_calls] == ["Paris", "London"]
    assert len({call.id for call in message.tool_calls}) == 2
    messages.append(message)
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": DEGREES[city_of(call)]})
    stream = await of(client.chat.completions.create(model="plain", messages=messages, tools=[WEATHER], stream=True))
    said = "".join([chunk.choices[0].delta.content or "" async for chunk in each(stream)])
    assert said == "Paris 21, London 19."


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "get_weather"}}])
async def test_a_tool_may_be_or_must_be_called(client: Any, choice: Any) -> None:
    options: Any = {"tools": [WEATHER], "tool_choice": choice}
    said = await of(client.chat.completions.create(model="plain", messages=ASKED, **options))
    assert said.choices[0].finish_reason == "tool_calls"


async def test_no_tool_is_called_if_none_may_be(client: Any) -> None:
    options: Any = {"tools": [WEATHER], "tool_choice": "none"}
    said = await of(client.chat.completions.create(model="plain", messages=ASKED, **options))
    assert (said.choices[0].finish_reason, said.choices[0].message.tool_calls) == ("stop", None)


# ── forms of answers ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", [SCHEMA, {"type": "json_object"}], ids=["json_schema", "json_object"])
@pytest.mark.parametrize("model", ["plain", "react"])
async def test_an_answer_in_a_form(client: Any, model: str, form: Any) -> None:
    messages: Any = [{"role": "user", "content": "How warm is it, as JSON?"}]
    said = await of(client.chat.completions.create(model=model, messages=messages, response_format=form))
    assert json.loads(said.choices[0].message.content) == {"city": "Paris", "degrees": 21}


async def test_an_answer_that_is_not_in_the_form_is_a_refusal(client: Any) -> None:
    messages: Any = [{"role": "user", "content": "How warm is it, in plain words?"}]
    said = await of(client.chat.completions.create(model="plain", messages=messages, response_format=SCHEMA))
    (choice,) = said.choices
    assert (choice.finish_reason, choice.message.content) == ("stop", None)
    assert choice.message.refusal


# ── what fails ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("question", "answer"),
    [("Please stumble", "Up again."), ("Are you busy?", "Free again."), ("Do break off", "one two three four")],
)
async def test_an_engine_that_fails_for_a_moment_is_asked_again(client: Any, question: str, answer: str) -> None:
    messages: Any = [{"role": "user", "content": question}]
    said = await of(client.chat.completions.create(model="plain", messages=messages))
    assert said.choices[0].message.content == answer


async def test_an_engine_that_says_no_is_the_servers_error(client: Any) -> None:
    messages: Any = [{"role": "user", "content": "Something unheard of"}]
    with pytest.raises(openai.InternalServerError) as raised:
        await of(client.chat.completions.create(model="plain", messages=messages))
    assert raised.value.type == "server_error"
    with pytest.raises(openai.APIError):  # before the first byte or in the stream
        async for _ in each(await of(client.chat.completions.create(model="plain", messages=messages, stream=True))):
            pass


WRONG: list[Any] = [
    (
        {"n": 2},
        ("integer_above_max_value", "n"),
        "Invalid 'n': integer above maximum value. Expected a value <= 1, but got 2 instead.",
    ),
    (
        {"n": "two"},
        ("invalid_type", "n"),
        "Invalid type for 'n': expected an integer, but got a string instead.",
    ),
    (
        {"messages": []},
        ("empty_array", "messages"),
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
    ),
    (
        {"frequency_penalty": 3},
        ("decimal_above_max_value", "frequency_penalty"),
        "Invalid 'frequency_penalty': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
    ),
    (
        {"metadata": {"k": "x" * 600}},
        ("string_above_max_length", "metadata.k"),
        "Invalid 'metadata.k': string too long. Expected a string with maximum length 512, but got a string with "
        "length 600 instead.",
    ),
]


@pytest.mark.parametrize(
    ("wrong", "place", "message"), WRONG, ids=lambda given: next(iter(given)) if isinstance(given, dict) else ""
)
async def test_a_wrong_request_is_refused_with_its_place(client: Any, wrong: Any, place: Any, message: str) -> None:
    with refused(openai.BadRequestError, message, *place):
        await of(client.chat.completions.create(**{"model": "plain", "messages": HELLO, **wrong}))


async def test_a_model_that_is_not_there(client: Any) -> None:
    with refused(openai.NotFoundError, code="model_not_found", param="model"):
        await of(client.chat.completions.create(model="gpt-4", messages=HELLO))


async def test_a_request_without_messages(client: Any) -> None:
    with refused(
        openai.BadRequestError, "Missing required parameter: 'messages'.", "missing_required_parameter", "messages"
    ):
        await of(client.post("/chat/completions", body={"model": "plain"}, cast_to=object))


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
@pytest.mark.parametrize("more", [{}, {"extra_headers": {"X-Retinue-Thread": "says nothing"}}], ids=["", "thread"])
async def test_a_message_that_says_nothing(client: Any, role: str, more: Any) -> None:
    said: Any = [{"role": "user", "content": "Hello"}, {"role": role}]
    answer = await of(client.chat.completions.create(model="plain", messages=said, **more))
    assert answer.choices[0].message.content


@pytest.mark.parametrize("role", ["tool", "function"])
@pytest.mark.parametrize("more", [{}, {"extra_headers": {"X-Retinue-Thread": "says nothing"}}], ids=["", "thread"])
async def test_a_tool_that_nobody_called_says_nothing(client: Any, role: str, more: Any) -> None:
    said: Any = [{"role": "user", "content": "Hello"}, {"role": role, "content": "x", "tool_call_id": "call_1"}]
    with refused(
        openai.BadRequestError,
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        param="messages[1].role",
    ):
        await of(client.chat.completions.create(model="plain", messages=said, **more))
