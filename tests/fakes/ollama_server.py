"""A server that speaks Ollama's documented wire format: chat, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .scripted_server import Answer, Request, ScriptedServer, bearer, failure, is_picture, words

_KNOWN = {"model", "messages", "stream", "format", "options", "tools", "keep_alive", "think"}
_OPTIONS = {"temperature", "stop", "num_predict", "num_ctx", "seed", "top_p", "top_k"}
_OPTIONS |= {"min_p", "presence_penalty", "frequency_penalty"}


def ollama_server() -> ScriptedServer:
    """A server that has one model, and refuses what it does not know."""
    return ScriptedServer(_Ollama(), "ollama")


class _Ollama:
    stream_type = "application/x-ndjson"

    def key(self, request: Request) -> str:
        return bearer(request)

    def page(self, path: str) -> Answer:
        if path == "/api/tags":
            return Answer(body=json.dumps({"models": [{"name": "fake-model", "model": "fake-model", "size": 1}]}))
        return failure(404, f"GET {path}")

    def problem(self, request: Request) -> Answer | None:
        if request.path != "/api/chat":
            return failure(404, f"POST {request.path}")
        wrong = next(_wrong(request.body), "")
        return failure(400, wrong) if wrong else None

    def error(self, answer: Answer) -> Any:
        return {"error": answer.error}

    def stops(self, body: Mapping[str, Any]) -> Sequence[str]:
        found: Sequence[str] = body.get("options", {}).get("stop", [])
        return found

    def whole(self, request: Request, answer: Answer) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or ""}
        if answer.calls:
            message["tool_calls"] = [_call(name, given) for name, given in answer.calls]
        if not answer.choices:
            return {"model": request.body["model"]}
        return _part(request.body, message, answer) | _end(request.body, answer)

    def events(self, request: Request, answer: Answer) -> Iterator[bytes]:
        for event in _events(request.body, answer):
            yield (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n"


def _wrong(body: Mapping[str, Any]) -> Iterator[str]:
    if not {"model", "messages"} <= set(body):
        yield "model and messages are required"
    for name in sorted(set(body) - _KNOWN):
        yield f"unknown field '{name}'"
    for name in sorted(set(body.get("options", {})) - _OPTIONS):
        yield f"unknown option '{name}'"
    if "format" in body and not isinstance(body["format"], dict):
        yield "invalid format"
    for tool in body.get("tools", []):
        if tool["type"] != "function" or "parameters" not in tool["function"]:
            yield "invalid tool"
    yield from _wrong_messages(body["messages"])


def _wrong_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    waiting = 0
    for message in messages:
        if message["role"] not in ("system", "user", "assistant", "tool") or not isinstance(message["content"], str):
            yield "invalid message"
        if not all(map(is_picture, message.get("images", []))):
            yield "invalid image"
        if message["role"] == "tool":
            waiting -= 1
            if waiting < 0 or not message.get("tool_name"):
                yield "a tool's result without its call"
        elif waiting:
            yield "a call without its result"
        calls = message.get("tool_calls", [])
        waiting += len(calls)
        if not all(isinstance(call["function"]["arguments"], dict) for call in calls):
            yield "json: cannot unmarshal string into Go struct field .arguments"


def _call(name: str, given: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": given}}


def _part(body: Mapping[str, Any], message: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    head = {"model": body["model"], "created_at": "2025-01-01T00:00:00Z", **answer.extra}
    return head | {"message": message, "done": False}


def _end(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    if answer.finish is None:
        return {}
    asked = sum(words(message["content"]) for message in body["messages"])
    counts = {"prompt_eval_count": asked, "eval_count": words(answer.text or ""), "total_duration": 1}
    return {"done": True, "done_reason": answer.finish} | (counts if answer.usage else {})


def _events(body: Mapping[str, Any], answer: Answer) -> Iterator[dict[str, Any] | str]:
    if not answer.choices:
        return
    for number, piece in enumerate(answer.pieces):
        yield _part(body, {"role": "assistant", "content": piece}, answer)
        if number == 0:
            yield from [answer.event] * bool(answer.event)
            yield from [{"error": answer.broken}] * bool(answer.broken)
    for name, given in answer.calls:
        yield _part(body, {"role": "assistant", "content": "", "tool_calls": [_call(name, given)]}, answer)
    yield _part(body, {"role": "assistant", "content": ""}, answer) | _end(body, answer)
