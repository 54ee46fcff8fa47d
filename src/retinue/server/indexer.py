"""Indexes vector store files in the background. The database holds the wanted state; the index follows it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Row, delete, func, select, update

from .._internal.cache import cache_folder
from .._internal.supervision import supervise
from .._internal.thread_pool import run_in_thread
from ..documents.passage_index import PassageIndex
from ..documents.store_database import is_damaged
from ..documents.text_extraction import media_type_of, needs_parser, text_of
from ..documents.text_subprocess import MAX_TEXT, text_apart
from ..errors import DataError, StoreUnavailable, UsageError
from ..store.database import Database
from ..store.tables import contents, files, vector_store_files, vector_stores
from .round_robin import RoundRobin

logger = logging.getLogger(__name__)
_AT_ONCE = 4  # files read concurrently over all tenants; the last slot is for a tenant without one
_IN_PROCESS = 200_000  # bytes of text without a parser; a longer one is read in a separate process, too
_SECONDS = 60.0  # to extract the text of a file
_PAUSE = 2.0  # seconds until a retry if the database or the disk is unavailable
_SOME = 500  # ids bound per statement
_CHARACTERS = 4  # counted as one token
_BINARY = "it is not text (want HTML, PDF, Markdown or plain text)"
_COLUMNS = vector_store_files.c
_STORES = select(_COLUMNS.vector_store_id).distinct()


def index_folder(url: URL) -> Path:
    """Return the index folder of a database: beside a SQLite file; for a database server, in the user's cache."""
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        return path.with_name(f"{path.name}.index")
    named = f"{url.host}:{url.port}/{url.database}"
    return cache_folder() / "index" / hashlib.sha256(named.encode()).hexdigest()[:24]


class Indexer:
    """Keeps the index `passages` in step with `database`, in a task that ends when nothing is left to do."""

    def __init__(self, database: Database, passages: PassageIndex) -> None:
        self.passages = passages
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._turns = RoundRobin()
        self._changed: set[str] = set()  # stores whose indexes may hold stale entries
        self._begun = False
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
        query = select(_COLUMNS.id).where(_COLUMNS.vector_store_id.in_(store_ids), _COLUMNS.status == "in_progress")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                step = self._step
                while await self._database.read(lambda connection: connection.execute(query.limit(1)).first()):
                    await step.wait()
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
                for number in [number for number, task in under_way.items() if task.done()]:
                    del under_way[number]
        finally:
            for task in under_way.values():
                task.cancel()
            await asyncio.gather(*under_way.values(), return_exceptions=True)

    async def _begin(self, under_way: dict[int, asyncio.Task[None]]) -> None:
        """Start as many files as there are free slots, round-robin over tenants."""
        while len(under_way) < _AT_ONCE:
            waiting = await self._database.read(partial(_waiting, but=list(under_way)))
            chosen = self._turns.next(waiting, _AT_ONCE - len(under_way))
            if not chosen:
                return
            for row in await self._database.read(partial(_numbered, numbers=chosen)):
                self._turns.begin(row.tenant)
                under_way[row.number] = asyncio.create_task(self._in_turn(row), name=f"indexing {row.id}")

    async def _in_turn(self, row: Row[Any]) -> None:
        try:
            await self._index(row)
        except (StoreUnavailable, DataError, OSError) as error:
            logger.warning("indexing is paused: %s", error)
            await asyncio.sleep(_PAUSE)
        except Exception:  # one file must not block the others
            logger.exception("%s could not be indexed", row.file_id)
            await asyncio.sleep(_PAUSE)
        finally:
            self._turns.end(row.tenant)

    async def _index(self, row: Row[Any]) -> None:
        """Read a file, store its passages, then its status. In this order, a crash in between repeats the work."""
        data = await self._database.read(partial(_content, file_id=row.file_id))
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
            sizes = row.body["chunking"]
            chunks = (
                sizes["max_chunk_size_tokens"] * _CHARACTERS,
                sizes["chunk_overlap_tokens"] * _CHARACTERS,
            )
            given = (row.vector_store_id, row.id, row.body["filename"], text, chunks)
            try:
                size = await run_in_thread(self.passages.put, *given)
            except DataError:
                self._changed.add(row.vector_store_id)  # it may be damaged
                raise
        kept = await self._database.write(partial(_finish, row=row, size=size, problem=problem))
        if not kept:  # removed meanwhile, perhaps with its store
            self._changed.add(row.vector_store_id)
        self._step.set()
        self._step = asyncio.Event()

    async def _tidy(self) -> None:
        """Reindex files that an index has lost, and remove entries that the database does not know."""
        if not self._begun:  # left by the previous process
            kept = await self._database.read(lambda connection: connection.execute(_STORES).scalars().all())
            self._changed |= {*kept, *await run_in_thread(self.passages.collections)}
            self._begun = True
        while self._changed:
            store_id = self._changed.pop()
            try:
                known = {row.id: row.status for row in await self._database.read(partial(_rows, store_id=store_id))}
                lost = await run_in_thread(self._compared, store_id, known)
                for start in range(0, len(lost), _SOME):
                    await self._database.write(partial(_again, ids=lost[start : start + _SOME]))
            except BaseException:
                self._changed.add(store_id)
                raise

    def _compared(self, store_id: str, known: Mapping[str, str]) -> list[str]:
        """Remove entries that are not `known`. Return the completed files that the index lacks."""
        if not known:
            self.passages.drop(store_id)
            return []
        try:
            there = self.passages.keys(store_id)
            if more := there - set(known):
                self.passages.remove(store_id, more)
        except DataError as error:
            if not is_damaged(error):
                raise
            logger.warning("rebuilding a file index: %s", error)
            self.passages.drop(store_id)
            there = set()
        return [one for one, status in known.items() if status == "completed" and one not in there]


