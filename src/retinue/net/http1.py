"""A minimal HTTP/1.1 connection with what model servers need; llhttp does the parsing."""

from __future__ import annotations

import asyncio
import zlib
from ssl import SSLContext

import httptools

_HEAD = 64 * 1024  # bytes of a head, of trailers, or of anything else besides the body
_UNREAD = 1024 * 1024  # unread bytes of a body before reading from the network pauses
_INFLATED = 64 * 1024  # bytes at a time, since a kilobyte may inflate to a megabyte
_ENCODINGS = {"": 0, "identity": 0, "gzip": 31, "x-gzip": 31, "deflate": 15}  # zlib's window bits


class ServerDisconnectedError(ConnectionError):
    """The server closed the connection."""

    def __init__(self) -> None:
        super().__init__("the server closed the connection")


class UnreadableAnswerError(ConnectionError):
    """The server's response is not valid HTTP."""

    def __init__(self, said: str = "the response is not valid HTTP") -> None:
        super().__init__(said)


class Connection(asyncio.Protocol):
    """A connection for one exchange at a time: `send`, `read_head`, `read` to the end, `release`; or `close` at any
    time.

    `status` and `headers` (names in lower case) are set after `read_head`; `heard`: whether any byte has arrived;
    `received`: bytes of the body so far, as they were sent. Lines may end in LF, as browsers take them.
    """

    __slots__ = (  # a run that waits has one, and without them it takes a kilobyte more
        "_busy", "_chunks", "_encoding", "_ended", "_error", "_head_size", "_idle", "_inflater", "_keeps",
        "_loop", "_no_body", "_packed", "_parser", "_paused", "_transport", "_unread", "_until", "_until_close",
        "_waiter", "headers", "heard", "received", "rested", "status",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser: httptools.HttpResponseParser | None = None  # from a response's first byte to its end
        self._transport: asyncio.Transport
        self._busy = False  # during an exchange
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None  # makes the connection unusable
        self._paused = False
        self.rested = 0.0  # when the last exchange ended

    # ── an exchange ──────────────────────────────────────────────────────────────────────────────

    def send(self, request: bytes, idle: float, until: float) -> None:
        """Start an exchange with pauses of at most `idle` seconds, which ends by `until` on the loop's clock."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.heard = False
        self._ended = False  # the response is complete
        self._until_close = self._keeps = False
        self._chunks: list[bytes] = []
        self._unread = self._head_size = self._no_body = self.received = 0
        self._encoding = 0
        self._inflater: zlib._Decompress | None = None
        self._packed: bytes | None = None  # of what has arrived, the rest to inflate
        self._idle, self._until = idle, until
        self._busy = True
        self._transport.write(request)

    async def read_head(self) -> None:
        """Wait for the head of the response. Raises `OSError`."""
        while not self.status:
            await self._wait_for_data()

    async def read(self) -> bytes:
        """Return the next part of the body, or nothing at its end. Raises `OSError`."""
        while True:
            if self._packed is not None:
                await asyncio.sleep(0)  # others have their turn, however much this inflates to
                data = self._packed
            else:
                while not self._chunks and not self._ended:
                    await self._wait_for_data()
                if not self._chunks:
                    break
                data = b"".join(self._chunks)
                self._chunks.clear()
                self._unread = 0
                if self._paused:
                    self._paused = False
                    self._transport.resume_reading()
            if text := self._inflate(data) if self._encoding else data:
                return text
        if self._inflater is not None and not self._inflater.eof:
            raise ServerDisconnectedError
        return b""

    def _inflate(self, data: bytes) -> bytes:
        """Return the beginning of inflated `data`; the rest is `_packed`."""
        if self._inflater is None:
            raw = self._encoding == 15 and data[0] & 15 != 8  # some servers send "deflate" without zlib's header
            self._inflater = zlib.decompressobj(-15 if raw else self._encoding)
        try:
            text = b"" if self._inflater.eof else self._inflater.decompress(data, _INFLATED)
        except zlib.error as error:
            raise UnreadableAnswerError(f"its {self.headers['content-encoding']} data is invalid") from error
        self._packed = self._inflater.unconsumed_tail if len(text) == _INFLATED else None
        return text

    async def _wait_for_data(self) -> None:
        if self._error is not None:
            raise self._error
        due = min(self._loop.time() + self._idle, self._until)
        timer = self._loop.call_at(due, self._fail, TimeoutError())
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
            timer.cancel()

    def release(self) -> bool:
        """End the exchange; return whether the connection can be reused."""
        self._busy = False
        self._parser = None
        self.rested = self._loop.time()
        done = self._ended and self._keeps and not self._paused and not self._transport.get_write_buffer_size()
        return done and self.is_open

    @property
    def is_open(self) -> bool:
        """Whether the connection is open and without errors."""
        return self._error is None and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection; waiting readers get an error."""
        self._fail(ServerDisconnectedError())

    def _fail(self, error: Exception) -> None:
        """Abort because of `error`. Data that arrived earlier can still be read."""
        self._error = self._error or error
        self._transport.abort()
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def secure(self, context: SSLContext, host: str) -> None:
        """Switch to TLS through the tunnel that the proxy has granted."""
        self.release()
        if self._unread:
            raise UnreadableAnswerError("the proxy sent data before the tunnel was used")
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        assert transport is not None
        self._transport = transport

    # ── what the event loop calls ────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement `asyncio.Protocol`; called once."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse incoming data; abort if it is malformed."""
        if not self._busy:  # nothing was requested
            return self._fail(UnreadableAnswerError())
        self.heard = True
        self._no_body += len(data)
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
            self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            ours = error.__context__  # what a callback raised
            return self._fail(ours if isinstance(ours, UnreadableAnswerError) else UnreadableAnswerError())
        if self._no_body > _HEAD:
            return self._fail(UnreadableAnswerError())
        if self._unread > _UNREAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        return self._wake_reader()

    def eof_received(self) -> None:
        """Handle the server's end of data, which ends some responses."""
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the connection's end, on either side."""
        if self._busy and self.status and self._until_close and exc is None and self._error is None:
            self._ended = True
        self._fail(exc or ServerDisconnectedError())

    # ── what the parser calls ────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        """Handle the start of the response, or of a 1xx before it."""
        if self._ended:
            raise UnreadableAnswerError("a response without a request")
        self.headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header. Trailers are ignored."""
        self._head_size += len(name) + len(value)
        if self._head_size > _HEAD:
            raise UnreadableAnswerError("the response head does not end")
        if not self.status:
            self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        """Determine how the body is sent."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:
            return
        coding = self.headers.get("content-encoding", "")
        if coding.lower() not in _ENCODINGS:
            raise UnreadableAnswerError(f"unsupported Content-Encoding: {coding[:40]}")
        self._encoding = _ENCODINGS[coding.lower()]
        self._keeps = self._parser.should_keep_alive()
        self._until_close = "content-length" not in self.headers and "transfer-encoding" not in self.headers
        self.status = status

    def on_body(self, body: bytes) -> None:
        """Handle a piece of the body."""
        self._chunks.append(body)
        self._unread += len(body)
        self.received += len(body)
        self._no_body = 0

    def on_message_complete(self) -> None:
        """Handle the end of the response, unless it was a 1xx."""
        self._ended = self.status > 0
