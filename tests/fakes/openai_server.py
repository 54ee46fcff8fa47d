"""A server that speaks OpenAI's documented wire format, and fails in the ways that servers fail.

    with OpenAIServer() as server:
        server.replies += ["Hello", failure(429, retry_after="1"), Answer("cut short", cut=100)]
        ... PromptModel(base_url=server.url) ...
        assert server.requests[-1].body["max_tokens"] == 16

Each POST takes the next of `replies`; what was asked is in `requests`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from aiohttp import web

from .loopback import Loopback


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server says next: `text`, and what is unusual about it.

    `piece`: characters in each event of a stream. `cached`: prompt tokens it says it had cached. `body`:
    exactly this instead of a reply. `cut`: how many bytes of the body are sent; `then`: what comes after
    them: the connection is closed, the answer ends as if it were whole, or nothing ever. `pause`: seconds
    before each piece. `event`: a line put into the stream after the first piece of text. `extra`: fields
    that OpenAI does not document. `hang`: nothing is ever said. `drop`: the connection is closed unanswered.
    """

    text: str | None = ""
    finish: str | None = "stop"
    piece: int = 4
    cached: int = 0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    content_type: str = "application/json"
    cut: int | None = None
    then: Literal["close", "end", "hang"] = "close"
    pause: float = 0.0
    event: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    choices: bool = True
    usage: bool = True
    done: bool = True
    hang: bool = False
    drop: bool = False


def failure(status: int, message: str = "no", *, code: str | None = None, retry_after: str | None = None) -> Answer:
    """An error in OpenAI's envelope."""
    error = {"message": message, "type": code or "error", "param": None, "code": code}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Answer(status=status, body=json.dumps({"error": error}), headers=headers)


def html(status: int = 200, text: str = "Bad gateway") -> Answer:
    """A page, as proxies and sign-in portals send."""
    return Answer(status=status, body=f"<html><body><h1>{text}</h1></body></html>", content_type="text/html")


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked. `raw` are the bytes, `body` what they say."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: dict[str, Any]


class OpenAIServer:
    """The server, while its `with` lasts. Its attributes say what kind it is and may be set at any time.

    `url` has no `/v1`. `models`: those it lists; `None`: it has no such page. `owned_by`: by whom they
    are; `None`: it does not say. `tgi`: it describes itself at `/info`. `page`: what every other path
    shows. `api_key`: the key it wants. `unsupported`: parameters it refuses, and what to use instead.
    `honours_stop`: it ends its replies before a stop word. `loading`: how many of the next requests it
    answers with 503, as llama.cpp does while it loads. `sent`: bytes of each body, as if uncut.
    """

    hang: ClassVar[Answer] = Answer(hang=True)

    def __init__(self) -> None:
        self.replies: list[str | Answer] = []
        self.requests: list[Request] = []
        self.sent: list[int] = []
        self.models: list[str] | None = ["fake-model"]
        self.owned_by: str | None = "openai"
        self.tgi = False
        self.page: str | None = None
        self.api_key: str | None = None
        self.unsupported: dict[str, str] = {}
        self.honours_stop = False
        self.loading = 0
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._loopback = Loopback(app)

    @property
    def url(self) -> str:
        """Its address, for `--base-url`."""
        return self._loopback.url

    @property
    def asked(self) -> list[Request]:
        """The requests for a reply, without those that ask what kind of server this is."""
        return [request for request in self.requests if request.method == "POST"]

    def __enter__(self) -> Self:
        self._loopback.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loopback.stop()

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        raw = await http.read()
        request = Request(http.method, http.path, dict(http.headers), raw, json.loads(raw) if raw else {})
        self.requests.append(request)
        if self.api_key is not None and request.headers.get("Authorization") != f"Bearer {self.api_key}":
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            answer = failure(401, f"Incorrect API key provided: {given}.", code="invalid_api_key")
        elif self.loading > 0:
            self.loading -= 1
            answer = failure(503, "Loading model")
        elif http.method == "GET":
            answer = self._page(http.path)
        else:
            answer = self._refusal(request) or self._next()
        return await self._send(http, request, answer)

    def _page(self, path: str) -> Answer:
        if path == "/v1/models" and self.models is not None:
            owner = {} if self.owned_by is None else {"owned_by": self.owned_by}
            listed = [{"id": name, "object": "model", "created": 0, **owner} for name in self.models]
            return Answer(body=json.dumps({"object": "list", "data": listed}))
        if path == "/info" and self.tgi:
            return Answer(body=json.dumps({"model_id": "fake-model", "max_input_tokens": 4096, "version": "3.3.0"}))
        if self.page is not None:
            return Answer(body=self.page, content_type="text/html")
        return failure(404, f"Invalid URL (GET {path})")

    def _refusal(self, request: Request) -> Answer | None:
        if request.path not in ("/v1/completions", "/v1/chat/completions"):
            return failure(404, f"Invalid URL (POST {request.path})")
        for name, instead in self.unsupported.items():
            if name in request.body:
                use = f" Use '{instead}' instead." if instead else ""
                said = f"Unsupported parameter: '{name}' is not supported with this model.{use}"
                return failure(400, said, code="unsupported_parameter")
        return None

    def _next(self) -> Answer:
        if not self.replies:
            return failure(400, "the fake server has no replies left")
        answer = self.replies.pop(0)
        return Answer(answer) if isinstance(answer, str) else answer

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    async def _send(self, http: web.Request, request: Request, answer: Answer) -> web.StreamResponse:
        if answer.hang:
            await self._loopback.closing.wait()
        if answer.hang or answer.drop:
            return _hung_up(http, web.Response())
        streamed = answer.body is None and bool(request.body.get("stream"))
        parts = self._parts(request, answer, streamed=streamed)
        whole = sum(map(len, parts))
        self.sent.append(whole)
        size = whole if answer.cut is None else min(answer.cut, whole)
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        response.content_type = "text/event-stream" if streamed else answer.content_type
        if not streamed:
            response.content_length = size if answer.then == "end" else whole
        await response.prepare(http)
        left = size
        for part in parts:
            if answer.pause:
                await asyncio.sleep(answer.pause)
            await response.write(part[:left])
            left -= min(left, len(part))
        if answer.cut is not None and answer.then == "hang":
            await self._loopback.closing.wait()
        if answer.cut is not None and answer.then != "end":
            return _hung_up(http, response)
        await response.write_eof()
        return response

    def _parts(self, request: Request, answer: Answer, *, streamed: bool) -> list[bytes]:
        if answer.body is not None:
            return [answer.body.encode()]
        if self.honours_stop and answer.text is not None:
            answer = _stopped(answer, request.body.get("stop", []))
        chat = request.path == "/v1/chat/completions"
        if not streamed:
            return [json.dumps(_whole(request.body, answer, chat=chat)).encode()]
        return [f"data: {data}\n\n".encode() for data in _events(request.body, answer, chat=chat)]


