"""A server that speaks OpenAI's documented wire format, and the variants of it that other servers speak.

    with OpenAIServer() as server:
        server.replies += ["Hello", failure(429, retry_after="1"), Answer("cut short", cut=100)]
        ... PromptModel(base_url=server.url) ...
        assert server.requests[-1].body["max_tokens"] == 16

Each POST takes the next of `replies`; what was asked is in `requests`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .scripted_server import Answer, Request, ScriptedServer, arguments, bearer, cut, failure, html, words, wrong_parts

__all__ = ["Answer", "OpenAIServer", "Request", "failure", "html"]

_CHAT, _COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_KNOWN = {
    *("model", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "stream"),
    *("stream_options", "response_format", "messages", "prompt", "tools", "tool_choice", "parallel_tool_calls"),
    *("frequency_penalty", "presence_penalty", "logprobs", "n", "user"),
}
_OWN = {"llamacpp": {"grammar", "cache_prompt"}, "vllm": {"structured_outputs"}}  # fields of theirs alone


class OpenAIServer(ScriptedServer):
    """The server, while its `with` lasts. Its attributes say what kind it is and may be set at any time.

    `url` has no `/v1`. `models`: those it lists; `None`: it has no such page. `owned_by`: by whom they
    are; `None`: it does not say. `tgi`: it describes itself at `/info`. `window`: the tokens of the model's
    window, for the kinds that say so. `page`: what every other path shows. `strict`: it refuses fields that
    are not of its kind. See `ScriptedServer` for the rest.
    """

    def __init__(self, engine: str = "openai") -> None:
        super().__init__(_OpenAI(self), engine)
        self.models: list[str] | None = ["fake-model"]
        self.owned_by: str | None = "openai"
        self.tgi = False
        self.window: int | None = None
        self.page: str | None = None
        self.strict = False


class _OpenAI:
    stream_type = "text/event-stream"

    def __init__(self, server: OpenAIServer) -> None:
        self._server = server

    def key(self, request: Request) -> str:
        return bearer(request)

    def page(self, path: str) -> Answer:
        server = self._server
        if path == "/v1/models" and server.models is not None:
            owner: dict[str, Any] = {} if server.owned_by is None else {"owned_by": server.owned_by}
            if server.owned_by == "vllm":
                owner["max_model_len"] = server.window
            listed = [{"id": name, "object": "model", "created": 0, **owner} for name in server.models]
            return Answer(body=json.dumps({"object": "list", "data": listed}))
        if path == "/props" and server.owned_by == "llamacpp":
            props = {"default_generation_settings": {"n_ctx": server.window}, "total_slots": 1}
            return Answer(body=json.dumps(props | {"modalities": {"vision": server.sees, "audio": False}}))
        if path == "/info" and server.tgi:
            about = {"model_id": "fake-model", "max_input_tokens": 4096, "version": "3.3.0"}
            return Answer(body=json.dumps(about | {"max_total_tokens": server.window}))
        if server.page is not None:
            return Answer(body=server.page, content_type="text/html")
        return failure(404, f"Invalid URL (GET {path})")

    def problem(self, request: Request) -> Answer | None:
        if request.path not in (_CHAT, _COMPLETIONS):
            return failure(404, f"Invalid URL (POST {request.path})")
        body, chat = request.body, request.path == _CHAT
        needed = {"model", "messages" if chat else "prompt"}
        if not needed <= set(body):
            return failure(400, f"Missing required parameter: {sorted(needed - set(body))}")
        unknown = set(body) - _KNOWN - _OWN.get(self._server.owned_by or "", set())
        if not chat:
            unknown |= {"messages", "tools", "tool_choice"} & set(body)
        if self._server.strict and unknown:
            return failure(400, f"Unrecognized request argument supplied: {', '.join(sorted(unknown))}")
        wrong = next((_wrong_messages(body["messages"]) if chat else iter(())), "") or _wrong_tools(body)
        return failure(400, wrong, code="invalid_request_error") if wrong else None

    def error(self, answer: Answer) -> Any:
        return {"error": {"message": answer.error, "type": answer.code or "error", "param": None, "code": answer.code}}

    def stops(self, body: Mapping[str, Any]) -> Sequence[str]:
        stop = body.get("stop", [])
        return [stop] if isinstance(stop, str) else stop

    def whole(self, request: Request, answer: Answer) -> Any:
        chat = request.path == _CHAT
        calls = [_call(at, name, arguments(given)) for at, (name, given) in enumerate(answer.calls)]
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
        if calls:
            message |= {"content": answer.text or None, "tool_calls": calls}
        message |= {"reasoning_content": answer.reasoning} if answer.reasoning else {}
        said: dict[str, Any] = {"message": message} if chat else {"text": answer.text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": _finish(answer)}
        whole = _object(request.body, "chat.completion" if chat else "text_completion", answer, [choice])
        return whole | ({"usage": _usage(request.body, answer)} if answer.usage else {})

    def events(self, request: Request, answer: Answer) -> Iterator[bytes]:
        for data in _events(request.body, answer, chat=request.path == _CHAT):
            yield f"data: {data}\n\n".encode()


# ── what is wrong with a request ─────────────────────────────────────────────────────────────────


def _wrong_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"messages.[{at}].role: a 'tool' message must follow a message with its 'tool_calls'"
            waiting = [one for one in waiting if one != message.get("tool_call_id")]
        elif waiting:
            yield f"'tool_calls' must be followed by tool messages; missing: {', '.join(waiting)}"
        if role not in ("system", "user", "assistant", "tool"):
            yield f"Invalid value: {role!r}"
        content = message.get("content")
        if not isinstance(content, str) and not message.get("tool_calls") and (role != "user" or wrong_parts(content)):
            yield f"Invalid type for 'messages[{at}].content'"
        for call in message.get("tool_calls", ()):
            waiting.append(call["id"])
            if call["type"] != "function" or not isinstance(json.loads(call["function"]["arguments"]), dict):
                yield f"Invalid 'messages[{at}].tool_calls'"
    if waiting:
        yield f"'tool_calls' must be followed by tool messages; missing: {', '.join(waiting)}"


def _wrong_tools(body: Mapping[str, Any]) -> str:
    tools = body.get("tools", [])
    for at, tool in enumerate(tools):
        function = tool.get("function", {})
        if tool.get("type") != "function" or not function.get("name") or "parameters" not in function:
            return f"Invalid 'tools[{at}]'"
    if "tool_choice" in body and not tools:
        return "'tool_choice' is only allowed when 'tools' are specified."
    if body.get("tool_choice", "auto") not in ("auto", "required", "none"):
        return f"Invalid value for 'tool_choice': {body['tool_choice']!r}"
    return "Invalid type for 'tools'" if tools == [] and "tools" in body else ""


# ── what is said ─────────────────────────────────────────────────────────────────────────────────


def _object(body: Mapping[str, Any], kind: str, answer: Answer, choices: list[Any]) -> dict[str, Any]:
    head = {"id": "reply-1", "object": kind, "created": 1_700_000_000, "model": body.get("model", "fake-model")}
    return {**head, **answer.extra, "choices": choices if answer.choices else []}


def _finish(answer: Answer) -> str | None:
    return "tool_calls" if answer.calls and answer.finish == "stop" else answer.finish


def _call(at: int, name: str, given: str) -> dict[str, Any]:
    return {"id": f"call_{name}_{at}", "type": "function", "function": {"name": name, "arguments": given}}


def _usage(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    prompt = body.get("prompt") or " ".join(str(message["content"]) for message in body.get("messages", ()))
    asked, said = words(prompt), words(answer.text or "")
    thought = words(answer.reasoning)
    counts: dict[str, Any] = {"prompt_tokens": asked, "completion_tokens": said + thought}
    counts |= {"total_tokens": asked + said + thought}
    counts |= {"completion_tokens_details": {"reasoning_tokens": thought}} if thought else {}
    return {**counts, "prompt_tokens_details": {"cached_tokens": answer.cached, "audio_tokens": 0}}


def _events(body: Mapping[str, Any], answer: Answer, *, chat: bool) -> Iterator[str]:
    def event(said: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish}
        return json.dumps(_object(body, "chat.completion.chunk" if chat else "text_completion", answer, [choice]))

    if chat:
        yield event({"delta": {"role": "assistant", "content": "" if answer.text is not None else None}})
    for piece in cut(answer.reasoning, answer.piece):
        yield event({"delta": {"reasoning_content": piece, "content": None}})
    for number, piece in enumerate(answer.pieces):
        yield event({"delta": {"content": piece}} if chat else {"text": piece})
        if number == 0:
            yield from [answer.event] * bool(answer.event)
            yield from [json.dumps({"error": {"message": answer.broken, "code": 503}})] * bool(answer.broken)
    for at, (name, given) in enumerate(answer.calls):
        yield event({"delta": {"tool_calls": [{"index": at} | _call(at, name, "")]}})
        for piece in cut(arguments(given), answer.piece):
            yield event({"delta": {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}})
    yield event({"delta": {}} if chat else {"text": ""}, _finish(answer))
    if answer.usage and body.get("stream_options", {}).get("include_usage"):
        yield json.dumps(_object(body, "usage", answer, []) | {"usage": _usage(body, answer)})
    if answer.done:
        yield "[DONE]"
