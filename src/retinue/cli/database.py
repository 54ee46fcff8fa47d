"""`retinue database`: brings a server's database to this version, copies it, and restores copies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import DataError, UsageError
from .server_database import DB_OPTION, MISSING, record_act, server_database

if TYPE_CHECKING:
    from ..store.database_copies import Contents

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("database")
def command() -> None:
    """Migrate, check, back up and restore the database of a server."""


@command.command("migrate")
@DB_OPTION
def migrate_(db: str) -> int:
    """Bring the database to the version of this Retinue, and make it if there is none.

    Servers and workers of the version before may stay open, unless a migration is not compatible with them: then
    nothing is changed, and the error says so. `retinue database check` tells in advance.
    """
    with _store():
        from ..store.admin_transaction import migrated
        from ..store.engines import database_url
    before, after = migrated(database_url(db))
    place = _shown(db)
    if before == after:
        click.echo(f"{place} is at schema version {after}: nothing to do")
    elif not before:
        click.echo(f"{place} was made, at schema version {after}")
    else:
        click.echo(f"{place} was migrated from schema version {before} to {after}")
    return 0


@command.command("check")
@DB_OPTION
def check(db: str) -> int:
    """Show which migrations the database lacks, and whether servers may stay open meanwhile. Change nothing.

    The exit status is 0 if this Retinue can use the database as it is, and 1 if it has to be migrated first.
    """
    with _store():
        from ..store.admin_transaction import looked_at
        from ..store.engines import database_url
        from ..store.migrations import missing_migrations, newest, version_of
    with looked_at(database_url(db)) as connection:
        missing = missing_migrations(connection)
        version, known = version_of(connection), newest(connection.dialect.name)
    click.echo(f"{_shown(db)} is at schema version {version or 0}; this Retinue's is {known}")
    width = max((len(one.file) for one in missing), default=0)
    for one in missing:
        click.echo(
            f"  {one.file.ljust(width)}  {'older servers go on' if one.compatible else 'stop all servers first'}"
        )
    if missing:
        click.echo("retinue database migrate, or a server that starts, runs what is missing")
    return 1 if missing else 0


@command.command("backup")
@click.argument("file", type=_FILE)
@DB_OPTION
def backup(file: Path, db: str) -> int:
    """Copy the database to the new FILE, as it is at one moment. Servers go on meanwhile.

    A SQLite database is copied by SQLite, a PostgreSQL database by pg_dump. The copy is written to FILE.part, and
    renamed once it is whole.
    """
    with _store():
        from ..cluster.postgres_copy import dump
        from ..store.admin_transaction import looked_at
        from ..store.audit_log import OPERATOR
        from ..store.database_copies import contents_of, copy_database, whole_file
        from ..store.engines import database_url
        from ..store.migrations import missing_migrations
    url = database_url(db)
    with looked_at(url) as connection:
        missing = missing_migrations(connection)  # raises if it is not ours
        contents = contents_of(connection)
    if (place := _sqlite_file(url)) is not None:
        copy_database(place, file)
    else:
        with whole_file(file) as part:
            dump(url, part)
    if not missing:  # an older one is copied as it is
        with server_database(db) as connection:
            record_act(connection, OPERATOR, "database.backed_up", "", {"bytes": file.stat().st_size})
    click.echo(f"{_shown(db)} was copied to {file} ({file.stat().st_size / 1e6:,.1f} MB): {_told(contents)}")
    return 0


@command.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--db", required=True, help="Where: a new file, or the URL of an empty PostgreSQL database.")
@click.option(
    "--cancel/--go-on", default=True, help="What becomes of the runs that were under way.  [default: --cancel]"
)
def restore(file: Path, db: str, cancel: bool) -> int:
    """Restore the database from FILE, a copy that `retinue database backup` made.

    The runs that were under way are cancelled: what they did after the copy was made is not known, and might be done
    again. If the original did nothing after the copy, --go-on has a server that is started on the database go on with
    them. The time from the copy until now does not count for them.
    """
    with _store():
        from sqlalchemy import inspect

        from ..cluster import postgres_copy
        from ..store.admin_transaction import looked_at
        from ..store.database_copies import put_copy
        from ..store.engines import database_url
    url = database_url(db)
    place = _sqlite_file(url)
    _check_kind(file, is_sqlite=place is not None)
    if place is not None:
        with put_copy(file, place) as part:
            contents, made = _settled(database_url(str(part)), cancel)
    else:
        with looked_at(url) as connection:
            if there := inspect(connection).get_table_names():
                raise UsageError(
                    f"the database holds tables ({there[0]}, …); restore to an empty one: createdb makes it"
                )
        postgres_copy.restore(file, url)
        contents, made = _settled(url, cancel)
    when = "" if made is None else f", made {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(made))},"
    click.echo(f"{file}{when} was restored to {_shown(db)}: {_told(contents)}")
    if contents.under_way and not cancel:
        click.echo(
            "A server goes on with the runs that were under way. What they did after the copy was made is not known "
            "here: see --cancel.",
            err=True,
        )
    return 0


def _settled(url: str, cancel: bool) -> tuple[Contents, float | None]:
    """Prepare a restored database for its first server. Raises `DataError` if this Retinue cannot use it."""
    from ..store.admin_transaction import looked_at
    from ..store.audit_log import OPERATOR
    from ..store.database_copies import contents_of, settle_copy
    from ..store.migrations import missing_migrations

    with looked_at(url, changes=True) as connection:
        missing = missing_migrations(connection)
        contents, made = contents_of(connection), settle_copy(connection)
        if cancel and missing and contents.under_way:
            raise UsageError(
                "runs of a copy of another version cannot be cancelled: give --go-on, and run database migrate and "
                "then runs cancel before a server is started"
            )
        if cancel and not missing:
            from ..runs.cancellation import cancel_unfinished

            cancel_unfinished(connection)
        if not missing:  # else its audit log may not be there yet
            record_act(connection, OPERATOR, "database.restored", "", {"cancelled": int(cancel)})
    return contents, made


def _check_kind(file: Path, *, is_sqlite: bool) -> None:
    """Raise `DataError` if the file is no copy of a database of this kind."""
    from ..cluster.postgres_copy import MAGIC as DUMP
    from ..store.database_copies import MAGIC as SQLITE

    with file.open("rb") as opened:
        head = opened.read(len(SQLITE))
    wanted, other = (SQLITE, DUMP) if is_sqlite else (DUMP, SQLITE)
    if head.startswith(wanted):
        return
    if head.startswith(other):
        is_of, give = ("PostgreSQL", "its URL") if other == DUMP else ("SQLite", "the name of a new file")
        raise DataError(f"{file} is a copy of a {is_of} database: give {give} as --db")
    raise DataError(f"{file} is no copy of a database that `retinue database backup` made")


def _sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite database; `None` for PostgreSQL. Raises `UsageError` if it is neither."""
    from ..store.engines import engine_of

    engine = engine_of(url)
    return Path(str(engine.url.database)) if engine.dialect.name == "sqlite" else None


def _shown(db: str) -> str:
    """Return the database's name, without its password."""
    if "://" not in db:
        return db
    from sqlalchemy import make_url

    return make_url(db).render_as_string()


def _told(contents: Contents) -> str:
    counted = f"{contents.runs:,} runs, {contents.under_way:,} under way, {contents.waiting:,} waiting for somebody"
    return f"schema version {contents.version}, {counted}"


@contextmanager
def _store() -> Iterator[None]:
    """Raise `UsageError` if the block imports what is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
