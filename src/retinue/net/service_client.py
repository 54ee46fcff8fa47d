"""Requests to a web service that the operator configured: JSON responses; the key is never exposed.

Rate limits are honored (`Retry-After`), and refusals are reported to the model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import urlencode

from .._internal.foreign_text import read_strict_json
from .._internal.redaction import redact, register_secret
from ..errors import ToolError, UsageError
from .connection_pool import FAILURES, TooLargeError, describe_failure, open_response, read_body, route
from .retry import Attempts, Retries, TimeLimits, parse_retry_after

MAX_ANSWER = 4_000_000  # bytes
AGENT = f"Retinue/{import_module('retinue').__version__}"  # user agent, which some services require
MAX_QUERY = 2_000  # characters
_CONNECT = 5.0  # seconds
_RETRIES = Retries(tries=3, longest_wait=86_400.0)
_ERROR_MESSAGES = ("message", "msg", "reason", "detail", "info", "error", "errors")


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
    """A service's address and key, and `seconds` for the whole request.

    `key` is empty if the service needs none. Redirects are not followed, since they would carry the key elsewhere.
    Raises `UsageError` for an invalid address or key.
    """

    name: str
    base_url: str
    key: str = field(repr=False)
    seconds: float = 20.0

    def __post_init__(self) -> None:
        try:
            route(self.base_url)
        except ValueError:
            raise UsageError(f"{self.name}: base_url is not the address of a server (want https://host)") from None
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise UsageError(f"{self.name}: the API key has characters that no key has, such as a line break")
        register_secret(self.key)

    async def answer(self, request: ServiceRequest) -> ServiceAnswer:
        """Return the response, whatever its status. Raises `ToolError`."""
        try:
            status, text, headers = await self._exchange(request)
        except TimeoutError:
            problem = f"{self.name} did not answer within {self.seconds:g} seconds"
        except FAILURES as error:
            problem = f"{self.name} {describe_failure(error)}"
        except TooLargeError as error:
            problem = f"{self.name}'s answer is larger than {error.most:,} bytes"
        except UnicodeError:
            problem = f"{self.name} cannot be asked that: it is not valid Unicode"
        else:
            try:
                return ServiceAnswer(status, read_strict_json(redact(text)), headers)
            except ValueError:
                return ServiceAnswer(status, None, headers)
        raise ToolError(problem)  # raised here, so that its context has no error with the address and thus the key

    async def _exchange(self, request: ServiceRequest) -> tuple[int, str, Mapping[str, str]]:
        url = f"{self.base_url.rstrip('/')}{request.path}"
        if request.params:
            url += f"{'&' if '?' in url else '?'}{urlencode(request.params)}"
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": AGENT, **request.headers}
        body = None
        if request.body is not None:
            headers["Content-Type"], body = "application/json", json.dumps(request.body).encode()
        way = route(self.base_url)
        sent = way.request("GET" if body is None else "POST", url, headers, body)
        async with open_response(way, sent, TimeLimits(_CONNECT, self.seconds, self.seconds)) as response:
            if 300 <= response.status < 400:
                raise ToolError(f"{self.name} answered {response.status}, a redirect; these are not followed")
            text = (await read_body(response, MAX_ANSWER)).decode("utf-8", "replace")
            return response.status, text, {name: redact(value) for name, value in response.headers.items()}


def pause_seconds(answer: ServiceAnswer) -> float | None:
    """Return the seconds to wait before the next request, or `None` if the service asks for no pause."""
    return parse_retry_after(answer.headers.get("retry-after")) if answer.status in (429, 503) else None


async def ask_service(
    service: Service, request: ServiceRequest, wait: Callable[[ServiceAnswer], float | None] = pause_seconds
) -> ServiceAnswer:
    """Return the service's successful response. Honors `Retry-After` a few times, within the service's time limit.

    `wait` extracts the pause from a response. Raises `UsageError` if the key is rejected, otherwise `ToolError`.
    """
    attempts = Attempts(_RETRIES, service.seconds)
    while (seconds := wait(answer := await service.answer(request))) is not None:
        if attempts.count_failure(seconds) is None:
            at = datetime.now(UTC) + timedelta(seconds=min(seconds, 86_400))
            when = f"in {seconds:,.0f} seconds, at {at:%H:%M:%S} UTC"
            raise ToolError(f"{service.name} answers no more for now (its rate limit is reached); try again {when}")
        await asyncio.sleep(seconds)
    if 200 <= answer.status < 300:
        return answer
    said = read_error_text(answer.body)
    if answer.status == 401:
        raise UsageError(f"{service.name} {'refused the key' if service.key else 'wants a key'}: {said}")
    raise ToolError(f"{service.name} answered {answer.status}: {said}")


def read_error_text(body: Any) -> str:
    """Extract the message from an error's JSON, in the formats that services use."""

    def find(body: Any, depth: int) -> str:
        if isinstance(body, str):
            return body
        if isinstance(body, list) and depth:
            return "; ".join(filter(None, (find(item, depth - 1) for item in body[:5])))
        if not isinstance(body, Mapping) or not depth:
            return ""
        return ": ".join(dict.fromkeys(filter(None, (find(body.get(key), depth - 1) for key in _ERROR_MESSAGES))))

    return " ".join(find(body, 3).split())[:500] or "(no message)"


def parse_json_object(service: Service, body: Any, what: str) -> Mapping[str, Any]:
    """Return `body`, which must be a JSON object. Raises `ToolError`."""
    if not isinstance(body, Mapping):
        raise ToolError(f"{service.name} answered with something that is not the JSON of {what}")
    return body


def check_query(query: str, what: str = "query") -> str:
    """Return `query` on one line. Raises `ToolError` if it is empty or too long."""
    query = " ".join(query.split())
    if not query:
        raise ToolError(f"the {what} is empty; say what to look for")
    if len(query) > MAX_QUERY:
        raise ToolError(f"the {what} is longer than {MAX_QUERY:,} characters; use a few words")
    return query
