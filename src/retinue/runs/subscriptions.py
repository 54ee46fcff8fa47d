"""Subscriptions to runs: each subscriber gets the log so far, then every entry as it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from sqlalchemy import Connection

from ..store.database import Database
from ..store.event_log import Entry, read_page
from ..store.run_queries import find_run
from ..store.run_row import RunRow
from .notifier import Notifier

Followed: TypeAlias = Entry | RunRow
_KEPT = 100  # items buffered for a slow subscriber; beyond that, it reads from the log again


class Subscriptions:
    """The subscribers of each run. A `RunRow` is published whenever the run's status changes."""

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier
        self._readers: dict[str, list[_Reader]] = {}
        self._starting: set[str] = set()

    @property
    def followed(self) -> list[str]:
        """The ids of the runs that have subscribers."""
        return list(self._readers)

    def starts(self, run_id: str) -> None:
        """Note that this process is about to drive the run: until it has news, a subscriber need not read its log."""
        self._starting.add(run_id)

    def has_ended(self, run_id: str) -> None:
        """Note that the drive is over. If it had no news, whoever waited for them reads the log."""
        if run_id in self._starting:
            self._starting.discard(run_id)
            self.look(run_id)

    def publish(self, run_id: str, items: Sequence[Followed]) -> None:
        """Publish committed items to the run's subscribers."""
        self._starting.discard(run_id)
        for reader in self._readers.get(run_id, ()):
            reader.put(items)
        self._notifier.announce(run_id)

    def look(self, run_id: str) -> None:
        """Make subscribers reread the log, after a write that came from outside a drive."""
        self._notifier.publish(run_id)

    def listen(self, run_id: str) -> bool:
        """Whether any subscriber wants deltas while the model generates."""
        return any(reader.listens for reader in self._readers.get(run_id, ())) or self._notifier.listened(run_id)

    async def follow(
        self, run_id: str, after: int = 0, *, listens: bool = True, run: RunRow | None = None
    ) -> AsyncGenerator[Followed, None]:
        """Yield the log entries after number `after`, live, and the run's row.

        The row comes after the entries so far, and whenever its status changes. The stream ends after the row of an
        inactive run.

        Args:
            run_id: The run to follow.
            after: The number of the last entry that the caller has.
            listens: Whether to receive deltas while the model generates. They are then written to the log; otherwise
                the text arrives with its reply.
            run: The run's row, if known; this saves reading its request, and everything if it is about to begin."""
        known = run if run is not None and not run.epoch and run_id in self._starting else None
        request = None if run is None else run.request
        with self._reading(run_id, _Reader(after, listens)) as reader:
            items: Sequence[Followed] | None = None if known is None else [known]
            while True:
                if items is None:
                    reader.catch_up()
                    read = partial(_from, run_id, request, reader.after)
                    items = reader.note(await self._database.read(read, small=True))
                for item in items:
                    yield item
                if reader.over:
                    return
                items = await reader.take()

    @contextmanager
    def _reading(self, run_id: str, reader: _Reader) -> Iterator[_Reader]:
        self._readers.setdefault(run_id, []).append(reader)
        self._notifier.subscribe(run_id, reader.fall_behind, listens=reader.listens)
        try:
            yield reader
        finally:
            self._notifier.unsubscribe(run_id, reader.fall_behind)
            readers = self._readers[run_id]
            readers.remove(reader)
            if not readers:
                del self._readers[run_id]


def _from(run_id: str, request: Mapping[str, Any] | None, after: int, connection: Connection) -> Sequence[Followed]:
    """Return the next entries, or the run's row if there are none; nothing if it does not exist."""
    entries = read_page(connection, run_id, after)
    run = None if entries else find_run(connection, run_id, request)
    if run is not None and run.rests:  # the last entries may have arrived in between
        entries = read_page(connection, run_id, after)
    return entries or ([] if run is None else [run])


class _Reader:
    """The unread items of one subscriber."""

    def __init__(self, after: int, listens: bool) -> None:
        self.after = after  # the number of the last entry delivered
        self.listens = listens
        self.over = False  # the row of an ended run was delivered
        self._items: list[Followed] = []
        self._behind = False
        self._more = asyncio.Event()

    def put(self, items: Sequence[Followed]) -> None:
        if len(self._items) + len(items) > _KEPT:
            self.fall_behind()
        if not self._behind:
            self._items.extend(items)
        self._more.set()

    def fall_behind(self) -> None:
        """Drop the buffered items; they are in the log."""
        self._behind = True
        self._items.clear()
        self._more.set()

    def catch_up(self) -> None:
        """Buffer new items from now on."""
        self._behind = False
        self._items.clear()
        self._more.clear()

    def note(self, items: Sequence[Followed]) -> Sequence[Followed]:
        """Note what was read and return it: entries, after which there may be more, or otherwise the run's row."""
        last = items[-1] if items else None
        if isinstance(last, Entry):
            self.after = last.seq
            self.fall_behind()
        else:
            self.over = last is None or not last.active
        return items

    async def take(self) -> Sequence[Followed] | None:
        """Wait for items and return the new ones; `None` if the buffer has overflowed, or lacks what another process
        wrote before this one took the run over."""
        await self._more.wait()
        self._more.clear()
        if self._behind:
            return None
        items, self._items = self._items, []
        numbers = [self.after, *(item.seq for item in items if isinstance(item, Entry) and item.seq > self.after)]
        if any(number > before + 1 for before, number in pairwise(numbers)):
            return None
        return [item for item in items if not self.over and self._is_new(item)]

    def _is_new(self, item: Followed) -> bool:
        """Whether `item` was not delivered before; marks it as delivered."""
        if isinstance(item, RunRow):
            self.over = not item.active
            return True
        new = item.seq > self.after
        self.after = max(self.after, item.seq)
        return new
