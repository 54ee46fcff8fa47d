"""Cohere's chat, version 2."""

from __future__ import annotations

from collections.abc import Iterator

from retinue.testing.vendor_server import (
    Asked,
    Issued,
    Json,
    Problems,
    Turn,
    Vendor,
    Wire,
    calls_are_unmodified,
    count_turns,
    cut_pieces,
    encode_sse,
    find_unknown_names,
    make_calls,
    make_rules,
    number_of,
    open_turns,
    read_calls,
    read_essence,
    read_failures,
    read_tools,
    results_follow_their_calls,
)

_FIELDS = (
    "model messages tools strict_tools tool_choice stream max_tokens temperature p k seed stop_sequences thinking"
    " response_format frequency_penalty presence_penalty documents citation_options safety_mode logprobs priority"
)


def _reply(asked: Asked, turn: Turn) -> tuple[Json, Issued]:
    number = number_of(asked.body["messages"])
    calls = make_calls(turn, number, "{2}_{0}{1}")
    content = [
        {"type": "thinking", "thinking": turn.thought},
        *([{"type": "text", "text": turn.text}] * bool(turn.text)),
    ]
    message: Json = {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})
    tokens = {"input_tokens": 20, "output_tokens": 9}
    reply = {"id": number, "finish_reason": "TOOL_CALL" if calls else "COMPLETE", "message": message}
    issued = {key: message for call in calls for key in (call["id"], read_essence(call))}
    return reply | {"usage": {"billed_units": tokens, "tokens": tokens}}, issued


def _stream(reply: Json) -> Iterator[bytes]:
    for event in _events(reply):
        yield encode_sse(event, event["type"])


def _events(reply: Json) -> Iterator[Json]:
    yield {"type": "message-start", "id": reply["id"], "delta": {"message": {"role": "assistant", "content": []}}}
    for index, part in enumerate(reply["message"]["content"]):
        kind = part["type"]
        begun = {"content": {"type": kind, kind: ""}}
        yield {"type": "content-start", "index": index, "delta": {"message": begun}}
        for piece in cut_pieces(part[kind]):
            yield {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: piece}}}}
        yield {"type": "content-end", "index": index}
    for index, call in enumerate(read_calls(reply["message"])):
        start = call | {"function": call["function"] | {"arguments": ""}}
        yield {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": start}}}
        for piece in cut_pieces(call["function"]["arguments"]):
            told = {"tool_calls": {"function": {"arguments": piece}}}
            yield {"type": "tool-call-delta", "index": index, "delta": {"message": told}}
        yield {"type": "tool-call-end", "index": index}
    yield {"type": "message-end", "delta": {"finish_reason": reply["finish_reason"], "usage": reply["usage"]}}


def thoughts_come_back(asked: Asked) -> Problems:
    """Between calls, the message comes back with its thinking; it does not refuse, but forgets.
    https://docs.cohere.com/docs/reasoning
    """
    for at, message in open_turns(asked.body):
        issued = asked.made(*map(read_essence, read_calls(message)))  # whatever their ids
        if issued and issued["content"] != message.get("content"):
            yield f"messages[{at}].content: want it as it was returned"


def fields_are_known(asked: Asked) -> Problems:
    """Unknown fields are refused, and messages are not empty.
    https://docs.cohere.com/reference/chat
    """
    yield from (
        f"unknown field: parameter '{name}' is not a valid field" for name in find_unknown_names(asked.body, _FIELDS)
    )
    for message in asked.body["messages"]:
        if not (message.get("content") or read_calls(message) or message.get("tool_plan")):
            yield "invalid request: all elements in messages must have tokens"


VENDORS = (
    Vendor(
        "cohere", "/v2", "/v2/chat",
        Wire(count_turns, read_tools, _reply, _stream, lambda status, code, message: {"id": "e1", "message": message}),
        {"command-a-reasoning-08-2025": ""},
        make_rules(fields_are_known, results_follow_their_calls, calls_are_unmodified, thoughts_come_back),
        read_failures("""
            too_long | 400 | | too many tokens: total number of tokens in the prompt cannot exceed 256000
            rate | 429 | | You are using a Trial key, which is limited to 20 API calls / minute.
            unavailable | 503 | | service unavailable
            unknown_model | 404 | | model 'no-such-model' not found, make sure the correct model ID was used
            wrong_key | 401 | | invalid api token
        """),
    ),
)  # fmt: skip
