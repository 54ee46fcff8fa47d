"""The models' lean HTTP client: one server, JSON requests, JSON or streamed JSON responses."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary, finalize, ref

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
)
from .error_mapping import make_status_error, with_error_code
from .http1 import Connection, UnreadableAnswerError
from .proxy_route import end_request, route
from .retry import TimeLimits
from .sse_parser import JsonLines, ServerSentEvents, is_event_stream

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
_HEAD = 1024  # bytes by which a body has begun
_LINES = frozenset(("application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/stream+json"))
_ALWAYS = {
    "User-Agent": "retinue",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}


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
        more, connection = {**more, **await self._sign_request(path, body)}, None
        connections, _ = self._keepers.get(asyncio.get_running_loop()) or await self._make_keeper()
        try:
            asking = connections.ask(self._make_request(connections, path, body, more))
            del body, more  # a copy is sent, and the reply may take long
            connection = await asking
            if connection.status != 200:
                raise self._read_failure(connection, await _read_text(connection, _MAX_ERROR, cut=True))
            kind = _read_media_type(connection)
            head, reader = await self._choose_reader(connection, kind)
            if reader is None:
                yield self._parse_event(await _read_text(connection, min(most, MAX_VALUE), head), path, kind)
                return
            size, chunk = 0, head
            while chunk := chunk or await connection.read():  # read to the end, so the connection can be reused
                size += len(chunk)
                _check_size(size, most)
                found = [
                    value
                    for text in reader.feed(chunk)
                    if text.strip()
                    for value in self._parse_event(text, path, kind)
                ]
                _check_size(reader.held, MAX_VALUE, "an event of ")
                if found:
                    yield found
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

    async def _sign_request(self, path: str, body: bytes | None) -> Mapping[str, str]:
        if self._sign is None:
            return {}
        method = "GET" if body is None else "POST"
        return await self._sign(Unsigned(method, self._make_url(path), body or b""))

    def _make_url(self, path: str) -> str:
        """Return the whole address of `path`. Both that and the base URL may have a query."""
        query = self._query.replace("?", "&", 1) if "?" in path else self._query
        return f"{self._address}{path}{query}"

    def _make_request(self, by: ConnectionPool, path: str, body: bytes | None, more: Mapping[str, str]) -> bytes:
        """Return the bytes to send. Heads are cached, since only the length differs between most requests."""
        method = "GET" if body is None else "POST"
        head = None if more else by.heads.get((method, path))
        if head is None:
            try:
                head = by.way.write_head(method, self._make_url(path), _ALWAYS | dict(self._key_headers) | dict(more))
            except ValueError:
                raise self._make_address_error() from None
            if not more:
                by.heads[method, path] = head
        return end_request(head, body)

    def _make_error(self, error: Exception, url: str) -> ModelError:
        """Map a connection error to a model error."""
        match error:
            case TooLargeError():
                return ModelRefused(str(error))
            case TimeoutError():
                return ModelUnavailable(f"{url} did not answer in time")
            case CannotConnectError():
                problem = f"cannot connect to {self.shown}: {describe_reason(error.reason)}{_make_hint(error.reason)}"
                unreached = ModelUnavailable(problem)
                unreached.code = "model_unreachable"
                return unreached
            case UnreadableAnswerError():
                return ModelUnavailable(f"{url} cannot be understood: {error}")
        return ModelUnavailable(f"{url} broke off: {type(error).__name__}")

    async def _make_keeper(self) -> _Keeper:
        """Return the running event loop's connections, and the generator that closes them: the loop closes its async
        generators before itself."""
        loop = asyncio.get_running_loop()
        generator = self._keep_connections()
        keeper = self._keepers[loop] = await anext(generator), generator
        finalize(self, _close_keeper, ref(loop), generator).atexit = False
        for old in [old for old in self._keepers if old.is_closed()]:
            del self._keepers[old]
        return keeper

    async def _keep_connections(self) -> AsyncGenerator[ConnectionPool, None]:
        try:
            way = route(self.base_url)
        except ValueError:
            raise self._make_address_error() from None
        connections = ConnectionPool(way, self._limits, make_default_trust, resends=self._resends)
        try:
            yield connections
        finally:
            connections.close()
            await asyncio.sleep(0)  # lets the event loop release the sockets

    @property
    def _key_headers(self) -> Mapping[str, str]:
        return self._headers(self._api_key) if self._api_key else {}

    @property
    def key_digest(self) -> str:
        """A digest of the key, by which what is known with one key is told from what is known with another."""
        return sha256(self._api_key.encode()).hexdigest()[:16]

    def _make_address_error(self) -> ModelRefused:
        return ModelRefused(f"{self.shown!r} is not the address of a server (want http://host:port)")

    async def _choose_reader(
        self, connection: Connection, kind: str
    ) -> tuple[bytes, ServerSentEvents | JsonLines | None]:
        """Return the beginning of the body and what reads the rest; `None`: it is not streamed.

        The body's beginning says whether it has events, because servers and proxies often name another type.
        """
        head = b""
        while (events := is_event_stream(head)) is None and len(head) < _HEAD and (chunk := await connection.read()):
            head += chunk
        if events or (kind == "text/event-stream" and not head.lstrip().startswith(b"{")):
            return head, ServerSentEvents()
        return head, JsonLines() if kind in _LINES else None

    def _parse_event(self, text: str, path: str, kind: str) -> list[Any]:
        """Return the JSON values in the data of an event.

        Some servers leave out the blank line between two events.
        """
        if text.strip() == "[DONE]":
            return [DONE]
        lines = text.split("\n")
        try:
            return [self._parse_value(text, path, kind)]
        except ModelUnavailable:
            if len(lines) == 1:
                raise
        return [value for line in lines if line.strip() for value in self._parse_event(line, path, kind)]

    def _parse_rest(self, reader: ServerSentEvents | JsonLines, path: str, kind: str) -> list[Any]:
        """Return the values after the last line break, which count if they are whole."""
        try:
            return [value for text in reader.flush_rest() for value in self._parse_event(text, path, kind)]
        except ModelUnavailable:
            return []

    def _parse_value(self, text: str, path: str, kind: str) -> Any:
        if text.count("[") + text.count("{") > _MAX_VALUES:  # to read them would hold up everybody
            problem = f"it has more than {_MAX_VALUES:,} objects and arrays"
            raise ModelUnavailable(f"{self.shown}{path} answered with JSON that is no reply: {problem}")
        try:
            return read_strict_json(text.removeprefix("\ufeff"))
        except TooDeepError as error:
            raise ModelUnavailable(f"{self.shown}{path} answered with JSON that is no reply: {error}") from None
        except ValueError:
            raise ModelUnavailable(
                f"{self.shown}{path} answered with {kind} that is not JSON: {self.redacted(text)[:80]!r}"
            ) from None

    def _read_failure(self, connection: Connection, text: str) -> ModelError:
        said, wait = self.redacted(text), connection.headers.get("retry-after")
        if (exact := connection.headers.get("retry-after-ms", "")).strip().replace(".", "", 1).isdigit():
            wait = str(float(exact) / 1000)
        kind = connection.headers.get("x-amzn-errortype", "")
        failure = make_status_error(
            self.shown, connection.status, said, wait, keyed=bool(self._api_key or self._sign), kind=kind
        )
        failure.status = connection.status
        return with_error_code(failure, connection.status)

    def redacted(self, text: str) -> str:
        """Return `text` without secrets, which some servers repeat in their errors: also without a key that is a word,
        unless it is a short one."""
        return redact(text.replace(self._api_key, "***") if len(self._api_key) >= _LONG_KEY else text)


_Keeper = tuple[ConnectionPool, AsyncGenerator[ConnectionPool, None]]


def _close_keeper(loop: ref[asyncio.AbstractEventLoop], generator: AsyncGenerator[ConnectionPool, None]) -> None:
    """Close the connections of a client that was garbage-collected."""
    running = loop()
    if running is not None and not running.is_closed():
        running.call_soon_threadsafe(running.create_task, generator.aclose())


def _read_media_type(connection: Connection) -> str:
    """Return the media type of the response."""
    return connection.headers.get("content-type", "").partition(";")[0].strip().lower() or "application/octet-stream"


async def _read_text(connection: Connection, most: int, head: bytes = b"", *, cut: bool = False) -> str:
    return (await read_body(connection, most, head, cut=cut)).decode("utf-8", "replace")


def _check_size(size: int, most: int, part: str = "") -> None:
    if size > most:
        raise ModelRefused(f"{part}the response has more than {most:,} bytes")


def _make_hint(error: OSError) -> str:
    """Return a hint on what to check first."""
    if isinstance(error, socket.gaierror):
        return " (is the address right?)"
    refused = isinstance(error, ConnectionRefusedError) or describe_reason(error) == os.strerror(errno.ECONNREFUSED)
    return " (is it running?)" if refused else ""
