"""OpenAI's Responses API, used without state: what the model thought is sent back, encrypted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .api import Asked, Json, Problems, Turn, Vendor, pieces, rules, seal, sse, unknown

_FIELDS = (
    "model input instructions tools tool_choice parallel_tool_calls reasoning include store stream stream_options"
    " max_output_tokens temperature top_p text truncation metadata previous_response_id service_tier user"
    " prompt_cache_key prompt_cache_retention safety_identifier max_tool_calls top_logprobs background prompt"
    " conversation context_management prompt_cache_options"
)


def _items(body: Json) -> list[Json]:
    given = body.get("input", [])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return [{"type": "message"} | item for item in items]


def _at_end(body: Json) -> list[Json]:
    """Return the items after the last message of the user."""
    items = _items(body)
    asked = [at for at, item in enumerate(items) if item.get("role") in ("user", "system", "developer")]
    return items[asked[-1] + 1 :] if asked else items


class Responses:
    """The wire format."""

    streamed_as = "text/event-stream"

    def turns(self, body: Json) -> int:
        kinds = ["function_call_output", *(item["type"] for item in _at_end(body))]
        return sum(before == "function_call_output" != kind for before, kind in zip(kinds, kinds[1:], strict=False))

    def tools(self, body: Json) -> Mapping[str, Json]:
        return {tool["name"]: tool["parameters"] for tool in body.get("tools", []) if tool["type"] == "function"}

    def reply(self, asked: Asked, turn: Turn) -> tuple[Json, Mapping[str, Any]]:
        number = re.sub(r"\W", "", seal(asked.body["input"]))[:24]
        summary = [{"type": "summary_text", "text": turn.thought}]
        thought: Json = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
        if asked.body.get("reasoning", {}).get("summary"):
            thought["summary"] = summary
        if "reasoning.encrypted_content" in asked.body.get("include", []):
            thought["encrypted_content"] = seal(turn.thought, number)
        output = [thought] if "reasoning" in asked.traits else []
        if turn.text:
            text = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
            phase = "commentary" if turn.calls else "final_answer"
            output.append(
                {
                    "id": f"msg_{number}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [text],
                }
                | {"phase": phase}
            )
        for at, (name, given) in enumerate(turn.calls):
            output.append({
                "id": f"fc_{number}{at}", "type": "function_call", "status": "completed", "name": name,
                "call_id": f"call_{number}{at}", "arguments": json.dumps(given),
            })  # fmt: skip
        usage = {
            "input_tokens": 20, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 29,
        }  # fmt: skip
        reply = {
            "id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed", "model": asked.model,
            "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "output": output,
            "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "usage": usage,
            "tools": asked.body.get("tools", []), "store": asked.body.get("store", True),
        }  # fmt: skip
        return reply, {item.get("call_id", item["id"]): output for item in output}

    def stream(self, reply: Json) -> Iterator[bytes]:
        for number, event in enumerate(_events(reply)):
            yield sse(event | {"sequence_number": number}, event["type"])

    def error(self, status: int, code: str, message: str) -> Any:
        kind = "invalid_request_error" if status < 429 else "rate_limit_error" if status == 429 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}


def _events(reply: Json) -> Iterator[Json]:
    begun = reply | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(reply["output"]):
        begun = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
        shown = item | {name: value for name, value in begun.items() if name in item}
        yield {"type": "response.output_item.added", "output_index": index, "item": shown}
        for event in _parts(item):
            yield event | {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": reply}


def _parts(item: Json) -> Iterator[Json]:
    if item["type"] == "function_call":
        for piece in pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", "delta": piece}
        yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"], "name": item["name"]}
    for part in item.get("content", []):
        head = {"content_index": 0}
        yield head | {"type": "response.content_part.added", "part": part | {"text": ""}}
        for piece in pieces(part["text"]):
            yield head | {"type": "response.output_text.delta", "delta": piece, "logprobs": []}
        yield head | {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
        yield head | {"type": "response.content_part.done", "part": part}
    for index, part in enumerate(item.get("summary", [])):
        head = {"summary_index": index}
        yield head | {"type": "response.reasoning_summary_part.added", "part": part | {"text": ""}}
        for piece in pieces(part["text"]):
            yield head | {"type": "response.reasoning_summary_text.delta", "delta": piece}
        yield head | {"type": "response.reasoning_summary_text.done", "text": part["text"]}
        yield head | {"type": "response.reasoning_summary_part.done", "part": part}


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def state_is_asked_for(asked: Asked) -> Problems:
    """Who keeps nothing at the vendor (`store: false`) asks for the encrypted reasoning, or it is lost.
    https://developers.openai.com/api/docs/guides/reasoning#encrypted-reasoning-items
    """
    if asked.body.get("store") is not False:
        yield "store: the stand-in keeps nothing, as an organization with zero data retention; want false"
    elif "reasoning" in asked.traits and "reasoning.encrypted_content" not in asked.body.get("include", []):
        yield "include: want reasoning.encrypted_content beside store: false"


def reasoning_comes_back(asked: Asked) -> Problems:
    """A function call comes back with the reasoning item before it, and a reasoning item with the item after it.
    https://developers.openai.com/api/docs/guides/reasoning#keeping-reasoning-items-in-context
    """
    items = _items(asked.body)
    for at, item in enumerate(items):
        issued = asked.issued.get(item.get("call_id") or item.get("id", ""), [])
        following = items[at + 1] if at + 1 < len(items) else {}
        if item["type"] == "reasoning" and following.get("type") not in ("reasoning", "function_call", "message"):
            yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        if item["type"] == "function_call" and issued and issued[0]["type"] == "reasoning":
            before = [one for one in items[:at] if one["type"] == "reasoning"]
            if not any(one.get("encrypted_content") == issued[0].get("encrypted_content") for one in before):
                yield (
                    f"Item '{item.get('id')}' of type 'function_call' was provided without its required"
                    f" 'reasoning' item: '{issued[0]['id']}'."
                )


def items_are_unmodified(asked: Asked) -> Problems:
    """Encrypted content is of this API, as it was, beside its own id; what was said keeps its order and its phase.
    https://developers.openai.com/api/docs/guides/reasoning#encrypted-reasoning-items
    """
    known = {item["id"]: item for output in asked.issued.values() for item in output}
    for at, item in enumerate(_items(asked.body)):
        if item["type"] == "reasoning":
            own = known.get(item.get("id", "")) or next(
                (one for one in known.values() if one.get("encrypted_content") == item.get("encrypted_content")), None
            )
            if "encrypted_content" not in item:
                yield f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
            elif own is None or own.get("encrypted_content") != item["encrypted_content"]:
                yield f"The encrypted content for item {item.get('id')} could not be verified."
            elif "summary" not in item:
                yield f"Missing required parameter: 'input[{at}].summary'."
            elif own["summary"] != item["summary"]:
                yield f"The encrypted content for item {item.get('id')} could not be verified: its summary was changed."
        elif item["type"] == "function_call" and (own := known.get(item.get("id", ""))):
            if any(own[name] != item.get(name) for name in ("name", "arguments", "call_id")):
                yield f"input[{at}]: function call {item['id']} was changed"
        elif item.get("role") == "assistant" and (own := known.get(item.get("id", ""))):
            if own["phase"] != item.get("phase"):
                yield f"input[{at}].phase: want {own['phase']} as it was"


def calls_have_outputs(asked: Asked) -> Problems:
    """Each function call has its output, and each output its call.
    https://developers.openai.com/api/docs/guides/function-calling
    """
    items = _items(asked.body)
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    outputs = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    yield from (f"No tool output found for function call {one}." for one in calls if one not in outputs)
    yield from (
        f"No tool call found for function call output with call_id {one}." for one in outputs if one not in calls
    )


def no_sampling_of_reasoning(asked: Asked) -> Problems:
    """Reasoning models take no sampling parameters.
    https://developers.openai.com/api/docs/guides/latest-model#parameter-compatibility
    """
    for name in ("temperature", "top_p", "top_logprobs"):
        if name in asked.body and "reasoning" in asked.traits:
            yield f"Unsupported parameter: '{name}' is not supported with this model."
    if "reasoning" in asked.body and "reasoning" not in asked.traits:
        yield "Unsupported parameter: 'reasoning.effort' is not supported with this model."


def parameters_are_known(asked: Asked) -> Problems:
    """Unknown parameters are refused, in messages as well.
    https://developers.openai.com/api/reference/resources/responses/methods/create
    """
    yield from (f"Unknown parameter: '{name}'." for name in unknown(asked.body, _FIELDS))
    fields = {
        "message": "type role content id status phase", "reasoning": "type id summary encrypted_content content status",
        "function_call": "type id call_id name arguments status namespace",
        "function_call_output": "type id call_id output status",
    }  # fmt: skip
    for at, item in enumerate(_items(asked.body)):
        yield from (
            f"Unknown parameter: 'input[{at}].{name}'."
            for name in unknown(item, fields.get(item["type"], " ".join(item)))
        )
        if item["type"] == "message":
            parts = item["content"] if isinstance(item["content"], list) else []
            wanted = "output_text" if item["role"] == "assistant" else "input_text"
            for number, part in enumerate(parts):
                if part["type"] in ("text", "input_text", "output_text") and part["type"] != wanted:
                    yield f"Invalid value: '{part['type']}'. Supported values are: '{wanted}' (input[{at}].content[{number}])."
    if asked.body.get("max_output_tokens", 16) < 16:
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."


def strict_schemas_are_closed(asked: Asked) -> Problems:
    """A strict schema has no additional properties, and requires all it has.
    https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
    """
    for tool in asked.body.get("tools", []):
        if tool["type"] == "function":
            yield from open_schema(tool, tool.get("strict"))


def open_schema(tool: Json, strict: Any) -> Problems:
    """Yield why a function is refused: its schema is no object, or strict and open."""
    schema = tool.get("parameters") or {"type": "object", "properties": {}}
    start = f"Invalid schema for function '{tool['name']}': "
    if schema.get("type") != "object":
        yield f"{start}schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    elif strict and schema.get("additionalProperties") is not False:
        yield f"{start}In context=(), 'additionalProperties' is required to be supplied and to be false."
    elif strict and set(schema.get("required", [])) != set(schema.get("properties", {})):
        yield f"{start}In context=(), 'required' is required to be supplied and to be an array including every key"


RULES = rules(
    parameters_are_known, state_is_asked_for, items_are_unmodified, reasoning_comes_back, calls_have_outputs,
    no_sampling_of_reasoning, strict_schemas_are_closed,
)  # fmt: skip
FAILURES = {
    "too_long": (400, "context_length_exceeded", "Your input exceeds the context window of this model."),
    "rate": (429, "rate_limit_exceeded", "Rate limit reached for gpt-5.6 on tokens per min (TPM): Limit 30000."),
    "unavailable": (503, "server_error", "The server is currently overloaded. Please try again later."),
    "unknown_model": (
        404,
        "model_not_found",
        "The model `no-such-model` does not exist or you do not have access to it.",
    ),
    "wrong_key": (401, "invalid_api_key", "Incorrect API key provided: key-of-n*******body."),
}
MODELS = {"gpt-5.6": "reasoning", "gpt-5.2": "reasoning", "o4-mini": "reasoning", "gpt-4.1": ""}
VENDORS = (
    Vendor("openai", "/v1", "/v1/responses", Responses(), MODELS, RULES, FAILURES, (400, "")),
    Vendor("azure", "/openai/v1", "/openai/v1/responses", Responses(), MODELS, RULES, FAILURES, (400, ""), "api-key"),
    Vendor("xai-responses", "/v1", "/v1/responses", Responses(), {"grok-4": "reasoning"}, RULES, FAILURES, (400, "")),
)
