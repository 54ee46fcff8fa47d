"""Keeps each key within its limits, before anything of a request's body is read, and tells it of them."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..runs import Turns
from ..store.keys import Key
from .auth import is_stream
from .edge import answer_of
from .errors import ApiError
from .limits import Limits, overloaded, room, too_many
from .scopes import needed

_BEGINS = re.compile(r"/v1/(threads/runs|threads/[^/]+/runs|chat/completions|responses)")
_MOST_WAITING = 10_000  # runs of all keys


class Limited:
    """Lets through to `app` what the key of a request may still ask for. `turns` are those of the runs."""

    def __init__(self, app: ASGIApp, limits: Limits, turns: Turns) -> None:
        self._app = app
        self._limits = limits
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        key: Key | None = scope.get("state", {}).get("key")
        if scope["type"] != "http" or key is None:
            await self._app(scope, receive, send)
            return
        self._limits.know(key)
        stream = _Stream(self._limits, key.id)
        scope["state"]["begin_stream"] = stream.begin  # for who reads in a body that one is wanted

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                if is_stream(message):
                    stream.begin(refuses=False)  # what was done cannot be refused any more
                MutableHeaders(scope=message).update(dict(self._limits.headers(key.id)))
            await send(message)

        try:
            self._admit(key, scope)
            if scope["method"] == "GET" and parse_qs(scope["query_string"]).get(b"stream") == [b"true"]:
                stream.begin()
        except ApiError as error:
            await answer_of(error)(scope, receive, sending)
        else:
            await self._app(scope, receive, sending)
        finally:
            stream.end()

    def _admit(self, key: Key, scope: Scope) -> None:
        self._limits.request(key.id, reads=needed(scope["method"], scope["path"]) == "read")
        if scope["method"] == "POST" and _BEGINS.fullmatch(scope["path"]):
            self._limits.tokens(key.id)
            if len(self._turns.waiting) >= _MOST_WAITING:
                raise overloaded()
            most = room(self._limits.of(key.id), self._turns.at_once)
            if most is not None and self._turns.of_key(key.id) >= most:  # seen again when it is written, exactly
                raise too_many("runs", most)


class _Stream:
    """A request's stream, if it comes to one; counted once."""

    def __init__(self, limits: Limits, key_id: str) -> None:
        self._limits = limits
        self._key_id = key_id
        self._counted = False

    def begin(self, *, refuses: bool = True) -> None:
        """It is about to be opened. Raises `ApiError` for one too many."""
        if not self._counted:
            self._limits.stream(self._key_id, refuses=refuses)
            self._counted = True

    def end(self) -> None:
        """It was closed, if it ever was open."""
        if self._counted:
            self._limits.streamed(self._key_id)
