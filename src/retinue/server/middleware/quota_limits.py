"""Quotas of tenants, as requests meet them: refusals in OpenAI's terms, and headers that say what is left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from ...store.advisory_lock import COUNTING, lock_until_end
from ...store.clock import CLOCK
from ...store.quota_usage import Standing, spent_words, standing
from ...store.storage_use import bytes_used
from ...store.tenant_view import TenantView
from ...store.usage_sums import NANOS
from ..wire.api_errors import ApiError
from .usage_limits import duration

_BEGINS = ("runs", "tokens", "cost")
_PLAN = "You exceeded your current quota"


def check_quota(connection: Connection, scope: TenantView) -> None:
    """Raise `ApiError` (429) if a tenant may begin no further run. Call it in the transaction that inserts the run:
    other servers that would count meanwhile wait for its end, so a limit of runs holds exactly."""
    standings = standing(connection, scope.tenant)
    if any(one.limit.what == "runs" and one.limit.most is not None for one in standings):
        lock_until_end(connection, COUNTING)
        standings = standing(connection, scope.tenant)
    for one in standings:
        if one.left == 0 and one.limit.what in _BEGINS:
            raise quota_refusal(one)


def check_bytes(connection: Connection, scope: TenantView, more: int) -> None:
    """Raise `ApiError` (429) if a tenant may not keep so many more bytes than it has."""
    standings = standing(connection, scope.tenant)
    if any(one.limit.what == "bytes" and one.left is not None for one in standings):
        lock_until_end(connection, COUNTING)
        standings = standing(connection, scope.tenant)
    for one in standings:
        if one.limit.what == "bytes" and one.limit.most is not None and one.used + more > one.limit.most:
            said = f"{one.used:,} of {one.limit.most:,} bytes are used, and {more:,} more are asked for"
            message = f"{_PLAN}: {said}. Delete something, or ask the server's operator for more."
            raise _refusal(message, {})


def check_texts(connection: Connection, scope: TenantView, before: int) -> None:
    """Check the quotas of the texts that a tenant has now, if they are more than `before` in this transaction."""
    kept = bytes_used(connection, scope.tenant, "texts")
    if kept <= before:
        return
    check_bytes(connection, scope, 0)
    if scope.quota is not None and kept > scope.quota.bytes:
        raise reached("bytes of texts", scope.quota.bytes)


def reached(what: str, most: int) -> ApiError:
    """Return the error for a quota of `most` that is used up."""
    message = (
        f"Storage limit reached: you may keep {most:,} {what}. Delete some, or ask the server's operator for more."
    )
    return ApiError(400, message, code="storage_limit_reached")


def quota_refusal(one: Standing) -> ApiError:
    """Return the error for a limit that is used up."""
    wait = {} if one.resets_at is None else {"retry-after": str(max(1, math.ceil(one.resets_at - CLOCK.now())))}
    return _refusal(f"{_PLAN}: {spent_words(one)}. The server's operator may raise it.", wait)


def _refusal(message: str, headers: dict[str, str]) -> ApiError:
    headers = {**headers, "x-should-retry": "false"}  # OpenAI's SDKs would else repeat it at once
    return ApiError(429, message, kind="insufficient_quota", code="insufficient_quota", headers=headers)


def quota_headers(standings: Sequence[Standing]) -> Iterator[tuple[str, str]]:
    """Yield the headers that say what is left of a quota: of two limits of the same kind, that of the one which leaves
    less."""
    for what in dict.fromkeys(one.limit.what for one in standings):
        there = [one for one in standings if one.limit.what == what and one.left is not None]
        if not there:
            continue
        nearest = min(there, key=lambda one: one.left or 0)
        yield f"x-quota-limit-{what}", amount(what, nearest.limit.most or 0)
        yield f"x-quota-remaining-{what}", amount(what, nearest.left or 0)
        if nearest.resets_at is not None:
            yield f"x-quota-reset-{what}", duration(max(0.0, nearest.resets_at - CLOCK.now()))


def amount(what: str, number: int) -> str:
    """Return an amount as headers have it: money as a decimal fraction, all else as a whole number."""
    if what != "cost":
        return str(number)
    return f"{number // NANOS}.{number % NANOS:09}".rstrip("0").rstrip(".")
