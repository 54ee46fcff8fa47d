"""`Idempotency-Key`: a repeated request gets the same result, and its effects happen once.

The result of each write is stored in the same transaction. A repeated request runs again, but each write returns its
stored result. It therefore waits for the same run, or streams it again, even while the first request is still being
answered or after a crash.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, delete, select, update
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope as AsgiScope, Send

from ...errors import DataError, StoreUnavailable
from ...store.prepared_statements import Prepared, bound_insert
from ...store.run_queries import find_own_run
from ...store.run_row import UNREADABLE, RunRow, dump_values, load_values
from ...store.tables import requests
from ...store.tenant_view import TenantView
from .api_errors import ApiError, answer_of, not_found

T = TypeVar("T")
REPLAYED = "idempotent-replayed"
_KEPT = 86_400  # seconds for which a key is remembered
_CHANGING = "x-retinue-"  # prefix of headers that change what a request does, unlike those of identity or transport
_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_BOUNDARY = re.compile(r"multipart/.*boundary=\"?([^\";]+)", re.IGNORECASE)
_ANEW = "use a new key for each request"
_UNREADABLE = "the stored result of a request with an Idempotency-Key cannot be read"
_NOT_KEPT = (429, 500)  # of a run without side effects: the same key may try again. After a 503 the run goes on

_OWN = tuple(requests.c[name] == bindparam(name, type_=requests.c[name].type) for name in ("tenant", "key", "route"))
_LOCK = Prepared(
    select(requests.c.created_at, requests.c.body_hash, requests.c.response).where(*_OWN).with_for_update()
)
_INSERT = bound_insert(requests)
_UPDATE = Prepared(update(requests).where(*_OWN).values(response=bindparam("done", type_=requests.c.response.type)))
_DELETE = Prepared(delete(requests).where(*_OWN))


class Idempotency:
    """Adds a `Repeat` to the state of POST requests that have an `Idempotency-Key`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        key = headers.get("idempotency-key") if headers and scope["method"] == "POST" else None
        if key is None:
            await self._app(scope, receive, send)
            return
        if not _KEY.fullmatch(key):
            message = "Invalid 'Idempotency-Key': expected 1 to 255 printable ASCII characters."
            refusal = ApiError(400, message, param="Idempotency-Key", code="invalid_value")
            await answer_of(refusal)(scope, receive, send)
            return
        repeat = Repeat(key, scope["path"], scope["query_string"], headers)
        scope["state"]["repeat"] = repeat

        async def received() -> Message:
            message = await receive()
            repeat.add(message.get("body", b""))
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                if repeat.again:
                    MutableHeaders(scope=message)[REPLAYED] = "true"
                if message["status"] in _NOT_KEPT and repeat.done and not scope["state"].get("acted"):
                    with suppress(StoreUnavailable):
                        of = scope["state"]["key"]
                        whose = TenantView(of.tenant, user=of.user)
                        await scope["app"].state.server.database.write(partial(repeat.forget, scope=whose))
            await send(message)

        await self._app(scope, received, sending)


class Repeat:
    """A request with a key. `again` says whether it is a repetition; `done` holds the results of its writes."""

    def __init__(self, key: str, path: str, query: bytes, headers: Mapping[str, str]) -> None:
        self.again = False
        self.done: list[Any] = []
        self._key = key
        self._route = path[:256]
        self._writes = 0
        self._hash = hashlib.sha256(path.encode("utf-8", "replace") + b"?" + query + b"\n")
        for name in sorted({name.lower() for name in headers if name.lower().startswith(_CHANGING)}):
            self._hash.update(f"{name}: {headers[name]}\n".encode("utf-8", "replace"))
        boundary = _BOUNDARY.match(headers.get("content-type", ""))
        self._boundary = boundary[1].encode() if boundary else b""  # clients choose a new one for each request
        self._tail = b""

    def add(self, piece: bytes) -> None:
        """Hash the next part of the body."""
        *whole, rest = (self._tail + piece).split(self._boundary) if self._boundary else [piece]
        kept = min(len(rest), max(len(self._boundary) - 1, 0))
        for part in (*whole, rest[: len(rest) - kept]):
            self._hash.update(part)
        self._tail = rest[len(rest) - kept :]

    def digest(self) -> str:
        """Return the hash of the path, the query, the relevant headers and the body so far."""
        whole = self._hash.copy()
        whole.update(self._tail)
        return whole.hexdigest()

    def once(self, work: Callable[[Connection, TenantView], T]) -> Callable[[Connection, TenantView], T]:
        """Wrap `work`, the request's next write, so that a repetition returns its stored result. If it raises, the next
        one takes its place. The returned function raises `ApiError` (409) if the key belongs to another request."""
        return partial(self._once, work, self._writes)

    def forget(self, connection: Connection, scope: TenantView) -> None:
        """Delete the key, unless it was reused meanwhile."""
        own = self._own(scope)
        found = _LOCK.rows(connection, own)
        if found and found[0][2] == self.done:
            _DELETE.run(connection, own)

    def _once(
        self, work: Callable[[Connection, TenantView], T], number: int, connection: Connection, scope: TenantView
    ) -> T:
        own, now, digest = self._own(scope), int(time.time()), self.digest()
        found = _LOCK.rows(connection, own)
        if found and found[0][0] <= now - _KEPT:
            _DELETE.run(connection, own)
            found = []
        if found and found[0][1] != digest:
            message = f"The Idempotency-Key '{self._key}' was used for another request before; {_ANEW}."
            no = {"x-should-retry": "false"}
            raise ApiError(409, message, param="Idempotency-Key", code="idempotency_key_conflict", headers=no)
        done = found[0][2] if found else []
        if not isinstance(done, list):
            raise DataError(_UNREADABLE)
        if number < len(done):
            self.again, self.done, self._writes = True, done, number + 1
            stored: T = _restore(connection, scope, done[number])
            return stored
        if not found:  # before the work: of two at once, one waits here for the other's result
            _INSERT.run(connection, {**own, "created_at": now, "body_hash": digest, "response": []})
        result = work(connection, scope)
        self.done, self._writes = [*done, _kept(result)], number + 1
        _UPDATE.run(connection, {**own, "done": self.done})
        return result

    def _own(self, scope: TenantView) -> dict[str, str]:
        return {"tenant": scope.tenant, "key": scope.own_name(self._key), "route": self._route}


def sweep(connection: Connection) -> None:
    """Delete expired keys."""
    connection.execute(delete(requests).where(requests.c.created_at <= int(time.time()) - _KEPT))


def _kept(result: Any) -> dict[str, Any]:
    """Convert a write's result to JSON. Client data is stored only under `json`, and is never interpreted."""
    if isinstance(result, RunRow):
        return {"run": result.id, "then": dump_values(result)}
    if type(result) is tuple:
        return {"tuple": [_kept(one) for one in result]}
    json.dumps(result)  # raises TypeError for other values: a bug in the route
    return {"json": result}


def _restore(connection: Connection, scope: TenantView, kept: Any) -> Any:
    """Restore a stored result; a run gets the status it had then. Raises `ApiError` (404) if the run was deleted."""
    match kept:
        case {"run": str() as id_, "then": dict() as then}:
            run = find_own_run(connection, scope, id_)
            if run is None:
                raise not_found("run", id_)
            with suppress(*UNREADABLE):
                return load_values(run, then)
        case {"tuple": [*parts]}:
            return tuple(_restore(connection, scope, one) for one in parts)
        case {"json": value}:
            return value
    raise DataError(_UNREADABLE)
