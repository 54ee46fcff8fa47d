"""The logs of a run and of its members' runs, read together in the order of the tree that they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from ..core.events import Event, Finished, Observed, Stopped
from ..core.run_result import RESTING
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
    """Reads the logs of a run and of its members, each entry once. `active` says whether one of them had not ended when
    they were read last."""

    def __init__(self, run_id: str) -> None:
        self._top = run_id
        self._read: dict[str, int] = {}  # by path: the number of the last entry
        self._new: dict[str, list[Entry]] = {}  # by path, oldest first: what was not yielded yet
        self._active: set[str] = set()  # paths

    @property
    def active(self) -> bool:
        """Whether one of the runs had not ended."""
        return bool(self._active)

    def read(self, connection: Connection, *, whole: bool = False) -> Iterator[TeamEntry]:
        """Yield the new entries. A member's come before its caller's observation of it, and before the end of a caller
        that did not wait for it: this is held back as long as the member is active, but not if all is wanted (`whole`).
        Raises `DataError` if a row of a log holds no valid event."""
        top = find_top(connection, self._top)
        level = [] if top is None else [top]
        self._active.clear()
        while level:  # callers first: what they observed has been written by their members
            for run in level:
                entries = read_events(connection, run.id, self._read.get(run.path, 0))
                self._new.setdefault(run.path, []).extend(entries)
                if entries:
                    self._read[run.path] = entries[-1].seq
            self._active |= {run.path for run in level if run.active}
            level = list(_members(connection, level))
        if whole:
            self._active.clear()
        yield from self._in_order("")

    def _in_order(self, path: str) -> Iterator[TeamEntry]:
        entries = self._new.pop(path, [])
        for at, entry in enumerate(entries):
            if isinstance(entry.event, Observed):
                yield from self._in_order(_below(path, entry.event.observation.call_id))
            elif _is_end(entry.event):
                yield from self._members_of(path)
                if any(_is_below(one, path) for one in self._active):
                    self._new[path] = entries[at:]
                    return
            yield TeamEntry(path, entry)
        yield from self._members_of(path)

    def _members_of(self, path: str) -> Iterator[TeamEntry]:
        for member in [one for one in self._new if one and one.rpartition("/")[0] == path]:
            yield from self._in_order(member)


def _is_end(event: Event) -> bool:
    return isinstance(event, Finished) or (isinstance(event, Stopped) and event.reason not in RESTING)


def _is_below(path: str, above: str) -> bool:
    return path != above and path.startswith(_below(above, ""))


def _below(path: str, call_id: str) -> str:
    return f"{path}/{call_id}" if path else call_id
