"""`/responses` over a WebSocket: each `response.create` message is handled like `POST /responses`, in order, and its
stream events are sent as messages. The answers to a message with a `stream_id` carry the same one."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

from fastapi import HTTPException
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ..http.api_errors import ApiError, answer_of
from ..http.authentication import OUTER
from ..http.objects import Object
from ..http.request_body import MAX_BYTES, json_in

PATH = "/v1/responses"
LASTS = 3_600.0  # seconds, as at OpenAI
_AHEAD = 32  # messages that may be queued
_TAKEN = (b"authorization", b"host", b"origin", b"user-agent", b"openai-beta")  # headers copied to each request
_OUTER = ("http_version", "server", "client", "root_path", "app_root_path", OUTER)  # of the scope of each request
_ELSEWHERE = ("stream", "stream_options", "background")  # what they choose elsewhere has no meaning here
_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_STREAMS = 32  # per connection; their last responses are remembered
_NORMAL, _POLICY = 1000, 1008  # WebSocket close codes: regular, and for a misbehaving client


async def serve(socket: WebSocket) -> None:
    """Answer the messages of a connection until it is closed, or after an hour."""
    await socket.accept()
    connection = _Connection(socket)
    try:
        await connection.answer_all(getattr(socket.app.state, "sockets_last", LASTS))
    finally:
        await connection.stop()


async def refuse(socket: WebSocket) -> None:
    """Refuse a WebSocket at an address that has none."""
    message = f"Invalid URL (WebSocket {socket.url.path}): the only WebSocket of this server is at {PATH}."
    await socket.send_denial_response(answer_of(ApiError(404, message, code="unknown_url")))


class _Connection:
    """Answers the messages of one connection. They are read while another is answered, in order to notice when the
    client disconnects or sends too much. The last response of each stream may be continued here even if it was not
    stored."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._closed = asyncio.Event()
        self._refusal: ApiError | None = None  # why no more messages are accepted
        self._texts = asyncio.Queue[str | None]()  # `None` is the last
        self._size = 0  # of the texts, in characters
        self._own = dict[str | None, str]()  # the last responses, by stream id
        self._reading = asyncio.create_task(self._read())

    async def answer_all(self, seconds: float) -> None:
        """Answer messages until there are no more, the key is no longer valid, or after so many seconds."""
        ends = asyncio.get_running_loop().time() + seconds
        while (text := await self._take(ends)) is not None:
            if await self._answer(text) in (401, 403):
                await _close(self._socket, _POLICY)
                return
        if self._refusal is not None:
            await _say(self._socket, _envelope(self._refusal.status, self._refusal.body["error"]))
            await _close(self._socket, _POLICY if self._refusal.status == 429 else _NORMAL)

    async def stop(self) -> None:
        """Stop reading."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                text = message.get("text")
                text = (message["bytes"] or b"").decode("utf-8", "replace") if text is None else text
                self._size += len(text)
                if self._texts.qsize() >= _AHEAD or self._size > MAX_BYTES:
                    said = f"Too many messages are queued: the limit is {_AHEAD}, or 20 MB."
                    self._refusal = ApiError(429, said, kind="requests", code="rate_limit_exceeded")
                    break
                self._texts.put_nowait(text)
        finally:
            self._closed.set()
            self._texts.put_nowait(None)

    async def _take(self, ends: float) -> str | None:
        """Return the next message; `None` if there will be none, or at the deadline `ends` (loop time)."""
        try:
            async with asyncio.timeout_at(ends):
                text = await self._texts.get()
        except TimeoutError:
            message = "The WebSocket connection has lasted for 60 minutes. Open a new one to continue."
            self._refusal = ApiError(400, message, code="websocket_connection_limit_reached")
        if self._refusal is not None:
            return None
        self._size -= len(text or "")
        return text

    async def _answer(self, text: str) -> int:
        """Handle the request in a message, and send its answer. Return its HTTP status."""
        stream: str | None = None
        socket, data = self._socket, text.encode("utf-8", "surrogatepass")
        try:
            given = await json_in(data, socket.app.state.server, socket.state.tenant)
            given = given if isinstance(given, dict) else {}
            stream = _take_stream(given)
            _check(given)
        except (ApiError, HTTPException) as error:  # the latter if it is not JSON
            refusal = error if isinstance(error, ApiError) else ApiError(error.status_code, str(error.detail))
            await _say(socket, _envelope(refusal.status, refusal.body["error"], stream))
            return refusal.status
        body = json.dumps({**given, "stream": True}, ensure_ascii=False).encode("utf-8", "replace")
        answer = _Answer(socket, stream)
        await socket.app(self._scope(len(body)), self._receiving(body), answer.send)
        self._remember(stream, given.get("previous_response_id"), answer)
        return answer.status

    def _remember(self, stream: str | None, previous: object, answer: _Answer) -> None:
        if answer.failed:
            self._own = {name: last for name, last in self._own.items() if last != previous}
        elif answer.response_id is not None:
            self._own.pop(stream, None)
            self._own[stream] = answer.response_id  # as the newest
            for oldest in list(self._own)[:-_STREAMS]:
                del self._own[oldest]

    def _scope(self, length: int) -> dict[str, Any]:
        """Return the scope of a request on behalf of the connection's client."""
        outer = self._socket.scope
        headers = [(name, value) for name, value in outer["headers"] if name in _TAKEN]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},  # before 2.4, `send` does not report a disconnect
            "method": "POST",
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": b"",
            "scheme": "https" if outer["scheme"] == "wss" else "http",
            "headers": [*headers, (b"content-type", b"application/json"), (b"content-length", str(length).encode())],
            "state": {"own_responses": frozenset(self._own.values())},
            **{name: outer[name] for name in _OUTER if name in outer},
        }

    def _receiving(self, body: bytes) -> Any:
        """Return a `receive` that gives the body, then a disconnect once the client is gone."""
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if pending:
                return pending.pop()
            await self._closed.wait()
            return {"type": "http.disconnect"}

        return receive


