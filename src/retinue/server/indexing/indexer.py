"""Indexes vector store files in the background. The database holds the wanted state; the index follows it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Collection
from contextlib import suppress
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Row

from ..._internal.concurrency import run_in_thread, supervise
from ..._internal.files import cache_folder
from ...documents.document_store import is_damaged
from ...documents.passage_index import PassageIndex
from ...documents.text_extraction import (
    MAX_TEXT,
    MODULES,
    extract_text,
    extract_text_apart,
    guess_media_type,
    needs_parser,
)
from ...errors import DataError, StoreUnavailable, UsageError
from ...limits.shares import Shares
from ...store.database import Database
from . import queue

logger = logging.getLogger(__name__)
_AT_ONCE = 4  # files read concurrently over all tenants; the last slot is for a tenant without one
_IN_PROCESS = 200_000  # bytes of text without a parser; a longer one is read in a separate process, too
_SECONDS = 60.0  # to extract the text of a file
_EVERY = 0.25  # seconds between two looks at files that another server may index
_PAUSE = 2.0  # seconds until a retry if the database or the disk is unavailable
_SOME = 500  # ids bound per statement
_CHARACTERS = 4  # counted as one token
_BINARY = "it is not text (want HTML, PDF, Markdown or plain text)"


def index_folder(url: URL) -> Path:
    """Return the index folder of a database: beside a SQLite file; for a database server, in the user's cache."""
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        return path.with_name(f"{path.name}.index")
    named = f"{url.host}:{url.port}/{url.database}"
    return cache_folder() / "index" / hashlib.sha256(named.encode()).hexdigest()[:24]


