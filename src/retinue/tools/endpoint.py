"""An HTTP endpoint as a tool: it receives the arguments as JSON, and its response is the result.

Addresses that come from the operator may be private; any other passes a guard. Redirects are not followed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from .._internal.redaction import register_url_secrets
from ..core.toolbox import idempotency_header
from ..errors import NotDone, ToolError, UsageError
from ..net.ssrf_guard import SsrfGuard

MAX_ANSWER = 1_000_000  # bytes
_ELSEWHERE = (301, 307, 308)  # the request itself belongs elsewhere; 302 and 303 may follow a completed action


def endpoint(url: str, output: str | None = None, guard: SsrfGuard | None = None) -> Callable[..., Awaitable[Any]]:
    """Return a function that posts its arguments to `url`, wherever that is, or where `guard` allows it.

    If the response is a JSON object, the value under `output` is the result; otherwise its text. The function raises
    `NotDone` if the endpoint is unreachable or rejects the call (4xx), and `ToolError` for other failures. Raises
    `UsageError` without the extra `web`.
    """
    try:
        import aiohttp
    except ImportError as error:
        raise UsageError("tools behind HTTP need the extra 'web': pip install 'retinue[web]'") from error

    register_url_secrets(url)

    async def call(**arguments: Any) -> Any:
        headers = {"Accept-Encoding": "identity", **idempotency_header()}
        target, connector = await _checked(url, guard)
        try:
            async with (
                aiohttp.ClientSession(
                    headers=headers, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), connector=connector
                ) as http,
                http.post(target, json=arguments, allow_redirects=False, timeout=aiohttp.ClientTimeout()) as answer,
            ):
                text = await _text(answer)
                _refuse(answer.status, text, answer.headers.get("Location", ""))
                return _picked(text, output)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            reason = getattr(getattr(error, "os_error", None), "strerror", None) or type(error).__name__
            raise NotDone(f"the endpoint cannot be reached: {reason}") from error  # hides the address
        except aiohttp.ClientError as error:
            reason = getattr(getattr(error, "os_error", None), "strerror", None) or type(error).__name__
            raise ToolError(f"the endpoint broke off: {reason}") from error

    return call


async def _checked(url: str, guard: SsrfGuard | None) -> tuple[Any, Any]:
    """Return what to connect to, and by which connector. Raises `NotDone` if the guard forbids it."""
    if guard is None:
        return url, None
    from yarl import URL

    try:
        address, ips = await guard.addresses(url)
    except ToolError as error:
        raise NotDone(str(error)) from error
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
        raise (NotDone if status in _ELSEWHERE else ToolError)(
            f"the endpoint answered {status}, to go to {location[:200]!r}; redirects are not followed"
        )
    if not 200 <= status < 300:
        refused = 400 <= status < 500
        raise (NotDone if refused else ToolError)(
            f"the endpoint answered {status}: {' '.join(text.split())[:500] or '(no message)'}"
        )


def _picked(text: str, output: str | None) -> Any:
    if output is None:
        return text
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return values[output] if isinstance(values, dict) and output in values else text
