"""The `openai` engine: any server that speaks OpenAI's completions or chat completions."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from ..errors import ModelRefused, ModelUnavailable
from ..events import Delta
from ..ports import Chunks
from ..prompt import Ask, Known
from ..schema import Abilities, Message, Reply, Usage
from .dialects import DEFAULT_API, DIALECTS, HOLD_TO_PATTERN, recognise
from .http import HttpClient
from .retrying import retrying
from .settings import Api, Settings, TimeLimits
from .stopping import StopCutter

OPENAI = "https://api.openai.com/v1"
_COMPLETION_MODELS = ("text-", "davinci", "babbage", "curie", "ada", "gpt-3.5-turbo-instruct")
_DISPENSABLE = ("stop", "temperature", "stream_options", "response_format", "structured_outputs", "grammar")
_MAX_TOKENS = 1024


class OpenAIEngine:
    """One model at one server. What the server's kind is, and what it refuses, is found out once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = HttpClient(
            _with_version(settings.base_url or OPENAI), settings.api_key, settings.limits or TimeLimits()
        )
        self._dialect = settings.dialect or ("" if settings.base_url else "openai")
        self._model = settings.model
        self._refused: set[str] = set()
        self._encoded: Known[bytes] = Known()
        if self._dialect and self._dialect not in DIALECTS:
            raise ModelRefused(f"no dialect {self._dialect!r}; there are: {', '.join(DIALECTS)}")

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model or self._client.base_url

    async def abilities(self, *, native: bool = False) -> Abilities:
        """What the server can do. Raises `ModelError`."""
        if not self._dialect or not self._model:
            dialect, first = await recognise(self._client)
            self._dialect = self._dialect or dialect
            self._model = self._model or first
            if not self._model:
                raise ModelRefused(f"{self._client.base_url} lists no models; say which one to use")
        return Abilities(constrains=self._dialect in HOLD_TO_PATTERN)

    async def reply(self, request: Ask) -> Chunks:
        """The reply as it arrives; the last item is the whole `Reply`. Raises `ModelError`."""
        async with aclosing(retrying(lambda: self._accepted(request), self._settings.retries)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._client.close()

    async def _accepted(self, request: Ask) -> Chunks:
        """One attempt; what the server does not know is left out and remembered."""
        await self.abilities()
        while True:
            try:
                async with aclosing(self._attempt(request)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except ModelRefused as refused:
                culprit = next((name for name in self._parameters(request) if f"'{name}'" in str(refused)), None)
                if culprit not in (*_DISPENSABLE, "max_tokens"):
                    raise
                self._refused.add(culprit)

    async def _attempt(self, request: Ask) -> Chunks:
        cutter = StopCutter(request.stop)
        text, finish, usage = "", "", Usage(requests=1)
        path = "/chat/completions" if self._api == "chat" else "/completions"
        async with aclosing(self._bodies(path, self._body(request))) as bodies:
            async for body in bodies:
                piece, ended, counted = _read(body, self._client.redacted)
                finish, usage = ended or finish, counted or usage
                if piece := cutter.feed(piece):
                    text += piece
                    yield Delta(piece)
                if cutter.stopped:
                    finish = "stop"
                    if counted:
                        break
        if not finish:
            raise ModelUnavailable(f"{self._client.base_url} broke off in the middle of its reply")
        if rest := cutter.flush():
            text += rest
            yield Delta(rest)
        yield Reply(text, usage, "length" if finish == "length" else "stop")

    async def _bodies(self, path: str, body: bytes) -> AsyncGenerator[Any, None]:
        if not self._settings.stream:
            yield await self._client.post(path, body)
            return
        async with aclosing(self._client.stream(path, body)) as bodies:
            async for event in bodies:
                yield event

    # ── the request ──────────────────────────────────────────────────────────────────────────────

    @property
    def _api(self) -> Api:
        if self._settings.api:
            return self._settings.api
        if self._dialect in ("openai", "none") and self._model.startswith(_COMPLETION_MODELS):
            return "completions"
        return DEFAULT_API.get(self._dialect, "chat")

    def _parameters(self, request: Ask) -> dict[str, Any]:
        constraint = request.constraint and DIALECTS[self._dialect](request.constraint, self._api)
        in_json = self._dialect == "openai" and bool(constraint) and "response_format" not in self._refused
        parameters: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_tokens or _MAX_TOKENS,
            "temperature": self._settings.temperature,
            **(constraint or {}),
            **self._settings.options,
        }
        if request.stop and not in_json:
            parameters["stop"] = list(request.stop)
        if self._settings.stream:
            parameters |= {"stream": True, "stream_options": {"include_usage": True}}
        if "max_tokens" in self._refused:
            parameters["max_completion_tokens"] = parameters["max_tokens"]
        return {name: value for name, value in parameters.items() if name not in self._refused}

    def _body(self, request: Ask) -> bytes:
        """The request as JSON. The prompt stands last and is only ever appended to: what was encoded
        for the prompt that this one extends is kept."""
        encode = _as_messages if self._api == "chat" else _as_text
        kept, new = self._encoded.extend(request.prompt)
        encoded = (kept or b"") + encode(new, first=kept is None)
        self._encoded.keep(request.prompt, encoded)
        head = json.dumps(self._parameters(request))[:-1].encode()
        if self._api == "chat":
            return head + b', "messages": [' + encoded + b"]}"
        return head + b', "prompt": "' + encoded + b'"}'


def _as_messages(messages: Iterable[Message], *, first: bool) -> bytes:
    texts = [json.dumps({"role": m.role, "content": m.content.strip()}, ensure_ascii=False) for m in messages]
    return (("" if first or not texts else ", ") + ", ".join(texts)).encode("utf-8", "replace")


def _as_text(messages: Iterable[Message], *, first: bool) -> bytes:
    return "".join(json.dumps(m.content, ensure_ascii=False)[1:-1] for m in messages).encode("utf-8", "replace")


def _with_version(base_url: str) -> str:
    """The address with its `/v1`, which people leave out."""
    address = base_url.rstrip("/")
    if "://" not in address:
        address = f"http://{address}"
    return address if address.split("://", 1)[1].count("/") else f"{address}/v1"


# ── the reply ────────────────────────────────────────────────────────────────────────────────────


def _read(body: Any, redacted: Callable[[str], str]) -> tuple[str, str, Usage | None]:
    """The text, the finish reason and the usage in one body or event; each may be missing."""
    if not isinstance(body, Mapping):
        raise ModelUnavailable(f"the engine sent {redacted(repr(body)):.80} where an object belongs")
    if error := body.get("error"):
        code = error.get("code") if isinstance(error, Mapping) else None
        message = error.get("message", error) if isinstance(error, Mapping) else error
        refused = isinstance(code, int) and 400 <= code < 500 and code != 429
        raise (ModelRefused if refused else ModelUnavailable)(f"the engine reports: {redacted(str(message)):.300}")
    text, finish = "", ""
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        choice = choices[0]
        inner = choice.get("delta") or choice.get("message") or {}
        text = choice.get("text") or (inner.get("content") if isinstance(inner, Mapping) else "") or ""
        finish = choice.get("finish_reason") or ""
    return (text if isinstance(text, str) else ""), str(finish), _usage(body.get("usage"))


def _usage(counted: Any) -> Usage | None:
    if not isinstance(counted, Mapping):
        return None
    details = counted.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(counted.get("prompt_tokens") or 0, counted.get("completion_tokens") or 0, cached or 0, 1)
