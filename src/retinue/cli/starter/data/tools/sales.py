"""The code of the tool in sales.yaml: SQL over sales.csv, which can only read."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)
_ROWS = 50
_STEPS = 1_000_000  # of SQLite's machine, after which a query is stopped
_LENGTH = 100_000  # bytes of a text


def query(query: str) -> str:
    """The rows that `query` selects, as CSV; what is wrong with it is an error that the model reads."""
    database = _loaded(Path(__file__).with_name("sales.csv"))
    database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
    database.set_progress_handler(lambda: 1, _STEPS)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH)
    try:
        cursor = database.execute(query)
        if cursor.description is None:
            raise ValueError("want one SELECT")
        rows = cursor.fetchmany(_ROWS + 1)
    finally:
        database.close()
    lines = [",".join(column[0] for column in cursor.description)]
    lines += [",".join(map(str, row)) for row in rows[:_ROWS]]
    return "\n".join(lines + ["(more rows were left out)"] * (len(rows) > _ROWS))


def _loaded(path: Path) -> sqlite3.Connection:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE sales (month TEXT, town TEXT, product TEXT, pieces INTEGER, price REAL)")
    database.executemany("INSERT INTO sales VALUES (:month, :town, :product, :pieces, :price)", rows)
    return database
