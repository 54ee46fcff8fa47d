"""The models' lean HTTP client: one server, JSON requests, and JSON responses, which may be streamed as server-sent
events (WHATWG HTML, 9.2) or JSON lines."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from .._internal.foreign_text import TooDeepError, make_json_well_formed, read_strict_json
from .._internal.redaction import redact, register_secret, register_url_secrets, strip_address_secrets
from ..errors import ModelError, ModelRefused, ModelUnavailable, UsageError
from .connection_pool import (
    FAILURES,
    CannotConnectError,
    ConnectionPool,
    TooLargeError,
    describe_reason,
    make_default_trust,
    read_body,
    route,
)
from .error_mapping import make_status_error, with_error_code
from .http1 import Connection, UnreadableAnswerError
from .retry import TimeLimits

Headers = Callable[[str], Mapping[str, str]]  # builds headers from the key


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A request that is about to be sent."""

    method: str
    url: str
    body: bytes


Sign = Callable[[Unsigned], Awaitable[Mapping[str, str]]]
"""Returns further headers for a request: its signature, or a token that is fetched first. Called for each request, also
if it is sent again. May raise `ModelError`."""

DONE: dict[str, Any] = {}
"""Stands for `[DONE]`: the end of a stream, as the server itself says."""
MAX_STREAM = 64_000_000  # bytes of a streamed response
MAX_VALUE = 8_000_000  # bytes of any other response, or of an event: as values, JSON may take 25 times as much memory
_LONG_KEY = 8  # characters; a shorter one may be in any text
_MAX_VALUES = 500_000  # of one event or body
_MAX_ERROR = 64_000  # bytes that are read of an error's body
_UNKNOWN = "application/octet-stream"
_HEAD = 1024  # bytes by which a body has begun
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_FIELD = re.compile(rb"(?:data|event|id|retry)?:")
_LINES = frozenset(("application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/stream+json"))
_ALWAYS = {
    "User-Agent": "retinue",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}


_Keeper = tuple[ConnectionPool, AsyncGenerator[ConnectionPool, None]]


def build_bearer_header(key: str) -> Mapping[str, str]:
    """Return the key as a bearer token, which most servers expect."""
    return {"Authorization": f"Bearer {key}"}


