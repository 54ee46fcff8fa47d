"""Prepared statements for the hot path: SQLAlchemy compiles each once, instead of for every execution.

Inserts a row that another server may be inserting at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Delete, Dialect, Float, Insert, Select, Table, Update, bindparam, insert
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import TypeEngine

_Convert = Callable[[Any], Any]


class _Plan(NamedTuple):
    """A statement compiled for one dialect: its text, the values that it contains, the bind processors, and the result
    processors by column index."""

    text: str
    constant: Mapping[str, Any]
    given: Sequence[tuple[str, _Convert]]
    found: Sequence[tuple[int, _Convert]]


class Prepared:
    """A statement with values bound by name (`bindparam`), each with its column's type.

    On SQLite it bypasses SQLAlchemy and may raise `sqlite3.Error`.
    """

    def __init__(self, statement: Select[Any] | Insert | Update | Delete) -> None:
        self._statement = statement
        self._plans: dict[str, _Plan] = {}

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Execute a SELECT and return all rows, in the order of its columns."""
        plan = self._plan(connection.dialect)
        found = _execute(connection, plan.text, _converted(values, plan)).fetchall()
        return [_read(row, plan.found) for row in found] if plan.found else list(map(tuple, found))

    def each(self, connection: Connection, values: Mapping[str, Any]) -> Generator[tuple[Any, ...], None, None]:
        """Execute a SELECT and yield its rows; those that are not asked for are not read. Close it, or read all."""
        plan = self._plan(connection.dialect)
        found = _execute(connection, plan.text, _converted(values, plan))
        try:
            for row in found:
                yield _read(row, plan.found)
        finally:
            found.close()

    def run(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Execute a write once. Return the number of rows written."""
        plan = self._plan(connection.dialect)
        return int(_execute(connection, plan.text, _converted(values, plan)).rowcount)

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute a write for each of `rows` (at least one). Return the number of rows written."""
        plan = self._plan(connection.dialect)
        given = [_converted(values, plan) for values in rows]
        if isinstance(connection.dialect, SQLiteDialect):
            driver: Any = connection.connection.dbapi_connection
            return int(driver.executemany(plan.text, given).rowcount)
        return sum(int(connection.exec_driver_sql(plan.text, one).rowcount) for one in given)

    def _plan(self, dialect: Dialect) -> _Plan:
        return self._plans.get(dialect.name) or self._plans.setdefault(dialect.name, _planned(self._statement, dialect))


def bound_insert(table: Table, names: Iterable[str] = ()) -> Prepared:
    """Return the statement that inserts a row, with values bound by the names of its columns: of these, or of all."""
    columns = [table.c[name] for name in names] or list(table.c)
    return Prepared(insert(table).values({one.name: bindparam(one.name, type_=one.type) for one in columns}))


def run_text(connection: Connection, text: str) -> None:
    """Execute a statement without values."""
    _execute(connection, text, {})


def _planned(statement: Select[Any] | Insert | Update | Delete, dialect: Dialect) -> _Plan:
    compiled: Any = statement.compile(dialect=dialect)
    binds = {name: one for one, name in compiled.bind_names.items()}
    given = {name: one.type.dialect_impl(dialect).bind_processor(dialect) for name, one in binds.items()}
    columns = statement.selected_columns if isinstance(statement, Select) else ()
    found = [_reads(column.type, dialect) for column in columns]
    return _Plan(
        str(compiled),
        {name: one.value for name, one in binds.items() if not one.required},
        [(name, convert) for name, convert in given.items() if convert is not None],
        [(place, convert) for place, convert in enumerate(found) if convert is not None],
    )


def _reads(type_: TypeEngine[Any], dialect: Dialect) -> _Convert | None:
    if isinstance(type_, Float):  # what the drivers return is a float already
        return None
    return type_.dialect_impl(dialect).result_processor(dialect, None)


def _converted(values: Mapping[str, Any], plan: _Plan) -> dict[str, Any]:
    given = {**plan.constant, **values}
    for name, convert in plan.given:
        given[name] = convert(given[name])
    return given


def _read(row: Sequence[Any], found: Sequence[tuple[int, _Convert]]) -> tuple[Any, ...]:
    values = list(row)
    for place, convert in found:
        values[place] = convert(values[place])
    return tuple(values)


def _execute(connection: Connection, text: str, given: dict[str, Any]) -> Any:
    if not isinstance(connection.dialect, SQLiteDialect):
        return connection.exec_driver_sql(text, given)
    driver: Any = connection.connection.dbapi_connection
    return driver.execute(text, given)


def insert_once(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row. Return whether it was inserted: not if there is one with its key. The transaction goes on."""
    try:
        with connection.begin_nested():
            connection.execute(insert(table).values(**values))
    except IntegrityError:
        return False
    return True
