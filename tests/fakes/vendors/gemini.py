"""Google's Gemini API, `generateContent` and `streamGenerateContent`, as AI Studio and Vertex serve it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

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
    make_rules,
    number_of,
    read_failures,
    seal,
)

DUMMIES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Documented signatures for the calls of a history that this API did not make."""
_PART = (
    "text inlineData fileData functionCall functionResponse thought thoughtSignature executableCode codeExecutionResult"
)
_BODY = "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels"
_CONFIG = (
    "stopSequences temperature topP topK maxOutputTokens candidateCount seed responseMimeType responseSchema"
    " responseJsonSchema presencePenalty frequencyPenalty responseLogprobs logprobs thinkingConfig responseModalities"
    " mediaResolution speechConfig"
)
_UNSUPPORTED = (
    "$schema $id $defs definitions additionalProperties patternProperties const oneOf allOf not dependentRequired if"
)
_VERBATIM = ("args", "response", "parametersJsonSchema", "responseJsonSchema", "properties")


def _camel(value: Any) -> Any:
    """Return JSON with the API's own names, which it also takes in snake case; what is the user's stays."""
    if isinstance(value, dict):
        names = {key: re.sub("_([a-z])", lambda found: found[1].upper(), key) for key in value}
        return {names[key]: one if names[key] in _VERBATIM else _camel(one) for key, one in value.items()}
    return [_camel(one) for one in value] if isinstance(value, list) else value


def _contents(body: Json) -> list[Json]:
    found: list[Json] = _camel(body["contents"])
    return found


def _with(contents: Json, name: str) -> list[Json]:
    return [part[name] for part in contents.get("parts", []) if name in part]


def _open(body: Json) -> list[Json]:
    """Return the model's contents since the last one of the user that is not a function response."""
    contents = list(enumerate(_contents(body)))
    asked = [at for at, one in contents if one.get("role") != "model" and not _with(one, "functionResponse")]
    return [one for at, one in contents if at > max(asked, default=-1) and one.get("role") == "model"]


def _declared(body: Json) -> list[Json]:
    return [one for tool in _camel(body.get("tools", [])) for one in tool.get("functionDeclarations", [])]


def _thinking(body: Json) -> Json:
    found: Json = _camel(body).get("generationConfig", {}).get("thinkingConfig", {})
    return found


def _reply(asked: Asked, turn: Turn) -> tuple[Json, Issued]:
    number = number_of(asked.body["contents"])
    parts: list[Json] = [{"text": turn.thought, "thought": True}] * bool(_thinking(asked.body).get("includeThoughts"))
    parts += [{"text": turn.text}] * bool(turn.text)
    sign = {"thoughtSignature": seal(turn.thought, number)}
    for at, (name, given) in enumerate(turn.calls):  # of several calls only the first has a signature
        call = {"functionCall": {"id": f"{number}{at}", "name": name, "args": dict(given)}}
        parts.append(call | ({} if at or "loose" in asked.traits else sign))
    if not turn.calls:  # in an empty part at the end, as streams have it
        parts.append({"text": ""} | sign)
    content = {"role": "model", "parts": parts}
    usage = {"promptTokenCount": 20, "candidatesTokenCount": 4, "thoughtsTokenCount": 5, "totalTokenCount": 29}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    reply = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": asked.model, "responseId": number}
    return reply, {_known_by(part): content for part in parts if "functionCall" in part}


def _reply_without_ids(asked: Asked, turn: Turn) -> tuple[Json, Issued]:
    """Return a reply of Vertex, which gives calls no ids."""
    reply, _ = _reply(asked, turn)
    content = reply["candidates"][0]["content"]
    for call in _with(content, "functionCall"):
        del call["id"]
    return reply, {_known_by(part): content for part in content["parts"] if "functionCall" in part}


def _known_by(part: Json) -> str:
    """Return the id of a call, or its signature if it has none."""
    return str(part["functionCall"].get("id") or part.get("thoughtSignature", ""))


