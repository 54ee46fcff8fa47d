"""Limits as requests meet them: each request of a key is admitted before any of its body is read, refusals are in
OpenAI's terms, and headers say what is left. What is limited, and how it is counted, is in `retinue/limits`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreUnavailable
from ...limits import LimitReached, quotas
from ...limits.places import Room
from ...limits.quotas import QuotaWatch, Standing
from ...limits.rate import KeyLimits, format_duration
from ...store.api_keys import Key
from ...store.clock import CLOCK
from ...store.usage_sums import NANOS
from .api_errors import ApiError, answer_of
from .authentication import is_stream, required_scope

P = ParamSpec("P")
T = TypeVar("T")
_BEGINS = re.compile(
    r"/v1/(threads/runs|threads/[^/]+/runs|(chat/)?completions|responses)|/a2a/.+/message:(send|stream)"
)
_MOST_WAITING = 10_000  # runs of all keys
_OVERLOADED = "Rate limit reached for all requests: the server is overloaded. Please try again in 5s."


def limit_error(error: LimitReached) -> ApiError:
    """Return what clients are told of a limit. OpenAI's SDKs would repeat at once what is refused for a quota."""
    wait = {} if error.seconds is None else {"retry-after": str(math.ceil(error.seconds))}
    match error.kind:
        case "storage":
            return ApiError(400, str(error), code="storage_limit_reached")
        case "quota":
            headers = {**wait, "x-should-retry": "false"}
            return ApiError(429, str(error), kind="insufficient_quota", code="insufficient_quota", headers=headers)
    milliseconds = {"retry-after-ms": str(math.ceil((error.seconds or 0) * 1000))}
    return ApiError(429, str(error), kind=error.kind, code="rate_limit_exceeded", headers=wait | milliseconds)


def _refusing(check: Callable[P, T]) -> Callable[P, T]:
    """Have a check raise `ApiError`, as routes do."""

    @wraps(check)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return check(*args, **kwargs)
        except LimitReached as error:
            raise limit_error(error) from error

    return checked


check_run = _refusing(quotas.check_run)
check_texts = _refusing(quotas.check_texts)
check_file = _refusing(quotas.check_file)
check_images = _refusing(quotas.check_images)
check_store = _refusing(quotas.check_store)
check_store_files = _refusing(quotas.check_store_files)
check_tokens = _refusing(KeyLimits.tokens)
_check_request = _refusing(KeyLimits.request)


def too_many(what: str, most: int) -> ApiError:
    """Return the error for a key that already has `most` of something."""
    said = f"Rate limit reached for {what}: Limit {most}, Used {most}, Requested 1. Please try again in 1s."
    return limit_error(LimitReached("requests", said, 1.0))


class Limits:
    """Passes requests within their key's limits to `app`. `places` are those for runs; `watch` says how tenants
    stand with their quotas, which the answers' headers tell. `request.state.admission` is an `Admission`."""

    def __init__(self, app: ASGIApp, limits: KeyLimits, places: Room, watch: QuotaWatch) -> None:
        self._app = app
        self._watch = watch
        self._limits = limits
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request. Opening a WebSocket counts as a read, and each request over it counts again."""
        key: Key | None = scope.get("state", {}).get("key")
        if key is None:
            await self._app(scope, receive, send)
            return
        self._limits.know(key)
        admission, there = Admission(self._limits, self._places, key.id), list[Standing]()

        def see(head: Message) -> None:
            if is_stream(head):
                admission.count_stream()  # work done cannot be refused
            headers = MutableHeaders(scope=head)
            for one in self._limits.levels(key.id):
                headers[f"x-ratelimit-limit-{one.kind}"] = str(one.limit)
                headers[f"x-ratelimit-remaining-{one.kind}"] = str(one.left)
                headers[f"x-ratelimit-reset-{one.kind}"] = format_duration(one.resets)
            headers.update(dict(quota_headers(there)))

        scope["state"].setdefault("heads", []).append(see)
        try:
            there += await self._admit(key, scope, admission)
        except ApiError as error:
            await answer_of(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
        finally:
            admission.end()

    async def _admit(self, key: Key, scope: Scope, admission: Admission) -> Sequence[Standing]:
        """Count a request, and return how its tenant stands. Opening a WebSocket counts as a read: each request over it
        counts again."""
        if scope["type"] == "websocket":
            _check_request(self._limits, key.id, reads=True)
            return ()
        _check_request(self._limits, key.id, reads=required_scope(scope["method"], scope["path"]) == "read")
        scope["state"]["admission"] = admission
        if scope["method"] == "POST" and _BEGINS.fullmatch(scope["path"]):
            admission.begin_run()
        with suppress(StoreUnavailable):
            return await self._watch.of(key.tenant)
        return ()


class Admission:
    """What a request may take of its key's limits: it may begin runs, and be answered by a stream, which is counted."""

    def __init__(self, limits: KeyLimits, places: Room, key_id: str) -> None:
        self._limits = limits
        self._places = places
        self._key_id = key_id
        self._streams = False

    def begin_stream(self) -> None:
        """Call this once it is known that a stream will be the answer. Raises `ApiError` for one too many."""
        most = self._limits.of(self._key_id).streams
        if most is not None and not self._streams and self._limits.streams[self._key_id] >= most:
            raise too_many("open streams", most)
        self.count_stream()

    def count_stream(self) -> None:
        """Count the stream until the request is over, whatever the limit."""
        if not self._streams:
            self._streams = True
            self._limits.streams[self._key_id] += 1

    def begin_run(self) -> None:
        """Call this early, before anything is read of a request that creates a run. Raises `ApiError` if there is no
        room for it. The transaction that creates it counts again, exactly."""
        check_tokens(self._limits, self._key_id)
        if self._places.queued >= _MOST_WAITING:
            raise limit_error(LimitReached("requests", _OVERLOADED, 5.0))
        most = self._limits.room(self._key_id, self._places.at_once)
        if most is not None and self._places.of_key(self._key_id) >= most:
            raise too_many("runs", most)

    def end(self) -> None:
        """The request is over."""
        if self._streams:
            self._streams = False
            self._limits.streams[self._key_id] -= 1


def quota_headers(standings: Sequence[Standing]) -> Iterator[tuple[str, str]]:
    """Yield the headers that say what is left of a quota: of two limits of the same kind, that of the one which leaves
    less."""
    for what in dict.fromkeys(one.limit.what for one in standings):
        there = [one for one in standings if one.limit.what == what and one.left is not None]
        if not there:
            continue
        nearest = min(there, key=lambda one: one.left or 0)
        yield f"x-quota-limit-{what}", _format_amount(what, nearest.limit.most or 0)
        yield f"x-quota-remaining-{what}", _format_amount(what, nearest.left or 0)
        if nearest.resets_at is not None:
            yield f"x-quota-reset-{what}", format_duration(max(0.0, nearest.resets_at - CLOCK.now()))


def _format_amount(what: str, number: int) -> str:
    """Return an amount: money as a decimal fraction, all else as a whole number."""
    if what != "cost":
        return str(number)
    return f"{number // NANOS}.{number % NANOS:09}".rstrip("0").rstrip(".")
