"""Vector stores' files made searchable, beside the runs. The database says what is to be there; the index follows."""

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

from sqlalchemy import URL, Connection, Row, delete, select, update

from ...cache import cache_folder
from ...documents.apart import MAX_TEXT, text_apart
from ...documents.database import is_damaged
from ...documents.passages import Passages
from ...documents.texts import media_type_of, needs_parser, text_of
from ...errors import DataError, StoreUnavailable, UsageError
from ...store.database import Database
from ...store.tables import contents, files, vector_store_files, vector_stores
from ...supervision import supervised
from ...threads import in_thread

logger = logging.getLogger(__name__)
_AT_ONCE = 2  # files that are read at a time
_SECONDS = 60.0  # for the text of one
_PAUSE = 2.0  # seconds until it is tried again, if the database or the disk is away
_SOME = 500  # ids bound in one statement
_CHARACTERS = 4  # that count as a token
_BINARY = "it is not text (want HTML, PDF, Markdown or plain text)"
_COLUMNS = vector_store_files.c
_STORES = select(_COLUMNS.vector_store_id).distinct()


def index_folder(url: URL) -> Path:
    """Where the index of a database is: beside its file; for one on a server, in the user's cache."""
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        return path.with_name(f"{path.name}.index")
    named = f"{url.host}:{url.port}/{url.database}"
    return cache_folder() / "index" / hashlib.sha256(named.encode()).hexdigest()[:24]


class Indexing:
    """What goes on in the index of `database` in `passages`, in a task that ends when there is nothing to do."""

    def __init__(self, database: Database, passages: Passages) -> None:
        self.passages = passages
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._woken = False
        self._changed: set[str] = set()  # stores whose indexes may have what is not theirs
        self._begun = False
        self._known = asyncio.Event()  # what a former process left has been looked through
        self._step = asyncio.Event()  # set when a file is done; then there is another

    def wake(self, *changed: str) -> None:
        """There are files to index, or to forget in these stores. Called in the server's loop."""
        self._woken = True
        self._changed |= set(changed)
        if self._task is None or self._task.done():
            work = supervised("the indexing of files", self._work)
            self._task = asyncio.create_task(work, name="indexing", context=Context())  # no request's alone

    async def close(self) -> None:
        """Stop. What is not done is done at the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def known(self) -> None:
        """Wait until it is known what is in the index, but not for ever."""
        if not self._known.is_set():
            self.wake()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._known.wait(), _SECONDS)

    async def settled(self, store_ids: Collection[str], seconds: float) -> None:
        """Wait until no file of these stores is being indexed, but at most `seconds`."""
        self.wake()  # what a message brought that had to wait for its thread
        await self.known()
        query = select(_COLUMNS.id).where(_COLUMNS.vector_store_id.in_(store_ids), _COLUMNS.status == "in_progress")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    step = self._step
                    if not await self._database.read(lambda connection: connection.execute(query.limit(1)).first()):
                        return
                    await step.wait()

    async def _work(self) -> None:
        while True:
            try:
                self._woken = False
                await self._tidy()
                self._known.set()
                rows = await self._database.read(_unfinished)
                for error in await asyncio.gather(*map(self._index, rows), return_exceptions=True):
                    if error is not None:
                        raise error
                if not rows and not self._woken:
                    return
            except (StoreUnavailable, DataError, OSError) as error:
                logger.warning("the index of files waits: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _index(self, row: Row[Any]) -> None:
        """Read one file, keep its passages, and say so: in this order, so that whoever dies between does it again."""
        data = await self._database.read(partial(_content, file_id=row.file_id))
        size, problem = 0, None
        try:
            text = await _text_of(row.body["filename"], data or b"")
        except DataError as error:
            problem = {"code": "unsupported_file" if _BINARY in str(error) else "invalid_file", "message": str(error)}
        except UsageError as error:  # an extra is not installed
            problem = {"code": "server_error", "message": str(error)}
        except Exception:  # one file must not keep the others waiting
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
                size = await in_thread(self.passages.put, *given)
            except DataError:
                self._changed.add(row.vector_store_id)  # it may be damaged
                raise
        kept = await self._database.write(partial(_finish, row=row, size=size, problem=problem))
        if not kept:  # it was removed meanwhile
            await in_thread(self.passages.remove, row.vector_store_id, [row.id])
        self._step.set()
        self._step = asyncio.Event()

    async def _tidy(self) -> None:
        """Index again what an index has lost, and remove from it what the database does not know."""
        if not self._begun:  # whatever a former process left
            kept = await self._database.read(lambda connection: connection.execute(_STORES).scalars().all())
            self._changed |= {*kept, *await in_thread(self.passages.collections)}
            self._begun = True
        while self._changed:
            store_id = self._changed.pop()
            try:
                known = {row.id: row.status for row in await self._database.read(partial(_rows, store_id=store_id))}
                lost = await in_thread(self._compared, store_id, known)
                for start in range(0, len(lost), _SOME):
                    await self._database.write(partial(_again, ids=lost[start : start + _SOME]))
            except BaseException:
                self._changed.add(store_id)
                raise

    def _compared(self, store_id: str, known: Mapping[str, str]) -> list[str]:
        """Make away with what is not `known`; what should be there and is not."""
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
            logger.warning("an index of files is made anew: %s", error)
            self.passages.drop(store_id)
            there = set()
        return [one for one, status in known.items() if status == "completed" and one not in there]


async def _text_of(name: str, data: bytes) -> str:
    """The text of a file. Raises `DataError` and `UsageError`."""
    kind = media_type_of(name) or ""
    if b"\x00" in data[:8_192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")) and b"%PDF-" not in data[:1_024]:
        raise DataError(_BINARY)
    parsed = needs_parser(data, kind)
    text = (await (text_apart(data, kind, seconds=_SECONDS) if parsed else in_thread(text_of, data, kind))).text
    if not text:
        raise DataError("there is no text in it")
    if len(text) >= MAX_TEXT:
        raise DataError(f"it has {MAX_TEXT:,} characters or more; give it in parts")
    return text


def _unfinished(connection: Connection) -> Sequence[Row[Any]]:
    query = select(vector_store_files).where(_COLUMNS.status == "in_progress").order_by(_COLUMNS.number)
    return connection.execute(query.limit(_AT_ONCE)).all()


def _content(connection: Connection, file_id: str) -> bytes | None:
    found: bytes | None = connection.execute(select(contents.c.content).where(contents.c.id == file_id)).scalar()
    return found


def _finish(connection: Connection, row: Row[Any], size: int, problem: dict[str, str] | None) -> bool:
    """Note what came of a file; whether it still mattered."""
    mine = (_COLUMNS.id == row.id, _COLUMNS.status == "in_progress")
    body = connection.execute(select(_COLUMNS.body).where(*mine).with_for_update()).scalar()  # its attributes by now
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
    """Remove files whose time is up, and what was in stores whose time is; the stores that have lost some."""
    now = int(time.time())
    over = select(files.c.id).where(files.c.expires_at <= now)
    ended = select(vector_stores.c.id).where(vector_stores.c.expires_at <= now)
    lost = _COLUMNS.file_id.in_(over) | _COLUMNS.vector_store_id.in_(ended)
    stores = list(connection.execute(select(_COLUMNS.vector_store_id).where(lost).distinct()).scalars())
    connection.execute(delete(vector_store_files).where(lost))
    connection.execute(delete(contents).where(contents.c.id.in_(over)))
    connection.execute(delete(files).where(files.c.expires_at <= now))
    return stores
