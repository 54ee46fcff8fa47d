"""An HTTP endpoint as a tool: the arguments go there as JSON, and what it answers is the result.

For addresses that an operator configured, so private ones are allowed. Redirects are not followed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from .._internal.redaction import register_url_secrets
from ..core.toolbox import idempotency_header
from ..errors import NotDone, ToolError, UsageError

MAX_ANSWER = 1_000_000  # bytes
_ELSEWHERE = (301, 307, 308)  # the request belongs to another address; 302 and 303 may follow something that was done


def endpoint(url: str, output: str | None = None) -> Callable[..., Awaitable[Any]]:
    """A function that posts its arguments to `url`. Of an answer that is a JSON object, the value under
    `output` is the result; of any other, its text. Raises `NotDone` if it cannot be reached or refuses (4xx),
    `ToolError` for what else goes wrong, and here `UsageError` without the extra `web`."""
    try:
        import aiohttp
    except ImportError as error:
        raise UsageError("tools behind HTTP need the extra 'web': pip install 'retinue[web]'") from error

    register_url_secrets(url)

    async def call(**arguments: Any) -> Any:
        headers = {"Accept-Encoding": "identity", **idempotency_header()}
        try:
            async with (
                aiohttp.ClientSession(
                    headers=headers, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
                ) as http,
                http.post(url, json=arguments, allow_redirects=False, timeout=aiohttp.ClientTimeout()) as answer,
            ):
                text = await _text(answer)
                _refuse(answer.status, text, answer.headers.get("Location", ""))
                return _picked(text, output)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            reason = getattr(getattr(error, "os_error", None), "strerror", None) or type(error).__name__
            raise NotDone(f"the endpoint cannot be reached: {reason}") from error  # its address is not the model's
        except aiohttp.ClientError as error:
            reason = getattr(getattr(error, "os_error", None), "strerror", None) or type(error).__name__
            raise ToolError(f"the endpoint broke off: {reason}") from error

    return call


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
    except LookupError:  # a charset that nobody knows
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
