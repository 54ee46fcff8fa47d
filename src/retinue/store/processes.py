"""The servers that have the database open. Each shows regularly that it is alive, by the database's clock.

A run or a file that a server works on has the server's id. When the server is dead, another one may take it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, TextClause, delete, func, or_, select, text

from .tables import processes

EVERY = 2.0  # seconds between two signs of life
_DEAD_AFTER = 10.0  # seconds without one
_FORGOTTEN_AFTER = 3600.0
NOW = {
    "postgresql": "extract(epoch FROM clock_timestamp())",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}
"""The database's clock in Unix seconds, by the name of its dialect."""


def new_process_id() -> str:
    """Return an id for a server that starts. It says where its process is, to those that can see it."""
    return f"{_place()}-{os.getpid()}-{secrets.token_hex(6)}"


@cache
def _place() -> str:
    """Return a name for the set of processes that this one can see: those of this boot, in this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        names = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:  # not Linux: it sees no other
        return secrets.token_hex(6)
    return hashlib.sha256(b"%s %d" % (boot, names)).hexdigest()[:12]


def database_time(connection: Connection) -> float:
    """Return the time by the database's clock, in Unix seconds."""
    return float(connection.exec_driver_sql(f"SELECT {NOW[connection.dialect.name]}").scalar_one())


def enter(connection: Connection, process: str) -> None:
    """Add a server that starts. A SQLite file has one server, so all others have ended."""
    if connection.dialect.name == "sqlite":
        connection.execute(delete(processes))
    else:
        forget_ended(connection)
    show_life(connection, process)


def show_life(connection: Connection, process: str) -> None:
    """Note that a server is alive, and forget those that have been dead for long."""
    now = NOW[connection.dialect.name]
    statement = f"INSERT INTO processes (id, seen_at) VALUES (:id, {now}) "
    again = "ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at"
    connection.execute(text(statement + again), {"id": process})
    connection.execute(text(f"DELETE FROM processes WHERE seen_at < {now} - {_FORGOTTEN_AFTER}"))


def forget_ended(connection: Connection) -> None:
    """Remove the servers whose processes are seen to have ended, so that nobody waits for signs of their lives."""
    here = connection.execute(select(processes.c.id).where(processes.c.id.startswith(_place()))).scalars().all()
    if ended := [one for one in here if not _is_running(one)]:
        connection.execute(delete(processes).where(processes.c.id.in_(ended)))


def _is_running(process: str) -> bool:
    """Whether a server's process is there, or cannot be seen."""
    pid = process.split("-")[1:2]
    with suppress(PermissionError, ValueError, OverflowError):  # another user's, or no id of ours
        try:
            os.kill(int(*pid), 0)
        except ProcessLookupError:
            return False
    return True


def leave(connection: Connection, process: str) -> None:
    """Remove a server that stops; what it worked on may be taken at once."""
    connection.execute(delete(processes).where(processes.c.id == process))


def is_alive(connection: Connection, process: str | None) -> bool:
    """Whether a server has shown recently that it is alive."""
    query = select(processes.c.id).where(processes.c.id == process, _recent(connection))
    return connection.execute(query).first() is not None


def is_leader(connection: Connection, process: str) -> bool:
    """Whether `process` leads: it does what one of the living servers has to do. A leader that died is replaced once
    others see that. For a moment there may be two, so what a leader does must bear being done twice."""
    first = connection.execute(select(func.min(processes.c.id)).where(_recent(connection))).scalar()
    return first in (None, process)


def _recent(connection: Connection) -> TextClause:
    """Return the condition that a server is alive. On SQLite there is one, and nobody else to see that it is."""
    dialect = connection.dialect.name
    return text("1 = 1" if dialect == "sqlite" else f"processes.seen_at > {NOW[dialect]} - {_DEAD_AFTER}")


def is_free(connection: Connection, holder: ColumnElement[str | None], process: str) -> ColumnElement[bool]:
    """Return the condition that `holder`, a column with a server's id, names no other living server than `process`."""
    others = select(processes.c.id).where(processes.c.id != process, _recent(connection))
    return or_(holder.is_(None), holder.not_in(others))
