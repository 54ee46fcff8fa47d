"""Requests to rate-limited services: `Retry-After` is honored, and refusals are reported to the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ..errors import ToolError, UsageError
from .retry import parse_retry_after
from .service_client import Service, ServiceAnswer, ServiceRequest

MAX_QUERY = 2_000  # characters
TRIES = 3
_MESSAGES = ("message", "msg", "reason", "detail", "info", "error", "errors")


def pause_seconds(answer: ServiceAnswer) -> float | None:
    """Return the seconds to wait before the next request, or `None` if the service asks for no pause."""
    return parse_retry_after(answer.headers.get("retry-after")) if answer.status in (429, 503) else None


async def ask_service(
    service: Service, request: ServiceRequest, wait: Callable[[ServiceAnswer], float | None] = pause_seconds
) -> ServiceAnswer:
    """Return the service's successful response. Honors `Retry-After` a few times, within the service's time limit.

    `wait` extracts the pause from a response. Raises `UsageError` if the key is rejected, otherwise `ToolError`.
    """
    clock = asyncio.get_running_loop().time
    until = clock() + service.seconds
    for left in reversed(range(TRIES)):
        answer = await service.answer(request)
        seconds = wait(answer)
        if seconds is None:
            break
        if left == 0 or clock() + seconds > until:
            at = datetime.now(UTC) + timedelta(seconds=min(seconds, 86_400))
            when = f"in {seconds:,.0f} seconds, at {at:%H:%M:%S} UTC"
            raise ToolError(f"{service.name} answers no more for now (its rate limit is reached); try again {when}")
        await asyncio.sleep(seconds)
    if answer.status == 401:
        raise UsageError(
            f"{service.name} {'refused the key' if service.key else 'wants a key'}: {error_text(answer.body)}"
        )
    if not 200 <= answer.status < 300:
        raise ToolError(f"{service.name} answered {answer.status}: {error_text(answer.body)}")
    return answer


def error_text(body: Any) -> str:
    """Extract the message from an error's JSON, in the formats that services use."""
    return " ".join(_message(body, 3).split())[:500] or "(no message)"


def _message(body: Any, depth: int) -> str:
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return "; ".join(filter(None, (_message(item, depth - 1) for item in body[:5]))) if depth else ""
    if not isinstance(body, Mapping) or not depth:
        return ""
    return ": ".join(dict.fromkeys(filter(None, (_message(body.get(key), depth - 1) for key in _MESSAGES))))


def json_object(service: Service, body: Any, what: str) -> Mapping[str, Any]:
    """Return `body`, which must be a JSON object. Raises `ToolError`."""
    if not isinstance(body, Mapping):
        raise ToolError(f"{service.name} answered with something that is not the JSON of {what}")
    return body


def checked_query(query: str, what: str = "query") -> str:
    """Return `query` on one line. Raises `ToolError` if it is empty or too long."""
    query = " ".join(query.split())
    if not query:
        raise ToolError(f"the {what} is empty; say what to look for")
    if len(query) > MAX_QUERY:
        raise ToolError(f"the {what} is longer than {MAX_QUERY:,} characters; use a few words")
    return query