def _stream(reply: Json) -> Iterator[bytes]:
    (candidate,) = reply["candidates"]
    parts: list[Json] = []
    for part in candidate["content"]["parts"]:
        parts += [part | {"text": piece} for piece in cut_pieces(part["text"])] if part.get("text") else [part]
    for number, part in enumerate(parts, 1):
        content = {"content": {"role": "model", "parts": [part]}, "index": 0}
        end = {"finishReason": "STOP"} if number == len(parts) else {}
        yield encode_sse(reply | {"candidates": [content | end]})


def _error(status: int, code: str, message: str) -> Any:
    return {"error": {"code": status, "message": message, "status": code}}


GENERATE_CONTENT = Wire(
    lambda body: len(_open(body)),
    lambda body: {one["name"]: one.get("parametersJsonSchema") or one.get("parameters", {}) for one in _declared(body)},
    _reply,
    _stream,
    _error,
)
WITHOUT_IDS = replace(GENERATE_CONTENT, reply=_reply_without_ids)

# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def signatures_come_back(asked: Asked) -> Problems:
    """In the current turn, the first function call of each step has its signature, in the very part it came in.
    https://ai.google.dev/gemini-api/docs/thought-signatures
    """
    for at, content in enumerate(_open(asked.body) if "loose" not in asked.traits else ()):
        for part in [part for part in content["parts"] if "functionCall" in part][:1]:
            if not part.get("thoughtSignature"):
                yield (
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to"
                    f" work correctly. Additional data, function call `default_api:{part['functionCall']['name']}`,"
                    f" position {at + 1}."
                )


def signatures_are_valid(asked: Asked) -> Problems:
    """A signature was made by this API for that part; a history of others has the documented dummy instead.
    https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
    """
    for content in _contents(asked.body):
        for part in content["parts"]:
            if "functionCall" in part and part.get("thoughtSignature", DUMMIES[0]) not in DUMMIES:
                own = asked.made(_known_by(part)) or {"parts": []}
                if _signed(part) not in map(_signed, own["parts"]):
                    yield "Thought signature is not valid."


def _signed(part: Json) -> tuple[Any, str]:
    """Return a part's call and signature, which base64 may write in two alphabets."""
    return part.get("functionCall"), part.get("thoughtSignature", "").translate(str.maketrans("-_", "+/", "="))


def calls_have_their_responses(asked: Asked) -> Problems:
    """The content after function calls has as many responses, with the names and ids of the calls.
    https://ai.google.dev/gemini-api/docs/function-calling#parallel_function_calling
    """
    waiting: list[Json] = []
    for content in [*_contents(asked.body), {"parts": []}]:
        given = _with(content, "functionResponse")
        if len(given) != len(waiting):
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call"
                " parts of the function call turn."
            )
        for one, call in zip(given, waiting, strict=False):
            if (one["name"], one.get("id")) != (call["name"], call.get("id")):
                yield f"Function response {one['name']} {one.get('id')} is not of the call {call['name']}"
            if not isinstance(one.get("response"), dict):
                yield "Invalid value at 'function_response.response' (type.googleapis.com/google.protobuf.Struct)"
        waiting = _with(content, "functionCall")


def roles_alternate(asked: Asked) -> Problems:
    """The user speaks first and last, in turn with the model, and no content is empty.
    https://ai.google.dev/gemini-api/docs/troubleshooting
    """
    before = "model"
    for content in _contents(asked.body):
        role = content.get("role", "user")
        if role not in ("user", "model"):
            yield "Please use a valid role: user, model."
        if not content.get("parts"):
            yield "Unable to submit request because it must include at least one parts field"
        if before == role:
            yield "Please ensure that multiturn requests alternate between user and model."
        before = role
    if before == "model":
        yield "Please ensure that single turn requests end with a user role or the role field is empty."


def fields_are_known(asked: Asked) -> Problems:
    """Unknown fields are refused, in the configuration and in parts as well.
    https://ai.google.dev/api/generate-content
    """
    body = _camel(asked.body)
    places = [("", body, _BODY), ("generation_config", body.get("generationConfig", {}), _CONFIG)]
    for at, content in enumerate(body["contents"]):
        places += [(f"contents[{at}].parts[{number}]", part, _PART) for number, part in enumerate(content["parts"])]
    for place, given, known in places:
        for name in find_unknown_names(given, known):
            yield f"Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find field."


