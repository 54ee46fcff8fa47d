"""A client's session with a run, in every API alike: the run begins, and is followed or waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fastapi import Request
from sqlalchemy import Connection

from ..errors import RetinueError, StoreConflict, StoreUnavailable
from ..runs import Followed
from ..runs.cancellation import cancel_run
from ..runs.member_paths import decided_members
from ..store.run_queries import find_run
from ..store.run_row import RunRow
from .context import Server
from .http.api_errors import ApiError, run_failed_error
from .http.client_disconnect import wait_for_disconnect


class Projection(Protocol):
    """Folds a run's log into what a client is told of it."""

    @property
    def last(self) -> object | None:
        """What the client is told last; `None` while there is more to tell."""

    def tell(self, item: Followed) -> Iterable[object]:
        """Return what follows from a log entry, or from a new row. `follow` sends it: frames of an event stream."""


class StreamProjection(Projection, Protocol):
    """Folds a run's log into an event stream; `head` and `tail` are its first and last frames."""

    head: str
    tail: str

    def tell(self, item: Followed) -> Iterable[str]:
        """Return the frames that follow from a log entry, or from a new row."""

    def lacks(self, item: Followed) -> bool:
        """Whether the run's current row must be supplied (`know`) before `item` is told."""

    def know(self, run: RunRow) -> None:
        """Record the run's current row."""

    def cut(self, error: RetinueError | ApiError) -> str:
        """Return the frame that reports `error`, or raise it: the stream ends."""


@dataclass(frozen=True, slots=True)
class RunSession:
    """A client's session with a run.

    Args:
        server: The server.
        run: The run's row, as the session begins.
        since: The number of the log's last entry that was told before.
        lasting: Whether the run goes on without its client. Otherwise it is cancelled if the client disconnects
            before it was told everything.
    """

    server: Server
    run: RunRow
    since: int = 0
    lasting: bool = True

    def begin(self, *, new: bool = True, halted: RunRow | None = None) -> None:
        """Drive the run if it is `new` (or was given something new) and need not wait for its thread. `halted` is the
        run that was cancelled for it."""
        self.server.halted(halted)
        if new and self.run.holds:
            for run_id in decided_members(self.run):
                self.server.runs.dispatch(run_id)
            self.server.runs.dispatch(self.run.id, self.run)

    async def follow(self, projection: StreamProjection) -> AsyncGenerator[str, None]:
        """Yield the frames of the run's event stream, live, until everything was told."""
        items = self.server.runs.followers.follow(self.run.id, self.since, run=self.run)
        try:
            if projection.head:
                yield projection.head
            async for item in items:
                if projection.lacks(item) and (now := await self._row()) is not None:
                    projection.know(now)
                for frame in projection.tell(item):
                    yield frame
                if projection.last is not None:
                    break
                if isinstance(item, RunRow) and item.suspended:
                    raise run_failed_error(item)
        except (RetinueError, ApiError) as error:
            yield projection.cut(error)
            return
        finally:
            await items.aclose()
            self._left(projection)
        if projection.tail:
            yield projection.tail

    async def wait(self, projection: Projection, request: Request) -> RunRow:
        """Return the run's row once everything was told, or the run is suspended. The client of `request` may
        disconnect meanwhile."""
        request.state.run = self.run.id  # which error responses name
        watch = asyncio.create_task(wait_for_disconnect(request))
        following = asyncio.create_task(self.rest(projection))
        try:
            await asyncio.wait([watch, following], return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                self._left(projection)
            return await following
        finally:
            for task in (watch, following):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def rest(self, projection: Projection) -> RunRow:
        """Return the run's row once everything was told, without deltas of the model's replies."""
        run = self.run
        items = self.server.runs.followers.follow(run.id, self.since, listens=False, run=run)
        async with aclosing(items):
            async for item in items:
                for _ in projection.tell(item):
                    pass
                run = item if isinstance(item, RunRow) else run
                if projection.last is not None or run.suspended:
                    break
        return run

    def _left(self, projection: Projection) -> None:
        if projection.last is not None or self.lasting or self.server.runs.stopping:
            return
        if not self.server.runs.interrupt(self.run.id):
            self.server.runs.beside("cancelling a run that its client left", self._cancel)

    async def _cancel(self) -> None:
        """Cancel the run where this process does not drive it: its members have it, or another server."""

        def work(connection: Connection) -> RunRow | None:
            run = find_run(connection, self.run.id, lock=True)
            return cancel_run(connection, run) if run is not None and run.active else None

        with suppress(StoreUnavailable, StoreConflict):
            self.server.halted(await self.server.database.write(work))

    async def _row(self) -> RunRow | None:
        return await self.server.database.read(partial(find_run, run_id=self.run.id), small=True)
