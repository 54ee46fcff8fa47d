"""Google's Gemini API, `generateContent` and `streamGenerateContent`, as AI Studio and Vertex serve it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .api import Asked, Json, Problems, Turn, Vendor, pieces, rules, seal, sse, unknown

DUMMIES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
FAILURES = {
    "too_long": (400, "INVALID_ARGUMENT", "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
    "rate": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."),
    "unavailable": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "unknown_model": (404, "NOT_FOUND", "models/no-such-model is not found for API version v1beta, or is not supported for generateContent."),
    "wrong_key": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
}  # fmt: skip
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


def camel(value: Any) -> Any:
    """Return JSON with its own names as the API also takes them in snake case; what is the user's stays."""
    if isinstance(value, dict):
        own = ("args", "response", "parametersJsonSchema", "responseJsonSchema", "properties")
        names = {key: re.sub("_([a-z])", lambda found: found[1].upper(), key) for key in value}
        return {names[key]: one if names[key] in own else camel(one) for key, one in value.items()}
    return [camel(one) for one in value] if isinstance(value, list) else value


def _contents(body: Json) -> list[Json]:
    found: list[Json] = camel(body["contents"])
    return found


def _with(contents: Json, name: str) -> list[Json]:
    return [part[name] for part in contents["parts"] if name in part]


def _open(body: Json) -> list[Json]:
    """Return the model's contents since the last one of the user that is not a function response."""
    contents = _contents(body)
    asked = [at for at, one in enumerate(contents) if one.get("role") != "model" and not _with(one, "functionResponse")]
    return [one for one in contents[asked[-1] + 1 if asked else 0 :] if one.get("role") == "model"]


class GenerateContent:
    """The wire format."""

    streamed_as = "text/event-stream"

    def turns(self, body: Json) -> int:
        return len(_open(body))

    def tools(self, body: Json) -> Mapping[str, Json]:
        declared = [one for tool in camel(body.get("tools", [])) for one in tool.get("functionDeclarations", [])]
        return {one["name"]: one.get("parametersJsonSchema") or lower(one.get("parameters") or {}) for one in declared}

    def reply(self, asked: Asked, turn: Turn) -> tuple[Json, Mapping[str, Any]]:
        number = re.sub(r"\W", "", seal(asked.body["contents"]))[:8]
        config = camel(asked.body).get("generationConfig", {}).get("thinkingConfig", {})
        parts: list[Json] = [{"text": turn.thought, "thought": True}] * bool(config.get("includeThoughts"))
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
        return reply, {call["id"]: content for call in _with(content, "functionCall")}

    def stream(self, reply: Json) -> Iterator[bytes]:
        (candidate,) = reply["candidates"]
        bare = {key: value for key, value in candidate.items() if key != "finishReason"}
        texts = [
            [part | {"text": one} for one in pieces(part["text"])]
            for part in candidate["content"]["parts"]
            if part.get("text")
        ]
        rest = [part for part in candidate["content"]["parts"] if not part.get("text")]
        for part in [piece for text in texts for piece in text] + rest[:-1]:
            yield sse(reply | {"candidates": [bare | {"content": {"role": "model", "parts": [part]}}]})
        yield sse(reply | {"candidates": [candidate | {"content": {"role": "model", "parts": rest[-1:]}}]})

    def error(self, status: int, code: str, message: str) -> Any:
        return {"error": {"code": status, "message": message, "status": code}}


def lower(schema: Any) -> Any:
    """Return a schema whose types are written as JSON Schema does."""
    if isinstance(schema, dict):
        return {
            key: str(one).lower() if key == "type" and isinstance(one, str) else lower(one)
            for key, one in schema.items()
        }
    return [lower(one) for one in schema] if isinstance(schema, list) else schema


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
            sent, call = part.get("thoughtSignature"), part.get("functionCall")
            own = asked.issued.get(call.get("id", ""), {"parts": []})["parts"] if call else []
            if call and sent and sent not in DUMMIES and _signed(part) not in map(_signed, own):
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
            if one["name"] != call["name"] or one.get("id") != call.get("id"):
                yield f"Function response {one['name']} {one.get('id')} is not of the call {call['name']} {call.get('id')}"
            if not isinstance(one.get("response"), dict):
                yield "Invalid value at 'function_response.response' (type.googleapis.com/google.protobuf.Struct)"
        waiting = _with(content, "functionCall")


