"""A server that speaks Anthropic's documented wire format: the Messages API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .scripted_server import Answer, Request, ScriptedServer, arguments, cut, failure, is_picture, words

_KNOWN = {
    *("model", "messages", "max_tokens", "system", "temperature", "top_p", "top_k", "stop_sequences", "stream"),
    *("tools", "tool_choice", "cache_control", "output_config", "thinking", "metadata", "service_tier"),
}
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_KINDS |= {413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}
_FINISH = {"stop": "end_turn", "length": "max_tokens"}


def anthropic_server() -> ScriptedServer:
    """A server that refuses what Anthropic refuses."""
    return ScriptedServer(_Anthropic(), "anthropic")


class _Anthropic:
    stream_type = "text/event-stream"

    def key(self, request: Request) -> str:
        return request.headers.get("x-api-key", "")

    def page(self, path: str) -> Answer:
        return failure(404, f"GET {path}")

    def problem(self, request: Request) -> Answer | None:
        if request.path != "/v1/messages":
            return failure(404, f"POST {request.path}")
        if request.headers.get("anthropic-version") != "2023-06-01":
            return failure(400, "anthropic-version: header is required")
        wrong = next(_wrong(request.body), "")
        return failure(400, wrong) if wrong else None

    def error(self, answer: Answer) -> Any:
        kind = answer.code or _KINDS.get(answer.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": answer.error}, "request_id": "req_1"}

    def stops(self, body: Mapping[str, Any]) -> Sequence[str]:
        found: Sequence[str] = body.get("stop_sequences", [])
        return found

    def whole(self, request: Request, answer: Answer) -> Any:
        content: list[Any] = [{"type": "text", "text": answer.text}] * bool(answer.text)
        for at, (name, given) in enumerate(answer.calls):
            content.append(_call(at, name) | {"input": json.loads(arguments(given) or "{}")})
        said = {"content": content, "stop_reason": _finish(answer)} if answer.choices else {}
        usage = {"usage": _asked(request.body, answer) | _said(answer)} if answer.usage else {}
        return _message(request.body) | said | usage | dict(answer.extra)

    def events(self, request: Request, answer: Answer) -> Iterator[bytes]:
        for event in _events(request.body, answer):
            if isinstance(event, str):
                yield f"event: strange\ndata: {event}\n\n".encode()
            else:
                yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


# ── what is wrong with a request ─────────────────────────────────────────────────────────────────


def _wrong(body: Mapping[str, Any]) -> Iterator[str]:
    for name in ("model", "messages", "max_tokens"):
        if name not in body:
            yield f"{name}: Field required"
    for name in sorted(set(body) - _KNOWN):
        yield f"{name}: Extra inputs are not permitted"
    if not 0 <= body.get("temperature", 0) <= 1:
        yield "temperature: range: 0..1"
    if any(not word.strip() for word in body.get("stop_sequences", [])):
        yield "stop_sequences: each stop sequence must contain non-whitespace"
    if body.get("system") == "":
        yield "system: text content blocks must be non-empty"
    yield from _wrong_tools(body)
    yield from _wrong_messages(body["messages"])


def _wrong_tools(body: Mapping[str, Any]) -> Iterator[str]:
    if "tool_choice" in body and not body.get("tools"):
        yield "tool_choice: tool_choice may only be specified while providing tools"
    if body.get("tool_choice", {"type": "auto"}).get("type") not in ("auto", "any", "tool", "none"):
        yield "tool_choice: Input tag does not match"
    for at, tool in enumerate(body.get("tools", [])):
        if set(tool) - {"name", "description", "input_schema"} or tool["input_schema"].get("type") != "object":
            yield f"tools.{at}.custom: wrong"
    if body.get("output_config", {}).get("format", {"type": "json_schema"})["type"] != "json_schema":
        yield "output_config.format: wrong"
    if '"tool_use"' in json.dumps(body["messages"]) and not body.get("tools"):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"


def _wrong_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not messages or messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    waiting: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            yield f"messages.{at}.role: Input should be 'user' or 'assistant'"
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        yield from (f"messages.{at}.content: {problem}" for problem in _wrong_blocks(blocks))
        seen = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if seen != waiting:
            yield f"messages.{at}: `tool_use` and `tool_result` blocks do not fit: {waiting ^ seen}"
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
    paused = '"server_tool_use"' in json.dumps(messages[-1:])  # a turn that the model is to go on with
    if messages and messages[-1]["role"] == "assistant" and not paused:
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _wrong_blocks(blocks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not blocks:
        yield "messages must have non-empty content"
    for block in blocks:
        if block["type"] == "text" and not block["text"].strip():
            yield "text content blocks must contain non-whitespace text"
        if block["type"] in ("image", "document"):  # https://docs.anthropic.com/en/docs/build-with-claude/pdf-support
            source, kind = block["source"], "image" if block["type"] == "image" else "pdf"
            wanted = (
                source["media_type"][:6] == "image/" if kind == "image" else source["media_type"] == "application/pdf"
            )
            if source["type"] != "base64" or not wanted or not is_picture(source["data"], kind):
                yield f"{block['type']}.source: Could not process {kind}"
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from (f"tool_result.{problem}" for problem in _wrong_blocks(block["content"]))
        if block["type"] == "tool_use":
            if not isinstance(block["input"], dict):
                yield "tool_use.input: Input should be a valid dictionary"
            if not re.fullmatch(r"[\w-]+", block["id"]):
                yield "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"


# ── what is said ─────────────────────────────────────────────────────────────────────────────────


def _message(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None}


def _finish(answer: Answer) -> str | None:
    if answer.calls and answer.finish == "stop":
        return "tool_use"
    return None if answer.finish is None else _FINISH[answer.finish]


def _call(at: int, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}_{at}", "name": name}


def _asked(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    asked = words(body.get("system", "")) + sum(words(_text(message["content"])) for message in body["messages"])
    new = asked - answer.cached
    return {"input_tokens": new - 1, "cache_creation_input_tokens": 1, "cache_read_input_tokens": answer.cached}


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else [{"text": content}]
    return " ".join(str(block.get("text", block.get("content", ""))) for block in blocks)


def _said(answer: Answer) -> dict[str, Any]:
    return {"output_tokens": words(answer.text or "")}


def _events(body: Mapping[str, Any], answer: Answer) -> Iterator[dict[str, Any] | str]:
    usage = {"usage": _asked(body, answer) | {"output_tokens": 1}} if answer.usage else {}
    head = _message(body) | {"content": [], "stop_reason": None} | usage | dict(answer.extra)
    yield {"type": "message_start", "message": head}
    yield {"type": "ping"}
    if answer.choices:
        yield from _blocks(answer)
        end = {"type": "message_delta", "delta": {"stop_reason": _finish(answer), "stop_sequence": None}}
        yield end | ({"usage": _said(answer)} if answer.usage else {})
    if answer.done:
        yield {"type": "message_stop"}


def _blocks(answer: Answer) -> Iterator[dict[str, Any] | str]:
    if answer.text:
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        for number, piece in enumerate(answer.pieces):
            yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            if number == 0:
                yield from [answer.event] * bool(answer.event)
                error = {"type": "overloaded_error", "message": answer.broken}
                yield from [{"type": "error", "error": error}] * bool(answer.broken)
        yield {"type": "content_block_stop", "index": 0}
    for at, (name, given) in enumerate(answer.calls, bool(answer.text)):
        start = _call(at, name) | {"input": {}}
        yield {"type": "content_block_start", "index": at, "content_block": start}
        for piece in ["", *cut(arguments(given), answer.piece)]:
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
