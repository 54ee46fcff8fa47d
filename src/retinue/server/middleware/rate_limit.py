"""Enforces each key's limits before any of the body is read, and reports them in headers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreUnavailable
from ...runs import Room
from ...store.api_keys import Key
from ...store.quota_usage import QuotaWatch, Standing
from ..wire.api_errors import ApiError
from .authentication import is_stream
from .quota_limits import quota_headers
from .request_context import answer_of
from .scopes import needed
from .usage_limits import UsageLimits, overloaded, room, too_many

_BEGINS = re.compile(
    r"/v1/(threads/runs|threads/[^/]+/runs|(chat/)?completions|responses)|/a2a/.+/message:(send|stream)"
)
_MOST_WAITING = 10_000  # runs of all keys


class RateLimit:
    """Passes requests within their key's limits to `app`. `places` are those for runs; `quotas` are those of
    tenants, which the answers' headers tell."""

    def __init__(self, app: ASGIApp, limits: UsageLimits, places: Room, quotas: QuotaWatch) -> None:
        self._app = app
        self._quotas = quotas
        self._limits = limits
        self._places = places
        self._beginning: Counter[str] = Counter()  # runs about to be created, by key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        key: Key | None = scope.get("state", {}).get("key")
        if key is None:
            await self._app(scope, receive, send)
            return
        self._limits.know(key)
        if scope["type"] == "websocket":
            await self._open(key, scope, receive, send)
            return
        stream = _Held(key.id, self._limits.streams)
        place = _Held(key.id, self._beginning)
        begin_stream = partial(self._begin_stream, key.id, stream)  # called by the route, which knows whether to stream
        begin_run = partial(self._begin_run, key, place)  # by a route whose body says whether it begins one

        standings: Sequence[Standing] = ()

        def see(head: Message) -> None:
            if is_stream(head):
                stream.hold()  # whatever the limit, since work done cannot be refused
            MutableHeaders(scope=head).update(dict([*self._limits.headers(key.id), *quota_headers(standings)]))

        scope["state"].update(begin_stream=begin_stream, begin_run=begin_run, written=place.let_go)
        scope["state"].setdefault("heads", []).append(see)
        try:
            self._admit(key, scope, place)
            with suppress(StoreUnavailable):
                standings = await self._quotas.of(key.tenant)
        except ApiError as error:
            await answer_of(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
        finally:
            stream.let_go()
            place.let_go()

    async def _open(self, key: Key, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a WebSocket: opening it counts as a read, and each request over it counts again."""
        try:
            self._limits.request(key.id, reads=True)
        except ApiError as error:
            await answer_of(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _begin_stream(self, key_id: str, stream: _Held) -> None:
        most = self._limits.of(key_id).streams
        if most is not None and not stream.held and self._limits.streams[key_id] >= most:
            raise too_many("open streams", most)
        stream.hold()

    def _admit(self, key: Key, scope: Scope, place: _Held) -> None:
        self._limits.request(key.id, reads=needed(scope["method"], scope["path"]) == "read")
        if scope["method"] == "POST" and _BEGINS.fullmatch(scope["path"]):
            self._begin_run(key, place)

    def _begin_run(self, key: Key, place: _Held) -> None:
        self._limits.tokens(key.id)
        if self._places.queued + self._beginning.total() >= _MOST_WAITING:
            raise overloaded()
        most = room(self._limits.of(key.id), self._places.at_once)
        if most is not None and self._places.of_key(key.id) + self._beginning[key.id] >= most:
            raise too_many("runs", most)  # otherwise counted again, exactly, when it is created
        place.hold()


class _Held:
    """A request's hold on one unit of a limited resource of its key."""

    def __init__(self, key_id: str, there: Counter[str]) -> None:
        self.held = False
        self._key_id = key_id
        self._there = there

    def hold(self) -> None:
        if not self.held:
            self.held = True
            self._there[self._key_id] += 1

    def let_go(self) -> None:
        if self.held:
            self.held = False
            self._there[self._key_id] -= 1
            if not self._there[self._key_id]:
                del self._there[self._key_id]
