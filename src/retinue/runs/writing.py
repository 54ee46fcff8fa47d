"""A drive's hand on its run's log: events are written behind the run, which waits only where it must."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from ..events import Delta, Event
from ..store.database import Database
from ..store.log import Change, Entry, append
from ..store.rows import RunRow
from .following import Followers, Piece


class Writer:
    """Appends to the log of `run`, under its epoch, and passes on to its followers what was committed.

    Raises, when it is waited for, `Fenced` or `StoreUnavailable` if something could not be written.
    """

    def __init__(self, database: Database, followers: Followers, run: RunRow, log: Sequence[Entry]) -> None:
        self.log = list(log)
        self._database = database
        self._followers = followers
        self._run = run
        self._written = len(self.log)
        self._writing: asyncio.Future[RunRow | None] | None = None
        self._planned = False
        self._shown = 0  # characters of the answer in the reply that is arriving

    def put(self, event: Event) -> None:
        """Add `event`; it is written with the next that is."""
        seq = self.log[-1].seq + 1 if self.log else 1
        self.log.append(Entry(seq, time.time(), event))
        self._shown = 0

    def tell(self, delta: Delta) -> None:
        """Pass on what the model says."""
        answer = getattr(delta, "answer", "")
        seq = self.log[-1].seq if self.log else 0
        self._followers.publish(self._run.id, [Piece(seq, delta.text, answer, self._shown)])
        self._shown += len(answer)

    def write(self) -> None:
        """Begin to write what was added, without waiting; what else comes at once goes with it."""
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._planned = False
        if self._writing is None and self._written < len(self.log):
            self._writing = self._submit()
            self._writing.add_done_callback(self._go_on)

    async def written(self) -> None:
        """Wait until everything is on the disk."""
        while self._writing is not None or self._written < len(self.log):
            self._begin()
            assert self._writing is not None
            await asyncio.shield(self._writing)

    async def finish(self, change: Callable[[RunRow], Change]) -> RunRow:
        """Write what is left, and what `change` makes of the run's row with it; that row then."""
        if self._writing is not None:
            await asyncio.shield(self._writing)
        self._writing = self._submit(change)
        run = await asyncio.shield(self._writing)
        assert run is not None
        self._writing = None
        self._followers.publish(self._run.id, [run])
        return run

    def _submit(self, change: Callable[[RunRow], Change] | None = None) -> asyncio.Future[RunRow | None]:
        entries = self.log[self._written :]
        future = self._database.submit(
            partial(append, run_id=self._run.id, epoch=self._run.epoch, entries=entries, change=change)
        )
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
        if self._planned:  # while the last was being written
            self._begin()