class HttpClient:
    """A client of one server. It may be used from several event loops; each has its own connections, which close with
    the loop (or by `close`). Without `resends`, no request is ever sent twice. `sign` adds headers to each request.
    `shown` is its address without what may be a secret.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        limits: TimeLimits = TimeLimits(),
        headers: Headers = build_bearer_header,
        *,
        resends: bool = True,
        sign: Sign | None = None,
    ) -> None:
        self.base_url = base_url
        self._sign = sign
        self._resends = resends
        self._headers = headers
        self._api_key = (api_key or "").strip()
        if not self._api_key.isprintable():
            raise UsageError("the API key has characters that no key has, such as a line break")
        register_secret(self._api_key)
        register_url_secrets(base_url)
        self._address, mark, query = base_url.partition("?")
        self._query = mark + query
        self.shown = strip_address_secrets(base_url)
        self._limits = limits
        self._keepers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Keeper] = WeakKeyDictionary()

    @property
    def key_digest(self) -> str:
        """A digest of the key, by which what is known with one key is told from what is known with another."""
        return sha256(self._api_key.encode()).hexdigest()[:16]

    def redacted(self, text: str) -> str:
        """Return `text` without secrets, which some servers repeat in their errors: also without a key that is a word,
        unless it is a short one."""
        return redact(text.replace(self._api_key, "***") if len(self._api_key) >= _LONG_KEY else text)

    async def get(self, path: str, body: bytes | None = None) -> Any:
        """Return the JSON at `path`, or that a POST of `body` returns. Raises `ModelError`."""
        async with aclosing(self.exchange(path, body)) as reads:
            async for bodies in reads:
                return make_json_well_formed(bodies[0])
        raise ModelUnavailable(f"{self.shown}{path} returned an empty response")

    async def exchange(
        self, path: str, body: bytes | None = None, more: Mapping[str, str] = {}, most: int = MAX_STREAM
    ) -> AsyncGenerator[list[Any], None]:
        """Yield the JSON values of the response, in batches per network read, and `DONE` if the server says so.

        Sends a POST with `body`, otherwise a GET; `more` are further headers. Raises `ModelError`, also for a response
        with more than `most` bytes, or a value in it with more than 8 MB.
        """
        connections, connection = await self._find_connections(), None
        request = await self._write_request(connections, path, body, more)
        try:
            asking = connections.ask(request)
            del body, more, request  # the reply may take long
            connection = await asking
            if connection.status != 200:
                raise self._read_failure(connection, await _read_text(connection, _MAX_ERROR, cut=True))
            kind = connection.headers.get("content-type", "").partition(";")[0].strip().lower() or _UNKNOWN
            chunk, reader = await _choose_reader(connection, kind)
            if reader is None:
                yield self._parse_event(await _read_text(connection, min(most, MAX_VALUE), chunk), path, kind)
                return
            size = 0
            while chunk := chunk or await connection.read():  # read to the end, so the connection can be reused
                size += len(chunk)
                _check_size(size, most)
                if found := self._parse_events(reader.feed(chunk), path, kind):
                    yield found
                _check_size(reader.held, MAX_VALUE, "an event of ")
                chunk = b""
            if found := self._parse_rest(reader, path, kind):
                yield found
        except (*FAILURES, TooLargeError) as error:
            raise self._make_error(error, f"{self.shown}{path}") from None  # the cause adds nothing
        finally:
            if connection is not None:
                connections.release(connection)  # closes it unless all was read

    async def close(self) -> None:
        """Close the running loop's connections."""
        keeper = self._keepers.pop(asyncio.get_running_loop(), None)
        if keeper is not None:
            await keeper[1].aclose()

    async def _find_connections(self) -> ConnectionPool:
        """Return the running event loop's connections."""
        loop = asyncio.get_running_loop()
        if (keeper := self._keepers.get(loop)) is None:
            try:
                pool = ConnectionPool(route(self.base_url), self._limits, make_default_trust, resends=self._resends)
            except ValueError:
                raise self._make_address_error() from None
            generator = _keep_open(pool)
            keeper = self._keepers[loop] = await anext(generator), generator
            for old in [old for old in self._keepers if old.is_closed()]:
                del self._keepers[old]
        return keeper[0]

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    async def _write_request(
        self, connections: ConnectionPool, path: str, body: bytes | None, more: Mapping[str, str]
    ) -> bytes:
        """Return the bytes to send. Both `path` and the base URL may have a query."""
        query = self._query.replace("?", "&", 1) if "?" in path else self._query
        method, url = "GET" if body is None else "POST", f"{self._address}{path}{query}"
        headers = _ALWAYS | dict(self._headers(self._api_key) if self._api_key else {}) | dict(more)
        if self._sign is not None:
            headers |= await self._sign(Unsigned(method, url, body or b""))
        try:
            return connections.way.request(method, url, headers, body)
        except ValueError:
            raise self._make_address_error() from None

    # ── responses ────────────────────────────────────────────────────────────────────────────────

    def _parse_events(self, texts: Sequence[str], path: str, kind: str) -> list[Any]:
        return [value for text in texts if text.strip() for value in self._parse_event(text, path, kind)]

    def _parse_rest(self, reader: ServerSentEvents | JsonLines, path: str, kind: str) -> list[Any]:
        """Return the values after the last line break, which count if they are whole."""
        try:
            return self._parse_events(reader.flush_rest(), path, kind)
        except ModelUnavailable:
            return []

    def _parse_event(self, text: str, path: str, kind: str) -> list[Any]:
        """Return the JSON values in the data of an event. Some servers leave out the blank line between two events."""
        if text.strip() == "[DONE]":
            return [DONE]
        problem = f"{self.shown}{path} answered with JSON that is no reply"
        try:
            if text.count("[") + text.count("{") > _MAX_VALUES:  # to read them would hold up everybody
                raise ModelUnavailable(f"{problem}: it has more than {_MAX_VALUES:,} objects and arrays")
            return [read_strict_json(text.removeprefix("\ufeff"))]
        except TooDeepError as error:
            failure = ModelUnavailable(f"{problem}: {error}")
        except ValueError:
            shown = self.redacted(text)[:80]
            failure = ModelUnavailable(f"{self.shown}{path} answered with {kind} that is not JSON: {shown!r}")
        except ModelUnavailable as error:
            failure = error
        if "\n" not in text:
            raise failure
        return self._parse_events(text.split("\n"), path, kind)

    # ── errors ───────────────────────────────────────────────────────────────────────────────────

    def _make_address_error(self) -> ModelRefused:
        return ModelRefused(f"{self.shown!r} is not the address of a server (want http://host:port)")

    def _make_error(self, error: Exception, url: str) -> ModelError:
        """Map a connection error to a model error."""
        match error:
            case TooLargeError():
                return ModelRefused(str(error))
            case TimeoutError():
                return ModelUnavailable(f"{url} did not answer in time")
            case CannotConnectError():
                why, hint = describe_reason(error.reason), ""
                if isinstance(error.reason, socket.gaierror):
                    hint = " (is the address right?)"
                elif isinstance(error.reason, ConnectionRefusedError) or why == os.strerror(errno.ECONNREFUSED):
                    hint = " (is it running?)"
                unreached = ModelUnavailable(f"cannot connect to {self.shown}: {why}{hint}")
                unreached.code = "model_unreachable"
                return unreached
            case UnreadableAnswerError():
                return ModelUnavailable(f"{url} cannot be understood: {error}")
        return ModelUnavailable(f"{url} broke off: {type(error).__name__}")

    def _read_failure(self, connection: Connection, text: str) -> ModelError:
        said, wait = self.redacted(text), connection.headers.get("retry-after")
        if (exact := connection.headers.get("retry-after-ms", "")).strip().replace(".", "", 1).isdigit():
            wait = str(float(exact) / 1000)
        kind, keyed = connection.headers.get("x-amzn-errortype", ""), bool(self._api_key or self._sign)
        failure = make_status_error(self.shown, connection.status, said, wait, keyed=keyed, kind=kind)
        failure.status = connection.status
        return with_error_code(failure, connection.status)


