"""Metrics of the API's requests: by route, never by path, for there is no end of paths."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..http.authentication import is_stream
from ..http.request_context import without_slash
from .run_metrics import SECONDS

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_API = "/v1"
_REFUSED = (401, 403, 429)
_LEFT = "none"  # the client left before it was answered


class RequestMetrics:
    """The metrics of requests. `measure` is a middleware, the outermost."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "retinue_http_requests",
            "Requests that are over, by the class of their status.",
            ("route", "method", "status"),
            registry=registry,
        )
        self._took = Histogram(
            "retinue_http_request_duration",
            "Requests, until the last byte of the answer; without streams.",
            ("route", "method"),
            unit="seconds",
            buckets=SECONDS,
            registry=registry,
        )
        self._refused = Counter(
            "retinue_http_refusals",
            "Requests refused for their key (401), its scopes or page (403), or a limit (429).",
            ("status",),
            registry=registry,
        )
        self.in_flight = Gauge("retinue_http_requests_in_flight", "Requests under way.", registry=registry)
        self._streams = Gauge(
            "retinue_streams_open", "Open event streams and WebSockets.", ("transport",), registry=registry
        )
        self.events, self.sockets = self._streams.labels("sse"), self._streams.labels("websocket")

    def ended(self, scope: Scope, status: int, seconds: float | None) -> None:
        """Count a request that is over: with its duration, unless it was a stream."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = _route(scope)
        self._requests.labels(route, method, f"{status // 100}xx" if status else _LEFT).inc()
        if status in _REFUSED:
            self._refused.labels(str(status)).inc()
        if seconds is not None:
            self._took.labels(route, method).observe(seconds)


class MeasuredRequests:
    """Measures the requests to `app`."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "websocket":
            with self._metrics.sockets.track_inprogress():
                await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = without_slash(scope)  # here, so that the route is noted in this very object
        began, status, streams = time.perf_counter(), 0, False

        async def sending(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                if is_stream(message):
                    streams = True
                    self._metrics.events.inc()
            await send(message)

        try:
            with self._metrics.in_flight.track_inprogress():
                await self._app(scope, receive, sending)
        finally:
            if streams:
                self._metrics.events.dec()
            self._metrics.ended(scope, status, None if streams else time.perf_counter() - began)


def _route(scope: Scope) -> str:
    """Return the template of the route that was matched; `none` if the request was refused before, or there is none."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path is None:
        return "none"
    return f"{_API}{path}" if scope["path"].startswith(f"{_API}/") and not path.startswith(f"{_API}/") else path
