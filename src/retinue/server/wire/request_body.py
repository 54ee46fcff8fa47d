"""Reading the bodies of requests: JSON, bounded, and with nothing in it that cannot be kept or said again."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import cache
from math import isfinite
from typing import Any, NamedTuple

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from ..._internal.thread_pool import run_in_thread

MAX_BYTES = 20_000_000  # of an upload
MAX_OTHER_BYTES = 4_000_000  # of any other body: a conversation of a million tokens, the largest windows there are
_UPLOADS = re.compile(r"/v1/files(/.*)?")
MAX_DEPTH = 64
MAX_VALUES = 30_000  # numbers, texts, objects and so on: whatever is made of each is made where others wait
_QUICK = 8_000  # bytes that are read where others wait
_YES = ("true", "t", "1", "1.0", "yes", "y", "on")  # of which a route may take any for a boolean
_UNREADABLE = "We could not parse the JSON body of your request"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def max_body_bytes(path: str) -> int:
    """How large the body of a request may be."""
    return MAX_BYTES if _UPLOADS.fullmatch(path) else MAX_OTHER_BYTES


class JsonRoute(APIRoute):
    """A route whose body is read here: `router = APIRouter(route_class=JsonRoute)`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own handler, given a request that reads its body so."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            given = _Given(request.scope, request.receive)
            if self.body_field is not None and given.is_json and (body := await given.body()):
                kind, server = self.body_field.field_info.annotation, request.app.state.server
                if len(body) > _QUICK:
                    async with server.large.rested(request.state.tenant):
                        read = await run_in_thread(_checked, kind, body, server.options.strict)
                else:
                    read = _Read(read_json(body))
                    if server.options.strict:
                        _known(kind, read.value)
                given.read = read
                if isinstance(read.value, dict) and str(read.value.get("stream")).lower() in _YES:
                    request.state.begin_stream()  # which may be refused now, and not once something was done
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
    """What is in a body; of a large one also what FastAPI would make of it, which it then takes as it is."""

    value: Any
    model: Any = None


async def json_in(body: bytes, server: Any, tenant: str) -> Any:
    """`read_json`, of a large body where nobody waits for it, and when it is the tenant's turn."""
    if len(body) <= _QUICK:
        return read_json(body)
    async with server.large.rested(tenant):
        return await run_in_thread(read_json, body)


def read_json(body: bytes) -> Any:
    """The value in `body`. Raises `HTTPException` (400) for what is no JSON, or none that we take."""
    if _has_more(body, MAX_VALUES):
        raise HTTPException(400, f"{_UNREADABLE}: it has more than {MAX_VALUES:,} values.")
    try:
        text = body.decode("utf-8-sig")
        value = json.loads(text, parse_float=_finite, parse_constant=_refuse, object_pairs_hook=_once)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        deep = text.count("[") + text.count("{") > MAX_DEPTH and _deeper(value, MAX_DEPTH)
    except UnicodeEncodeError as error:
        raise HTTPException(400, f"{_UNREADABLE}: it has half of a surrogate pair.") from error
    except ValueError as error:
        raise HTTPException(400, f"{_UNREADABLE}: {error}.") from error
    except RecursionError:
        deep = True
    if deep:
        raise HTTPException(400, f"{_UNREADABLE}: it is nested more than {MAX_DEPTH} levels deep.")
    return value


def _has_more(body: bytes, most: int) -> bool:
    """Whether there are more than about `most` values in JSON, counted before any is made."""
    if _marks(body) <= most:
        return False
    texts = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    if texts.count(b'"') > 4 * most:  # two for each name, and for each value
        return True
    return _marks(b"".join(texts.split(b'"')[::2])) > most


def _marks(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse(text)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text[:40]} is not a number that JSON has")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, in which each key is said once: else one reads the first value and another the last."""
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key '{twice[:40]}' is there twice in one object")
    return value


def _deeper(value: Any, levels: int) -> bool:
    """Whether `value` is nested more than `levels` deep."""
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for one in layer
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True


def _checked(kind: Any, body: bytes, strict: bool) -> _Read:
    """What is in a large body. It is refused for the first thing that is wrong with it: FastAPI would tell of all, one
    by one."""
    value = read_json(body)
    if strict:
        _known(kind, value)
    try:
        return _Read(value, _adapter(kind).validate_python(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=True)[0]
        raise RequestValidationError([{**first, "loc": ("body", *first["loc"])}]) from error


def _known(kind: Any, value: Any) -> None:
    """Refuse keys that `kind` does not have."""
    try:
        _adapter(kind).validate_python(value, extra="forbid")
    except ValidationError as error:
        unknown = [one for one in error.errors(include_url=False) if one["type"] == "extra_forbidden"]
        if unknown:
            raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in unknown]) from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
