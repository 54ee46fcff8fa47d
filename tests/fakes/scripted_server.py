"""What the stand-ins for model vendors share: what they are told to say, and the ways in which servers fail.

    with AnthropicServer() as server:
        server.replies += ["Hello", Answer(calls=[("add", {"a": 1})]), failure(429, retry_after="1")]
        ...
        assert server.asked[-1].body["max_tokens"] == 16

Each POST takes the next of `replies`, whatever the vendor; what was asked is in `asked`. The formats
are in the files beside this one; `engines.py` starts any of them by the engine's name.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, Self

from aiohttp import web

from retinue.models.known_servers import LEARNED, PROBED

from .loopback import Loopback


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server says next: `text`, the `calls` of tools it makes, and what is unusual about it.

    `calls`: names and inputs; an input that is a text is sent as the arguments as it is. `finish`: `stop`
    (which a reply with calls says in the vendor's word for it), `length`, or `None` for no reason at all.
    `piece`: characters in each event of a stream. `cached`: prompt tokens it says it had cached. `error`:
    an error in the vendor's envelope, with `status` and `code`. `body`: exactly these bytes instead of a reply,
    each part in a write of its own; `sse` makes them of events.
    `cut`: how many bytes of the body are sent; `then`: what comes after them: the connection is closed, the
    answer ends as if it were whole, or nothing ever. `pause`: seconds before each piece. `event`: put into
    the stream, as it is, after the first piece of text; `broken`: an error reported there in the vendor's
    form. `extra`: fields that nobody documents. `choices`: whether anything is said at all. `reasoning`: what it
    thought before, as DeepSeek and others tell it. `hang`: nothing ever comes. `drop`: the connection is closed
    unanswered.
    """

    text: str | None = ""
    calls: Sequence[tuple[str, Any]] = ()
    finish: str | None = "stop"
    piece: int = 4
    cached: int = 0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    code: str | None = None
    body: str | bytes | Sequence[bytes] | None = None
    content_type: str = "application/json"
    cut: int | None = None
    then: Literal["close", "end", "hang"] = "close"
    pause: float = 0.0
    event: str = ""
    broken: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    choices: bool = True
    usage: bool = True
    done: bool = True
    reasoning: str = ""
    hang: bool = False
    drop: bool = False

    @property
    def pieces(self) -> list[str]:
        """Its text, cut as it is streamed."""
        return cut(self.text or "", self.piece)


