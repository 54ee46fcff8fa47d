"""An HTTP endpoint as a tool: it receives the arguments as JSON, and its response is the result.

Addresses that come from the operator may be private; any other passes a guard. Redirects are not followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from math import inf
from typing import Any
from urllib.parse import quote

from .._internal.redaction import register_named_secrets, register_url_secrets
from ..core.context_templates import describe_bad_template, fill_headers, fill_template, has_template
from ..core.run_context import idempotency_header
from ..errors import ToolError, UsageError
from ..net.connection_pool import (
    FAILURES,
    CannotConnectError,
    ConnectTimeoutError,
    Route,
    TooLargeError,
    describe_failure,
    encode_basic_login,
    open_response,
    read_address,
    read_body,
)
from ..net.error_mapping import call_failure
from ..net.retry import TimeLimits
from ..net.ssrf_guard import CHARSET, SsrfGuard

MAX_ANSWER = 1_000_000  # bytes
_LIMITS = TimeLimits(inf, inf, inf)  # a tool has a time limit of its own
_NO_HEADERS: Mapping[str, str] = {}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = (
    "host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding", "idempotency-key",
)  # fmt: skip


def make_endpoint(
    url: str, output: str | None = None, guard: SsrfGuard | None = None, headers: Mapping[str, str] = _NO_HEADERS
) -> Callable[..., Awaitable[Any]]:
    """Return a function that posts its arguments to `url`, wherever that is, or where `guard` allows it.

    If the response is a JSON object, the value under `output` is the result; otherwise its text. The function raises
    `ToolError`, and `NotDone` by the rule in `net/error_mapping.py`: if the endpoint cannot be reached. `headers` are
    sent with each call. They and the query of `url` may have templates (`core/context_templates.py`), but not where
    somebody else than the operator chose the address, and so would be told the secrets. Raises `UsageError`.
    """
    address, mark, query = url.partition("?")
    if problem := next(find_header_problems(headers), None) or describe_bad_template(url):
        raise UsageError(problem)
    if has_template(address if guard is None else url):
        raise UsageError("templates can stand in the query of an operator's address only, not before it")
    register_url_secrets(url)
    register_named_secrets(headers)
    given = {name.lower() for name in headers}

    async def call(**arguments: Any) -> Any:
        sent = await fill_headers(headers)
        whole = address + mark + await fill_template(query, partial(quote, safe=""))
        try:
            way = await guard.route(url) if guard is not None else Route(read_address(url))
            usual = {"User-Agent": "retinue", "Accept": "*/*", "Authorization": encode_basic_login(url)}
            usual = {name: value for name, value in usual.items() if value and name.lower() not in given}
            fixed = {"Accept-Encoding": "identity", "Content-Type": "application/json", **idempotency_header()}
            request = way.request("POST", whole, {**usual, **sent, **fixed}, json.dumps(arguments).encode())
        except (ToolError, ValueError) as error:
            problem = str(error) if isinstance(error, ToolError) else "the endpoint cannot be reached: invalid address"
            raise call_failure(problem, sent=False) from error  # hides the address
        try:
            async with open_response(way, request, _LIMITS) as response:
                body = await read_body(response, MAX_ANSWER)
        except TooLargeError as error:
            raise ToolError(f"the endpoint's answer is larger than {error.most:,} bytes") from None
        except FAILURES as error:
            sent_any = not isinstance(error, CannotConnectError | ConnectTimeoutError)
            raise call_failure(f"the endpoint {describe_failure(error)}", sent=sent_any) from error
        return _read_answer(response.status, response.headers, body, output)

    return call


def find_header_problems(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with headers for an endpoint."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            yield f"headers: {name[:80]!r} cannot be set"
        elif not (value.isprintable() and value.isascii()):
            yield f"headers: {name}: want printable ASCII on one line"
        elif problem := describe_bad_template(value):
            yield f"headers: {name}: {problem}"


def _read_answer(status: int, headers: Mapping[str, str], body: bytes, output: str | None) -> Any:
    charset = CHARSET.search(headers.get("content-type", ""))
    try:
        text = body.decode(charset[1] if charset else "utf-8", "replace")
    except LookupError:  # unknown charset
        text = body.decode("utf-8", "replace")
    if 300 <= status < 400:
        where = f"to go to {headers.get('location', '')[:200]!r}; redirects are not followed"
        raise call_failure(f"the endpoint answered {status}, {where}", sent=True)
    if not 200 <= status < 300:
        said = " ".join(text.split())[:500] or "(no message)"
        raise call_failure(f"the endpoint answered {status}: {said}", sent=True)
    try:
        values = None if output is None else json.loads(text)
    except (ValueError, RecursionError):
        return text
    return values[output] if isinstance(values, dict) and output in values else text
