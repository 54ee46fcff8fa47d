"""Ollama's chat, whose streams are lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from retinue.testing.vendor_server import (
    Asked,
    Issued,
    Json,
    Problems,
    Turn,
    Vendor,
    Wire,
    count_turns,
    cut_pieces,
    make_rules,
    number_of,
    open_turns,
    read_calls,
    read_essence,
    read_failures,
    read_tools,
)


def _reply(asked: Asked, turn: Turn) -> tuple[Json, Issued]:
    number = number_of(asked.body["messages"])
    calls = [
        {"id": f"call_{number}{at}", "function": {"index": at, "name": name, "arguments": dict(given)}}
        for at, (name, given) in enumerate(turn.calls)
    ]
    message: Json = {"role": "assistant", "content": turn.text} | ({"tool_calls": calls} if calls else {})
    if asked.body.get("think") is not False:
        message["thinking"] = turn.thought
    head = {"model": asked.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True}
    reply = head | {"done_reason": "stop", "total_duration": 1, "prompt_eval_count": 20, "eval_count": 9}
    return reply, {read_essence(call): message for call in calls}  # without ids in a conversation


def _stream(reply: Json) -> Iterator[bytes]:
    message = reply["message"]
    parts: list[Json] = [{"content": "", "thinking": piece} for piece in cut_pieces(message.get("thinking", ""))]
    parts += [{"content": piece} for piece in cut_pieces(message["content"])]
    parts += [{"content": "", "tool_calls": [call]} for call in read_calls(message)]
    for part in parts:
        event = {"model": reply["model"], "created_at": reply["created_at"], "done": False}
        yield json.dumps(event | {"message": {"role": "assistant"} | part}).encode() + b"\n"
    yield json.dumps(reply | {"message": {"role": "assistant", "content": ""}}).encode() + b"\n"


def thoughts_come_back(asked: Asked) -> Problems:
    """Between calls, the message comes back with its `thinking`; it does not refuse, but forgets.
    https://docs.ollama.com/capabilities/tool-calling
    """
    for at, message in open_turns(asked.body):
        issued = asked.made(*map(read_essence, read_calls(message)))
        if issued and issued.get("thinking") != message.get("thinking"):
            yield f"messages[{at}].thinking: want it as it was returned"


def fields_have_their_types(asked: Asked) -> Problems:
    """The arguments of a call are an object, and a content is a text.
    https://docs.ollama.com/api/chat
    """
    for message in asked.body["messages"]:
        if not all(isinstance(call["function"]["arguments"], dict) for call in read_calls(message)):
            yield "json: cannot unmarshal string into Go struct field .messages.tool_calls.function.arguments"
        if not isinstance(message.get("content", ""), str):
            yield "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"


VENDORS = (
    Vendor(
        "ollama", "/api", "/api/chat",
        Wire(
            count_turns, read_tools, _reply, _stream, lambda status, code, message: {"error": message},
            "application/x-ndjson",
        ),
        {"qwen3:8b": "", "gpt-oss:20b": ""}, make_rules(fields_have_their_types, thoughts_come_back),
        read_failures("""
            too_long | 400 | | the input length exceeds the context length
            rate | 429 | | too many requests
            unavailable | 503 | | server busy, please try again.  maximum pending requests exceeded
            unknown_model | 404 | | model 'no-such-model' not found
            wrong_key | 401 | | unauthorized
        """),
        key="",
    ),
)  # fmt: skip