async def _keep_open(connections: ConnectionPool) -> AsyncGenerator[ConnectionPool, None]:
    """Yield the connections, and close them as this ends. A loop ends its async generators before itself, and those of
    a client that is garbage-collected."""
    try:
        yield connections
    finally:
        connections.close()
        await asyncio.sleep(0)  # lets the event loop release the sockets


async def _choose_reader(connection: Connection, kind: str) -> tuple[bytes, ServerSentEvents | JsonLines | None]:
    """Return the beginning of the body and what reads the rest; `None`: it is not streamed.

    The body's beginning says whether it has events, because servers and proxies often name another type.
    """
    head = b""
    while (events := is_event_stream(head)) is None and len(head) < _HEAD and (chunk := await connection.read()):
        head += chunk
    if events or (kind == "text/event-stream" and not head.lstrip().startswith(b"{")):
        return head, ServerSentEvents()
    return head, JsonLines() if kind in _LINES else None


async def _read_text(connection: Connection, most: int, head: bytes = b"", *, cut: bool = False) -> str:
    return (await read_body(connection, most, head, cut=cut)).decode("utf-8", "replace")


def _check_size(size: int, most: int, part: str = "") -> None:
    if size > most:
        raise ModelRefused(f"{part}the response has more than {most:,} bytes")


# ── streams ───────────────────────────────────────────────────────────────────────────────────────


class ServerSentEvents:
    """An incremental parser of events, each of which ends with a blank line."""

    def __init__(self) -> None:
        self._begun = False
        self._rest = bytearray()
        self._after_cr = False  # the last byte was a CR; a following LF belongs to it
        self._data: list[str] = []
        self._size = 0  # bytes of `_data`, without the ends of lines

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of the events that `chunk` completes."""
        events: list[str] = []
        new = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        self._rest += new
        if b"\n" not in new and b"\r" not in new:  # a long line is looked at once, however many chunks it comes in
            return events
        held = bytes(self._rest)
        if not self._begun:
            held, self._begun = held.removeprefix(_BOM), True
        *lines, rest = _LINE_END.split(held) if b"\r" in held else held.split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            if line:
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
                    self._size += len(line)
            elif self._data:
                events += self._take()
        return events

    def flush_rest(self) -> list[str]:
        """Return the data of an event that the stream ended without a blank line."""
        return [*self.feed(b"\n"), *self._take()] if self._rest else self._take()

    def _take(self) -> list[str]:
        events = ["\n".join(self._data)] if self._data else []
        self._data, self._size = [], 0
        return events

    @property
    def held(self) -> int:
        """Bytes of the event so far."""
        return len(self._rest) + self._size


class JsonLines:
    """An incremental parser of one text per line."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that `chunk` completes, except blank ones."""
        self._rest += chunk
        if b"\n" not in chunk:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]

    @property
    def held(self) -> int:
        """Bytes of the line so far."""
        return len(self._rest)

    def flush_rest(self) -> list[str]:
        """Return a last line that the stream ended without a line break."""
        return self.feed(b"\n")


def is_event_stream(body: bytes) -> bool | None:
    """Return whether a body that begins so is a stream of server-sent events; `None` if more is needed to tell."""
    begun = body.removeprefix(_BOM).lstrip()
    if _FIELD.match(begun):
        return True
    return None if any(field.startswith(begun) for field in (b"data:", b"event:", b"id:", b"retry:", _BOM)) else False
