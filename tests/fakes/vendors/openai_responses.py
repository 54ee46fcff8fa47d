"""OpenAI's Responses API, used without state: what the model thought is sent back, encrypted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise

from retinue.testing.vendor_server import (
    Asked,
    Issued,
    Json,
    Problems,
    Turn,
    Vendor,
    Wire,
    cut_pieces,
    encode_sse,
    find_unknown_names,
    make_openai_error,
    make_rules,
    number_of,
    open_schema,
    read_failures,
    seal,
)

_FIELDS = (
    "model input instructions tools tool_choice parallel_tool_calls reasoning include store stream stream_options"
    " max_output_tokens temperature top_p text truncation metadata previous_response_id service_tier user"
    " prompt_cache_key prompt_cache_retention safety_identifier max_tool_calls top_logprobs background prompt"
    " conversation context_management prompt_cache_options"
)
_ITEM_FIELDS = {
    "message": "type role content id status phase",
    "reasoning": "type id summary encrypted_content content status",
    "function_call": "type id call_id name arguments status namespace async caller",
    "function_call_output": "type id call_id output status",
}


def _items(body: Json) -> list[Json]:
    given = body.get("input", [])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return [{"type": "message"} | item for item in items]


def _ids(body: Json, kind: str) -> list[str]:
    return [item["call_id"] for item in _items(body) if item["type"] == kind]


def _turns(body: Json) -> int:
    items = _items(body)
    last = max((at for at, item in enumerate(items) if item.get("role", "assistant") != "assistant"), default=-1)
    kinds = ["function_call_output", *(item["type"] for item in items[last + 1 :])]
    return sum(before == "function_call_output" != kind for before, kind in pairwise(kinds))


def _tools(body: Json) -> Mapping[str, Json]:
    return {tool["name"]: tool["parameters"] for tool in body.get("tools", []) if tool["type"] == "function"}


def _reply(asked: Asked, turn: Turn) -> tuple[Json, Issued]:
    number = number_of(asked.body["input"])
    thought: Json = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
    if asked.body.get("reasoning", {}).get("summary"):
        thought["summary"] = [{"type": "summary_text", "text": turn.thought}]
    if "reasoning.encrypted_content" in asked.body.get("include", []):
        thought["encrypted_content"] = seal(turn.thought, number)
    output = [thought] if "reasoning" in asked.traits else []
    if turn.text:
        text = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        said = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
        output.append(said | {"phase": "commentary" if turn.calls else "final_answer"})
    for at, (name, given) in enumerate(turn.calls):
        call = {"id": f"fc_{number}{at}", "type": "function_call", "status": "completed", "name": name}
        output.append(call | {"call_id": f"call_{number}{at}", "arguments": json.dumps(given)})
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
    return reply, {str(item.get("call_id", item["id"])): output for item in output}


def _stream(reply: Json) -> Iterator[bytes]:
    for number, event in enumerate(_events(reply)):
        yield encode_sse(event | {"sequence_number": number}, event["type"])


def _events(reply: Json) -> Iterator[Json]:
    begun = reply | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    empty = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
    for index, item in enumerate(reply["output"]):
        shown = item | {name: value for name, value in empty.items() if name in item}
        yield {"type": "response.output_item.added", "output_index": index, "item": shown}
        for event in _item_events(item):
            yield event | {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": reply}


def _item_events(item: Json) -> Iterator[Json]:
    if item["type"] == "function_call":
        for piece in cut_pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", "delta": piece}
        yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"], "name": item["name"]}
    for part in item.get("content", []):
        yield from _part_events(part, "response.content_part", "response.output_text", {"content_index": 0})
    for index, part in enumerate(item.get("summary", [])):
        kind = "response.reasoning_summary"
        yield from _part_events(part, f"{kind}_part", f"{kind}_text", {"summary_index": index})


def _part_events(part: Json, kind: str, text: str, head: Json) -> Iterator[Json]:
    yield head | {"type": f"{kind}.added", "part": part | {"text": ""}}
    for piece in cut_pieces(part["text"]):
        yield head | {"type": f"{text}.delta", "delta": piece, "logprobs": []}
    yield head | {"type": f"{text}.done", "text": part["text"], "logprobs": []}
    yield head | {"type": f"{kind}.done", "part": part}


RESPONSES = Wire(_turns, _tools, _reply, _stream, make_openai_error)

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
    for at, (item, following) in enumerate(pairwise([*items, {"type": ""}])):
        if item["type"] == "reasoning" and following["type"] not in ("reasoning", "function_call", "message"):
            yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        issued = asked.made(item.get("call_id", "")) if item["type"] == "function_call" else None
        if issued and issued[0]["type"] == "reasoning":
            before = [one.get("encrypted_content") for one in items[:at] if one["type"] == "reasoning"]
            if issued[0].get("encrypted_content") not in before:
                yield (
                    f"Item '{item.get('id')}' of type 'function_call' was provided without its required"
                    f" 'reasoning' item: '{issued[0]['id']}'."
                )


def items_are_unmodified(asked: Asked) -> Problems:
    """Encrypted content is of this API, beside its own id and summary; calls are as they were.
    https://developers.openai.com/api/docs/guides/reasoning#encrypted-reasoning-items
    """
    known = [item for output in asked.issued.values() for item in output]
    for at, item in enumerate(_items(asked.body)):
        if item["type"] == "reasoning" and "encrypted_content" not in item:
            yield f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
        elif item["type"] == "reasoning" and "summary" not in item:
            yield f"Missing required parameter: 'input[{at}].summary'."
        elif item["type"] == "reasoning" and not any(_is_same(item, one, "encrypted_content summary") for one in known):
            yield f"The encrypted content for item {item.get('id')} could not be verified."
        own = next((one for one in known if one["id"] == item.get("id")), item)
        if not _is_same(item, own, "name arguments call_id phase"):
            yield f"input[{at}]: '{item['id']}' is not as it was"


def _is_same(item: Json, own: Json, names: str) -> bool:
    return own["id" if "id" in item else "type"] == item.get("id", item["type"]) and all(
        own.get(name) == item.get(name) for name in names.split()
    )


def calls_have_outputs(asked: Asked) -> Problems:
    """Each function call has its output, and each output its call.
    https://developers.openai.com/api/docs/guides/function-calling
    """
    calls, outputs = _ids(asked.body, "function_call"), _ids(asked.body, "function_call_output")
    yield from (f"No tool output found for function call {one}." for one in calls if one not in outputs)
    lost = [one for one in outputs if one not in calls]
    yield from (f"No tool call found for function call output with call_id {one}." for one in lost)


def no_sampling_of_reasoning(asked: Asked) -> Problems:
    """Reasoning models take no sampling parameters, and others no effort.
    https://developers.openai.com/api/docs/guides/latest-model#parameter-compatibility
    """
    for name in ("temperature", "top_p", "top_logprobs") if "reasoning" in asked.traits else ("reasoning",):
        if name in asked.body:
            yield f"Unsupported parameter: '{name}' is not supported with this model."


def parameters_are_known(asked: Asked) -> Problems:
    """Unknown parameters are refused, in items as well; the parts of a message are those of its role.
    https://developers.openai.com/api/reference/resources/responses/methods/create
    """
    yield from (f"Unknown parameter: '{name}'." for name in find_unknown_names(asked.body, _FIELDS))
    for at, item in enumerate(_items(asked.body)):
        known = _ITEM_FIELDS.get(item["type"], " ".join(item))
        yield from (f"Unknown parameter: 'input[{at}].{name}'." for name in find_unknown_names(item, known))
        wanted = "output_text" if item.get("role") == "assistant" else "input_text"
        for part in item["content"] if isinstance(item.get("content"), list) else []:
            if part["type"] in ("text", "input_text", "output_text") and part["type"] != wanted:
                yield f"Invalid value: '{part['type']}'. Supported values are: '{wanted}'."
    if asked.body.get("max_output_tokens", 16) < 16:
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."


def strict_schemas_are_closed(asked: Asked) -> Problems:
    """A strict schema has no additional properties, and requires all it has.
    https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
    """
    for tool in asked.body.get("tools", []):
        yield from open_schema(tool) if tool["type"] == "function" else ()


RULES = make_rules(
    parameters_are_known, state_is_asked_for, items_are_unmodified, reasoning_comes_back, calls_have_outputs,
    no_sampling_of_reasoning, strict_schemas_are_closed,
)  # fmt: skip
FAILURES = read_failures("""
    too_long | 400 | context_length_exceeded | Your input exceeds the context window of this model.
    rate | 429 | rate_limit_exceeded | Rate limit reached for gpt-5.6 on tokens per min (TPM): Limit 30000.
    unavailable | 503 | server_error | The server is currently overloaded. Please try again later.
    unknown_model | 404 | model_not_found | The model `no-such-model` does not exist or you do not have access to it.
    wrong_key | 401 | invalid_api_key | Incorrect API key provided: key-of-n*******body.
""")
MODELS = {"gpt-5.6": "reasoning", "gpt-5.2": "reasoning", "o4-mini": "reasoning", "gpt-4.1": ""}
_GROK = {"grok-4": "reasoning"}
_AZURE = "/openai/v1"
_REFUSAL = (400, "")
VENDORS = (
    Vendor("openai", "/v1", "/v1/responses", RESPONSES, MODELS, RULES, FAILURES, _REFUSAL),
    Vendor(
        "azure", _AZURE, f"{_AZURE}/responses", RESPONSES, MODELS, RULES, FAILURES, _REFUSAL, "api-key authorization"
    ),
    Vendor("xai-responses", "/v1", "/v1/responses", RESPONSES, _GROK, RULES, FAILURES, _REFUSAL),
)
