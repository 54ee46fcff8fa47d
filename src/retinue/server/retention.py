"""Deletes what is old, if the operator wants that: in small transactions, so that others can write between them.

What is to go is found beside the writer. How much one transaction deletes follows from how long the last one took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ..store.audit_log import SERVER, old_entries, prune_entries
from ..store.memory_states import delete_memories, old_memories
from ..store.run_belongings import delete_unused_files, delete_unused_snapshots
from ..store.run_queries import delete_runs, delete_silent, old_runs, silent_threads
from ..store.usage_sums import fold_parts, fold_sessions
from ..store.workspaces import delete_blobs, find_unused_blobs
from .context import Options, Server
from .http.idempotency import sweep
from .indexing.queue import expire

_EVERY = 600.0  # seconds
_SPELL = 0.5  # seconds of each round of maintenance, whose other duties come first
_PAUSE = 0.05  # seconds for others after each transaction
_SHORT, _LONG = 0.02, 0.05  # seconds of a transaction after which the next one deletes more, or less
_AT_ONCE = 25  # rows of the first transaction, with all that belongs to them
_MOST = 1_000


class _Old(NamedTuple):
    """How old rows of a kind are found, at most `most`, and how they are deleted unless they are no longer old."""

    find: Callable[..., Sequence[Any]]
    delete: Callable[[Connection, Sequence[Any]], object]


class Retention:
    """Deletes what is old from time to time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._done = float("-inf")
        self._size = _AT_ONCE

    async def delete_old(self) -> None:
        """Delete what is old, if it is time; a part of it, if there is much."""
        database, options = self._server.database, self._server.options
        kept = (options.retention, options.chat_retention, options.thread_retention, options.audit_retention)
        often = min(seconds or _EVERY for seconds in (*kept, _EVERY))
        if time.monotonic() - self._done < often:
            return
        for duty in (sweep, delete_unused_files, delete_unused_snapshots, fold_parts, fold_sessions):
            await database.write(duty)
        until = time.monotonic() + _SPELL
        for old in _kinds(options, int(time.time())):
            while found := await database.read(partial(old.find, most=self._size)):
                began = time.monotonic()
                await database.write(partial(_delete, old=old, found=found), alone=True)
                seconds = time.monotonic() - began
                if seconds < _SHORT:
                    self._size = min(_MOST, self._size * 2)
                elif seconds > _LONG:
                    self._size = max(1, self._size // 2)
                if time.monotonic() > until:
                    return  # the next round goes on
                await asyncio.sleep(max(_PAUSE, seconds))
        self._server.indexing.wake(*await database.write(expire))
        self._done = time.monotonic()


def _delete(connection: Connection, old: _Old, found: Sequence[Any]) -> None:
    old.delete(connection, found)


def _kinds(options: Options, now: int) -> Iterator[_Old]:
    """Yield what may be old."""
    runs, chats, threads, entries = (
        now - kept if kept else None
        for kept in (options.retention, options.chat_retention, options.thread_retention, options.audit_retention)
    )
    yield _Old(find_unused_blobs, delete_blobs)
    if runs is not None or chats is not None:
        yield _Old(partial(old_runs, before=runs, unstored_before=chats), delete_runs)
    if threads is not None:
        yield _Old(partial(silent_threads, before=threads), partial(delete_silent, before=threads))
        yield _Old(partial(old_memories, before=threads), partial(delete_memories, before=threads))
    if entries is not None:
        yield _Old(partial(old_entries, before=entries), partial(prune_entries, author=SERVER))
