"""Anthropic's wire format: the Messages API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...core.values import AgentAction, File, Message, Usage
from ..tool_schemas import declare_tool
from ..wire_format import (
    Encoded,
    PartialReply,
    Terms,
    Wire,
    base64_of,
    input_object,
    json_at,
    text_of,
    text_or_empty,
    to_json,
    token_count,
    with_messages,
)

_MOST = (  # output tokens, by the model's name; others that speak this format support as many as the last
    (re.compile(r"claude-(?:v?[12]|instant|3-(?:opus|sonnet|haiku))"), 4_096),
    (re.compile(r"claude-3-5"), 8_192),
    (re.compile(r"claude-opus-4(?:-1|-0|-2025|@|$)"), 32_000),
    (re.compile(r"claude"), 64_000),
    (re.compile(r""), 8_192),
)
_CHOICE = {"auto": "auto", "required": "any", "none": "none"}
_SAMPLING = ("temperature", "top_p", "top_k")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")  # not allowed in call ids


def headers(key: str) -> Mapping[str, str]:
    """Return the headers with the key and the version of the format."""
    return {"x-api-key": key, "anthropic-version": "2023-06-01"}


def _parameters(terms: Terms) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "model": terms.model,
        "max_tokens": _most(terms.model) if terms.max_tokens is None else terms.max_tokens,  # required by the API
        "cache_control": {"type": "ephemeral"},  # caches the longest prefix; leaves the messages unchanged
    }
    if terms.temperature is not None:
        parameters["temperature"] = min(terms.temperature, 1.0)
    if stop := [word for word in terms.stop if word.strip()]:  # the API rejects blank ones
        parameters["stop_sequences"] = stop
    if terms.stream:
        parameters["stream"] = True
    if terms.tools:
        parameters["tools"] = [_tool(declare_tool(tool, terms.model, terms.in_words)) for tool in terms.tools]
        parameters["tool_choice"] = {"type": _CHOICE[terms.tool_choice]}
    return parameters


def _most(model: str) -> int:
    """Return how long a reply of `model` may be. If it is too much, the API says so, and the engine learns it."""
    return next(most for family, most in _MOST if family.search(model))


def _tool(declared: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: declared[name] for name in ("name", "description") if declared.get(name)}
    return {**told, "input_schema": declared["parameters"]}


def _sampled(parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in options.items() if name in _SAMPLING}
    if "temperature" in known:
        known["temperature"] = min(known["temperature"], 1.0)
    choice = parameters.get("tool_choice")
    if choice and choice["type"] != "none" and options.get("parallel_tool_calls") is False:
        known["tool_choice"] = choice | {"disable_parallel_tool_use": True}
    return parameters | known


# ── the conversation ─────────────────────────────────────────────────────────────────────────────


def _encode(kept: Encoded, new: Sequence[Message]) -> Encoded:
    """Append the `new` messages to `kept`. The results of one step's calls share a user turn, which stays open."""
    messages, system, opened = kept.messages, kept.system, kept.open
    for message in new:
        content = message.content.strip()
        if message.role == "system" and not messages:
            system = f"{system}\n\n{content}" if system else content
        elif message.role == "tool":
            messages += b", " if opened else _joint(messages, opened) + b'{"role": "user", "content": ['
            messages += to_json(_result(message, content))
            opened = True
        elif blocks := list(_blocks(message, content)):
            turn = {"role": "assistant" if message.role == "assistant" else "user", "content": blocks}
            messages += _joint(messages, opened) + to_json(turn)
            opened = False
    return Encoded(messages, system, opened)


def _joint(messages: bytes, opened: bool) -> bytes:
    """Return the separator between the messages so far and the next one."""
    return b"]}, " if opened else b", " if messages else b""


def _blocks(message: Message, content: str) -> Iterator[dict[str, Any]]:
    yield from map(_file_block, message.files)  # before the text, as Anthropic recommends
    if content:
        yield {"type": "text", "text": content}
    for call in message.calls:
        yield _use(call)


