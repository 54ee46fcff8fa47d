"""Document stores: the protocol which retrievers and writers call, and `DocumentStore`, which keeps them in a SQLite
file and searches them by keyword (FTS5) and by vector (sqlite-vec).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from .._internal.message_text import format_repr
from ..core.component import Configurable
from ..core.values import Document
from ..errors import UsageError
from ..tools.keyword_search import TITLE_WEIGHT, make_storable, match_expression
from .store_database import Database, Where, build_sql_condition

if TYPE_CHECKING:
    import apsw
    import numpy

Vectors: TypeAlias = "Sequence[Sequence[float]] | numpy.ndarray[Any, Any]"
_ALIVE = "(expires IS NULL OR expires > ?)"
_DIMENSIONS = "SELECT value FROM settings WHERE name = 'dimensions'"
_LISTED = "id IN (SELECT value FROM json_each(?))"
_Row = tuple[str, str, str, str]


@runtime_checkable
class Store(Protocol):
    """A document store: `retinue.DocumentStore`, which documents the methods, or another one with the same methods."""

    def write(
        self, documents: Iterable[Document], vectors: Vectors | None = None, *, expires: float | None = None
    ) -> int:
        """Write documents, all or none; return how many were new or changed."""

    def filter(self, where: Where | None = None) -> list[Document]:
        """Return all documents that match `where`, in the order written."""

    def get(self, ids: Iterable[str]) -> list[Document]:
        """Return those of these documents that exist, in the order of `ids`."""

    def delete(self, where: Where | None = None, *, ids: Iterable[str] | None = None) -> int:
        """Delete documents that match `where` and have one of `ids`; return how many there were."""

    def keyword(self, query: str, top_k: int = 10, where: Where | None = None) -> list[Document]:
        """Return the best documents for the words of `query`, best first."""

    def nearest(self, vector: Sequence[float], top_k: int = 10, where: Where | None = None) -> list[Document]:
        """Return the documents whose vectors are nearest to `vector`, best first."""

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Release its resources."""


def check_store(store: Any, name: str) -> Store:
    """Return `store` if it is a store. Otherwise raises `UsageError` that begins with `name`."""
    if isinstance(store, type) or not isinstance(store, Store):
        raise UsageError(f"{name}: store must be a DocumentStore, not {store!r:.80}")
    return store


