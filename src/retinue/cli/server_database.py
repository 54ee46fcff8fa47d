"""The server's database, for the commands that read and change it while a server may run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ..errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ..store.audit_log import Action, Author
    from ..store.run_row import RunRow

DB_OPTION = click.option(
    "--db", default="retinue.db", show_default=True, help="The server's database: a file or a PostgreSQL URL."
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="As JSON.")
MISSING = "a server's database needs the extra 'server': pip install 'retinue[server]'"


@contextmanager
def server_database(db: str, *, new: bool = False, read: bool = False) -> Iterator[Connection]:
    """Open a transaction in the database `db`, which may be made if `new` is set; or only `read` it. Raises
    `UsageError` without the extra."""
    try:
        from ..store.admin_transaction import admin_transaction, read_only
        from ..store.engines import database_url
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    url = database_url(db)
    with read_only(url) if read else admin_transaction(url, new=new) as connection:
        yield connection


def found_run(connection: Connection, run_id: str, *, lock: bool = False) -> RunRow:
    """Return the run with this id. Raises `UsageError` if there is none."""
    from ..store.run_queries import find_run

    run = find_run(connection, run_id, lock=lock)
    if run is None:
        raise UsageError(f"there is no run {run_id[:80]!r}; retinue runs list shows those that there are")
    return run


def system_user() -> Author:
    """Return the user of this system, as the audit log names them."""
    from ..store import audit_log

    return audit_log.system_user()


def record_act(
    connection: Connection, tenant: str, action: Action, target: str, detail: Mapping[str, str | int] = {}
) -> None:
    """Enter into the audit log what the user of this system did to something of `tenant`."""
    from ..store.audit_log import record

    record(connection, system_user(), tenant, action, target, detail)


def check_user(name: str) -> str:
    """Return a user's name. Raises `UsageError` if it is none."""
    from ..store.api_keys import describe_bad_user

    if problem := describe_bad_user(name):
        raise UsageError(problem)
    return name


def check_tenant(name: str) -> str:
    """Return a tenant's name. Raises `UsageError` if it is none."""
    from ..store.api_keys import describe_bad_tenant

    if problem := describe_bad_tenant(name):
        raise UsageError(problem)
    return name
