"""Cohere, in its own format: chat, version 2."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.values import Message, Usage
from ..vendor import Vendor
from ..wire_format import (
    Encoded,
    PartialReply,
    Terms,
    Wire,
    append_messages,
    encode_content,
    encode_function_calls,
    encode_functions,
    find_json_at,
    read_text,
    read_text_or_empty,
    read_token_count,
)

_CHOICE = {"required": "REQUIRED", "none": "NONE"}
_MOST_STOPS = 5
_SAMPLING = {"temperature": "temperature", "top_p": "p", "top_k": "k"}
_SAMPLING |= {name: name for name in ("seed", "frequency_penalty", "presence_penalty")}


class CohereChat(Wire):
    """Cohere's chat."""

    name, path = "cohere", "/chat"
    dispensable = frozenset(("temperature", "stop_sequences", "response_format", "thinking"))

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        parameters: dict[str, Any] = {"model": terms.model, "stream": terms.stream}
        if terms.temperature is not None:
            parameters["temperature"] = min(terms.temperature, 1.0)
        if terms.max_tokens is not None:
            parameters["max_tokens"] = terms.max_tokens
        if terms.stop:
            parameters["stop_sequences"] = list(terms.stop[:_MOST_STOPS])
        if terms.effort == "none":
            parameters["thinking"] = {"type": "disabled"}
        elif terms.thinking_tokens:  # https://docs.cohere.com/docs/reasoning
            parameters["thinking"] = {"type": "enabled", "token_budget": terms.thinking_tokens}
        if terms.tools:
            parameters["tools"] = encode_functions(terms.tools, terms.model, terms.in_words)
            for tool in parameters["tools"]:
                tool["function"].pop("strict", None)  # Cohere has this for all tools together
            if choice := _CHOICE.get(terms.tool_choice):
                parameters["tool_choice"] = choice
        return parameters

    def add_sampling(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        known = {_SAMPLING[name]: value for name, value in options.items() if name in _SAMPLING}
        if "temperature" in known:
            known["temperature"] = min(known["temperature"], 1.0)
        return parameters | known

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        return append_messages(kept, [_encode_message(message) for message in new])

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        message = find_json_at(body, "delta", "message")
        match body.get("type"):
            case None:
                _read_whole(body, arriving)
            case "content-start" | "content-delta":
                _read_content(find_json_at(message, "content"), arriving)
            case "tool-plan-delta":
                _read_plan(message, arriving)
            case "tool-call-start" | "tool-call-delta":
                arriving.add_calls(find_json_at(message, "tool_calls"), lambda at, piece: body.get("index"))
            case "message-end":
                _read_end(body.get("delta"), arriving)

    def keep_turn(self, arriving: PartialReply) -> Any:
        """Return what was thought, planned and said, if something was thought or planned."""
        kept: dict[str, str] = arriving.turn or {}
        turn: dict[str, Any] = {"tool_plan": kept["tool_plan"]} if "tool_plan" in kept else {}
        if "thinking" in kept or (turn and "text" in kept):
            turn["content"] = [{"type": kind, kind: kept[kind]} for kind in ("thinking", "text") if kind in kept]
        return turn or None


def _encode_message(message: Message) -> dict[str, Any]:
    content = message.content.strip()
    if message.calls:
        turn: dict[str, Any] = {"role": "assistant", "tool_calls": encode_function_calls(message.calls)}
        if message.state is not None:
            turn |= json.loads(message.state.turn)
            return turn
        return turn | {"tool_plan": content} if content else turn
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": content}
    return {"role": message.role, "content": encode_content(message) if message.files else content}


# ── the reply ────────────────────────────────────────────────────────────────────────────────────


def _read_whole(body: Mapping[str, Any], arriving: PartialReply) -> None:
    message = body.get("message")
    _read_plan(message, arriving)
    parts = find_json_at(message, "content")
    for part in parts if isinstance(parts, list) else [parts]:
        _read_content(part, arriving)
    if calls := find_json_at(message, "tool_calls"):
        arriving.add_calls(calls, lambda at, piece: at)
    _read_end(body, arriving)


def _read_plan(message: Any, arriving: PartialReply) -> None:
    """Read the plan, which is reasoning, whether or not calls follow: https://docs.cohere.com/docs/tool-use-overview."""
    if plan := read_text_or_empty(find_json_at(message, "tool_plan")):
        _add_thought("tool_plan", plan, arriving)


def _read_content(content: Any, arriving: PartialReply) -> None:
    """Read a part of the content, or a piece of one."""
    if thinking := read_text_or_empty(find_json_at(content, "thinking")):
        _add_thought("thinking", thinking, arriving)
    elif text := read_text(content):
        arriving.said += text
        _keep_piece("text", text, arriving)


def _add_thought(name: str, piece: str, arriving: PartialReply) -> None:
    arriving.separates = True
    arriving.reasoning += piece
    _keep_piece(name, piece, arriving)


def _keep_piece(name: str, piece: str, arriving: PartialReply) -> None:
    kept: dict[str, str] = arriving.turn or {}
    arriving.turn = kept | {name: kept.get(name, "") + piece}


def _read_end(end: Any, arriving: PartialReply) -> None:
    arriving.end(find_json_at(end, "finish_reason"))
    if arriving.failed:
        arriving.failed = read_text_or_empty(find_json_at(end, "error")) or arriving.failed
    if usage := find_json_at(end, "usage"):
        tokens = find_json_at(usage, "tokens")
        asked, said = (
            read_token_count(find_json_at(tokens, "input_tokens")),
            read_token_count(find_json_at(tokens, "output_tokens")),
        )
        arriving.usage = Usage(asked, said, read_token_count(find_json_at(usage, "cached_tokens")), 1)
        arriving.counted = True


VENDOR = Vendor(
    "Cohere",
    "https://api.cohere.com/v2",
    CohereChat(),
    keys=("CO_API_KEY", "COHERE_API_KEY"),
    root="/v2",
    dialect="cohere",
    listing=("/../v1/models", "models", "name"),
    hosts=r"api\.cohere\.(com|ai)",
    priced_as="cohere",
)
