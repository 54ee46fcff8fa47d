"""Streams a run in the assistants API, with numbered events so that a client can resume a broken stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from functools import partial
from typing import NamedTuple, TypeAlias

from ...store.run_row import RunRow
from ...store.run_store import find_run
from ..context import Server
from ..overrides import tools_of
from ..wire.api_errors import ApiError, run_failed_error
from ..wire.objects import Object
from ..wire.sse import RETRY, frame
from .step_projection import StepProjection

_END = "event: done\ndata: [DONE]\n\n"


class _Event(NamedTuple):
    number: int  # counts all events of the run from 1; 0 for an error, which is none of them
    turn: int
    name: str
    value: Object


_Events: TypeAlias = AsyncGenerator[_Event | None, None]


async def run_events(
    server: Server, run: RunRow, before: Iterable[tuple[str, Object]] = (), turn: int = 0
) -> AsyncIterator[str]:
    """Yield the run's events from `turn` on, until it ends or waits. The events in `before` come first, unnumbered."""
    yield RETRY
    for name, value in before:
        yield frame(value, name)
    async for text in _frames(_told(server, run), turn):
        yield text


async def resumed(server: Server, run: RunRow, after: int) -> AsyncIterator[str]:
    """Return the run's events after number `after`. Raises `ApiError` if the run has not emitted that event."""
    told = _told(server, run)
    if after:
        async for event in told:
            if event is None:
                await told.aclose()
                raise ApiError(400, f"Invalid 'Last-Event-ID': the run {run.id} has no event {after}.")
            if event.number == after:
                break
    return _frames(told, 0, RETRY)


def number_of(last_event_id: str | None, starting_after: int | None) -> int:
    """Return the number of the last event that a client received, 0 for none. Raises `ApiError` if it is not a
    number."""
    if starting_after is not None or last_event_id is None:
        return starting_after or 0
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10):
        raise ApiError(400, f"Invalid 'Last-Event-ID': '{last_event_id[:100]}' is not a number.")
    return int(last_event_id)


async def _frames(told: _Events, turn: int, first: str = "") -> AsyncIterator[str]:
    if first:
        yield first
    async with aclosing(told):
        async for event in told:
            if event is not None and event.turn >= turn:
                yield frame(event.value, event.name, event.number)
    yield _END


async def _told(server: Server, run: RunRow) -> _Events:
    """Yield a run's events until it rests; `None` marks the end of those that preceded this call."""
    progress, number = StepProjection(run, tools_of(server.deployment, run), server.options), 0
    async with aclosing(server.runs.followers.follow(run.id, request=run.request)) as items:
        async for item in items:
            if progress.lacks(item) and (now := await server.database.read(partial(find_run, run_id=run.id))):
                progress.know(now)
            for name, value in progress.tell(item):
                number += 1
                yield _Event(number, progress.turn, name, value)
            if isinstance(item, RunRow):
                yield None
            if isinstance(item, RunRow) and item.parked:
                yield _Event(0, progress.turn, "error", run_failed_error(item).body)
            if isinstance(item, RunRow) and item.rests:
                return
