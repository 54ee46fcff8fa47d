"""A drive's hand on its run's log: events are written behind the run, which waits only where it must."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from ..core.events import Delta, Event, Observed, Replied, Retried, Started
from ..errors import StoreUnavailable
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.event_log import Change, Entry, append_entries
from ..store.run_row import RunRow
from .delta_buffer import DeltaBuffer
from .subscriptions import Subscriptions

logger = logging.getLogger(__name__)
BACK_OFF = (0.1, 0.5, 2.0, 5.0)  # seconds between tries while the database is away
_SAYS = 0.02  # seconds at least between two writes of what the model is saying
_LARGE = 50_000  # characters that take more than a few milliseconds to be written


class LogWriter:
    """Appends to the log of `run`, under its epoch, and passes on to its followers what was committed.

    Raises `Fenced`, when it is waited for, if another drive took the run over.
    """

    def __init__(self, database: Database, followers: Subscriptions, run: RunRow, log: Sequence[Entry]) -> None:
        self.log = list(log)
        self._database = database
        self._followers = followers
        self._run = run
        self._written = len(self.log)
        self._streamed = bool(run.request.get("stream"))
        self._writing: asyncio.Future[RunRow | None] | None = None
        self._planned = False
        self._arriving = DeltaBuffer()
        self._saying: asyncio.TimerHandle | None = None
        self._late = False  # it was to be said while something else was being written
        self._said_at = 0.0  # by the loop's clock

    def put(self, event: Event) -> None:
        """Add `event`; it is written with the next that is. What was said before it comes before it."""
        if self._arriving.has_begun:
            self._put_said()
            if not isinstance(event, Retried):  # a reply that is begun anew goes on from what was shown of it
                self._arriving = DeltaBuffer()
        self._add(event)

    def tell(self, delta: Delta) -> None:
        """Pass on what the model says, if somebody reads along, once it is written: who comes back is told the same.
        While the disk is busy, or was asked just now, it is gathered; but the first piece is not."""
        first = self._arriving.add(delta)
        if first and self._put_said():
            self.write()
        elif self._saying is None and not self._late and self._heard:
            loop = asyncio.get_running_loop()
            self._saying = loop.call_at(self._said_at + _SAYS, self._say)

    @property
    def _heard(self) -> bool:
        """Whether somebody reads along, or will: who asked for a stream may not have begun to read."""
        return self._streamed or self._followers.listen(self._run.id)

    def _say(self) -> None:
        self._saying = None
        if self._writing is not None:
            self._late = True  # `_go_on` comes back to it
        elif self._put_said():
            self._begin()

    def _put_said(self) -> bool:
        """Add what has arrived, if somebody reads along; whether that is anything."""
        if self._saying is not None:
            self._saying.cancel()
            self._saying = None
        if not self._arriving or not self._heard:
            return False
        for said in self._arriving.take():
            self._add(said)
        self._said_at = asyncio.get_running_loop().time()
        return True

    def _add(self, event: Event) -> None:
        seq = self.log[-1].seq + 1 if self.log else 1
        self.log.append(Entry(seq, CLOCK.now(), event))

    def write(self) -> None:
        """Begin to write what was added, without waiting; what else comes at once goes with it."""
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        if self._writing is not None:
            return  # what is being written comes first; `_go_on` sees to the rest
        self._planned = False
        if self._written < len(self.log):
            self._writing = self._submit()
            self._writing.add_done_callback(self._go_on)

    async def written(self) -> None:
        """Wait until everything is on the disk."""
        await self._until_written()

    async def finish(self, change: Callable[[RunRow], Change]) -> RunRow:
        """Write what is left, and what `change` makes of the run's row with it; that row then."""
        run = await self._until_written(change)
        assert run is not None
        self._followers.publish(self._run.id, [run])
        return run

    async def _until_written(self, change: Callable[[RunRow], Change] | None = None) -> RunRow | None:
        """While the database is away, the run waits here, and loses nothing of what it knows."""
        tries = 0
        while True:
            try:
                self._planned = False
                while self._writing is not None:
                    await asyncio.shield(self._writing)
                    await asyncio.sleep(0)  # if it was done before, what follows from that comes first
                if change is None and self._written == len(self.log):
                    return None
                self._writing = self._submit(change, again=tries > 0)
                run = await asyncio.shield(self._writing)
                self._writing = None
                return run
            except StoreUnavailable as error:
                self._writing = None
                seconds = BACK_OFF[min(tries, len(BACK_OFF) - 1)]
                tries += 1
                logger.warning("the run %s is parked for %.1f s: %s", self._run.id, seconds, error)
                await asyncio.sleep(seconds)

    def _submit(
        self, change: Callable[[RunRow], Change] | None = None, *, again: bool = False
    ) -> asyncio.Future[RunRow | None]:
        """`again`: it may be that it was written, and only the word of it was lost."""
        entries = self.log[self._written :]
        work = partial(append_entries, holder=self._run, entries=entries, change=change, again=again)
        future = self._database.submit(work, large=sum(_chars(one.event) for one in entries) > _LARGE)
        future.add_done_callback(partial(self._pass_on, entries))
        return future

    def _pass_on(self, entries: Sequence[Entry], future: asyncio.Future[RunRow | None]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._written += len(entries)
            self._followers.publish(self._run.id, entries)

    def _go_on(self, future: asyncio.Future[RunRow | None]) -> None:
        if future.cancelled() or future.exception() is not None:
            return  # kept, so that whoever waits learns of it
        self._writing = None
        if self._late:
            self._late = False
            self._planned = self._put_said() or self._planned
        if self._planned:  # while the last was being written
            self._begin()


def _chars(event: Event) -> int:
    """About how many characters an event has."""
    match event:
        case Started(question, history=history):
            return len(question) + sum(len(message.content) for message in history)
        case Observed(observation=observation):
            return len(observation.text)
        case Replied(reply=reply):
            return len(reply.text)
    return 0
