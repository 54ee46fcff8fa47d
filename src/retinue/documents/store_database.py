"""A store's SQLite file: opening, checks, schema migrations, mapping of errors, and filters (`where`) as SQL.

>>> build_sql_condition({"kind": "page", "year": {"gte": 2020}})[1][:2]
['$."kind"', 'page']
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._internal.message_text import suggest_name
from .._internal.processes import call_in_forked_child, keep_from_parent
from ..errors import DataError, UsageError
from ..tools.keyword_search import TOKENIZE, make_storable

if TYPE_CHECKING:
    import apsw


Where = Mapping[str, Any]
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_COMPARISONS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_OPERATORS = (*_COMPARISONS, "ne", "in")
_LARGEST = 2**63
_OURS = 0x52746E75  # "Rtnu", as application_id: databases of other programs are not accepted as stores
_BUSY = 30_000  # milliseconds to wait for another process that writes
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


def check_installed(what: str = "a DocumentStore") -> None:
    """Raise `UsageError` without the extra that `what` needs."""
    if any(find_spec(module) is None for module in ("apsw", "sqlite_vec", "numpy")):
        raise UsageError(f"{what} needs the extra 'documents': pip install 'retinue[documents]'")


def is_damaged(error: DataError) -> bool:
    """Return whether an error means that the file is permanently unusable."""
    import apsw

    return isinstance(error.__cause__, apsw.NotADBError | apsw.CorruptError)


class Database:
    """A connection, used by one thread at a time. Raises `DataError` for an unusable file, and `UsageError` without the
    extra that reads it.
    """

    def __init__(self, path: str | Path) -> None:
        check_installed()
        self.path = path if path == ":memory:" else Path(path).expanduser()
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._is_closed = False
        self._connect()
        call_in_forked_child(self._forget_connection)

    def _connect(self) -> None:
        import apsw
        import sqlite_vec

        with self._translate_errors():
            connection = apsw.Connection(str(self.path))
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
        if self._connection is not None and self.path != ":memory:":
            keep_from_parent(self._connection)
            self._connection = None

    def read_rows(self, sql: str, bound: Any = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query. `bound`: its parameters."""
        with self._open() as connection:
            return connection.execute(sql, bound).fetchall()

    @contextmanager
    def begin_writing(self) -> Iterator[apsw.Connection]:
        """Run the block in a transaction, which is rolled back if it raises. Nested transactions become part of the
        outer one.
        """
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

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._is_closed = None, True

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


# ── filters ───────────────────────────────────────────────────────────────────────────────────────


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
