"""Parses request bodies: bounded JSON, without content that cannot be stored or sent back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, NamedTuple

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from ..._internal.concurrency import run_in_thread
from ..._internal.foreign_text import STRICTEST, read_strict_json

MAX_BYTES = 20_000_000  # per upload
MAX_OTHER_BYTES = 8_000_000  # any other body: the largest image in base64, or a conversation of two million tokens
_UPLOADS = re.compile(r"/v1/files(/.*)?|/v1/runs/import|/v1/audio/transcriptions")
MAX_VALUES = 30_000  # each value costs time on the event loop
_QUICK = 8_000  # bytes parsed on the event loop
_YES = ("true", "t", "1", "1.0", "yes", "y", "on")  # values that a route may read as true
_UNREADABLE = "We could not parse the JSON body of your request"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def max_body_bytes(path: str) -> int:
    """Return the maximum size of a request's body in bytes."""
    return MAX_BYTES if _UPLOADS.fullmatch(path) else MAX_OTHER_BYTES


class JsonRoute(APIRoute):
    """A route that parses its body with this module: `router = APIRouter(route_class=JsonRoute)`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with our parsing of the body."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            given = _Given(request.scope, request.receive)
            if self.body_field is not None and given.is_json and (body := await given.body()):
                kind, server = self.body_field.field_info.annotation, request.app.state.server
                given.read = await _read(body, server, request.state.tenant, kind)
                value = given.read.value
                if isinstance(value, dict) and str(value.get("stream")).lower() in _YES:
                    request.state.admission.begin_stream()  # refuse now rather than after work was done
            return await handle(given)

        return handled


class _Given(Request):
    read: _Read

    @property
    def is_json(self) -> bool:
        said = self.headers.get("content-type", "json")
        return "json" in said.lower()

    async def json(self) -> Any:
        return self.read.value if self.read.model is None else self.read.model


class _Read(NamedTuple):
    """The parsed body; of a large one also the validated model, which FastAPI then uses."""

    value: Any
    model: Any = None


async def json_in(body: bytes, server: Any, tenant: str) -> Any:
    """Parse a body as `read_json` does; a large one in a thread, when it is the tenant's turn."""
    return (await _read(body, server, tenant)).value


async def _read(body: bytes, server: Any, tenant: str, kind: Any = None) -> _Read:
    strict = kind is not None and server.options.strict
    if len(body) <= _QUICK:
        value = read_json(body)
        if strict:
            _refuse_unknown(kind, value)
        return _Read(value)
    async with server.shares.large.rested(tenant):
        return await run_in_thread(_read_large, body, kind, strict)


def read_json(body: bytes) -> Any:
    """Return the value in `body`. Raises `HTTPException` (400) if it is not JSON, or exceeds the limits."""
    if _has_more(body, MAX_VALUES):
        raise HTTPException(400, f"{_UNREADABLE}: it has more than {MAX_VALUES:,} values.")
    try:
        text = body.decode("utf-8-sig")
        value = read_strict_json(text, STRICTEST)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise HTTPException(400, f"{_UNREADABLE}: it contains a lone surrogate.") from error
    except ValueError as error:
        raise HTTPException(400, f"{_UNREADABLE}: {error}.") from error
    return value


def _has_more(body: bytes, most: int) -> bool:
    """Whether JSON has more than about `most` values, estimated before parsing."""
    if _marks(body) <= most:
        return False
    texts = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    if texts.count(b'"') > 4 * most:  # two per name and per value
        return True
    return _marks(b"".join(texts.split(b'"')[::2])) > most


def _marks(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _read_large(body: bytes, kind: Any, strict: bool) -> _Read:
    """Parse and validate a large body. Only the first error is reported; FastAPI would list all."""
    value = read_json(body)
    if strict:
        _refuse_unknown(kind, value)
    try:
        return _Read(value, None if kind is None else _adapter(kind).validate_python(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=True)[0]
        raise RequestValidationError([{**first, "loc": ("body", *first["loc"])}]) from error


def _refuse_unknown(kind: Any, value: Any) -> None:
    """Refuse keys that `kind` does not have, unless they are null: SDKs send back what they were told with all keys of
    their own types."""
    try:
        _adapter(kind).validate_python(value, extra="forbid")
    except ValidationError as error:
        errors = error.errors(include_url=False)
        unknown = [one for one in errors if one["type"] == "extra_forbidden" and one["input"] is not None]
        if unknown:
            raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in unknown]) from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