def roles_alternate(asked: Asked) -> Problems:
    """The user speaks first, a call follows the user or a response, no content is empty, and roles are its own.
    https://ai.google.dev/gemini-api/docs/troubleshooting
    """
    before = ""
    for content in _contents(asked.body):
        role = content.get("role", "user")
        if role not in ("user", "model", "function"):
            yield "Please use a valid role: user, model."
        if not content.get("parts"):
            yield "Unable to submit request because it must include at least one parts field"
        if not before and role == "model":
            yield "Please ensure that multiturn requests begin with a user role"
        if before == role:
            yield "Please ensure that multiturn requests alternate between user and model."
        before = role
    if before == "model":
        yield "Please ensure that single turn requests end with a user role or the role field is empty."


def fields_are_known(asked: Asked) -> Problems:
    """Unknown fields are refused, in the configuration and in parts as well.
    https://ai.google.dev/api/generate-content
    """
    body = camel(asked.body)
    places = [("", body, _BODY), ("generation_config", body.get("generationConfig", {}), _CONFIG)]
    for at, content in enumerate(body["contents"]):
        places += [(f"contents[{at}].parts[{number}]", part, _PART) for number, part in enumerate(content["parts"])]
    for place, given, known in places:
        for name in unknown(given, known):
            yield f"Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find field."


def schemas_are_of_its_subset(asked: Asked) -> Problems:
    """`parameters` take a subset of OpenAPI's schema; an object has properties, an array items, an enum texts.
    https://ai.google.dev/api/caching#Schema
    """
    for tool in camel(asked.body.get("tools", [])):
        for number, declared in enumerate(tool.get("functionDeclarations", [])):
            place = f"tools[0].function_declarations[{number}].parameters"
            for problem in _refused(declared.get("parameters")):
                yield f"Invalid JSON payload received. {problem} at '{place}': Cannot find field."


def _refused(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    yield from (f'Unknown name "{name}"' for name in schema if name in _UNSUPPORTED.split())
    if isinstance(schema.get("type"), list):
        yield "Proto field is not repeating, cannot start list: type"
    kind = str(schema.get("type", "")).lower()
    if kind == "array" and "items" not in schema:
        yield "items: missing field."
    if "enum" in schema and kind != "string":
        yield "enum: only allowed for STRING type"
    for inner in [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", [])]:
        yield from _refused(inner)


def thinking_is_configured_once(asked: Asked) -> Problems:
    """Gemini 3 takes a `thinkingLevel`, older models a `thinkingBudget`, and none takes both.
    https://ai.google.dev/gemini-api/docs/thinking
    """
    config = camel(asked.body).get("generationConfig", {}).get("thinkingConfig", {})
    if "thinkingLevel" in config and "thinkingBudget" in config:
        yield "You can only set only one of thinking budget and thinking level."
    if "thinkingLevel" in config and "loose" in asked.traits:
        yield "Thinking level is not supported for this model."


RULES = rules(
    fields_are_known, calls_have_their_responses, roles_alternate, signatures_come_back, signatures_are_valid,
    schemas_are_of_its_subset, thinking_is_configured_once,
)  # fmt: skip
_MODELS = {"gemini-3.1-pro-preview": "", "gemini-3.8-flash": "", "gemini-2.5-flash": "loose"}
_PATH = r"models/(?P<model>[^/:]+):(streamG|g)enerateContent"
_AT_VERTEX = rf"/v1(beta1)?/projects/[\w-]+/locations/[\w-]+/publishers/google/{_PATH}"
VENDORS = (
    Vendor(
        "gemini", "/v1beta", f"/v1(beta|alpha)?/{_PATH}", GenerateContent(), _MODELS, RULES, FAILURES,
        (400, "INVALID_ARGUMENT"), "x-goog-api-key authorization",
    ),
    Vendor(
        "vertex", "/v1/projects/a-project/locations/global", _AT_VERTEX, GenerateContent(), _MODELS, RULES,
        FAILURES | {"wrong_key": (401, "UNAUTHENTICATED", "Request had invalid authentication credentials. Expected OAuth 2 access token")},
        (400, "INVALID_ARGUMENT"), "authorization x-goog-api-key",
    ),
)  # fmt: skip