class _Answer:
    """Sends the answer to a request as messages: stream events as they are, errors in an envelope."""

    def __init__(self, socket: WebSocket, stream: str | None) -> None:
        self.status = 0
        self.response_id: str | None = None
        self.failed = False
        self._socket = socket
        self._stream = stream
        self._body = b""
        self._name = ""  # of the current event
        self._error = ""  # told unless `response.failed` follows it: for clients, either ends the answer

    async def send(self, message: Message) -> None:
        """Receive a message of the application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.failed = self.status >= 400
            return
        self._body += message.get("body", b"")
        over = not message.get("more_body", False)
        if self.status < 400:
            *lines, self._body = self._body.split(b"\n")
            for line in lines:
                if (text := self._read_line(line)) is not None:
                    await _say(self._socket, text)
        elif over:
            self._error = _envelope(self.status, json.loads(self._body)["error"], self._stream)
        if self._error and over:
            await _say(self._socket, self._error)

    def _read_line(self, line: bytes) -> str | None:
        """Return the message for a line of an event stream, if there is one."""
        name, _, value = line.partition(b": ")
        if name == b"event":
            self._name = value.decode()
        if name != b"data":
            return None
        if self._name == "error":
            self.failed = True
            error = json.loads(value)["error"]
            self._error = _envelope(401 if error["code"] == "invalid_api_key" else 500, error, self._stream)
            return None
        if self._name == "response.created":
            self.response_id = json.loads(value)["response"]["id"]
        if self._name == "response.failed":
            self.failed, self._error = True, ""
        if self._stream is None:
            return value.decode()
        return json.dumps({**json.loads(value), "stream_id": self._stream}, ensure_ascii=False)


async def _say(socket: WebSocket, text: str) -> None:
    """Send a message, if the client is still connected."""
    if socket.application_state == WebSocketState.CONNECTED:
        with suppress(WebSocketDisconnect):
            await socket.send_text(text)


async def _close(socket: WebSocket, code: int) -> None:
    if socket.application_state == WebSocketState.CONNECTED:
        with suppress(WebSocketDisconnect):
            await socket.close(code)


def _take_stream(given: Object) -> str | None:
    """Remove and return the `stream_id`. Raises `ApiError` (400) if it is invalid."""
    stream = given.pop("stream_id", None)
    if stream is not None and not (isinstance(stream, str) and _STREAM.fullmatch(stream)):
        message = "Invalid 'stream_id': expected 1 to 256 letters, digits, underscores, hyphens or periods (ASCII)."
        raise ApiError(400, message, param="stream_id", code="invalid_value")
    return stream


def _check(given: Object) -> None:
    """Remove the type and unsupported parameters, leaving the body. Raises `ApiError` (400) if it is no
    `response.create`."""
    if given.pop("type", None) != "response.create":
        message = "Invalid value: expected an object with the 'type' 'response.create'."
        raise ApiError(400, message, param="type", code="invalid_value")
    if given.get("stream") is True:  # as Codex CLI says, though there is no other way
        del given["stream"]
    for name in _ELSEWHERE:
        if given.pop(name, None) is not None:
            message = f"Unknown parameter: '{name}' is not supported over a WebSocket."
            raise ApiError(400, message, param=name, code="unknown_parameter")


def _envelope(status: int, error: Object, stream: str | None = None) -> str:
    """Return an error as a message, in which every error has a code."""
    told = {"type": "error", "status": status, "error": {**error, "code": error.get("code") or error["type"]}}
    return json.dumps(told if stream is None else {**told, "stream_id": stream}, ensure_ascii=False)
