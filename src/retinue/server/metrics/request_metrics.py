"""Metrics of the API's requests: by route, never by path, for there is no end of paths."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...runs.run_metrics import SECONDS
from ..http.authentication import is_stream
from ..http.request_context import without_slash

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_API = "/v1"
_REFUSED = (401, 403, 429)
_LEFT = "none"  # the client left before it was answered


class RequestMetrics:
    """The metrics of requests, which the outermost middleware counts (`measure`)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        over = "Requests that are over, by the class of their status."
        refused = "Requests refused for their key (401), its scopes or page (403), or a limit (429)."
        self._requests = Counter("retinue_http_requests", over, ("route", "method", "status"), registry=registry)
        self._took = Histogram(
            "retinue_http_request_duration",
            "Requests, until the last byte of the answer; without streams.",
            ("route", "method"),
            unit="seconds",
            buckets=SECONDS,
            registry=registry,
        )
        self._refused = Counter("retinue_http_refusals", refused, ("status",), registry=registry)
        self._in_flight = Gauge("retinue_http_requests_in_flight", "Requests under way.", registry=registry)
        streams = Gauge("retinue_streams_open", "Open event streams and WebSockets.", ("transport",), registry=registry)
        self._events, self._sockets = streams.labels("sse"), streams.labels("websocket")

    def measure(self, app: ASGIApp) -> ASGIApp:
        """Return `app`, whose requests are measured."""

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "websocket":
                with self._sockets.track_inprogress():
                    await app(scope, receive, send)
            elif scope["type"] == "http":
                with self._in_flight.track_inprogress():
                    await self._measure(app, without_slash(scope), receive, send)
            else:
                await app(scope, receive, send)

        return measured

    async def _measure(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        began, status, streams = time.perf_counter(), 0, False

        async def sending(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                if is_stream(message):
                    streams = True
                    self._events.inc()
            await send(message)

        try:
            await app(scope, receive, sending)
        finally:
            method, route = scope["method"] if scope["method"] in _METHODS else "other", _route(scope)
            self._requests.labels(route, method, f"{status // 100}xx" if status else _LEFT).inc()
            if status in _REFUSED:
                self._refused.labels(str(status)).inc()
            if streams:
                self._events.dec()
            else:
                self._took.labels(route, method).observe(time.perf_counter() - began)


def _route(scope: Scope) -> str:
    """Return the template of the route that was matched; `none` if the request was refused before, or there is none."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path is None:
        return "none"
    return f"{_API}{path}" if scope["path"].startswith(f"{_API}/") and not path.startswith(f"{_API}/") else path
