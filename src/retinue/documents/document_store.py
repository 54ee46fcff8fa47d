"""Document stores: the protocol which retrievers and writers call, and `DocumentStore`, which keeps them in a SQLite
file and searches them by keyword (FTS5) and by vector (sqlite-vec).

>>> build_sql_condition({"kind": "page", "year": {"gte": 2020}})[1][:2]
['$."kind"', 'page']
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from .._internal.extras import check_extra
from .._internal.message_text import format_repr, suggest_name
from .._internal.processes import call_in_forked_child, keep_from_parent
from ..core.component import Configurable
from ..core.values import Document
from ..errors import DataError, UsageError
from ..tools.passages import TITLE_WEIGHT, TOKENIZE, make_storable, match_expression

if TYPE_CHECKING:
    import apsw
    import numpy

Where = Mapping[str, Any]
Vectors: TypeAlias = "Sequence[Sequence[float]] | numpy.ndarray[Any, Any]"
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_COMPARISONS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_OPERATORS = (*_COMPARISONS, "ne", "in")
_LARGEST = 2**63
_OURS = 0x52746E75  # "Rtnu", as application_id: databases of other programs are not accepted as stores
_BUSY = 30_000  # milliseconds to wait for another process that writes
_ALIVE = "(expires IS NULL OR expires > ?)"
_DIMENSIONS = "SELECT value FROM settings WHERE name = 'dimensions'"
_LISTED = "id IN (SELECT value FROM json_each(?))"
# Migrations from the version given by the position to the next one: append only, never change.
_MIGRATIONS = (
    f"""
    CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE files (path TEXT PRIMARY KEY, size, modified, hash, made, pieces) WITHOUT ROWID;
    CREATE TABLE documents (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, expires REAL, meta TEXT NOT NULL,
        title TEXT NOT NULL, content TEXT NOT NULL);
    CREATE INDEX expiring ON documents (expires) WHERE expires IS NOT NULL;
    CREATE TABLE vectors (
        number INTEGER PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE, vector BLOB NOT NULL);
    CREATE VIRTUAL TABLE words USING fts5(
        title, content, content = 'documents', content_rowid = 'number', tokenize = '{TOKENIZE}');
    CREATE TRIGGER made AFTER INSERT ON documents BEGIN
        INSERT INTO words (rowid, title, content) VALUES (new.number, new.title, new.content);
    END;
    CREATE TRIGGER gone AFTER DELETE ON documents BEGIN
        INSERT INTO words (words, rowid, title, content) VALUES ('delete', old.number, old.title, old.content);
    END;
    CREATE TRIGGER changed AFTER UPDATE OF title, content ON documents BEGIN
        INSERT INTO words (words, rowid, title, content) VALUES ('delete', old.number, old.title, old.content);
        INSERT INTO words (rowid, title, content) VALUES (new.number, new.title, new.content);
    END;
    """,
)


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


def check_installed(what: str = "a DocumentStore") -> None:
    """Raise `UsageError` without the extra that `what` needs."""
    check_extra(what, "documents", "apsw", "sqlite_vec", "numpy")


def is_damaged(error: DataError) -> bool:
    """Return whether an error means that the file is permanently unusable."""
    import apsw

    return isinstance(error.__cause__, apsw.NotADBError | apsw.CorruptError)


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
        check_installed()
        self.path = path
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._is_closed = False
        self._connect()
        call_in_forked_child(self._forget_connection)
        if dimensions is not None:
            with self.transaction() as connection:
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
        with self.transaction() as connection:
            connection.execute("DELETE FROM documents WHERE expires <= ?", (time.time(),))
            if vectors is not None and rows:
                _fix_dimensions(connection, len(vectors[0]))
            return sum(_write_row(connection, row, blob, expires) for row, blob in zip(rows, blobs, strict=True))

    def filter(self, where: Where | None = None) -> list[Document]:
        """Return all documents that match `where` (see `build_sql_condition`), in the order written."""
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
        """Delete documents that match `where` and have one of `ids`; return how many there were. Raises `UsageError` if
        neither is given; `where={}` matches all."""
        if where is None and ids is None:
            raise UsageError("delete what? Give `where` or `ids` (where={} deletes everything)")
        text, bound = build_sql_condition(where)
        if ids is not None:
            text, bound = f"{_LISTED} AND {text}", [json.dumps(list(map(make_storable, ids))), *bound]
        with self.transaction() as connection:
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
        held = self.read_rows(_DIMENSIONS)
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

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Run the block in a transaction, which is rolled back if it raises. Nested ones become part of the outer one,
        and other threads wait."""
        with self._open() as connection:
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def read_rows(self, sql: str, bound: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query. `bound`: its parameters."""
        with self._open() as connection:
            return connection.execute(sql, bound).fetchall()

    def __len__(self) -> int:
        rows = self.read_rows(f"SELECT count(*) FROM documents WHERE {_ALIVE}", (time.time(),))
        return int(rows[0][0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._is_closed = None, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_documents(self, sql: str, bound: Sequence[Any]) -> list[Document]:
        rows = self.read_rows(sql, bound)
        return [Document(content, name, json.loads(meta), score) for name, content, meta, score in rows]

    def _connect(self) -> None:
        import apsw
        import sqlite_vec

        with self._translate_errors():
            connection = apsw.Connection(str(Path(self.path).expanduser()))
            try:
                connection.set_busy_timeout(_BUSY)
                connection.enable_load_extension(True)
                connection.load_extension(sqlite_vec.loadable_path())
                connection.enable_load_extension(False)
                for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF"):
                    connection.execute(f"PRAGMA {pragma}")
                _migrate(connection, self.path)
            except BaseException:
                connection.close()
                raise
            self._connection = connection

    def _forget_connection(self) -> None:
        """Let a forked child open the file anew. SQLite forbids it to use or to close the parent's connection; a
        database in memory is the child's own copy."""
        self._lock = threading.RLock()
        if self._connection is not None and str(self.path) != ":memory:":
            keep_from_parent(self._connection)
            self._connection = None

    @contextmanager
    def _open(self) -> Iterator[apsw.Connection]:
        with self._lock, self._translate_errors():
            if self._is_closed:
                raise UsageError(f"the store {self.path} has been closed")
            if self._connection is None:
                self._connect()
            assert self._connection is not None
            yield self._connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        import apsw

        try:
            yield
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise DataError(f"{self.path} is not a document store, or is damaged: {error}") from error
        except apsw.BusyError as error:
            raise DataError(f"{self.path} is being written by another process; try again later") from error
        except apsw.Error as error:
            raise DataError(f"{self.path} cannot be used as a document store: {error}") from error


def _migrate(connection: apsw.Connection, path: str | Path) -> None:
    """Create the tables in a new file, or migrate an older one."""
    if connection.pragma("user_version") == len(_MIGRATIONS) and connection.pragma("application_id") == _OURS:
        return
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        version = connection.pragma("user_version")
        empty = connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
        if not empty and connection.pragma("application_id") != _OURS:
            raise DataError(f"{path} is not a document store but another database")
        if version > len(_MIGRATIONS):
            raise DataError(f"{path} was written by a newer Retinue (schema {version}, here {len(_MIGRATIONS)})")
        for script in _MIGRATIONS[version:]:
            connection.execute(script)
        connection.pragma("application_id", _OURS)
        connection.pragma("user_version", len(_MIGRATIONS))
    connection.execute("COMMIT")


def build_sql_condition(where: Where | None) -> tuple[str, list[Any]]:
    """Return the SQL condition on a row's `meta`, and its parameters. No text of `where` becomes part of the SQL.

    `{"url": "…"}` is equality, `{"year": {"gte": 2020, "lt": 2025}}` compares; all conditions must hold. Operators: eq,
    ne, gt, gte, lt, lte, in (with a list). Texts are compared only with texts, numbers only with numbers, and `None`
    equals a missing value. Raises `UsageError` for an invalid key, operator or value.
    """
    texts, bound = ["1"], []
    for key, wanted in (where or {}).items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise UsageError(f"where: {str(key)[:80]!r} is not a key (want letters, digits, '_', '.', '-'; at most 64)")
        for operator, value in wanted.items() if isinstance(wanted, Mapping) else [("eq", wanted)]:
            text, values = _translate_condition(key, operator, value)
            texts.append(text)
            bound += values
    return " AND ".join(texts), bound


def _translate_condition(key: str, operator: str, value: Any) -> tuple[str, list[Any]]:
    """Return one condition. `coalesce` turns SQL's NULL (the key is missing) into false, so that it can be negated."""
    path = f'$."{key}"'
    if operator == "ne":
        text, values = _translate_condition(key, "eq", value)
        return f"NOT ({text})", values
    if operator == "in":
        if not isinstance(value, list | tuple | set | frozenset):
            raise UsageError(f"where: {key}: 'in' requires a list of values, not {value!r:.80}")
        each = [_translate_condition(key, "eq", one) for one in value if not isinstance(one, str)]
        if names := [make_storable(one) for one in value if isinstance(one, str)]:  # in one list: SQL may nest so deep
            found = "json_extract(meta, ?) IN (SELECT value FROM json_each(?))"
            text = f"coalesce(json_type(meta, ?) = 'text' AND {found}, 0)"
            each.append((text, [path, path, json.dumps(names)]))
        return f"({' OR '.join(text for text, _ in each) or '0'})", [one for _, values in each for one in values]
    if operator not in _COMPARISONS:
        raise UsageError(f"where: {key}: no operator {str(operator)[:80]!r}; {suggest_name(str(operator), _OPERATORS)}")
    if operator == "eq" and (value is None or isinstance(value, bool)):
        return "coalesce(json_type(meta, ?), 'null') = ?", [path, json.dumps(value)]
    if isinstance(value, str):
        kinds, value = "'text'", make_storable(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
        kinds, value = "'integer', 'real'", value if abs(value) < _LARGEST else float(value)
    else:
        raise UsageError(f"where: {key}: {value!r:.80} cannot be compared (want a text or a number)")
    text = f"json_type(meta, ?) IN ({kinds}) AND json_extract(meta, ?) {_COMPARISONS[operator]} ?"
    return f"coalesce({text}, 0)", [path, path, value]


def _read_row(document: Document) -> tuple[str, str, str, str]:
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


def _write_row(connection: apsw.Connection, row: Sequence[str], vector: bytes | None, expires: float | None) -> bool:
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
