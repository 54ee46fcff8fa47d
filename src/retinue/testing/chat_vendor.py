"""OpenAI's chat completions as a wire of `VendorServer`, with the rules that all who speak it share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .vendor_rules import Asked, Issued, Json, Problems, Turn, Wire, number_of, pieces, seal, sse


def open_turns(body: Json) -> list[tuple[int, Json]]:
    """Return the assistant's messages since the last one of the user."""
    messages = list(enumerate(body["messages"]))
    last = max((at for at, message in messages if message["role"] not in ("assistant", "tool")), default=-1)
    return [(at, message) for at, message in messages if at > last and message["role"] == "assistant"]


def count_turns(body: Json) -> int:
    """Return how many turns of the model there are since the last message of the user."""
    return len(open_turns(body))


def tools_of(body: Json) -> Mapping[str, Json]:
    """Return the schemas of the offered tools by name."""
    return {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or []}


def calls_of(message: Json) -> list[Json]:
    """Return the calls of a message."""
    return message.get("tool_calls") or []


def make_calls(turn: Turn, number: str, form: str = "call_{0}{1}") -> list[Json]:
    """Return the calls of a turn, with ids of this form."""
    functions = [{"name": name, "arguments": json.dumps(given)} for name, given in turn.calls]
    return [
        {"id": form.format(number, at, function["name"]), "type": "function", "function": function}
        for at, function in enumerate(functions)
    ]


# ── the wire: where each vendor puts thoughts and state ──────────────────────────────────────────

Put = Callable[[Json, Turn, str], None]


def as_field(name: str) -> Put:
    """Put the thought into a field of the message, which is to come back."""
    return lambda message, turn, number: message.update({name: turn.thought})


def as_details(message: Json, turn: Turn, number: str) -> None:
    """Put the thought into `reasoning_details`, signed, with something encrypted after it."""
    form = {"format": "anthropic-claude-v1"}
    text = {"type": "reasoning.text", "text": turn.thought, "signature": seal(turn.thought, number), "index": 0}
    data = {"type": "reasoning.encrypted", "data": seal("data", number), "id": f"rs_{number}", "index": 1}
    message |= {"reasoning": turn.thought, "reasoning_details": [text | form, data | form]}