def _hung_up(http: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    if http.transport is not None:
        http.transport.close()
    return response


def _stopped(answer: Answer, stop: str | Sequence[str]) -> Answer:
    text = answer.text or ""
    found = [at for word in ([stop] if isinstance(stop, str) else stop) if (at := text.find(word)) >= 0]
    return Answer(text[: min(found)], piece=answer.piece, cached=answer.cached) if found else answer


# ── OpenAI's format ──────────────────────────────────────────────────────────────────────────────


def _object(body: Mapping[str, Any], kind: str, answer: Answer, choices: list[Any]) -> dict[str, Any]:
    head = {"id": "reply-1", "object": kind, "created": 1_700_000_000, "model": body.get("model", "fake-model")}
    return {**head, **answer.extra, "choices": choices if answer.choices else []}


def _usage(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Words stand for tokens."""
    prompt = body.get("prompt") or " ".join(str(message["content"]) for message in body.get("messages", ()))
    asked, said = len(prompt.split()), len((answer.text or "").split())
    counts = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return {**counts, "prompt_tokens_details": {"cached_tokens": answer.cached, "audio_tokens": 0}}


def _whole(body: Mapping[str, Any], answer: Answer, *, chat: bool) -> dict[str, Any]:
    message = {"message": {"role": "assistant", "content": answer.text, "refusal": None}}
    said: dict[str, Any] = message if chat else {"text": answer.text}
    choice = {"index": 0, **said, "logprobs": None, "finish_reason": answer.finish}
    whole = _object(body, "chat.completion" if chat else "text_completion", answer, [choice])
    return whole | ({"usage": _usage(body, answer)} if answer.usage else {})


def _events(body: Mapping[str, Any], answer: Answer, *, chat: bool) -> Iterator[str]:
    text = answer.text or ""
    pieces = [text[at : at + answer.piece] for at in range(0, len(text), answer.piece)]

    def event(said: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish}
        return json.dumps(_object(body, "chat.completion.chunk" if chat else "text_completion", answer, [choice]))

    if chat:
        yield event({"delta": {"role": "assistant", "content": "" if answer.text is not None else None}})
    for number, piece in enumerate(pieces):
        yield event({"delta": {"content": piece}} if chat else {"text": piece})
        if answer.event and number == 0:
            yield answer.event
    yield event({"delta": {}} if chat else {"text": ""}, answer.finish)
    if answer.usage and body.get("stream_options", {}).get("include_usage"):
        yield json.dumps(_object(body, "usage", answer, []) | {"usage": _usage(body, answer)})
    if answer.done:
        yield "[DONE]"
