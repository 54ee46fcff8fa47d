"""`PassageIndex`: keyword search over pieces of files. Each collection has its own file, so neither its results nor
their scores depend on other collections."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.values import Document
from ..tools.passages import make_storable, stem_words
from .document_store import DocumentStore
from .splitter import cut_windows

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENDING = ".sqlite"
_CANDIDATES = 4  # multiple of the requested results that is scored in detail


class Passage(NamedTuple):
    """A piece of the text of `key`; `score` says how well it matches a query, from 0 to 1."""

    key: str
    text: str
    score: float


class PassageIndex:
    """Collections in files under `folder`, which is created on first use. Thread-safe. Raises what `DocumentStore`
    does: `DataError` for an unusable file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opening = threading.Lock()
        self._writing = defaultdict[str, threading.Lock](threading.Lock)  # by collection, so that none waits for others

    def put(self, collection: str, key: str, title: str, text: str, chunks: tuple[int, int]) -> int:
        """Store `text` under `key`, entirely or not at all, unless it exists; return the size of its pieces in bytes.

        `chunks`: maximum characters of a piece, and how many of them overlap.
        """
        text = make_storable(text)
        pieces = [
            Document(text[start:end], f"{key}#{number}", {"key": key, "title": title, "start": start})
            for number, (start, end) in enumerate(cut_windows(text, *chunks))
        ]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._writing[collection], self._open(collection) as store, store.transaction() as connection:
            size = sum(len(piece.content.encode()) for piece in pieces)
            row = (key, size, 0, "", "", len(pieces))
            connection.execute("INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?, ?, ?)", row)
            if connection.changes():
                store.write(pieces)
        return size

    def remove(self, collection: str, keys: Collection[str]) -> None:
        """Remove the texts under these keys."""
        with self._writing[collection], self._open(collection) as store, store.transaction() as connection:
            for key in keys:
                store.delete(ids=_list_ids(store, key))
                connection.execute("DELETE FROM files WHERE path = ?", (key,))

    def list_keys(self, collection: str) -> set[str]:
        """Return the keys of the stored texts."""
        if not self._find_path(collection).exists():
            return set()
        with self._open(collection) as store:
            return {key for (key,) in store.read_rows("SELECT path FROM files")}

    def read_text(self, collection: str, key: str) -> str:
        """Return the whole text under `key`, or an empty string."""
        if not self._find_path(collection).exists():
            return ""
        with self._open(collection) as store:
            pieces = store.get(_list_ids(store, key))
        text = ""
        for piece in pieces:
            text += piece.content[len(text) - piece.meta["start"] :]
        return text

    def search(self, collection: str, query: str, top_k: int, keys: Sequence[str] | None = None) -> list[Passage]:
        """Return the `top_k` best pieces for `query`, best first; `keys` restricts the search.

        The score is the mean of BM25 relative to the best one's, and of the share of the query's words that occur in
        the piece or its title.
        """
        if not self._find_path(collection).exists() or keys == []:
            return []
        where = None if keys is None else {"key": {"in": keys}}
        with self._open(collection) as store:
            found = store.keyword(query, _CANDIDATES * top_k, where)
        best = max((one.score or 0.0 for one in found), default=0.0)
        wanted = stem_words(query) or {query}
        passages = []
        for one in found:
            share = len(wanted & stem_words(f"{one.meta['title']} {one.content}")) / len(wanted)
            rank = (one.score or 0.0) / best if best > 0 else 0.0
            passages.append(Passage(one.meta["key"], one.content, round((rank + share) / 2, 4)))
        return sorted(passages, key=lambda one: -one.score)[:top_k]

    def list_collections(self) -> list[str]:
        """Return the names of the stored collections."""
        return sorted(path.stem for path in self.folder.glob(f"*{_ENDING}") if _ID.fullmatch(path.stem))

    def drop(self, collection: str) -> None:
        """Delete a collection."""
        path = self._find_path(collection)
        with self._writing[collection], self._opening:
            for ending in ("", "-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)

    def _find_path(self, collection: str) -> Path:
        if not _ID.fullmatch(collection):
            raise ValueError(f"not the name of a collection: {collection!r}")
        return self.folder / f"{collection}{_ENDING}"

    def _open(self, collection: str) -> DocumentStore:
        with self._opening:  # only one thread sets up a new file
            return DocumentStore(self._find_path(collection))


def _list_ids(store: DocumentStore, key: str) -> list[str]:
    rows = store.read_rows("SELECT pieces FROM files WHERE path = ?", (key,))
    return [f"{key}#{number}" for number in range(rows[0][0])] if rows else []
