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
_AT_ONCE = 4  # files that are read at a time, of all tenants; the last place is for one who has none
_IN_PROCESS = 200_000  # bytes of a text that needs no parser; a longer one is read in a process of its own, too
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


class Indexer:
    """What goes on in the index of `database` in `passages`, in a task that ends when there is nothing to do."""

    def __init__(self, database: Database, passages: PassageIndex) -> None:
        self.passages = passages
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._turns = RoundRobin()
        self._changed: set[str] = set()  # stores whose indexes may have what is not theirs
        self._begun = False
        self._known = asyncio.Event()  # what a former process left has been looked through
        self._step = asyncio.Event()  # set when a file is done; then there is another

    def wake(self, *changed: str) -> None:
        """There are files to index, or to forget in these stores. Called in the server's loop."""
        self._woken.set()
        self._changed |= set(changed)
        if self._task is None or self._task.done():
            work = supervise("the indexing of files", self._work)
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
        under_way: dict[int, asyncio.Task[None]] = {}  # by the rows' numbers
        try:
            while True:
                self._woken.clear()
                try:
                    await self._tidy()
                    self._known.set()
                    await self._begin(under_way)
                except (StoreUnavailable, DataError, OSError) as error:
                    logger.warning("the index of files waits: %s", error)
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
        """Begin with as many files as there are places, each tenant in turn."""
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
            logger.warning("the index of files waits: %s", error)
            await asyncio.sleep(_PAUSE)
        except Exception:  # one file must not keep the others waiting
            logger.exception("%s could not be indexed", row.file_id)
            await asyncio.sleep(_PAUSE)
        finally:
            self._turns.end(row.tenant)

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
                size = await run_in_thread(self.passages.put, *given)
            except DataError:
                self._changed.add(row.vector_store_id)  # it may be damaged
                raise
        kept = await self._database.write(partial(_finish, row=row, size=size, problem=problem))
        if not kept:  # it was removed meanwhile, perhaps with its store
            self._changed.add(row.vector_store_id)
        self._step.set()
        self._step = asyncio.Event()

    async def _tidy(self) -> None:
        """Index again what an index has lost, and remove from it what the database does not know."""
        if not self._begun:  # whatever a former process left
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
    apart = len(data) > _IN_PROCESS or needs_parser(data, kind)
    text = (await (text_apart(data, kind, seconds=_SECONDS) if apart else run_in_thread(text_of, data, kind))).text
    if not text:
        raise DataError("there is no text in it")
    if len(text) >= MAX_TEXT:
        raise DataError(f"it has {MAX_TEXT:,} characters or more; give it in parts")
    return text


def _waiting(connection: Connection, but: Collection[int]) -> dict[str, int]:
    """The number of the oldest file of each tenant that is to be indexed, `but` for these."""
    query = select(_COLUMNS.tenant, func.min(_COLUMNS.number)).where(_COLUMNS.status == "in_progress")
    rows = connection.execute(query.where(_COLUMNS.number.not_in(but)).group_by(_COLUMNS.tenant))
    return {row[0]: row[1] for row in rows}


def _numbered(connection: Connection, numbers: Sequence[int]) -> Sequence[Row[Any]]:
    return connection.execute(select(vector_store_files).where(_COLUMNS.number.in_(numbers))).all()


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
