"""Closes idle connections, and connections beyond the limit per address, so that they do not shut out others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .wire.request_body import MAX_OTHER_BYTES

HEADERS = 20.0  # seconds from connecting, or from a request's first byte, to the end of its headers


def connections(most: int, seconds: float = HEADERS) -> Any:
    """Return uvicorn's HTTP protocol with a timeout of `seconds` for headers and at most `most` connections per
    address."""
    return partial(_Bounded, Counter(), most, seconds)


class _Socket(WebSocketsSansIOProtocol):
    lost: Callable[[], None] = staticmethod(lambda: None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost()
        super().connection_lost(exc)

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":  # refused, which is not an error
            self.handshake_complete = True


SOCKETS: dict[str, Any] = {"ws": _Socket, "ws_max_size": MAX_OTHER_BYTES, "ws_per_message_deflate": False}
"""uvicorn's WebSocket options: messages are limited like bodies, and uncompressed, so that the limit is exact."""


class _Bounded(HttpToolsProtocol):
    def __init__(self, there: Counter[str], most: int, seconds: float, **more: Any) -> None:
        super().__init__(**more)
        self._there = there
        self._most = most
        self._seconds = seconds
        self._address = ""
        self._ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = (self.client or ("",))[0]
        self._there[self._address] += 1
        if self._there[self._address] > self._most:
            transport.abort()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        assert isinstance(protocol, _Socket)
        protocol.lost = self._leave  # the WebSocket protocol sees the disconnect, not this one

    def _leave(self) -> None:
        self._come()
        self._there -= Counter([self._address])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._ending is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._come()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._ending = self.loop.call_later(self._seconds, self.transport.abort)

    def _come(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