def as_parts(message: Json, turn: Turn, number: str) -> None:
    """Make the content of parts, the first of which is the thought."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": turn.thought}], "closed": True}
    message["content"] = [thought, *([{"type": "text", "text": turn.text}] if turn.text else [])]


def as_signature(message: Json, turn: Turn, number: str) -> None:
    """Put a signature, and no thought, beside the first call, or beside the text."""
    state = {"extra_content": {"google": {"thought_signature": seal(turn.thought, number)}}}
    (calls_of(message) or [message])[0].update(state)  # of several calls only the first has one


def chat_wire(
    put: Put | None,
    ids: str = "call_{0}{1}",
    error: Callable[[int, str, str], Any] | None = None,
    *,
    whole_calls: bool = False,
) -> Wire:
    """Return the wire of a vendor.

    Args:
        put: Adds the thought to a message.
        ids: The form of a call's id, with places for what differs by conversation (0) and by call (1), and for the
            tool's name (2).
        error: Returns status, code and message in the vendor's envelope; by default OpenAI's.
        whole_calls: A stream has each call in one piece.
    """

    def reply(asked: Asked, turn: Turn) -> tuple[Json, Issued]:
        number = number_of(asked.body["messages"])
        calls = make_calls(turn, number, ids)
        message: Json = {"role": "assistant", "content": turn.text or None} | ({"tool_calls": calls} if calls else {})
        if put and "mute" not in asked.traits and asked.body.get("thinking", {}).get("type") != "disabled":
            put(message, turn, number)
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
        usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
        head = {"id": f"chatcmpl-{number}", "created": 1, "model": asked.model, "usage": usage}
        return head | {"object": "chat.completion", "choices": [choice]}, {call["id"]: message for call in calls}

    return Wire(count_turns, tools_of, reply, lambda whole: _stream(whole, whole_calls), error or openai_error)


def _stream(reply: Json, whole_calls: bool) -> Iterator[bytes]:
    head = {key: reply[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,) = reply["choices"]
    for delta in [{"role": "assistant", "content": ""}, *_deltas(choice["message"], whole_calls), {}]:
        end = None if delta else choice["finish_reason"]
        yield sse(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
    yield sse(head | {"choices": [], "usage": reply["usage"]})
    yield b"data: [DONE]\n\n"


def _deltas(message: Json, whole_calls: bool) -> Iterator[Json]:
    """Yield a message as it is streamed: what was thought, what was said, and the calls."""
    for name in ("reasoning_content", "reasoning"):
        yield from ({name: piece} for piece in pieces(message.get(name) or "") if "reasoning_details" not in message)
    for detail in message.get("reasoning_details", []):  # the signature comes last, beside an empty text
        bare = {key: value for key, value in detail.items() if key != "signature"}
        texts = pieces(detail.get("text", ""))
        yield from ({"reasoning": one, "reasoning_details": [bare | {"text": one}]} for one in texts)
        yield {"reasoning_details": [detail | ({"text": ""} if "text" in detail else {})]}
    content = message["content"] or ""
    parts: list[Json] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for part in parts:
        if part["type"] == "thinking":
            texts = pieces(part["thinking"][0]["text"])
            thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": one}]} for one in texts]
            yield from ({"content": [one]} for one in thinking)
        else:
            yield from ({"content": piece} for piece in pieces(part["text"]))
    if "extra_content" in message:  # of a text, beside an empty one at its end
        yield {"content": "", "extra_content": message["extra_content"]}
    for index, call in enumerate(calls_of(message)):
        if whole_calls:
            yield {"tool_calls": [call | {"index": index}]}
            continue
        yield {"tool_calls": [call | {"index": index, "function": call["function"] | {"arguments": ""}}]}
        for piece in pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


# ── rules of all ─────────────────────────────────────────────────────────────────────────────────


def results_follow_their_calls(asked: Asked) -> Problems:
    """A message with calls is followed by a tool message for each of them, before anything else.
    https://developers.openai.com/api/docs/guides/function-calling
    """
    waiting: list[str] = []
    for at, message in enumerate([*asked.body["messages"], {"role": "end"}]):
        if message["role"] == "tool" and message.get("tool_call_id") in waiting:
            waiting.remove(message["tool_call_id"])
        elif message["role"] == "tool":
            yield f"messages.[{at}].role: messages with role 'tool' must be a response to a preceeding message with"
        elif waiting:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
                f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
            )
        else:
            waiting = [call["id"] for call in calls_of(message)]


def calls_are_unmodified(asked: Asked) -> Problems:
    """The calls of the model come back with their ids, names and arguments, none more and none less.
    https://developers.openai.com/api/docs/guides/function-calling
    """
    for at, message, issued in with_calls(asked, enumerate(asked.body["messages"])):
        made, sent = ([(one["id"], essence_of(one)) for one in calls_of(turn)] for turn in (issued, message))
        if issued and made != sent:
            yield f"messages.[{at}].tool_calls: they are not as the model made them"


def essence_of(call: Json) -> str:
    """Return the name and the arguments of a call, however they are written."""
    given = call["function"]["arguments"]
    return json.dumps([call["function"]["name"], json.loads(given) if isinstance(given, str) else given])


def schemas_are_valid(asked: Asked) -> Problems:
    """The schema of a tool is of an object; a strict one has no additional properties, and requires all it has.
    https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
    """
    for tool in asked.body.get("tools") or []:
        yield from open_schema(tool["function"])
    if asked.body.get("tools") == []:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    if "tool_choice" in asked.body and not asked.body.get("tools"):
        yield "'tool_choice' is only allowed when 'tools' are specified."


def with_calls(asked: Asked, messages: Iterable[tuple[int, Json]]) -> Iterator[tuple[int, Json, Json]]:
    """Yield each message with calls: its index, itself, and what was issued, which is empty if others made it."""
    for at, message in messages:
        if calls := calls_of(message):
            yield at, message, asked.made(*(call["id"] for call in calls)) or {}


def lost_thoughts(
    asked: Asked, messages: Iterable[tuple[int, Json]], name: str, *, always: bool = False
) -> Iterator[int]:
    """Yield the index of each message with calls whose thoughts, under this name, are not as they were.

    `always`: other vendors' messages have to have some as well.
    """
    for at, message, issued in with_calls(asked, messages):
        if (name in issued and issued[name] != message.get(name)) or (always and message.get(name) is None):
            yield at


def openai_error(status: int, code: str, message: str) -> Any:
    """Return an error in OpenAI's envelope."""
    kind = "invalid_request_error" if status < 429 else "rate_limit_error" if status == 429 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}


def open_schema(tool: Json) -> Problems:
    """Yield why OpenAI refuses a function: its schema is no object, or is strict and open."""
    schema = tool.get("parameters") or {"type": "object", "properties": {}}
    start = f"Invalid schema for function '{tool['name']}': "
    if schema.get("type") != "object":
        yield f"{start}schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    elif tool.get("strict") and schema.get("additionalProperties") is not False:
        yield f"{start}In context=(), 'additionalProperties' is required to be supplied and to be false."
    elif tool.get("strict") and set(schema.get("required", [])) != set(schema.get("properties", {})):
        yield f"{start}In context=(), 'required' is required to be supplied and to be an array including every key"


CHAT_RULES = (results_follow_their_calls, calls_are_unmodified, schemas_are_valid)
