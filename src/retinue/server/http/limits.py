"""Limits as requests meet them: each request of a key is admitted before any of its body is read, refusals are in
OpenAI's terms, and headers say what is left. What is limited, and how it is counted, is in `retinue/limits`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import StoreUnavailable
from ...limits import LimitReached, quotas
from ...limits.quotas import QuotaWatch, Standing
from ...limits.rate import KeyLimits, format_duration
from ...runs import Room
from ...store.api_keys import Key
from ...store.clock import CLOCK
from ...store.usage_sums import NANOS
from .api_errors import ApiError, answer_of
from .authentication import is_stream, needed

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
                admission.stream.hold()  # whatever the limit, since work done cannot be refused
            MutableHeaders(scope=head).update(dict([*rate_headers(self._limits, key.id), *quota_headers(there)]))

        scope["state"].setdefault("heads", []).append(see)
        try:
            there += await self._admit(key, scope, admission)
        except ApiError as error:
            await answer_of(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
        finally:
            admission.stream.let_go()
            admission.run.let_go()

    async def _admit(self, key: Key, scope: Scope, admission: Admission) -> Sequence[Standing]:
        """Count a request, and return how its tenant stands. Opening a WebSocket counts as a read: each request over it
        counts again."""
        if scope["type"] == "websocket":
            _check_request(self._limits, key.id, reads=True)
            return ()
        _check_request(self._limits, key.id, reads=needed(scope["method"], scope["path"]) == "read")
        scope["state"]["admission"] = admission
        if scope["method"] == "POST" and _BEGINS.fullmatch(scope["path"]):
            admission.begin_run()
        with suppress(StoreUnavailable):
            return await self._watch.of(key.tenant)
        return ()


class Admission:
    """What a request takes of its key's limits: an open stream, and the place of a run that it is about to create."""

    def __init__(self, limits: KeyLimits, places: Room, key_id: str) -> None:
        self._limits = limits
        self._places = places
        self._key_id = key_id
        self.stream = _Hold(limits.streams, key_id)
        self.run = _Hold(limits.beginning, key_id)

    def begin_stream(self) -> None:
        """Call this once it is known that a stream will be the answer. Raises `ApiError` for one too many."""
        limits, key_id = self._limits, self._key_id
        most = limits.of(key_id).streams
        if most is not None and not self.stream.held and limits.streams[key_id] >= most:
            raise too_many("open streams", most)
        self.stream.hold()

    def begin_run(self) -> None:
        """Call this before a run is created. Raises `ApiError` if there is no room for it."""
        limits, places, beginning, key_id = self._limits, self._places, self._limits.beginning, self._key_id
        check_tokens(limits, key_id)
        if places.queued + beginning.total() >= _MOST_WAITING:
            raise limit_error(LimitReached("requests", _OVERLOADED, 5.0))
        most = limits.room(key_id, places.at_once)
        if most is not None and places.of_key(key_id) + beginning[key_id] >= most:
            raise too_many("runs", most)  # otherwise counted again, exactly, when it is created
        self.run.hold()


class _Hold:
    """A request's hold on one unit of what is counted by key."""

    def __init__(self, counter: Counter[str], key_id: str) -> None:
        self.held = False
        self._counter = counter
        self._key_id = key_id

    def hold(self) -> None:
        if not self.held:
            self.held = True
            self._counter[self._key_id] += 1

    def let_go(self) -> None:
        if self.held:
            self.held = False
            self._counter[self._key_id] -= 1
            if not self._counter[self._key_id]:
                del self._counter[self._key_id]


def rate_headers(limits: KeyLimits, key_id: str) -> Iterator[tuple[str, str]]:
    """Yield the headers that say what is left of a key's limits per minute."""
    for one in limits.levels(key_id):
        yield f"x-ratelimit-limit-{one.kind}", str(one.limit)
        yield f"x-ratelimit-remaining-{one.kind}", str(one.left)
        yield f"x-ratelimit-reset-{one.kind}", format_duration(one.resets)


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
