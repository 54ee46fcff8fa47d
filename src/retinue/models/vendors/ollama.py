"""Ollama, in its own format: chat, as lines of JSON."""

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
    encode_base64,
    encode_functions,
    find_json_at,
    parse_input_object,
    read_text,
    read_text_or_empty,
    read_token_count,
)

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")
_LEVELS = {"minimal": "low", "xhigh": "high", "max": "high"}
_BESIDE = ("keep_alive", "think", "format", "logprobs", "top_logprobs", "truncate", "shift")


class OllamaChat(Wire):
    """Ollama's chat."""

    name, path = "ollama", "/chat"
    dispensable = frozenset(("format", "think"))

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        # Without num_ctx it uses a small window of its own and silently truncates the prompt.
        options: dict[str, Any] = {
            "num_predict": terms.context
            if terms.max_tokens is None
            else terms.max_tokens,  # otherwise it may never stop
            "num_ctx": terms.context,
        }
        if terms.temperature is not None:
            options["temperature"] = terms.temperature
        if terms.stop:
            options["stop"] = list(terms.stop)
        parameters: dict[str, Any] = {"model": terms.model, "stream": terms.stream, "options": options}
        if terms.effort:  # https://docs.ollama.com/capabilities/thinking
            parameters["think"] = terms.effort != "none" and _LEVELS.get(terms.effort, terms.effort)
        if terms.tools and terms.tool_choice != "none":  # Ollama has no such parameter, so "none" omits the tools
            parameters["tools"] = encode_functions(terms.tools, terms.model, terms.in_words)
        return parameters

    def add_options(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Merge Ollama's sampling options into `options`, and the others into the top level."""
        beside = {name: value for name, value in options.items() if name in _BESIDE}
        inside = {name: value for name, value in options.items() if name not in _BESIDE}
        return parameters | beside | {"options": parameters["options"] | inside}

    def add_sampling(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        return self.add_options(parameters, {name: value for name, value in options.items() if name in _SAMPLING})

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        return append_messages(kept, [_encode_message(message) for message in new])

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        message = body.get("message")
        arriving.said += read_text(find_json_at(message, "content"))
        if thinking := read_text_or_empty(find_json_at(message, "thinking")):
            arriving.separates = True
            arriving.reasoning += thinking
            arriving.turn = {"thinking": (arriving.turn or {"thinking": ""})["thinking"] + thinking}
        if calls := find_json_at(message, "tool_calls"):  # each is whole
            arriving.add_calls(calls, lambda at, piece: len(arriving.calls))
        if body.get("done"):
            arriving.end(body.get("done_reason") or "stop")
            arriving.usage = Usage(
                read_token_count(body.get("prompt_eval_count")), read_token_count(body.get("eval_count")), 0, 1
            )
            arriving.counted = True

    def keep_turn(self, arriving: PartialReply) -> Any:
        return arriving.turn


def _encode_message(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content.strip()}
    if message.calls:
        turn["tool_calls"] = [
            {"function": {"name": call.tool, "arguments": parse_input_object(call.tool_input)}}
            for call in message.calls
        ]
    if message.state is not None:
        turn |= json.loads(message.state.turn)
    if message.files:
        turn["images"] = [encode_base64(image) for image in message.files]
    if message.role == "tool":
        turn["tool_name"] = message.tool
    return turn


VENDOR = Vendor(
    "Ollama",
    "http://localhost:11434/api",
    OllamaChat(),
    root="/api",
    dialect="ollama",
    listing=("/tags", "models", "name"),
)
