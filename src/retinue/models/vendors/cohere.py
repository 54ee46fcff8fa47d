"""Cohere, in its own format: chat, version 2."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.values import Message, Usage
from .. import wire_format
from ..vendor import Vendor
from ..wire_format import Encoded, PartialReply, Terms, find_count_at, find_json_at, find_text_at

_MOST_STOPS = 5


class CohereChat(wire_format.Wire):
    """Cohere's chat."""

    name, path = "cohere", "/chat"
    dispensable = frozenset(("temperature", "stop_sequences", "response_format", "thinking"))
    sampling = {name: name for name in ("temperature", "seed", "frequency_penalty", "presence_penalty")} | {
        "top_p": "p",
        "top_k": "k",
    }
    hottest = 1.0

    def build_parameters(self, terms: Terms) -> dict[str, Any]:
        thinking: dict[str, Any] | None = {"type": "disabled"} if terms.effort == "none" else None
        if not thinking and terms.thinking_tokens:  # https://docs.cohere.com/docs/reasoning
            thinking = {"type": "enabled", "token_budget": terms.thinking_tokens}
        parameters = wire_format.select_given(
            model=terms.model,
            stream=terms.stream,
            temperature=self.limit(terms.temperature),
            max_tokens=terms.max_tokens,
            stop_sequences=list(terms.stop[:_MOST_STOPS]) or None,
            thinking=thinking,
        )
        if terms.tools:
            parameters["tools"] = wire_format.encode_functions(terms.tools, terms.model, terms.in_words)
            for tool in parameters["tools"]:
                tool["function"].pop("strict", None)  # Cohere has this for all tools together
            if terms.tool_choice != "auto":
                parameters["tool_choice"] = terms.tool_choice.upper()
        return parameters

    def encode_messages(self, kept: Encoded, new: Sequence[Message]) -> Encoded:
        turns: list[dict[str, Any]] = []
        for message in new:
            content = message.content.strip()
            turn: dict[str, Any] = {"role": message.role}
            if message.calls:
                turn["tool_calls"] = wire_format.encode_function_calls(message.calls)
                turn |= json.loads(message.state.turn) if message.state else {"tool_plan": content} if content else {}
            elif message.role == "tool":
                turn |= {"tool_call_id": message.call_id, "content": content}
            else:
                turn["content"] = wire_format.encode_content(message)
            turns.append(turn)
        return wire_format.append_messages(kept, turns)

    def read_body(self, body: Mapping[str, Any], arriving: PartialReply) -> None:
        message = find_json_at(body, "delta", "message")
        match body.get("type"):
            case None:
                message = body.get("message")
                _read_message(message, arriving)
                if calls := find_json_at(message, "tool_calls"):
                    arriving.add_calls(calls, lambda at, piece: at)
                _read_end(body, arriving)
            case "content-start" | "content-delta" | "tool-plan-delta":
                _read_message(message, arriving)
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


def _read_message(message: Any, arriving: PartialReply) -> None:
    """Read the parts of a message, or a piece of one. Its plan is reasoning, whether or not calls follow:
    https://docs.cohere.com/docs/tool-use-overview."""
    content = find_json_at(message, "content")
    pieces = [("tool_plan", find_text_at(message, "tool_plan"))]
    for part in content if isinstance(content, list) else [content]:
        thinking = find_text_at(part, "thinking")
        pieces.append(("thinking", thinking) if thinking else ("text", wire_format.read_text(part)))
    for name, piece in pieces:
        if not piece:
            continue
        if name == "text":
            arriving.said += piece
        else:
            arriving.add_thought(piece)
        kept: dict[str, str] = arriving.turn or {}
        arriving.turn = kept | {name: kept.get(name, "") + piece}


def _read_end(end: Any, arriving: PartialReply) -> None:
    arriving.end(find_json_at(end, "finish_reason"))
    if arriving.failed:
        arriving.failed = find_text_at(end, "error") or arriving.failed
    if usage := find_json_at(end, "usage"):
        asked, said = (find_count_at(usage, "tokens", name) for name in ("input_tokens", "output_tokens"))
        arriving.count(Usage(asked, said, find_count_at(usage, "cached_tokens"), 1))


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