class DocumentStore(Configurable):
    """Stores documents persistently in a file, which is created if missing; without a path, in memory.

    It may be used by several threads and processes at once. `dimensions` is that of the vectors; by default, that of
    the first ones written. Raises `DataError` for a file that is not a store, is damaged or was written by a newer
    Retinue, and `UsageError` without the extra `documents`.

    >>> store = DocumentStore()
    >>> store.write([Document("Paris is the capital of France.", meta={"title": "Paris"})])
    1
    >>> [document.content for document in store.keyword("the capital of France")]
    ['Paris is the capital of France.']
    """

    def __init__(self, path: str | Path = ":memory:", *, dimensions: int | None = None) -> None:
        if dimensions is not None and dimensions < 1:
            raise UsageError(f"dimensions must be at least 1, not {dimensions}")
        self.path = path
        self.database = Database(path)
        if dimensions is not None:
            with self.database.begin_writing() as connection:
                _fix_dimensions(connection, dimensions)

    def __repr__(self) -> str:
        return format_repr(self, str(self.path), dimensions=self.given["dimensions"])

    def write(
        self, documents: Iterable[Document], vectors: Vectors | None = None, *, expires: float | None = None
    ) -> int:
        """Write `documents`, all or none, and return how many were new or changed.

        A document replaces the one with the same `id`. Without an id, it gets a hash of its content and `meta`, so that
        duplicates are stored once. Raises `UsageError` for meta that is not JSON and for invalid vectors.

        Args:
            documents: Written in order.
            vectors: One per document, of any length but zero. A changed document loses its old vector.
            expires: Unix time from which the documents no longer exist.
        """
        rows = [_read_row(document) for document in documents]
        blobs = _pack_vectors(vectors, len(rows)) if vectors is not None else [None] * len(rows)
        with self.database.begin_writing() as connection:
            connection.execute("DELETE FROM documents WHERE expires <= ?", (time.time(),))
            if vectors is not None and rows:
                _fix_dimensions(connection, len(vectors[0]))
            return sum(_write_row(connection, row, blob, expires) for row, blob in zip(rows, blobs, strict=True))

    def filter(self, where: Where | None = None) -> list[Document]:
        """Return all documents that match `where` (see `retinue.documents.store_database`), in the order written."""
        text, bound = build_sql_condition(where)
        return self._read_documents(
            f"SELECT id, content, meta, NULL FROM documents WHERE {_ALIVE} AND {text} ORDER BY number",
            [time.time(), *bound],
        )

    def get(self, ids: Iterable[str]) -> list[Document]:
        """Return those of these documents that exist, in the order of `ids`."""
        wanted = list(dict.fromkeys(map(make_storable, ids)))
        sql = f"SELECT id, content, meta, NULL FROM documents WHERE {_ALIVE} AND {_LISTED}"
        found = {document.id: document for document in self._read_documents(sql, [time.time(), json.dumps(wanted)])}
        return [found[one] for one in wanted if one in found]

    def delete(self, where: Where | None = None, *, ids: Iterable[str] | None = None) -> int:
        """Delete documents that match `where` and have one of `ids`; return how many there were.

        Raises `UsageError` if neither is given; `where={}` matches all.
        """
        if where is None and ids is None:
            raise UsageError("delete what? Give `where` or `ids` (where={} deletes everything)")
        text, bound = build_sql_condition(where)
        if ids is not None:
            text, bound = f"{_LISTED} AND {text}", [json.dumps(list(map(make_storable, ids))), *bound]
        with self.database.begin_writing() as connection:
            connection.execute(f"DELETE FROM documents WHERE {text}", bound)
            return connection.changes()

    def keyword(self, query: str, top_k: int = 10, where: Where | None = None) -> list[Document]:
        """Return the `top_k` best documents for the words of `query`, best first; `score` is BM25, higher is better.

        A word in the title (`meta["title"]`) counts twice.
        """
        wanted = match_expression(make_storable(query))
        # the unary plus makes SQLite look up each match among the allowed rows, and not the other way round
        best = f"""
            SELECT rowid AS best, -bm25(words, {TITLE_WEIGHT}, 1.0) AS score FROM words
            WHERE words MATCH ? AND +rowid {{allowed}} ORDER BY score DESC, rowid LIMIT ?
        """
        return self._read_best(best, wanted, top_k, where)

    def nearest(self, vector: Sequence[float], top_k: int = 10, where: Where | None = None) -> list[Document]:
        """Return the `top_k` documents whose vectors are nearest to `vector`, best first.

        `score` is the cosine similarity, at most 1.0. Raises `UsageError` for a vector of the wrong shape.
        """
        (blob,) = _pack_vectors([vector], 1)
        held = self.database.read_rows(_DIMENSIONS)
        if held:
            _check_dimensions(held[0][0], len(vector))
        best = """
            SELECT number AS best, 1.0 - vec_distance_cosine(vector, ?) AS score FROM vectors
            WHERE number {allowed} ORDER BY score DESC, number LIMIT ?
        """
        return self._read_best(best, blob if held else None, top_k, where)

    def _read_best(self, best: str, wanted: str | bytes | None, top_k: int, where: Where | None) -> list[Document]:
        """Return the allowed documents that the query `best` ranks for `wanted`; none if that is empty."""
        if top_k < 1:
            raise UsageError(f"top_k must be at least 1, not {top_k}")
        allowed, bound = "NOT IN (SELECT number FROM documents WHERE expires <= ?)", [time.time()]
        if where:
            text, more = build_sql_condition(where)
            allowed, bound = f"IN (SELECT number FROM documents WHERE {_ALIVE} AND {text})", [*bound, *more]
        if not wanted:
            return []
        best = best.format(allowed=allowed)
        sql = (
            f"SELECT id, content, meta, score FROM documents JOIN ({best}) ON number = best ORDER BY score DESC, number"
        )
        return self._read_documents(sql, [wanted, *bound, min(top_k, 2**62)])

    def transaction(self) -> AbstractContextManager[Any]:
        """Return a transaction for this thread's writes, which are rolled back if it raises. Other threads wait."""
        return self.database.begin_writing()

    def __len__(self) -> int:
        rows = self.database.read_rows(f"SELECT count(*) FROM documents WHERE {_ALIVE}", (time.time(),))
        return int(rows[0][0])

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_documents(self, sql: str, bound: Sequence[Any]) -> list[Document]:
        rows = self.database.read_rows(sql, bound)
        return [Document(content, name, json.loads(meta), score) for name, content, meta, score in rows]


