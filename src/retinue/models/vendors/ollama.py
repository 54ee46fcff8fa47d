"""Ollama, in its own format: chat, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.values import Message, Usage
from .. import wire_format
from ..vendor import Vendor
from ..wire_format import Encoded, PartialReply, Terms, find_count_at, find_json_at, find_text_at

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")
_LEVELS = {"minimal": "low", "xhigh": "high", "max": "high"}
_BESIDE = ("keep_alive", "think", "format", "logprobs", "top_logprobs", "truncate", "shift")


class OllamaChat(wire_format.Wire):
    """Ollama's chat."""

    name, path = "ollama", "/chat"
    dispensable = frozenset(("format", "think"))
    sampling = {name: name for name in _SAMPLING}

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        most = terms.context if terms.max_tokens is None else terms.max_tokens  # without a limit it may never stop
        # Without num_ctx it uses a small window of its own and silently truncates the prompt.
        options = wire_format.select_given(
            num_predict=most, num_ctx=terms.context, temperature=terms.temperature, stop=list(terms.stop) or None
        )
        parameters: dict[str, Any] = {"model": terms.model, "stream": terms.stream, "options": options}
        if terms.effort:  # https://docs.ollama.com/capabilities/thinking
            parameters["think"] = terms.effort != "none" and _LEVELS.get(terms.effort, terms.effort)
        if terms.tools and terms.tool_choice != "none":  # Ollama has no such parameter, so "none" omits the tools
            parameters["tools"] = wire_format.encode_functions(terms.tools, terms.model, terms.in_words)
        return parameters

    def add_options(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Merge Ollama's sampling options into `options`, and the others into the top level."""
        beside = {name: value for name, value in options.items() if name in _BESIDE}
        inside = {name: value for name, value in options.items() if name not in _BESIDE}
        return parameters | beside | {"options": parameters["options"] | inside}

    def add_sampling(self, parameters: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        return self.add_options(parameters, self.translate_sampling(options))

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        turns: list[dict[str, Any]] = []
        for message in new:
            turn: dict[str, Any] = {"role": message.role, "content": message.content.strip()}
            if message.calls:
                called = [(call.tool, wire_format.parse_input_object(call.tool_input)) for call in message.calls]
                turn["tool_calls"] = [{"function": {"name": tool, "arguments": given}} for tool, given in called]
            if message.state is not None:
                turn |= json.loads(message.state.turn)
            if message.files:
                turn["images"] = [wire_format.encode_base64(image) for image in message.files]
            if message.role == "tool":
                turn["tool_name"] = message.tool
            turns.append(turn)
        return wire_format.append_messages(kept, turns)

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        message = body.get("message")
        arriving.said += wire_format.read_text(find_json_at(message, "content"))
        if thinking := find_text_at(message, "thinking"):
            arriving.add_thought(thinking)
            arriving.turn = {"thinking": find_text_at(arriving.turn, "thinking") + thinking}
        if calls := find_json_at(message, "tool_calls"):  # each is whole
            arriving.add_calls(calls, lambda at, piece: len(arriving.calls))
        if body.get("done"):
            arriving.end(body.get("done_reason") or "stop")
            arriving.count(Usage(find_count_at(body, "prompt_eval_count"), find_count_at(body, "eval_count"), 0, 1))

    def keep_turn(self, arriving: PartialReply) -> Any:
        return arriving.turn


VENDOR = Vendor(
    "Ollama",
    "http://localhost:11434/api",
    OllamaChat(),
    root="/api",
    dialect="ollama",
    listing=("/tags", "models", "name"),
)