def _file_block(file: File) -> dict[str, Any]:
    """https://docs.anthropic.com/en/docs/build-with-claude/pdf-support: a PDF is a document, with a title."""
    source = {"type": "base64", "media_type": file.media_type, "data": base64_of(file)}
    title = {"title": file.name} if file.kind == "pdf" and file.name else {}
    return {"type": "document" if file.kind == "pdf" else "image", "source": source, **title}


def _use(call: AgentAction) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _STRANGE.sub("_", call.id),
        "name": call.tool,
        "input": input_object(call.tool_input),
    }


def _result(message: Message, content: str) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _STRANGE.sub("_", message.call_id)}
    if message.files:
        text = [{"type": "text", "text": content}] if content else []
        return result | {"content": [*text, *map(_file_block, message.files)]}
    return result | {"content": content} if content else result


def _body(head: bytes, encoded: Encoded) -> bytes:
    messages, system = encoded.messages + b"]}" * encoded.open, encoded.system
    if not messages:  # at least one message is required, so a lone system prompt becomes one
        messages, system = to_json({"role": "user", "content": system or "?"}), ""
    if system:
        head += b', "system": ' + to_json(system)
    return with_messages(head, Encoded(messages))


# ── the reply ────────────────────────────────────────────────────────────────────────────────────


def _read(body: Mapping[str, Any], arriving: PartialReply) -> None:
    match body.get("type"):
        case "message":
            blocks = body.get("content")
            for block in blocks if isinstance(blocks, list) else [{"type": "text", "text": blocks}]:
                _read_block(None, block, arriving)
            _read_end(body.get("stop_reason"), body.get("usage"), arriving)
        case "message_start":
            arriving.usage = _usage(json_at(body, "message", "usage"), arriving.usage)
        case "content_block_start":
            _read_block(body.get("index"), body.get("content_block"), arriving)
        case "content_block_delta":
            _read_delta(body.get("index"), body.get("delta"), arriving)
        case "message_delta":
            _read_end(json_at(body, "delta", "stop_reason"), body.get("usage"), arriving)


def _read_block(index: Any, block: Any, arriving: PartialReply) -> None:
    kind = json_at(block, "type")
    if kind == "text":
        arriving.said += text_of(block)
    elif kind == "tool_use":
        given = json_at(block, "input") or None  # empty in a stream, where it follows in deltas
        piece = {"id": json_at(block, "id"), "name": json_at(block, "name")}
        arriving.add_call(index, piece | {"arguments": given}, arriving.calls.values())
    elif kind in ("thinking", "redacted_thinking"):
        arriving.separates = True


def _read_delta(index: Any, delta: Any, arriving: PartialReply) -> None:
    if json_at(delta, "type") == "text_delta":
        arriving.said += text_or_empty(json_at(delta, "text"))
    elif any(
        call.index == index for call in arriving.calls.values()
    ):  # and not a call of a tool that they run themselves
        arriving.add_call(index, {"arguments": json_at(delta, "partial_json")})


def _read_end(reason: Any, usage: Any, arriving: PartialReply) -> None:
    arriving.end(reason)
    if usage:
        arriving.usage = _usage(usage, arriving.usage)
        arriving.counted = True


def _usage(counted: Any, before: Usage) -> Usage:
    """Return the tokens so far: a stream reports the prompt's at its start and the reply's at its end."""
    cached = token_count(json_at(counted, "cache_read_input_tokens"))
    asked = (
        token_count(json_at(counted, "input_tokens"))
        + cached
        + token_count(json_at(counted, "cache_creation_input_tokens"))
    )
    said = token_count(json_at(counted, "output_tokens"))
    return Usage(asked or before.input_tokens, said, cached or before.cached_tokens, 1)


MESSAGES = Wire(
    "messages",
    "/messages",
    _parameters,
    _encode,
    _body,
    _read,
    frozenset(("temperature", "stop_sequences", "cache_control", "output_config")),
    sampled=_sampled,
    results_have_files=True,
)
