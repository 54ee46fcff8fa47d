"""Cohere's wire format: chat, version 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.values import Message, Usage
from .wire_format import (
    Arriving,
    Encoded,
    Terms,
    Wire,
    appended,
    at,
    count,
    function_calls,
    functions,
    with_messages,
    words,
)

_CHOICE = {"required": "REQUIRED", "none": "NONE"}
_MOST_STOPS = 5
_SAMPLING = {"temperature": "temperature", "top_p": "p", "top_k": "k"}
_SAMPLING |= {name: name for name in ("seed", "frequency_penalty", "presence_penalty")}
_FAILED = ("ERROR", "TIMEOUT")


def _parameters(terms: Terms) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "model": terms.model,
        "temperature": min(terms.temperature, 1.0),
        "stream": terms.stream,
    }
    if terms.max_tokens is not None:
        parameters["max_tokens"] = terms.max_tokens
    if terms.stop:
        parameters["stop_sequences"] = list(terms.stop[:_MOST_STOPS])
    if terms.tools:
        parameters["tools"] = functions(terms.tools)
        if choice := _CHOICE.get(terms.tool_choice):
            parameters["tool_choice"] = choice
    return parameters


def _sampled(parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    known = {_SAMPLING[name]: value for name, value in options.items() if name in _SAMPLING}
    if "temperature" in known:
        known["temperature"] = min(known["temperature"], 1.0)
    return parameters | known


def _encode(kept: Encoded, new: Sequence[Message]) -> Encoded:
    return appended(kept, [_message(message) for message in new])


def _message(message: Message) -> dict[str, Any]:
    content = message.content.strip()
    if message.calls:
        turn = {"role": "assistant", "tool_calls": function_calls(message.calls)}
        return turn | {"tool_plan": content} if content else turn
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": content}
    return {"role": message.role, "content": content}


# ── the reply ────────────────────────────────────────────────────────────────────────────────────


def _read(body: Mapping[str, Any], arriving: Arriving) -> None:
    message = at(body, "delta", "message")
    match body.get("type"):
        case None:
            _read_whole(body, arriving)
        case "content-start" | "content-delta":
            arriving.said += words(at(message, "content", "text"))
        case "tool-plan-delta":
            arriving.said += words(at(message, "tool_plan"))
        case "tool-call-start" | "tool-call-delta":
            _read_call(body.get("index"), at(message, "tool_calls"), arriving)
        case "message-end":
            _read_end(body.get("delta"), arriving)


def _read_whole(body: Mapping[str, Any], arriving: Arriving) -> None:
    message = body.get("message")
    arriving.said += words(at(message, "tool_plan"))
    content, calls = at(message, "content"), at(message, "tool_calls")
    for block in content if isinstance(content, list) else ():
        arriving.said += words(at(block, "text"))
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        _read_call(number, call, arriving)
    _read_end(body, arriving)


def _read_call(number: Any, piece: Any, arriving: Arriving) -> None:
    call = arriving.call(number)
    call.id = call.id or words(at(piece, "id"))
    call.name = call.name or words(at(piece, "function", "name"))
    call.arguments += words(at(piece, "function", "arguments"))


def _read_end(end: Any, arriving: Arriving) -> None:
    reason = at(end, "finish_reason")
    if reason in _FAILED:
        arriving.failed = words(at(end, "error")) or reason
    elif reason:
        arriving.finish = "length" if reason == "MAX_TOKENS" else "stop"
    if usage := at(end, "usage"):
        tokens = at(usage, "tokens")
        asked, said = count(at(tokens, "input_tokens")), count(at(tokens, "output_tokens"))
        arriving.usage = Usage(asked, said, count(at(usage, "cached_tokens")), 1)
        arriving.counted = True


CHAT = Wire(
    "/chat",
    _parameters,
    _encode,
    with_messages,
    _read,
    frozenset(("temperature", "stop_sequences", "response_format")),
    sampled=_sampled,
)