def cut(text: str, size: int) -> list[str]:
    """`text` in pieces of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


_MAGIC = {
    "image": (b"\x89PNG", b"\xff\xd8", b"GIF8", b"RIFF"),
    "pdf": (b"%PDF-",),
    "audio": (b"RIFF", b"ID3", b"\xff\xfb"),
}


def is_picture(encoded: Any, kind: str = "image") -> bool:
    """Whether this is a picture, or another `kind` of file, in base64, as models want it."""
    try:
        return base64.b64decode(encoded, validate=True).startswith(_MAGIC[kind])
    except (TypeError, ValueError):
        return False


def wrong_parts(content: Any) -> str:
    """What is wrong with a content in OpenAI's form: a text, or parts that are texts, images, PDFs and sounds
    (https://platform.openai.com/docs/api-reference/chat/create)."""
    for part in [] if isinstance(content, str) else content or [{}]:
        match part:
            case {"type": "text", "text": str(text)}:
                fine = bool(text)
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                head, _, encoded = url.partition(";base64,")
                fine = head.startswith("data:image/") and is_picture(encoded)
            case {"type": "file", "file": {"filename": str(name), "file_data": str(url)}}:
                head, _, encoded = url.partition(";base64,")
                fine = bool(name) and head == "data:application/pdf" and is_picture(encoded, "pdf")
            case {"type": "input_audio", "input_audio": {"data": data, "format": "wav" | "mp3"}}:
                fine = is_picture(data, "audio")
            case _:
                fine = False
        if not fine:
            return f"Invalid content part: {part!r:.80}"
    return ""


def arguments(given: Any) -> str:
    """A call's input as the text that is sent for it."""
    return given if isinstance(given, str) else json.dumps(given)


def sse(*events: Any, content_type: str = "text/event-stream", end: str = "\n\n", **more: Any) -> Answer:
    """A stream of exactly these events: bytes as they are, a text as data, anything else as JSON."""
    parts = [
        one if isinstance(one, bytes) else f"data: {one if isinstance(one, str) else json.dumps(one)}{end}".encode()
        for one in events
    ]
    return Answer(body=parts, content_type=content_type, **more)


def failure(status: int, message: str = "no", *, code: str | None = None, retry_after: str | None = None) -> Answer:
    """An error in the vendor's envelope."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Answer(status=status, error=message, code=code, headers=headers)


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

    @property
    def flat(self) -> dict[str, Any]:
        """The body, with what some vendors want in an object of its own beside the rest."""
        return {**self.body, **self.body.get("options", {}), **self.body.get("generationConfig", {})}


class Format(Protocol):
    """One vendor's wire format, from the server's side."""

    stream_type: str

    def key(self, request: Request) -> str:
        """The key in the request's headers; empty if there is none."""
        ...

    def page(self, path: str) -> Answer:
        """What a GET shows."""
        ...

    def problem(self, request: Request) -> Answer | None:
        """What the vendor would say against the request."""
        ...

    def error(self, answer: Answer) -> Any:
        """The JSON of an error."""
        ...

    def whole(self, request: Request, answer: Answer) -> Any:
        """The JSON of a reply that is not streamed."""
        ...

    def events(self, request: Request, answer: Answer) -> Iterator[bytes]:
        """The stream of a reply, event by event."""
        ...

    def stops(self, body: Mapping[str, Any]) -> Sequence[str]:
        """The stop words in a request."""
        ...


class ScriptedServer:
    """The server, while its `with` lasts. Its attributes may be set at any time.

    `api_key`: the key it wants. `unsupported`: parameters it refuses, and what to use instead.
    `honours_stop`: it ends its replies before a stop word. `loading`: how many of the next requests it
    answers with 503. `sent`: bytes of each body, as if uncut. `engine`: the engine it stands in for.
    `always`: what it says to a request when there are no `replies`. `sees`: whether its model can be sent images.
    """

    hang: ClassVar[Answer] = Answer(hang=True)

    def __init__(self, format: Format, engine: str) -> None:  # noqa: A002
        self.replies: list[str | Answer] = []
        self.requests: list[Request] = []
        self.sent: list[int] = []
        self.api_key: str | None = None
        self.unsupported: dict[str, str] = {}
        self.honours_stop = False
        self.sees = False
        self.loading = 0
        self.always: Callable[[Request], Answer] | None = None
        self.engine = engine
        self._format = format
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._loopback = Loopback(app)

    @property
    def url(self) -> str:
        """Its address, for `--base-url`."""
        return self._loopback.url

    @property
    def asked(self) -> list[Request]:
        """The requests for a reply, without those that ask what kind of server this is."""
        return [one for one in self.requests if one.method == "POST" and one.path != "/api/show"]

    def __enter__(self) -> Self:
        self._loopback.start()
        for known in (PROBED, LEARNED):  # of another server, at this port
            for key in [key for key in known if key[0].startswith(self.url)]:
                del known[key]
        return self

    def __exit__(self, *_: object) -> None:
        self._loopback.stop()

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        raw = await http.read()
        request = Request(http.method, http.path, dict(http.headers), raw, json.loads(raw) if raw else {})
        self.requests.append(request)
        given = self._format.key(request)
        if self.api_key is not None and given != self.api_key:
            answer = failure(401, f"Incorrect API key provided: {given}.", code="invalid_api_key")
        elif self.loading > 0:
            self.loading -= 1
            answer = failure(503, "Loading model")
        elif http.method == "GET":
            answer = self._format.page(http.path)
        elif http.path == "/api/show" and self.engine == "ollama":
            told = ["completion", "tools", *["vision"] * self.sees]
            answer = Answer(body=json.dumps({"details": {"family": "fake"}, "capabilities": told}))
        else:
            answer = self._unsupported(request) or self._format.problem(request) or self._next(request)
        return await self._send(http, request, answer)

    def _unsupported(self, request: Request) -> Answer | None:
        for name, instead in self.unsupported.items():
            if name in request.flat:
                use = f" Use '{instead}' instead." if instead else ""
                said = f"Unsupported parameter: '{name}' is not supported with this model.{use}"
                return failure(400, said, code="unsupported_parameter")
        return None

    @property
    def connections(self) -> int:
        """How many are open at this moment."""
        return self._loopback.connections

    def _next(self, request: Request) -> Answer:
        if not self.replies and self.always is not None:
            return self.always(request)
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
        streamed = answer.body is None and answer.error is None and self._is_streamed(request)
        parts = self._parts(request, answer, streamed=streamed)
        whole = sum(map(len, parts))
        self.sent.append(whole)
        size = whole if answer.cut is None else min(answer.cut, whole)
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        response.content_type = self._format.stream_type if streamed else answer.content_type
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

    def _is_streamed(self, request: Request) -> bool:
        """Gemini's path says it; Ollama streams unless it is told not to; all others the other way round."""
        if self.engine == "gemini":
            return request.path.endswith(":streamGenerateContent")
        return bool(request.body.get("stream", self._format.stream_type == "application/x-ndjson"))

    def _parts(self, request: Request, answer: Answer, *, streamed: bool) -> list[bytes]:
        if answer.body is not None:
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            return [body] if isinstance(body, bytes) else list(body)
        if answer.error is not None:
            return [json.dumps(self._format.error(answer)).encode()]
        if self.honours_stop and answer.text is not None:
            answer = _stopped(answer, self._format.stops(request.body))
        if not streamed:
            return [json.dumps(self._format.whole(request, answer)).encode()]
        return list(self._format.events(request, answer))


def _hung_up(http: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    if http.transport is not None:
        http.transport.close()
    return response


def _stopped(answer: Answer, stop: Sequence[str]) -> Answer:
    text = answer.text or ""
    found = [at for word in stop if (at := text.find(word)) >= 0]
    return replace(answer, text=text[: min(found)]) if found else answer


def words(text: Any) -> int:
    """Words stand for tokens."""
    return len((text if isinstance(text, str) else json.dumps(text)).split())


def bearer(request: Request) -> str:
    """The key of an `Authorization` header."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ")
