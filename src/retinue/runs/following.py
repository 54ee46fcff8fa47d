"""Readers of runs under way: each gets the log so far, then what is added to it, as it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from ..store.database import Database
from ..store.log import Entry, find, read
from ..store.rows import RunRow


class Piece(NamedTuple):
    """A piece of a reply as it arrives, after the log's entry `seq`. `answer` is what of it belongs to the run's
    answer, of which `offset` characters were passed on before."""

    seq: int
    text: str
    answer: str
    offset: int


Followed: TypeAlias = Entry | Piece | RunRow
_KEPT = 1_000  # items for a reader that is slow; then it reads from the log again


class Followers:
    """Who follows which run. A `RunRow` is passed on whenever the run's status has changed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._readers: dict[str, set[_Reader]] = {}

    def publish(self, run_id: str, items: Sequence[Followed]) -> None:
        """Pass on what was committed, or a piece of a reply as it arrives."""
        for reader in self._readers.get(run_id, ()):
            reader.put(items)

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Followed, None]:
        """The log's entries after the one of the number `after`, live with what the model says meanwhile, and the
        run's row at the beginning and whenever its status changes. Ends after the row of a run that is not active."""
        reader = _Reader()
        self._readers.setdefault(run_id, set()).add(reader)
        try:
            while True:
                run, entries = await self._database.read(partial(_from, run_id, after))
                for entry in entries:
                    yield entry
                    after = entry.seq
                if run is None:
                    return
                yield run
                if not run.active:
                    return
                async for item in reader.items():
                    if not isinstance(item, RunRow):
                        if item.seq < after or (isinstance(item, Entry) and item.seq == after):
                            continue
                        after = item.seq if isinstance(item, Entry) else after
                    yield item
                    if isinstance(item, RunRow) and not item.active:
                        return
        finally:
            readers = self._readers[run_id]
            readers.discard(reader)
            if not readers:
                del self._readers[run_id]


def _from(run_id: str, after: int, connection: Connection) -> tuple[RunRow | None, list[Entry]]:
    run = find(connection, run_id)  # first: if it has ended, the log is whole
    return run, read(connection, run_id, after)


class _Reader:
    """What one reader has still to read."""

    def __init__(self) -> None:
        self._items: list[Followed] = []
        self._behind = False
        self._more = asyncio.Event()

    def put(self, items: Sequence[Followed]) -> None:
        if len(self._items) + len(items) > _KEPT:
            self._behind = True
            self._items.clear()
        if not self._behind:
            self._items.extend(items)
        self._more.set()

    async def items(self) -> AsyncGenerator[Followed, None]:
        """Those that come, until there were too many to keep."""
        while True:
            await self._more.wait()
            self._more.clear()
            if self._behind:
                self._behind = False
                return
            items, self._items = self._items, []
            for item in items:
                yield item
