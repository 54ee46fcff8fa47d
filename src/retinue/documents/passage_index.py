"""`PassageIndex`: what is in files, in pieces that are found by words. One index for each collection, in a file of its
own: neither what is found nor how well it fits depends on what others keep."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..core.values import Document
from ..tools.keyword_search import stems, storable
from .document_store import DocumentStore
from .splitter import windows

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENDING = ".sqlite"
_BESIDE = ("", "-wal", "-shm")
_CANDIDATES = 4  # times as many as are wanted are looked at closely


class Passage(NamedTuple):
    """A piece of the text of `key`; `score` is from 0 to 1: how well it fits a query."""

    key: str
    text: str
    score: float


class PassageIndex:
    """Collections in files under `folder`, which is made when it is first needed. May be used from several threads.

    They can be made again from what they were made from, so nobody waits for the disk. Raises what `DocumentStore`
    does: `DataError` for a file that cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opening = threading.Lock()
        self._writing: defaultdict[str, threading.Lock] = defaultdict(
            threading.Lock
        )  # by collection: none waits for others

    def put(self, collection: str, key: str, title: str, text: str, chunks: tuple[int, int]) -> int:
        """Keep `text` under `key`, all of it or nothing, unless it is there; the bytes of its pieces. `chunks`: the
        most characters of a piece, and how many of them overlap."""
        text = storable(text)
        pieces = [
            Document(text[start:end], f"{key}#{number}", {"key": key, "title": title, "start": start})
            for number, (start, end) in enumerate(windows(text, *chunks))
        ]
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._writing[collection], self._open(collection) as store, store.transaction() as connection:
            size = sum(len(piece.content.encode()) for piece in pieces)
            row = (key, size, 0, "", "", len(pieces))
            connection.execute("INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?, ?, ?)", row)
            if connection.changes():
                store.write(pieces)
        return size

    def remove(self, collection: str, keys: Collection[str]) -> None:
        """Forget what is under these keys."""
        with self._writing[collection], self._open(collection) as store, store.transaction() as connection:
            for key in keys:
                store.delete(ids=_ids(store, key))
                connection.execute("DELETE FROM files WHERE path = ?", (key,))

    def keys(self, collection: str) -> set[str]:
        """The keys of what is there."""
        if not self._path(collection).exists():
            return set()
        with self._open(collection) as store:
            return {key for (key,) in store.database.rows("SELECT path FROM files")}

    def text(self, collection: str, key: str) -> str:
        """All of the text under `key`; empty if it is not there."""
        if not self._path(collection).exists():
            return ""
        with self._open(collection) as store:
            pieces = store.get(_ids(store, key))
        text = ""
        for piece in pieces:
            text += piece.content[len(text) - piece.meta["start"] :]
        return text

    def search(self, collection: str, query: str, top_k: int, keys: Sequence[str] | None = None) -> list[Passage]:
        """The `top_k` pieces that fit `query` best, best first; `keys`: of these only.

        The score is the mean of two: BM25 as a share of the best one's, and the share of the query's words that are
        in the piece or its title.
        """
        if not self._path(collection).exists() or keys == []:
            return []
        where = None if keys is None else {"key": {"in": keys}}
        with self._open(collection) as store:
            found = store.keyword(query, _CANDIDATES * top_k, where)
        best = max((one.score or 0.0 for one in found), default=0.0)
        wanted = stems(query) or {query}
        scored = [Passage(one.meta["key"], one.content, round(_score(one, best, wanted), 4)) for one in found]
        return sorted(scored, key=lambda one: -one.score)[:top_k]

    def collections(self) -> list[str]:
        """Those that are there."""
        return sorted(path.stem for path in self.folder.glob(f"*{_ENDING}") if _ID.fullmatch(path.stem))

    def drop(self, collection: str) -> None:
        """Forget a collection."""
        path = self._path(collection)
        with self._writing[collection], self._opening:
            for ending in _BESIDE:
                path.with_name(path.name + ending).unlink(missing_ok=True)

    def _path(self, collection: str) -> Path:
        if not _ID.fullmatch(collection):
            raise ValueError(f"no name of a collection: {collection!r}")
        return self.folder / f"{collection}{_ENDING}"

    @contextmanager
    def _open(self, collection: str) -> Iterator[DocumentStore]:
        with self._opening:  # a new file is set up by one alone
            store = DocumentStore(self._path(collection))
        with store:
            yield store


def _score(found: Document, best: float, wanted: set[str]) -> float:
    there = stems(f"{found.meta.get('title', '')} {found.content}")
    share = len(wanted & there) / len(wanted)
    return ((found.score or 0.0) / best + share) / 2 if best > 0 else share / 2


def _ids(store: DocumentStore, key: str) -> list[str]:
    rows = store.database.rows("SELECT pieces FROM files WHERE path = ?", (key,))
    return [f"{key}#{number}" for number in range(rows[0][0])] if rows else []
