"""The logs of a run and of its members' runs, read together in the order of the tree that they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from ..core.events import Observed
from .event_log import Entry, read_events
from .run_row import ACTIVE
from .tables import runs

_AT_ONCE = 500  # ids per statement


class TeamRun(NamedTuple):
    """A stored run: `path` are the calls that lead to it from the run at the top, whose path is empty."""

    path: str
    id: str
    tenant: str
    kind: str
    status: str
    created_at: int

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.status in ACTIVE


class TeamEntry(NamedTuple):
    """An entry of the log of the run at `path`."""

    path: str
    entry: Entry


_COLUMNS = select(runs.c.id, runs.c.tenant, runs.c.kind, runs.c.status, runs.c.created_at)


def find_top(connection: Connection, run_id: str) -> TeamRun | None:
    """Return the run, of whatever tenant, or `None`."""
    row = connection.execute(_COLUMNS.where(runs.c.id == run_id)).first()
    return None if row is None else TeamRun("", *row)


def _members(connection: Connection, callers: Sequence[TeamRun]) -> Iterator[TeamRun]:
    """Yield the runs that these runs called, oldest first."""
    paths = {one.id: one.path for one in callers}
    ids = list(paths)
    for start in range(0, len(ids), _AT_ONCE):
        below = _COLUMNS.add_columns(runs.c.parent_id, runs.c.call_id)
        query = below.where(runs.c.parent_id.in_(ids[start : start + _AT_ONCE])).order_by(runs.c.number)
        for *row, parent_id, call_id in connection.execute(query):
            yield TeamRun("/".join(filter(None, (paths[parent_id], call_id))), *row)


class TeamLogs:
    """Reads the logs of a run and of its members, each entry once."""

    def __init__(self, run_id: str) -> None:
        self._top = run_id
        self._read: dict[str, int] = {}  # by path: the number of the last entry
        self._new: dict[str, list[Entry]] = {}  # by path, oldest first: what was not yielded yet

    def read(self, connection: Connection) -> Iterator[TeamEntry]:
        """Yield the new entries, a member's before its caller's observation of it. Raises `DataError` if a row of a log
        holds no valid event."""
        top = find_top(connection, self._top)
        level = [] if top is None else [top]
        while level:  # callers first: what they observed has been written by their members
            for run in level:
                entries = read_events(connection, run.id, self._read.get(run.path, 0))
                self._new.setdefault(run.path, []).extend(entries)
                if entries:
                    self._read[run.path] = entries[-1].seq
            level = list(_members(connection, level))
        yield from self._in_order("")

    def _in_order(self, path: str) -> Iterator[TeamEntry]:
        for entry in self._new.pop(path, ()):
            if isinstance(entry.event, Observed):
                yield from self._in_order(_below(path, entry.event.observation.call_id))
            yield TeamEntry(path, entry)
        for member in [one for one in self._new if one.rpartition("/")[0] == path and one != path]:
            yield from self._in_order(member)


def _below(path: str, call_id: str) -> str:
    return f"{path}/{call_id}" if path else call_id