def schemas_are_of_its_subset(asked: Asked) -> Problems:
    """`parameters` take a subset of OpenAPI's schema: one type, an array has items, an enum texts.
    https://ai.google.dev/api/caching#Schema
    """
    for number, declared in enumerate(_declared(asked.body)):
        for problem in _refused(declared.get("parameters")):
            place = f"tools[0].function_declarations[{number}].parameters"
            yield f"Invalid JSON payload received. {problem} at '{place}': Cannot find field."


def _refused(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        kind = str(schema.get("type", "")).lower()
        yield from (f'Unknown name "{name}"' for name in schema if name in _UNSUPPORTED.split())
        if isinstance(schema.get("type"), list):
            yield "Proto field is not repeating, cannot start list: type"
        if kind == "array" and "items" not in schema:
            yield "items: missing field."
        if "enum" in schema and kind != "string":
            yield "enum: only allowed for STRING type"
        for inner in [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", [])]:
            yield from _refused(inner)


def calls_have_no_ids(asked: Asked) -> Problems:
    """Vertex has no ids of function calls and responses, and refuses those of others.
    https://github.com/pydantic/pydantic-ai/issues/5081
    """
    for at, content in enumerate(_contents(asked.body)):
        for number, part in enumerate(content["parts"]):
            if any("id" in part.get(name, {}) for name in ("functionCall", "functionResponse")):
                yield f"Invalid JSON payload received. Unknown name \"id\" at 'contents[{at}].parts[{number}]'"


def thinking_is_configured_once(asked: Asked) -> Problems:
    """Gemini 3 takes a `thinkingLevel`, older models a `thinkingBudget`, and none takes both.
    https://ai.google.dev/gemini-api/docs/thinking
    """
    config = _thinking(asked.body)
    if "thinkingLevel" in config and "thinkingBudget" in config:
        yield "You can only set only one of thinking budget and thinking level."
    if "thinkingLevel" in config and "loose" in asked.traits:
        yield "Thinking level is not supported for this model."


RULES = make_rules(
    fields_are_known, calls_have_their_responses, roles_alternate, signatures_come_back, signatures_are_valid,
    schemas_are_of_its_subset, thinking_is_configured_once,
)  # fmt: skip
FAILURES = read_failures("""
    too_long | 400 | INVALID_ARGUMENT | The input token count (9) exceeds the maximum number of tokens allowed (8).
    rate | 429 | RESOURCE_EXHAUSTED | You exceeded your current quota, please check your plan and billing details.
    unavailable | 503 | UNAVAILABLE | The model is overloaded. Please try again later.
    unknown_model | 404 | NOT_FOUND | models/no-such-model is not found for API version v1beta
    wrong_key | 400 | INVALID_ARGUMENT | API key not valid. Please pass a valid API key.
""")
_NO_TOKEN = read_failures("wrong_key | 401 | UNAUTHENTICATED | Request had invalid authentication credentials.")
_MODELS = {"gemini-3.1-pro-preview": "", "gemini-3.8-flash": "", "gemini-2.5-flash": "loose"}
_REFUSAL = (400, "INVALID_ARGUMENT")
_PATH = r"models/(?P<model>[^/:]+):(streamG|g)enerateContent"
_AT_VERTEX = rf"/v1(beta1)?/projects/[\w-]+/locations/[\w-]+/publishers/google/{_PATH}"
VENDORS = (
    Vendor(
        "gemini", "/v1beta", f"/v1(beta|alpha)?/{_PATH}", GENERATE_CONTENT, _MODELS, RULES, FAILURES, _REFUSAL,
        "x-goog-api-key authorization",
    ),
    Vendor(
        "vertex", "/v1/projects/a-project/locations/global", _AT_VERTEX, WITHOUT_IDS, _MODELS,
        (*make_rules(calls_have_no_ids), *RULES), {**FAILURES, **_NO_TOKEN}, _REFUSAL, "authorization x-goog-api-key",
    ),
)  # fmt: skip