async def _text_of(name: str, data: bytes) -> str:
    """Extract the text of a file. Raises `DataError` or `UsageError`."""
    kind = media_type_of(name) or ""
    if b"\x00" in data[:8_192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")) and b"%PDF-" not in data[:1_024]:
        raise DataError(_BINARY)
    apart = len(data) > _IN_PROCESS or needs_parser(data, kind)
    text = (await (text_apart(data, kind, seconds=_SECONDS) if apart else run_in_thread(text_of, data, kind))).text
    if not text:
        raise DataError("there is no text in it")
    if len(text) >= MAX_TEXT:
        raise DataError(f"it has {MAX_TEXT:,} characters or more; give it in parts")
    return text


def _waiting(connection: Connection, but: Collection[int]) -> dict[str, int]:
    """Return the number of each tenant's oldest file to index, except those in `but`."""
    query = select(_COLUMNS.tenant, func.min(_COLUMNS.number)).where(_COLUMNS.status == "in_progress")
    rows = connection.execute(query.where(_COLUMNS.number.not_in(but)).group_by(_COLUMNS.tenant))
    return {row[0]: row[1] for row in rows}


def _numbered(connection: Connection, numbers: Sequence[int]) -> Sequence[Row[Any]]:
    return connection.execute(select(vector_store_files).where(_COLUMNS.number.in_(numbers))).all()


def _content(connection: Connection, file_id: str) -> bytes | None:
    found: bytes | None = connection.execute(select(contents.c.content).where(contents.c.id == file_id)).scalar()
    return found


def _finish(connection: Connection, row: Row[Any], size: int, problem: dict[str, str] | None) -> bool:
    """Store the outcome of a file. Return whether the file still exists."""
    mine = (_COLUMNS.id == row.id, _COLUMNS.status == "in_progress")
    body = connection.execute(select(_COLUMNS.body).where(*mine).with_for_update()).scalar()  # current attributes
    if body is None:
        return False
    status = "completed" if problem is None else "failed"
    values = {"status": status, "usage_bytes": size, "body": {**body, "last_error": problem}}
    connection.execute(update(vector_store_files).where(*mine).values(values))
    return True


def _rows(connection: Connection, store_id: str) -> Sequence[Any]:
    query = select(_COLUMNS.id, _COLUMNS.status).where(_COLUMNS.vector_store_id == store_id)
    return connection.execute(query).all()


def _again(connection: Connection, ids: Sequence[str]) -> None:
    connection.execute(update(vector_store_files).where(_COLUMNS.id.in_(ids)).values(status="in_progress"))


def expire(connection: Connection) -> list[str]:
    """Delete expired files, and the entries of expired stores. Return the stores that lost files."""
    now = int(time.time())
    over = select(files.c.id).where(files.c.expires_at <= now)
    ended = select(vector_stores.c.id).where(vector_stores.c.expires_at <= now)
    lost = _COLUMNS.file_id.in_(over) | _COLUMNS.vector_store_id.in_(ended)
    stores = list(connection.execute(select(_COLUMNS.vector_store_id).where(lost).distinct()).scalars())
    connection.execute(delete(vector_store_files).where(lost))
    connection.execute(delete(contents).where(contents.c.id.in_(over)))
    connection.execute(delete(files).where(files.c.expires_at <= now))
    return stores
