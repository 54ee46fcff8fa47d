"""Ollama's chat, whose streams are lines of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .api import Asked, Json, Problems, Turn, Vendor, pieces, rules, seal
from .openai_chat import open_turns


class OllamaChat:
    """The wire format."""

    streamed_as = "application/x-ndjson"

    def turns(self, body: Json) -> int:
        return len(list(open_turns(body)))

    def tools(self, body: Json) -> Mapping[str, Json]:
        return {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or []}

    def reply(self, asked: Asked, turn: Turn) -> tuple[Json, Mapping[str, Any]]:
        number = re.sub(r"\W", "", seal(asked.body["messages"]))[:8]
        calls = [
            {"id": f"call_{number}{at}", "function": {"index": at, "name": name, "arguments": dict(given)}}
            for at, (name, given) in enumerate(turn.calls)
        ]
        message: Json = {"role": "assistant", "content": turn.text}
        if asked.body.get("think") is not False:
            message["thinking"] = turn.thought
        if calls:
            message["tool_calls"] = calls
        head = {"model": asked.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True}
        reply = head | {"done_reason": "stop", "total_duration": 1, "prompt_eval_count": 20, "eval_count": 9}
        return reply, {json.dumps([call["function"]["name"], call["function"]["arguments"]]): message for call in calls}

    def stream(self, reply: Json) -> Iterator[bytes]:
        message = reply["message"]
        parts = [{"content": "", "thinking": piece} for piece in pieces(message.get("thinking", ""))]
        parts += [{"content": piece} for piece in pieces(message["content"])]
        parts += [{"content": "", "tool_calls": [call]} for call in message.get("tool_calls", [])]
        for part in parts:
            event = {"model": reply["model"], "created_at": reply["created_at"], "done": False}
            yield json.dumps(event | {"message": {"role": "assistant"} | part}).encode() + b"\n"
        yield json.dumps(reply | {"message": {"role": "assistant", "content": ""}}).encode() + b"\n"

    def error(self, status: int, code: str, message: str) -> Any:
        return {"error": message}


def thoughts_come_back(asked: Asked) -> Problems:
    """Between calls, the message comes back with its `thinking`; nothing is refused there, but thoughts are lost.
    https://docs.ollama.com/capabilities/tool-calling
    """
    for at, message in open_turns(asked.body):
        for call in message.get("tool_calls") or []:
            key = json.dumps([call["function"]["name"], call["function"]["arguments"]])
            if (own := asked.issued.get(key)) and own.get("thinking") != message.get("thinking"):
                yield f"messages[{at}].thinking: want it as it was returned"


def arguments_are_objects(asked: Asked) -> Problems:
    """The arguments of a call are an object, and a tool's message has the name of the tool.
    https://docs.ollama.com/api/chat
    """
    for message in asked.body["messages"]:
        for call in message.get("tool_calls") or []:
            if not isinstance(call["function"]["arguments"], dict):
                yield "json: cannot unmarshal string into Go struct field .messages.tool_calls.function.arguments"
        if not isinstance(message.get("content", ""), str):
            yield "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"


VENDORS = (
    Vendor(
        "ollama", "/api", "/api/chat", OllamaChat(), {"qwen3:8b": "", "gpt-oss:20b": ""},
        rules(arguments_are_objects, thoughts_come_back),
        {
            "too_long": (400, "", "the input length exceeds the context length"),
            "rate": (429, "", "too many requests"),
            "unavailable": (503, "", "server busy, please try again.  maximum pending requests exceeded"),
            "unknown_model": (404, "", "model 'no-such-model' not found"),
            "wrong_key": (401, "", "unauthorized"),
        },
        key="",
    ),
)  # fmt: skip
