"""Cohere's chat, version 2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .api import Asked, Json, Problems, Turn, Vendor, pieces, rules, seal, sse, unknown
from .openai_chat import calls_are_unmodified, open_turns, results_follow_their_calls


class CohereChat:
    """The wire format."""

    streamed_as = "text/event-stream"

    def turns(self, body: Json) -> int:
        return len(list(open_turns(body)))

    def tools(self, body: Json) -> Mapping[str, Json]:
        return {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools", [])}

    def reply(self, asked: Asked, turn: Turn) -> tuple[Json, Mapping[str, Any]]:
        number = re.sub(r"\W", "", seal(asked.body["messages"]))[:8]
        calls = [
            {
                "id": f"{name}_{number}{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for at, (name, given) in enumerate(turn.calls)
        ]
        content: list[Json] = [{"type": "thinking", "thinking": turn.thought}]
        content += [{"type": "text", "text": turn.text}] * bool(turn.text)
        message: Json = {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})
        tokens = {"input_tokens": 20, "output_tokens": 9}
        reply = {"id": number, "finish_reason": "TOOL_CALL" if calls else "COMPLETE", "message": message}
        return reply | {"usage": {"billed_units": tokens, "tokens": tokens}}, {call["id"]: message for call in calls}

    def stream(self, reply: Json) -> Iterator[bytes]:
        for event in _events(reply):
            yield sse(event, event["type"])

    def error(self, status: int, code: str, message: str) -> Any:
        return {"id": "e1", "message": message}


def _events(reply: Json) -> Iterator[Json]:
    yield {"type": "message-start", "id": reply["id"], "delta": {"message": {"role": "assistant", "content": []}}}
    for index, part in enumerate(reply["message"]["content"]):
        kind = part["type"]
        begun = {"content": {"type": kind, kind: ""}}
        yield {"type": "content-start", "index": index, "delta": {"message": begun}}
        for piece in pieces(part[kind]):
            yield {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: piece}}}}
        yield {"type": "content-end", "index": index}
    for index, call in enumerate(reply["message"].get("tool_calls", [])):
        begun = call | {"function": call["function"] | {"arguments": ""}}
        yield {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": begun}}}
        for piece in pieces(call["function"]["arguments"]):
            told = {"tool_calls": {"function": {"arguments": piece}}}
            yield {"type": "tool-call-delta", "index": index, "delta": {"message": told}}
        yield {"type": "tool-call-end", "index": index}
    yield {"type": "message-end", "delta": {"finish_reason": reply["finish_reason"], "usage": reply["usage"]}}


def thoughts_come_back(asked: Asked) -> Problems:
    """Between calls, the message comes back with its thinking; nothing is refused there, but thoughts are lost.
    https://docs.cohere.com/docs/reasoning
    """
    for at, message in open_turns(asked.body):
        issued = next(
            (asked.issued[one["id"]] for one in message.get("tool_calls", []) if one["id"] in asked.issued), None
        )
        if issued and issued["content"] != message.get("content"):
            yield f"messages[{at}].content: want it as it was returned"


def fields_are_known(asked: Asked) -> Problems:
    """Unknown fields are refused, and messages are not empty.
    https://docs.cohere.com/reference/chat
    """
    known = (
        "model messages tools strict_tools tool_choice stream max_tokens temperature p k seed stop_sequences thinking"
        " response_format frequency_penalty presence_penalty documents citation_options safety_mode logprobs priority"
    )
    yield from (f"unknown field: parameter '{name}' is not a valid field" for name in unknown(asked.body, known))
    for message in asked.body["messages"]:
        if not (message.get("content") or message.get("tool_calls") or message.get("tool_plan")):
            yield "invalid request: all elements in messages must have tokens"


VENDORS = (
    Vendor(
        "cohere", "/v2", "/v2/chat", CohereChat(), {"command-a-reasoning-08-2025": ""},
        rules(fields_are_known, results_follow_their_calls, calls_are_unmodified, thoughts_come_back),
        {
            "too_long": (400, "", "too many tokens: total number of tokens in the prompt cannot exceed 256000 - received 300000. Try using a shorter prompt."),
            "rate": (429, "", "You are using a Trial key, which is limited to 20 API calls / minute."),
            "unavailable": (503, "", "service unavailable"),
            "unknown_model": (404, "", "model 'no-such-model' not found, make sure the correct model ID was used and that you have access to the model."),
            "wrong_key": (401, "", "invalid api token"),
        },
    ),
)  # fmt: skip
