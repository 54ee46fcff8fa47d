"""Logs of runs that wait for their members, kept in memory, so that their next drive need not read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple

from ..core.events import Called, Observed
from ..store.database import Database
from ..store.event_log import Entry
from ..store.run_row import RunRow
from .event_size import chars_of
from .member_runs import Found, read_with_members

_MOST = 200  # runs
_LONGEST = 40  # events
_LARGEST = 20_000  # characters


class _Kept(NamedTuple):
    epoch: int
    log: Sequence[Entry]
    found: dict[str, Found]


class CallerLogs:
    """The logs of runs that this process left to their members, and the members that it saw end since.

    The log of a run is what it was while nobody has acquired the run's next epoch. They are kept for a few runs, while
    they are small; others are read.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def left(self, run: RunRow, log: Sequence[Entry]) -> None:
        """Keep the log of a run that its members have from now on."""
        if _is_small(log):
            self._kept[run.id] = _Kept(run.epoch, list(log), {})
            if len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]

    def ended(self, member: RunRow, log: Sequence[Entry]) -> None:
        """Note how a member ended, if it did."""
        kept = self._kept.get(member.parent_id or "")
        if kept is not None and member.call_id is not None and not member.active and _is_small(log):
            kept.found[member.call_id] = Found(member, log)

    async def read(self, database: Database, run: RunRow) -> tuple[Sequence[Entry], Mapping[str, Found]]:
        """Return the log of an acquired run, and the members that its drive finds. Raises as `read_with_members`
        does."""
        kept = self._kept.pop(run.id, None)
        if kept is not None and kept.epoch + 1 == run.epoch and kept.found.keys() == _unanswered(kept.log):
            return kept.log, kept.found
        return await database.read(partial(read_with_members, run_id=run.id))


def _unanswered(log: Sequence[Entry]) -> Set[str]:
    called = {one.event.action.id for one in log if isinstance(one.event, Called)}
    return called - {one.event.observation.call_id for one in log if isinstance(one.event, Observed)}


def _is_small(log: Sequence[Entry]) -> bool:
    return len(log) <= _LONGEST and sum(chars_of(one.event) for one in log) <= _LARGEST
