"""The servers that have the database open. Each shows regularly that it is alive, by the database's clock.

A run or a file that a server works on has the server's id. When the server is dead, another one may take it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, bindparam, delete, func, insert, or_, select, text, update
from sqlalchemy.ext.compiler import compiles

from .engines import session_name
from .prepared_statements import Prepared
from .tables import processes

EVERY = 2.0  # seconds between two signs of life
DEAD_AFTER = 10.0  # seconds without one
_FORGOTTEN_AFTER = 3600.0
NOW = {
    "postgresql": "extract(epoch FROM clock_timestamp())",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}
"""The database's clock in Unix seconds, by the name of its dialect."""


class _Now(ColumnElement[float]):
    """The time by the database's clock, in Unix seconds."""

    inherit_cache = True
    type = Float()


class _IsRecent(ColumnElement[bool]):
    """The condition that a process is alive. One that has a SQLite file alone shows nobody that it is."""

    inherit_cache = True


@compiles(_Now)
def _now(_element: _Now, compiler: Any, **_: Any) -> str:
    return NOW[compiler.dialect.name]


@compiles(_IsRecent)
def _is_recent(_element: _IsRecent, compiler: Any, **_: Any) -> str:
    dialect = compiler.dialect.name
    recent = f"processes.seen_at > {NOW[dialect]} - {DEAD_AFTER}"
    return f"({recent} OR 1 = (SELECT count(*) FROM processes))" if dialect == "sqlite" else recent


_WORKER = "worker-"
_TIME = Prepared(select(_Now()))
_IS_SELF = processes.c.id == bindparam("process", type_=processes.c.id.type)
_SHOW = Prepared(update(processes).where(_IS_SELF).values(seen_at=_Now()))
_ENTER = Prepared(insert(processes).values(id=bindparam("process"), seen_at=_Now()))
_FORGET = Prepared(delete(processes).where(processes.c.seen_at < _Now() - _FORGOTTEN_AFTER))
_HERE = Prepared(select(processes.c.id).where(processes.c.id.startswith(bindparam("place"))))
_ALIVE = Prepared(select(processes.c.id).where(_IS_SELF, _IsRecent()))
_COUNT = Prepared(select(func.count()).select_from(processes).where(_IsRecent()))
_END_SESSIONS = text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity JOIN processes "
    f"ON application_name = '{session_name('')}' || processes.id "
    f"WHERE datname = current_database() AND usename = current_user AND seen_at <= {NOW['postgresql']} - {DEAD_AFTER}"
)
_WORKERS = Prepared(
    select(processes.c.id)
    .where(processes.c.id.contains(f"-{_WORKER}"), ~processes.c.stops, ~_IS_SELF, _IsRecent())
    .limit(1)
)
_FIRST = Prepared(select(func.min(processes.c.id)).where(_IsRecent()))


def new_process_id(*, worker: bool = False) -> str:
    """Return an id for a process that starts. It says where that is, to those that can see it, and whether it is a
    worker, which drives the runs that servers accept."""
    return f"{_place()}-{os.getpid()}-{_WORKER if worker else ''}{secrets.token_hex(6)}"


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
    return float(_TIME.rows(connection, {})[0][0])


def enter(connection: Connection, process: str, *, alone: bool = False) -> None:
    """Add a process that starts, and forget those that have been dead for long; all others have ended if it has the
    database `alone`."""
    if alone:
        connection.execute(delete(processes))
    else:
        forget_ended(connection)
        _FORGET.run(connection, {})
    show_life(connection, process)


def show_life(connection: Connection, process: str, left: threading.Event | None = None) -> None:
    """Update the heartbeat of `process`, and enter it if it is not there, unless it has `left` meanwhile."""
    me = {"process": process}
    if not _SHOW.run(connection, me) and not (left is not None and left.is_set()):
        _ENTER.run(connection, me)


def forget_ended(connection: Connection) -> None:
    """Remove the servers whose processes are seen to have ended, so that nobody waits for signs of their lives."""
    here = _HERE.rows(connection, {"place": _place()})
    if ended := [one for (one,) in here if not _is_running(one)]:
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


def dead_processes(connection: Connection, process: str, *, alone: bool = False) -> list[str]:
    """Return the servers that have ended without leaving, as far as `process` has to see to what they left: those that
    it can see to have ended, and, if it leads the living, those that show no life; all if it has the database
    `alone`."""
    others = list(connection.execute(select(processes.c.id).where(processes.c.id != process)).scalars())
    if alone:
        return others
    here = {one for (one,) in _HERE.rows(connection, {"place": _place()})}
    ended = [one for one in others if one in here and not _is_running(one)]
    recent = set(connection.execute(select(processes.c.id).where(_IsRecent())).scalars())
    leads = min(recent.difference(ended), default=process) == process
    return [*ended, *(one for one in others if leads and one not in recent and one not in ended)]


def end_sessions_of_the_dead(connection: Connection) -> None:
    """End the sessions of servers that show no life, so that nobody waits for the locks of one that is frozen in the
    middle of a statement. Once it goes on, it opens others."""
    if connection.dialect.name == "postgresql":
        connection.execute(_END_SESSIONS)


def begin_stop(connection: Connection, process: str) -> None:
    """Note that a server takes no more runs, while it still sees to those that it drives."""
    connection.execute(update(processes).where(processes.c.id == process).values(stops=True))


def leave(connection: Connection, process: str) -> None:
    """Remove a server that stops; what it worked on may be taken at once."""
    connection.execute(delete(processes).where(processes.c.id == process))


def is_alive(connection: Connection, process: str | None) -> bool:
    """Whether a server has shown recently that it is alive."""
    return bool(_ALIVE.rows(connection, {"process": process}))


def count_alive(connection: Connection) -> int:
    """Return how many servers have shown recently that they are alive."""
    return int(_COUNT.rows(connection, {})[0][0])


def has_workers(connection: Connection, process: str) -> bool:
    """Whether a worker takes runs, other than `process`."""
    return bool(_WORKERS.rows(connection, {"process": process}))


def is_leader(connection: Connection, process: str) -> bool:
    """Whether `process` leads: it does what one of the living servers has to do. A leader that died is replaced once
    others see that. For a moment there may be two, so what a leader does must bear being done twice."""
    return _FIRST.rows(connection, {})[0][0] in (None, process)


def is_free(holder: ColumnElement[str | None], process: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Return the condition that `holder`, a column with a server's id, names no other living server than `process`."""
    others = select(processes.c.id).where(processes.c.id != process, _IsRecent())
    return or_(holder.is_(None), holder.not_in(others))
