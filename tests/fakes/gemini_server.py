"""A server that speaks Gemini's documented wire format: `generateContent`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .scripted_server import Answer, Request, ScriptedServer, arguments, failure, is_picture, words

_KNOWN = {"contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig", "cachedContent"}
_CONFIG = {
    *("temperature", "topP", "topK", "seed", "maxOutputTokens", "stopSequences", "presencePenalty"),
    *("frequencyPenalty", "thinkingConfig", "responseMimeType", "responseJsonSchema", "responseModalities"),
}
_PARTS = {"text", "thought", "thoughtSignature", "inlineData", "functionCall", "functionResponse", "executableCode"}
_PARTS |= {"codeExecutionResult", "toolCall", "toolResponse"}
_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_STATUS |= {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", None: None}


def gemini_server() -> ScriptedServer:
    """A server that refuses what Gemini refuses."""
    return ScriptedServer(_Gemini(), "gemini")


class _Gemini:
    stream_type = "text/event-stream"

    def key(self, request: Request) -> str:
        return request.headers.get("x-goog-api-key", "")

    def page(self, path: str) -> Answer:
        return failure(404, f"GET {path}")

    def problem(self, request: Request) -> Answer | None:
        if not re.fullmatch(r"/v1beta/models/[^/]+:(g|streamG)enerateContent", request.path):
            return failure(404, f"POST {request.path}")
        wrong = next(problems(request.body), "")
        return failure(400, wrong) if wrong else None

    def error(self, answer: Answer) -> Any:
        said = {"code": answer.status, "message": answer.error, "status": _STATUS.get(answer.status, "UNKNOWN")}
        return {"error": said}

    def stops(self, body: Mapping[str, Any]) -> Sequence[str]:
        found: Sequence[str] = body.get("generationConfig", {}).get("stopSequences", [])
        return found

    def whole(self, request: Request, answer: Answer) -> Any:
        parts = [{"text": answer.text}] * bool(answer.text)
        return _chunk(request.body, answer, parts + _calls(answer), answer.finish) | dict(answer.extra)

    def events(self, request: Request, answer: Answer) -> Iterator[bytes]:
        body = request.body
        chunks: list[Any] = [_chunk(body, answer, [{"text": piece}], None) for piece in answer.pieces]
        if chunks:
            chunks[1:1] = [answer.event] * bool(answer.event)
            error = {"error": {"code": 503, "message": answer.broken, "status": "UNAVAILABLE"}}
            chunks[1:1] = [error] * bool(answer.broken)
        chunks += [_chunk(body, answer, [call], None) for call in _calls(answer)]
        chunks.append(_chunk(body, answer, [{"text": ""}], answer.finish))
        for chunk in chunks:
            yield f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\r\n\r\n".encode()


# ── what is wrong with a request ─────────────────────────────────────────────────────────────────


def problems(body: Mapping[str, Any]) -> Iterator[str]:
    """What the vendor would say against a request's body."""
    config = body.get("generationConfig", {})
    for name in sorted(set(body) - _KNOWN) + [f"generation_config.{name}" for name in sorted(set(config) - _CONFIG)]:
        yield f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    if len(config.get("stopSequences", [])) > 5:
        yield "Unable to submit request because it has more than 5 stop sequences."
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        yield "responseJsonSchema requires responseMimeType application/json"
    for at, tool in enumerate(body.get("tools", [])):
        for number, function in enumerate(tool.get("functionDeclarations", [])):
            place = f"tools[{at}].function_declarations[{number}]"
            if set(function) - {"name", "description", "parametersJsonSchema"}:
                yield f"Invalid JSON payload received. Unknown name at '{place}': Cannot find field."
            if not re.fullmatch(r"[A-Za-z_][\w.:-]{0,63}", function["name"]):
                yield f"Invalid value at '{place}.name'"
            if function.get("parametersJsonSchema", {"type": "object"})["type"] != "object":
                yield f"{place}.parameters: wrong"
    if "toolConfig" in body and not body.get("tools"):
        yield "Function calling config is set without function_declarations."
    yield from _wrong_contents(body.get("contents") or [])


def _wrong_contents(contents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not contents:
        yield "contents is not specified"
    if [one["role"] for one in contents] != [("user", "model")[at % 2] for at in range(len(contents))]:
        yield "Please ensure that multiturn requests alternate between user and model."
    if len(contents) % 2 == 0:
        yield "Please ensure that single turn requests end with a user role or the role field is empty."
    called: list[Any] = []
    for at, content in enumerate(contents):
        if not content["parts"]:
            yield f"contents[{at}].parts must not be empty."
        yield from (problem for part in content["parts"] if (problem := _wrong_part(part)))
        answered = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        if sorted((one["name"], one.get("id", "")) for one in answered) != sorted(called):
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call parts"
                " of the function call turn."
            )
        called = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        called = [(one["name"], one.get("id", "")) for one in called]


def _wrong_part(part: Mapping[str, Any]) -> str:
    data = set(part) - {"thought", "thoughtSignature"}
    if set(part) - _PARTS or len(data) != 1:
        return f"contents.parts: wrong data in {part!r:.80}"
    if "text" in part and not part["text"] and "thoughtSignature" not in part:
        return "Unable to submit request because it must have a text parameter."
    if "inlineData" in part and not is_picture(part["inlineData"]["data"]):
        return "Unable to process input image."
    if "functionResponse" in part and not isinstance(part["functionResponse"]["response"], dict):
        return "Invalid value at function_response.response"
    if "functionCall" in part and not isinstance(part["functionCall"]["args"], dict):
        return "Invalid value at function_call.args"
    return ""


# ── what is said ─────────────────────────────────────────────────────────────────────────────────


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"name": name, "args": json.loads(arguments(given) or "{}"), "id": f"fc{at}"}}
        | ({"thoughtSignature": f"sig-{name}"} if at == 0 else {})
        for at, (name, given) in enumerate(answer.calls)
    ]


def _chunk(body: Mapping[str, Any], answer: Answer, parts: list[Any], finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = _FINISH[finish]
    asked = sum(
        words(part["text"])
        for one in [*body["contents"], body.get("systemInstruction", {})]
        for part in one.get("parts", ())
        if "text" in part
    )
    usage = {"promptTokenCount": asked, "candidatesTokenCount": words(answer.text or "")}
    usage |= {"cachedContentTokenCount": answer.cached} if answer.cached else {}
    said = {"candidates": [candidate]} if answer.choices else {}
    return said | ({"usageMetadata": usage} if answer.usage else {}) | {"modelVersion": "fake"}
