"""Responses through the SDK: whole and streamed, in forms, one after the other, with tools on either side."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from fakes.responses import BEGUN, CALLING, HELLO, SAYING, TOOL, USING, outputs, place
from fakes.sdk import DEGREES, MARKS, each, in_short, of, opened

pytestmark = MARKS
KEYS = {
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id",
    "instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
    "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "max_output_tokens",
    "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
}  # fmt: skip


class Weather(BaseModel):
    city: str
    degrees: int


async def test_an_answer_has_every_key(client: Any) -> None:
    raw = await of(client.responses.with_raw_response.create(input="Hello"))  # no model: the file's first
    body = json.loads(raw.text)
    assert set(body) >= KEYS
    assert (body["object"], body["status"], body["model"], body["error"]) == ("response", "completed", "plain", None)
    settings = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "tool_choice")
    assert [body[name] for name in settings] == [1.0, 1.0, 0.0, 0.0, 0, "auto"]
    assert (body["truncation"], body["service_tier"], body["background"], body["store"]) == (
        "disabled",
        "default",
        False,
        True,
    )
    assert (body["tools"], body["metadata"], body["text"]["format"]) == ([], {}, {"type": "text"})
    assert body["usage"]["total_tokens"] == body["usage"]["input_tokens"] + body["usage"]["output_tokens"] > 0
    assert body["usage"]["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert body["completed_at"] >= body["created_at"]
    (item,) = body["output"]
    part = {"type": "output_text", "text": HELLO, "annotations": [], "logprobs": []}
    assert item == {"id": item["id"], "type": "message", "status": "completed", "role": "assistant", "content": [part]}


async def test_what_was_asked_for_is_said_again(client: Any) -> None:
    asked: Any = {
        "instructions": "Be kind.", "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 100, "max_tool_calls": 3,
        "parallel_tool_calls": False, "metadata": {"place": "kitchen"}, "tools": [TOOL], "truncation": "auto",
        "tool_choice": {
            "type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]
        },
        "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "user": "kim", "safety_identifier": "k",
        "top_logprobs": 2, "prompt_cache_key": "p", "include": ["reasoning.encrypted_content"], "service_tier": "auto",
    }  # fmt: skip
    said = await of(client.responses.create(model="plain", input="Hello", **asked))
    again = said.to_dict()
    assert said.output_text == HELLO
    same = set(asked) - {"reasoning", "text", "include", "service_tier"}
    assert {name: again[name] for name in same} == {name: asked[name] for name in same}
    assert (again["reasoning"]["effort"], again["text"]["verbosity"]) == ("low", "low")
    assert (await of(client.responses.retrieve(said.id))).to_dict() == again


@pytest.mark.parametrize("model", ["plain", "react", "react_json", "planexec", "echo"])
async def test_a_stream_tells_a_response_from_its_beginning_to_its_end(client: Any, model: str) -> None:
    async with opened(client.responses.stream(model=model, input="Hello")) as stream:
        events = [event async for event in each(stream)]
        final = await of(stream.get_final_response())
    names = in_short(event.type for event in events)
    assert (names[:2], names[-7:]) == (BEGUN, [*SAYING, "response.completed"])
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == HELLO
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == HELLO
    assert {event.response.id for event in events if hasattr(event, "response")} == {final.id}
    assert [item.id for item in final.output] == [
        event.item.id for event in events if event.type == "response.output_item.added"
    ]
    kept = await of(client.responses.retrieve(final.id))
    assert kept.output_text == HELLO
    assert [item.id for item in kept.output] == [item.id for item in final.output]


async def test_an_answer_in_a_form(client: Any) -> None:
    said = await of(client.responses.parse(model="plain", input="How warm is it, as JSON?", text_format=Weather))
    assert said.output_parsed == Weather(city="Paris", degrees=21)
    assert said.text.format.type == "json_schema"
    streaming = client.responses.stream(model="react", input="How warm is it, as JSON?", text_format=Weather)
    async with opened(streaming) as stream:
        final = await of(stream.get_final_response())
    assert final.output_parsed == Weather(city="Paris", degrees=21)
    form: Any = {"format": {"type": "json_object"}}
    said = await of(client.responses.create(model="plain", input="How warm is it, as JSON?", text=form))
    assert json.loads(said.output_text) == {"city": "Paris", "degrees": 21}


# ── one after the other ──────────────────────────────────────────────────────────────────────────


async def test_a_response_goes_on_from_another(client: Any) -> None:
    first = await of(client.responses.create(model="plain", input="Is it 21 degrees there?", instructions="Be brief."))
    second = await of(client.responses.create(model="plain", input="Hello", previous_response_id=first.id))
    assert (second.previous_response_id, second.instructions) == (first.id, None)
    assert second.usage.input_tokens > first.usage.input_tokens  # it was given what was said before
    alone = await of(client.responses.create(model="plain", input="Hello"))
    assert second.usage.input_tokens > alone.usage.input_tokens
    third = await of(client.responses.create(model="plain", input="Hello", previous_response_id=second.id))
    assert third.usage.input_tokens > second.usage.input_tokens


async def test_a_conversation_in_items_of_all_kinds(client: Any) -> None:
    before = await of(client.responses.create(model="plain", input="Hello"))
    items: Any = [
        {"role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Is it warm?"}]},
        before.output[0].to_dict(),
        {"role": "assistant", "content": "It is.", "phase": "commentary"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "warm"}]},
        {"type": "item_reference", "id": before.output[0].id},
        {
            "role": "user",
            "content": [
                {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,SGVsbG8="},
                {"type": "input_text", "text": "Say that as JSON"},
            ],
        },
    ]
    said = await of(client.responses.create(model="plain", input=items))
    assert json.loads(said.output_text) == {"city": "Paris", "degrees": 21}
    listed = [item async for item in each(await of(client.responses.input_items.list(said.id, order="asc", limit=2)))]
    assert [item.type for item in listed] == [
        "message", "message", "message", "message", "reasoning", "function_call", "function_call_output", "message",
        "message",
    ]  # fmt: skip
    assert len({item.id for item in listed}) == len(items)


# ── the client's tools ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["plain", "tool_calling", "react", "react_json"])
async def test_a_tools_round_trip(client: Any, model: str) -> None:
    asked: Any = {"model": model, "tools": [TOOL]}
    first = await of(client.responses.create(input="What is the weather?", **asked))
    assert first.status == "completed"
    (call,) = first.output
    assert (call.type, call.name, place(call), call.status) == ("function_call", "get_weather", "Paris", "completed")
    second = await of(client.responses.create(input=outputs(first), previous_response_id=first.id, **asked))
    assert second.output_text == "It is 21 degrees in Paris."
    assert second.id != first.id
    assert (await of(client.responses.retrieve(first.id))).to_dict() == first.to_dict()
    assert (await of(client.responses.retrieve(second.id))).to_dict() == second.to_dict()
    again = await of(client.responses.create(input=outputs(first), previous_response_id=first.id, **asked))
    assert again.to_dict() == second.to_dict()  # said twice, it counts once
    third = await of(client.responses.create(input="Hello", previous_response_id=second.id, **asked))
    assert third.output_text == HELLO


async def test_a_client_may_bring_all_that_was_said(client: Any) -> None:
    asked: Any = {"model": "plain", "tools": [TOOL], "store": False}
    items: Any = [{"role": "user", "content": "Compare two cities."}]
    first = await of(client.responses.create(input=items, **asked))
    assert [place(call) for call in first.output] == ["Paris", "London"]
    items += [call.to_dict() for call in first.output] + outputs(first)
    async with opened(client.responses.stream(input=items, **asked)) as stream:
        final = await of(stream.get_final_response())
    assert final.output_text == "Paris 21, London 19."
    other = await of(client.responses.create(input=[*items, {"role": "user", "content": "Hello"}], **asked))
    assert other.output_text == HELLO  # no run waits any more: a new one is told what came of the calls
    items[-2:] = [{**item, "output": DEGREES["Paris"]} for item in items[-2:]]
    third = await of(client.responses.create(input=items, **asked))
    assert third.id[:29] != final.id[:29]  # nor does it when they are said to have come to something else


async def test_a_streamed_call(client: Any) -> None:
    streaming = client.responses.stream(model="plain", input="Compare two cities.", tools=[TOOL])
    async with opened(streaming) as stream:
        events = [event async for event in each(stream)]
        final = await of(stream.get_final_response())
    assert [event.type for event in events] == [*BEGUN, *CALLING, *CALLING, "response.completed"]
    assert [place(call) for call in final.output] == ["Paris", "London"]
    going_on = client.responses.stream(model="plain", input=outputs(final), previous_response_id=final.id)
    async with opened(going_on) as stream:
        events = [event async for event in each(stream)]
    assert in_short(event.type for event in events) == [*BEGUN, *SAYING, "response.completed"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == (
        "Paris 21, London 19."
    )


@pytest.mark.parametrize(
    ("choice", "kinds"),
    [
        ("required", ["function_call"]),
        ({"type": "function", "name": "get_weather"}, ["function_call"]),
        ("none", ["message"]),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "no"}]},
            ["message"],
        ),
    ],
)
async def test_a_tool_may_be_or_must_be_called(client: Any, choice: Any, kinds: list[str]) -> None:
    tools: Any = [TOOL, {**TOOL, "name": "no"}]
    said = await of(
        client.responses.create(model="plain", input="What is the weather?", tools=tools, tool_choice=choice)
    )
    assert [item.type for item in said.output] == kinds
    assert said.to_dict()["tool_choice"] == choice


# ── the server's tools, and people ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["tool_calling", "react", "react_json", "planexec"])
async def test_the_servers_own_tools_are_shown(client: Any, model: str) -> None:
    asked: Any = {"model": model, "input": "What is 2 to the power of 3?"}
    async with opened(client.responses.stream(**asked, include=["mcp_call"])) as stream:
        events = [event async for event in each(stream)]
        final = await of(stream.get_final_response())
    assert in_short(event.type for event in events) == [*BEGUN, *USING, *SAYING, "response.completed"]
    call, answer = final.output
    assert (call.type, call.server_label, call.name, call.output, call.error) == (
        "mcp_call", model, "calculator", "8", None,
    )  # fmt: skip
    assert json.loads(call.arguments) == {"expression": "2^3"}
    assert answer.content[0].text == "It is 8."
    async with opened(client.responses.stream(**asked)) as stream:  # many clients know no such item
        events = [event async for event in each(stream)]
        final = await of(stream.get_final_response())
    assert in_short(event.type for event in events) == [*BEGUN, *SAYING, "response.completed"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert {event.output_index for event in events if hasattr(event, "output_index")} == {0}
    assert [item.type for item in final.output] == ["message"]
    kept = await of(client.responses.retrieve(final.id, include=["mcp_call"]))
    assert [item.type for item in kept.output] == ["mcp_call", "message"]
    assert kept.output[1].id == final.output[0].id
    declaring: Any = [{"type": "mcp", "server_label": model, "require_approval": "never"}]
    declared = await of(client.responses.create(**asked, tools=declaring))
    assert [item.type for item in declared.output] == ["mcp_call", "message"]


@pytest.mark.parametrize(
    ("words", "answer", "done"),
    [((True, True), "It is booked.", 2), ((True, False), "One of two.", 1), ((False, False), "Then not.", 0)],
)
async def test_a_person_decides(client: Any, words: tuple[bool, ...], answer: str, done: int) -> None:
    first = await of(client.responses.create(model="waiter", input="Please book two tables."))
    assert [item.type for item in first.output] == ["mcp_approval_request"] * 2
    assert [(item.server_label, item.name) for item in first.output] == [("waiter", "book")] * 2
    assert json.loads(first.output[0].arguments) == {"place": "Nopi", "people": 2}
    said: Any = [
        {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": word}
        for item, word in zip(first.output, words, strict=True)
    ]
    second = await of(client.responses.create(model="waiter", input=said, previous_response_id=first.id))
    calls = [item for item in second.output if item.type == "mcp_call"]
    assert second.output_text == answer
    assert len(calls) == done
    assert {call.approval_request_id for call in calls} <= {item.id for item in first.output}
    again = await of(client.responses.create(model="waiter", input=said, previous_response_id=first.id))
    assert again.to_dict() == second.to_dict()
    assert (await of(client.responses.retrieve(first.id))).to_dict() == first.to_dict()


# ── what fails ───────────────────────────────────────────────────────────────────────────────────


async def test_an_engine_that_says_no_is_the_servers_error(client: Any) -> None:
    with pytest.raises(openai.InternalServerError) as raised:
        await of(client.responses.create(model="plain", input="Something unheard of"))
    assert raised.value.response.headers["x-should-retry"] == "false"
    stream = await of(client.responses.create(model="plain", input="Something unheard of", stream=True))
    events = each(stream)
    begun = await anext(events)
    with pytest.raises(openai.APIError) as told:
        _ = [event async for event in events]
    kept = await of(client.responses.retrieve(begun.response.id))
    assert (kept.status, kept.completed_at, kept.error.code) == ("failed", None, "server_error")
    assert (told.value.code, told.value.message) == ("server_error", kept.error.message)


async def test_an_engine_that_fails_for_a_moment_is_asked_again(client: Any) -> None:
    async with opened(client.responses.stream(model="plain", input="Do break off")) as stream:
        final = await of(stream.get_final_response())
    assert final.output_text == "one two three four"