def _read_row(document: Document) -> _Row:
    """Return id, meta, title and content as stored."""
    try:
        meta = json.dumps(dict(document.meta), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the meta of {document.id or document.content[:40]!r} is not JSON: {error}") from error
    content = make_storable(document.content)
    made = hashlib.sha256(f"{meta}\n{content}".encode()).hexdigest()[:32]
    return make_storable(document.id) or made, meta, make_storable(str(document.meta.get("title") or "")), content


def _pack_vectors(vectors: Vectors, count: int) -> list[bytes]:
    """Convert vectors for sqlite-vec: 32-bit floats, normalized to length 1 so that none overflows."""
    import numpy

    if count == 0 == len(vectors):
        return []
    try:
        array = numpy.asarray(vectors, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"vectors must be numbers, the same count in each: {error}") from error
    if array.ndim != 2 or len(array) != count:
        raise UsageError(f"want one vector for each of {count} documents, not an array of shape {array.shape}")
    lengths = numpy.hypot.reduce(array, axis=1, keepdims=True)
    if not numpy.isfinite(lengths).all() or not lengths.all():
        raise UsageError("a vector must consist of finite numbers, not all of them 0")
    return [row.tobytes() for row in (array / lengths).astype(numpy.float32)]


def _write_row(connection: apsw.Connection, row: _Row, vector: bytes | None, expires: float | None) -> bool:
    """Return whether the document, or its vector, was new or changed."""
    name = row[0]
    connection.execute(
        "INSERT INTO documents (id, meta, title, content) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
        "SET meta = excluded.meta, title = excluded.title, content = excluded.content "
        "WHERE meta IS NOT excluded.meta OR content IS NOT excluded.content",
        row,
    )
    changed = connection.changes() > 0
    sql = "UPDATE documents SET expires = ? WHERE id = ? RETURNING number"
    number = connection.execute(sql, (expires, name)).get
    if vector is not None:
        connection.execute(
            "INSERT INTO vectors VALUES (?, ?) ON CONFLICT (number) DO UPDATE "
            "SET vector = excluded.vector WHERE vector IS NOT excluded.vector",
            (number, vector),
        )
        return changed or connection.changes() > 0
    if changed:
        connection.execute("DELETE FROM vectors WHERE number = ?", (number,))
    return changed


def _fix_dimensions(connection: apsw.Connection, dimensions: int) -> None:
    """Enforce that all vectors of a store have the same dimensions."""
    connection.execute("INSERT OR IGNORE INTO settings VALUES ('dimensions', ?)", (dimensions,))
    _check_dimensions(connection.execute(_DIMENSIONS).get, dimensions)


def _check_dimensions(held: int, given: int) -> None:
    if held != given:
        raise UsageError(f"this store has vectors of {held} dimensions, not {given}")
