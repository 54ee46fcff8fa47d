"""An HTTP endpoint as a tool: it receives the arguments as JSON, and its response is the result.

Addresses that come from the operator may be private; any other passes a guard. Redirects are not followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from .._internal.redaction import register_named_secrets, register_url_secrets
from ..core.call_failure import call_failure
from ..core.run_context import idempotency_header
from ..errors import ToolError, UsageError
from ..net.ssrf_guard import SsrfGuard

MAX_ANSWER = 1_000_000  # bytes
_NO_HEADERS: Mapping[str, str] = {}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = (
    "host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding", "idempotency-key",
)  # fmt: skip


def endpoint(
    url: str, output: str | None = None, guard: SsrfGuard | None = None, headers: Mapping[str, str] = _NO_HEADERS
) -> Callable[..., Awaitable[Any]]:
    """Return a function that posts its arguments to `url`, wherever that is, or where `guard` allows it.

    If the response is a JSON object, the value under `output` is the result; otherwise its text. The function raises
    `ToolError`, and `NotDone` by the rule in `core/call_failure.py`: if the endpoint cannot be reached. `headers` are
    sent with each call. Raises `UsageError` without the extra `web`, and for headers that cannot be sent.
    """
    try:
        import aiohttp
    except ImportError as error:
        raise UsageError("tools behind HTTP need the extra 'web': pip install 'retinue[web]'") from error

    if problem := next(header_problems(headers), None):
        raise UsageError(problem)
    register_url_secrets(url)
    register_named_secrets(headers)

    async def call(**arguments: Any) -> Any:
        sent = {**headers, "Accept-Encoding": "identity", **idempotency_header()}
        target, connector = await _checked(url, guard)
        try:
            async with (
                aiohttp.ClientSession(
                    headers=sent, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), connector=connector
                ) as http,
                http.post(target, json=arguments, allow_redirects=False, timeout=aiohttp.ClientTimeout()) as answer,
            ):
                text = await _text(answer)
                _refuse(answer.status, text, answer.headers.get("Location", ""))
                return _picked(text, output)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            reason = getattr(getattr(error, "os_error", None), "strerror", None) or type(error).__name__
            raise call_failure(f"the endpoint cannot be reached: {reason}", sent=False) from error  # hides the address
        except aiohttp.ClientError as error:
            reason = getattr(getattr(error, "os_error", None), "strerror", None) or type(error).__name__
            raise call_failure(f"the endpoint broke off: {reason}", sent=True) from error

    return call


def header_problems(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with headers for an endpoint."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            yield f"headers: {name[:80]!r} cannot be set"
        elif not (value.isprintable() and value.isascii()):
            yield f"headers: {name}: want printable ASCII on one line"


async def _checked(url: str, guard: SsrfGuard | None) -> tuple[Any, Any]:
    """Return what to connect to, and by which connector. Raises `NotDone` if the guard forbids it."""
    if guard is None:
        return url, None
    from yarl import URL

    try:
        address, ips = await guard.addresses(url)
    except ToolError as error:
        raise call_failure(str(error), sent=False) from error
    return URL(str(address), encoded=True), guard.connector(ips)


async def _text(answer: Any) -> str:
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise ToolError(f"the endpoint's answer is packed ({coding[:20]}), which was not asked for")
    data = bytearray()
    async for chunk in answer.content.iter_chunked(65_536):
        data += chunk
        if len(data) > MAX_ANSWER:
            raise ToolError(f"the endpoint's answer is larger than {MAX_ANSWER:,} bytes")
    try:
        return data.decode(answer.charset or "utf-8", "replace")
    except LookupError:  # unknown charset
        return data.decode("utf-8", "replace")


def _refuse(status: int, text: str, location: str) -> None:
    if 300 <= status < 400:
        where = f"to go to {location[:200]!r}; redirects are not followed"
        raise call_failure(f"the endpoint answered {status}, {where}", sent=True)
    if not 200 <= status < 300:
        said = " ".join(text.split())[:500] or "(no message)"
        raise call_failure(f"the endpoint answered {status}: {said}", sent=True)


def _picked(text: str, output: str | None) -> Any:
    if output is None:
        return text
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return values[output] if isinstance(values, dict) and output in values else text
