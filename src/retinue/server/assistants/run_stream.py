"""Streams a run in the assistants API, with numbered events so that a client can resume a broken stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing

from ...runs import Followed
from ...store.run_row import RunRow
from ..agents.overrides import tools_of
from ..context import Server
from ..http.api_errors import ApiError, run_failed_error
from ..http.sse import RETRY, frame
from ..run_session import RunSession
from .step_projection import StepProjection, Told


class RunEvents:
    """The event stream of a run until it rests; `last` is then its row.

    Args:
        server: The server.
        run: The run's row.
        before: Further events, which come first and have no numbers.
        turn: How often the run had resumed before the events that are streamed.
        after: The number of the last event that the client received; 0 for none.
    """

    def __init__(
        self, server: Server, run: RunRow, *, before: Iterable[Told] = (), turn: int = 0, after: int = 0
    ) -> None:
        self.last: RunRow | None = None
        self.head = "" if after else RETRY + "".join(frame(value, name) for name, value in before)
        self.tail = "event: done\ndata: [DONE]\n\n"
        self._run = run
        self._steps = StepProjection(run, tools_of(server.deployment, run), server.options)
        self._turn = turn
        self._after = after
        self._number = 0  # counts all events of the run from 1

    def tell(self, item: Followed) -> Iterator[str]:
        """Yield the frames of a log entry, or of a new row. Raises `ApiError` if the client cannot have received an
        event with the number `after`, because the run has not emitted it."""
        for name, value in self._steps.tell(item):
            self._number += 1
            if self._number == self._after:
                yield RETRY
            elif self._number > self._after and self._steps.turn >= self._turn:
                yield frame(value, name, self._number)
        if isinstance(item, RunRow):
            if self._number < self._after:
                message = f"Invalid 'Last-Event-ID': the run {self._run.id} has no event {self._after}."
                raise ApiError(400, message)
            if item.suspended:
                yield frame(run_failed_error(item).body, "error")
            self.last = item if item.rests else None

    def lacks(self, item: Followed) -> bool:
        """Whether the run's current row must be supplied before `item` is told."""
        return self._steps.lacks(item)

    def know(self, run: RunRow) -> None:
        """Record the run's current row."""
        self._steps.know(run)

    def cut(self, error: Exception) -> str:
        """Raise `error`: the client notices that the connection is closed, and resumes."""
        raise error


async def resumed(server: Server, run: RunRow, after: int) -> AsyncIterator[str]:
    """Return the run's events after number `after`. Raises `ApiError` if the run has not emitted that event."""
    frames = RunSession(server, run).follow(RunEvents(server, run, after=after))
    return frames if after == 0 else _begun(await anext(frames), frames)


async def _begun(first: str, frames: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    async with aclosing(frames):
        yield first
        async for text in frames:
            yield text


def number_of(last_event_id: str | None, starting_after: int | None) -> int:
    """Return the number of the last event that a client received, 0 for none. Raises `ApiError` if it is not a
    number."""
    if starting_after is not None or last_event_id is None:
        return starting_after or 0
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10):
        raise ApiError(400, f"Invalid 'Last-Event-ID': '{last_event_id[:100]}' is not a number.")
    return int(last_event_id)
