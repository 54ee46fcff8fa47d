"""The server's database, for the commands that read and change it while a server may run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ..store.run_row import RunRow

DB_OPTION = click.option(
    "--db", default="retinue.db", show_default=True, help="The server's database: a file or a PostgreSQL URL."
)

MISSING = "a server's database needs the extra 'server': pip install 'retinue[server]'"


def database_url(db: str) -> str:
    """Return the URL of a database given as a file or a URL."""
    if "://" in db:
        return db
    from sqlalchemy import URL

    return URL.create("sqlite", database=str(Path(db))).render_as_string(hide_password=False)


@contextmanager
def read_database(db: str) -> Iterator[Connection]:
    """Open the database `db` to read. Raises `UsageError` without the extra."""
    try:
        from ..store.admin_transaction import read_only
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    with read_only(database_url(db)) as connection:
        yield connection


@contextmanager
def server_database(db: str, *, new: bool = False) -> Iterator[Connection]:
    """Open a transaction in the database `db`, which may be made if `new` is set. Raises `UsageError` without the
    extra."""
    try:
        from ..store.admin_transaction import admin_transaction
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    with admin_transaction(database_url(db), new=new) as connection:
        yield connection


def found_run(connection: Connection, run_id: str, *, lock: bool = False) -> RunRow:
    """Return the run with this id. Raises `UsageError` if there is none."""
    from ..store.run_queries import find_run

    run = find_run(connection, run_id, lock=lock)
    if run is None:
        raise UsageError(f"there is no run {run_id[:80]!r}; retinue runs list shows those that there are")
    return run
