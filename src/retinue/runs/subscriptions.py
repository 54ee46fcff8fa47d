"""Readers of runs under way: each gets the log so far, then what is added to it, as it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy import Connection

from ..store.database import Database
from ..store.event_log import Entry, find_run, read_page
from ..store.run_row import RunRow

Followed: TypeAlias = Entry | RunRow
_KEPT = 100  # items for a reader that is slow; then it reads from the log again


class Subscriptions:
    """Who follows which run. A `RunRow` is passed on whenever the run's status has changed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._readers: dict[str, set[_Reader]] = {}

    def publish(self, run_id: str, items: Sequence[Followed]) -> None:
        """Pass on what was committed."""
        for reader in self._readers.get(run_id, ()):
            reader.put(items)

    def look(self, run_id: str) -> None:
        """Let them read the log again: something was written to it by others than a drive."""
        for reader in self._readers.get(run_id, ()):
            reader.fall_behind()

    def listen(self, run_id: str) -> bool:
        """Whether somebody wants to read what the model says while it says it."""
        return any(reader.listens for reader in self._readers.get(run_id, ()))

    async def follow(
        self, run_id: str, after: int = 0, *, listens: bool = True, request: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[Followed, None]:
        """The log's entries after the one of the number `after`, live, and the run's row, after the entries so far and
        whenever its status changes. Ends after the row of a run that is not active. `listens`: what the model says is
        wanted while it says it, and is therefore put into the log; else it comes with its reply. `request`: what the
        run was asked for, if that is at hand."""
        with self._reading(run_id, _Reader(after, listens)) as reader:
            while True:
                reader.catch_up()
                run, entries = await self._database.read(partial(_from, run_id, request, reader.after))
                for entry in entries:
                    reader.after = entry.seq
                    yield entry
                if entries:
                    continue
                if run is None:
                    return
                yield run
                if not run.active:
                    return
                async for item in reader.items():
                    yield item
                    if isinstance(item, RunRow) and not item.active:
                        return

    @contextmanager
    def _reading(self, run_id: str, reader: _Reader) -> Iterator[_Reader]:
        self._readers.setdefault(run_id, set()).add(reader)
        try:
            yield reader
        finally:
            readers = self._readers[run_id]
            readers.discard(reader)
            if not readers:
                del self._readers[run_id]


def _from(
    run_id: str, request: Mapping[str, Any] | None, after: int, connection: Connection
) -> tuple[RunRow | None, list[Entry]]:
    """The next entries, or if there are none, the run's row."""
    entries = read_page(connection, run_id, after)
    run = None if entries else find_run(connection, run_id, request)
    if run is not None and run.rests:  # in between, the last ones may have come
        entries = read_page(connection, run_id, after)
    return run, entries


class _Reader:
    """What one reader has still to read."""

    def __init__(self, after: int, listens: bool) -> None:
        self.after = after  # the last entry that it got
        self.listens = listens
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
        """Keep nothing more: it is in the log."""
        self._behind = True
        self._items.clear()
        self._more.set()

    def catch_up(self) -> None:
        """Keep what comes from now on."""
        self._behind = False
        self._items.clear()
        self._more.clear()

    async def items(self) -> AsyncGenerator[Followed, None]:
        """Those that come, until there were too many to keep."""
        while True:
            await self._more.wait()
            self._more.clear()
            if self._behind:
                return
            items, self._items = self._items, []
            for item in items:
                if isinstance(item, RunRow):
                    yield item
                elif item.seq > self.after:
                    self.after = item.seq
                    yield item