class Indexer:
    """Keeps the index `passages` in step with `database`, in a task that ends when nothing is left to do. Of
    several servers with the same index, one indexes each file."""

    def __init__(self, database: Database, passages: PassageIndex) -> None:
        self.passages = passages
        self._database = database
        self._process = database.process
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._shares = Shares(total=_AT_ONCE, spare=1)
        self._changed: set[str] = set()  # stores whose indexes may hold stale entries
        self._known = asyncio.Event()  # the previous process's state was examined
        self._step = asyncio.Event()  # set when a file is done, and then replaced

    def wake(self, *changed: str) -> None:
        """Start indexing new files, and removing stale entries from the `changed` stores. Call it in the server's event
        loop."""
        self._woken.set()
        self._changed |= set(changed)
        if self._task is None or self._task.done():
            work = supervise("indexing files", self._work)
            self._task = asyncio.create_task(work, name="indexing", context=Context())  # outlives the request

    async def close(self) -> None:
        """Stop. Unfinished files are indexed at the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def known(self) -> None:
        """Wait until the index state is known, up to a time limit."""
        if not self._known.is_set():
            self.wake()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._known.wait(), _SECONDS)

    async def settled(self, store_ids: Collection[str], seconds: float) -> None:
        """Wait up to `seconds` until no file of these stores is being indexed."""
        self.wake()  # messages that waited for their thread may have added files
        await self.known()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                step = self._step
                while not await self._database.read(partial(queue.is_settled, store_ids=store_ids)):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(step.wait(), _EVERY)  # another server may index them
                    step = self._step

    async def _work(self) -> None:
        under_way: dict[int, asyncio.Task[None]] = {}  # by the rows' numbers
        try:
            while True:
                self._woken.clear()
                try:
                    await self._tidy()
                    self._known.set()
                    await self._begin(under_way)
                except (StoreUnavailable, DataError, OSError) as error:
                    logger.warning("indexing is paused: %s", error)
                    await asyncio.sleep(_PAUSE)
                    continue
                if not under_way and not self._woken.is_set():
                    return
                woken = asyncio.create_task(self._woken.wait())
                await asyncio.wait([woken, *under_way.values()], return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
                under_way = {number: task for number, task in under_way.items() if not task.done()}
        finally:
            for task in under_way.values():
                task.cancel()
            await asyncio.gather(*under_way.values(), return_exceptions=True)

    async def _begin(self, under_way: dict[int, asyncio.Task[None]]) -> None:
        """Start as many files as there is room for, the tenants in turn."""
        while len(under_way) < _AT_ONCE:
            waiting = await self._database.read(partial(queue.next_files, process=self._process, but=list(under_way)))
            numbers = [waiting[tenant] for tenant in self._shares.choose(waiting)]
            if not numbers:
                return
            for row in await self._database.write(partial(queue.take_files, process=self._process, numbers=numbers)):
                self._shares.begin(row.tenant)
                under_way[row.number] = asyncio.create_task(self._in_turn(row), name=f"indexing {row.id}")

    async def _in_turn(self, row: Row[Any]) -> None:
        try:
            await self._index(row)
        except Exception as error:  # one file must not block the others
            if isinstance(error, StoreUnavailable | DataError | OSError):
                logger.warning("indexing is paused: %s", error)
            else:
                logger.exception("%s could not be indexed", row.file_id)
            await asyncio.sleep(_PAUSE)
        finally:
            self._shares.release(row.tenant)

    async def _index(self, row: Row[Any]) -> None:
        """Read a file, store its passages, then its status. In this order, a crash in between repeats the work."""
        data = await self._database.read(partial(queue.content_of, file_id=row.file_id))
        size, problem = 0, None
        try:
            text = await _text_of(row.body["filename"], data or b"")
        except DataError as error:
            problem = {"code": "unsupported_file" if _BINARY in str(error) else "invalid_file", "message": str(error)}
        except UsageError as error:  # a missing extra
            problem = {"code": "server_error", "message": str(error)}
        except Exception:  # one file must not block the others
            logger.exception("the text of %s could not be read", row.file_id)
            problem = {"code": "server_error", "message": "the server could not read it"}
        else:
            names = ("max_chunk_size_tokens", "chunk_overlap_tokens")
            chunks = tuple(row.body["chunking"][name] * _CHARACTERS for name in names)
            given = (row.vector_store_id, row.id, row.body["filename"], text, chunks)
            try:
                size = await run_in_thread(self.passages.put, *given)
            except DataError:
                self._changed.add(row.vector_store_id)  # it may be damaged
                raise
        kept = await self._database.write(partial(queue.finish_file, row=row, size=size, problem=problem))
        if not kept:  # removed meanwhile, perhaps with its store
            self._changed.add(row.vector_store_id)
        self._step.set()
        self._step = asyncio.Event()

    async def _tidy(self) -> None:
        """Reindex files that an index has lost, and remove entries that the database does not know."""
        if not self._known.is_set():  # left by the previous process
            kept = await self._database.read(queue.stores_with_files)
            self._changed |= {*kept, *await run_in_thread(self.passages.list_collections)}
        while self._changed:
            store_id = self._changed.pop()
            try:
                lost = await self._compare(store_id)
                for start in range(0, len(lost), _SOME):
                    await self._database.write(partial(queue.index_again, ids=lost[start : start + _SOME]))
            except BaseException:
                self._changed.add(store_id)
                raise

    async def _compare(self, store_id: str) -> list[str]:
        """Remove entries that the database does not know. Return the completed files that the index lacks.

        Another server may add files meanwhile: their rows are there before the entries, and completed after them."""
        there = await run_in_thread(self._entries, store_id)
        known = await self._database.read(partial(queue.statuses, store_id=store_id))
        if known is None:
            await run_in_thread(self.passages.drop, store_id)
            return []
        if more := there - set(known):
            await run_in_thread(self.passages.remove, store_id, more)
        lost = {one for one, status in known.items() if status == "completed"} - there
        return sorted(lost - await run_in_thread(self._entries, store_id)) if lost else []

    def _entries(self, store_id: str) -> set[str]:
        """Return the files that an index has. A damaged one is dropped, and made again."""
        try:
            return self.passages.list_keys(store_id)
        except DataError as error:
            if not is_damaged(error):
                raise
            logger.warning("rebuilding a file index: %s", error)
            self.passages.drop(store_id)
            return set()


async def _text_of(name: str, data: bytes) -> str:
    """Extract the text of a file. Raises `DataError` or `UsageError`."""
    kind = guess_media_type(name) or ""
    if (
        kind not in MODULES
        and b"\x00" in data[:8_192]
        and not data.startswith((b"\xff\xfe", b"\xfe\xff"))
        and b"%PDF-" not in data[:1_024]
    ):
        raise DataError(_BINARY)
    if len(data) > _IN_PROCESS or needs_parser(data, kind):
        text = (await extract_text_apart(data, kind, seconds=_SECONDS)).text
    else:
        text = (await run_in_thread(extract_text, data, kind)).text
    if not text:
        raise DataError("there is no text in it")
    if len(text) >= MAX_TEXT:
        raise DataError(f"it has {MAX_TEXT:,} characters or more; give it in parts")
    return text
