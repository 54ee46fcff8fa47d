"""Requests to a web service that the operator configured: JSON responses; the key is never exposed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .._internal.foreign_text import read_strict_json
from .._internal.redaction import redact, register_secret
from ..errors import ToolError, UsageError

MAX_ANSWER = 4_000_000  # bytes
AGENT = f"Retinue/{import_module('retinue').__version__}"  # user agent, which some services require
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_PIECE = 65_536


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request: a POST with `body` as JSON, or else a GET."""

    path: str
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Any = field(default=None, repr=False)


class ServiceAnswer(NamedTuple):
    """A response: `body` is the JSON, `None` if it is not JSON; names of `headers` are in lower case."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Service:
    """A service's address, key and time limits: `seconds` for the whole request, `connect` to connect.

    `key` is empty if the service needs none. Redirects are not followed, since they would carry the key elsewhere.
    Raises `UsageError` for an invalid address or key.
    """

    name: str
    base_url: str
    key: str = field(repr=False)
    seconds: float = 20.0
    connect: float = 5.0

    def __post_init__(self) -> None:
        if find_spec("aiohttp") is None:
            raise UsageError(f"{self.name} needs the extra 'web': pip install 'retinue[web]'")
        try:
            address = urlsplit(self.base_url)
            _ = address.port
        except ValueError:
            address = urlsplit("")
        if address.scheme not in ("http", "https") or not address.hostname or address.username:
            raise UsageError(f"{self.name}: base_url is not the address of a server (want https://host)")
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise UsageError(f"{self.name}: the API key has characters that no key has, such as a line break")
        register_secret(self.key)

    async def ask(self, request: ServiceRequest) -> tuple[int, Any]:
        """Return the status and the JSON of the response (`None` if it is not JSON). Raises `ToolError`."""
        status, body, _ = await self.answer(request)
        return status, body

    async def answer(self, request: ServiceRequest) -> ServiceAnswer:
        """Return the response, whatever its status. Raises `ToolError`."""
        import aiohttp

        try:
            status, text, headers = await self._exchange(request)
        except (TimeoutError, aiohttp.ClientError, UnicodeError) as error:
            problem = self._problem(error)
        else:
            try:
                return ServiceAnswer(status, read_strict_json(self.redacted(text)), headers)
            except ValueError:
                return ServiceAnswer(status, None, headers)
        raise ToolError(problem)  # raised here, so that its context has no error with the address and thus the key

    def redacted(self, text: str) -> str:
        """Return `text` without secrets, in any of the forms in which they are sent."""
        return redact(text)

    async def _exchange(self, request: ServiceRequest) -> tuple[int, str, Mapping[str, str]]:
        import aiohttp

        limits = aiohttp.ClientTimeout(total=self.seconds, sock_connect=self.connect)
        async with (
            aiohttp.ClientSession(
                headers={"Accept-Encoding": "identity", "User-Agent": AGENT, **request.headers},
                timeout=limits,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=urlsplit(self.base_url).hostname not in _THIS_MACHINE,
            ) as http,
            http.request(
                "GET" if request.body is None else "POST",
                f"{self.base_url.rstrip('/')}{request.path}",
                params=request.params,
                json=request.body,
                allow_redirects=False,
            ) as answer,
        ):
            if 300 <= answer.status < 400:
                raise ToolError(f"{self.name} answered {answer.status}, a redirect; these are not followed")
            headers = {name.lower(): self.redacted(value) for name, value in answer.headers.items()}
            return answer.status, await self._text(answer), headers

    async def _text(self, answer: Any) -> str:
        coding = answer.headers.get("Content-Encoding", "identity")
        if coding != "identity":
            raise ToolError(f"{self.name}'s answer is packed ({coding[:20]}), which was not asked for")
        data = bytearray()
        async for piece in answer.content.iter_chunked(_PIECE):
            data += piece
            if len(data) > MAX_ANSWER:
                raise ToolError(f"{self.name}'s answer is larger than {MAX_ANSWER:,} bytes")
        return data.decode("utf-8", "replace")

    def _problem(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"{self.name} did not answer within {self.seconds:g} seconds"
        reason = getattr(error, "os_error", None)
        if isinstance(reason, OSError):
            said = os.strerror(reason.errno) if reason.errno and reason.errno > 0 else type(reason).__name__
            return f"{self.name} cannot be reached: {said}"
        return f"{self.name} cannot be reached: the connection broke off ({type(error).__name__})"
