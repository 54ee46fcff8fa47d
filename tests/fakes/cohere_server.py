"""A server that speaks Cohere's documented wire format: chat, version 2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .scripted_server import Answer, Request, ScriptedServer, arguments, bearer, cut, failure, words

_KNOWN = {
    *("model", "messages", "max_tokens", "temperature", "stop_sequences", "stream", "tools", "tool_choice"),
    *("response_format", "strict_tools", "p", "k", "seed", "frequency_penalty", "presence_penalty", "safety_mode"),
}
_FINISH = {"stop": "COMPLETE", "length": "MAX_TOKENS"}


def cohere_server() -> ScriptedServer:
    """A server that refuses what Cohere refuses."""
    return ScriptedServer(_Cohere(), "cohere")


class _Cohere:
    stream_type = "text/event-stream"

    def key(self, request: Request) -> str:
        return bearer(request)

    def page(self, path: str) -> Answer:
        return failure(404, f"GET {path}")

    def problem(self, request: Request) -> Answer | None:
        if request.path != "/v2/chat":
            return failure(404, f"POST {request.path}")
        wrong = next(_wrong(request.body), "")
        return failure(400, wrong) if wrong else None

    def error(self, answer: Answer) -> Any:
        return {"id": "1", "message": answer.error}

    def stops(self, body: Mapping[str, Any]) -> Sequence[str]:
        found: Sequence[str] = body.get("stop_sequences", [])
        return found

    def whole(self, request: Request, answer: Answer) -> Any:
        message: dict[str, Any] = {"role": "assistant"}
        if answer.calls:
            message["tool_plan"] = answer.text or ""
            message["tool_calls"] = [_call(at, name, arguments(g)) for at, (name, g) in enumerate(answer.calls)]
        elif answer.text is not None:
            message["content"] = [{"type": "text", "text": answer.text}]
        usage = {"usage": _usage(request.body, answer)} if answer.usage else {}
        if not answer.choices:
            return {"id": "1"} | usage
        return {"id": "1", "message": message, "finish_reason": _finish(answer)} | usage | dict(answer.extra)

    def events(self, request: Request, answer: Answer) -> Iterator[bytes]:
        for event in _events(request.body, answer):
            if isinstance(event, str):
                yield f"event: strange\ndata: {event}\n\n".encode()
            else:
                yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        if answer.done:
            yield b"data: [DONE]\n\n"


# ── what is wrong with a request ─────────────────────────────────────────────────────────────────


def _wrong(body: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({"model", "messages", "stream"} - set(body)):
        yield f"invalid request: {name} is required"
    for name in sorted(set(body) - _KNOWN):
        yield f"unknown field: parameter '{name}' is not a valid field"
    if len(body.get("stop_sequences", [])) > 5:
        yield "invalid request: too many stop sequences, at most 5"
    if "tool_choice" in body and (body["tool_choice"] not in ("REQUIRED", "NONE") or not body.get("tools")):
        yield "invalid request: tool_choice"
    if "response_format" in body and body.get("tools"):
        yield "invalid request: response_format is not supported with tools"
    for tool in body.get("tools", []):
        if tool["type"] != "function" or "parameters" not in tool["function"]:
            yield "invalid request: tools"
    yield from _wrong_messages(body["messages"])


def _wrong_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    for message in messages:
        role = message["role"]
        if role not in ("system", "user", "assistant", "tool"):
            yield f"invalid request: role {role}"
        if role == "tool":
            if message["tool_call_id"] not in waiting or not isinstance(message["content"], str):
                yield "invalid request: tool message without its tool call"
            waiting = [one for one in waiting if one != message["tool_call_id"]]
        elif waiting:
            yield "invalid request: cannot specify message before the results of all tool calls"
        elif message.get("tool_calls"):
            waiting = [call["id"] for call in message["tool_calls"]]
            yield from _wrong_calls(message)
        elif not message["content"]:
            yield "invalid request: message must be at least 1 token long"
    if waiting:
        yield "invalid request: tool calls without results"


def _wrong_calls(message: Mapping[str, Any]) -> Iterator[str]:
    if not all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in message["tool_calls"]):
        yield "invalid request: arguments"
    if set(message) - {"role", "tool_calls", "tool_plan"}:
        yield "invalid request: a message has tool_calls or content"


# ── what is said ─────────────────────────────────────────────────────────────────────────────────


def _finish(answer: Answer) -> str | None:
    if answer.calls and answer.finish == "stop":
        return "TOOL_CALL"
    return None if answer.finish is None else _FINISH[answer.finish]


def _call(at: int, name: str, given: str) -> dict[str, Any]:
    return {"id": f"{name}_{at}", "type": "function", "function": {"name": name, "arguments": given}}


def _usage(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    asked = sum(words(message.get("content", "")) for message in body["messages"])
    tokens = {"input_tokens": asked, "output_tokens": words(answer.text or "")}
    billed = {"input_tokens": 0, "output_tokens": 0}
    return {"billed_units": billed, "tokens": tokens, "cached_tokens": answer.cached}


def _events(body: Mapping[str, Any], answer: Answer) -> Iterator[dict[str, Any] | str]:
    yield {"id": "1", "type": "message-start", "delta": {"message": {"role": "assistant"} | dict(answer.extra)}}
    if not answer.choices:
        return
    yield from _text(answer)
    for at, (name, given) in enumerate(answer.calls):
        yield _event("tool-call-start", at, {"tool_calls": _call(at, name, "")})
        for piece in cut(arguments(given), answer.piece):
            yield _event("tool-call-delta", at, {"tool_calls": {"function": {"arguments": piece}}})
        yield {"type": "tool-call-end", "index": at}
    usage = {"usage": _usage(body, answer)} if answer.usage else {}
    yield {"type": "message-end", "delta": {"finish_reason": _finish(answer)} | usage}


def _text(answer: Answer) -> Iterator[dict[str, Any] | str]:
    if not answer.calls:
        yield _event("content-start", 0, {"content": {"type": "text", "text": ""}})
    for number, piece in enumerate(answer.pieces):
        if answer.calls:
            yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": piece}}}
        else:
            yield _event("content-delta", 0, {"content": {"text": piece}})
        if number == 0:
            yield from [answer.event] * bool(answer.event)
            end = {"finish_reason": "ERROR", "error": answer.broken}
            yield from [{"type": "message-end", "delta": end}] * bool(answer.broken)
    if not answer.calls:
        yield {"type": "content-end", "index": 0}


def _event(kind: str, index: int, message: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}}
