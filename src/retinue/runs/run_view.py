"""A run as anybody may read it: its row, its log, and what the log comes to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from ..core import run_result
from ..core.events import Replied
from ..core.values import Step, Usage
from ..store.event_log import Entry, length, read_events, read_page
from ..store.run_queries import find_own_run
from ..store.run_row import RunRow
from ..store.tenant_view import TenantView
from .thread_messages import MessageDelta, Speech


@dataclass(frozen=True, slots=True)
class RunView:
    """A run's row and its log, or a part of it. The folds are those of this part.

    Args:
        run: The row. If the log is whole, the row is not older, and a run that rests has all its entries.
        log: The entries, oldest first.
    """

    run: RunRow
    log: Sequence[Entry]

    @property
    def usage(self) -> Usage:
        """The tokens used."""
        return run_result.sum_usage(entry.event for entry in self.log)

    @property
    def steps(self) -> list[Step]:
        """The turns in which tools were used."""
        return list(run_result.list_steps(entry.event for entry in self.log))

    @property
    def messages(self) -> list[MessageDelta]:
        """The messages to the person, each as far as it was said."""
        speech, said = Speech(), dict[int, MessageDelta]()
        for entry in self.log:
            last = entry is self.log[-1] and self.run.rests
            said |= {one.number: one for one in speech.hear(entry, self.run.status if last else "")}
        return list(said.values())

    @property
    def unsent(self) -> set[str]:
        """The origins of vendors' states which a model of another vendor was not sent, as in a fork."""
        return {one.event.reply.unsent for one in self.log if isinstance(one.event, Replied) and one.event.reply.unsent}

    def turn(self, entry: Entry) -> int:
        """Return how often the run had resumed before an entry."""
        return turn_of(self.run, entry)

    def without(self, turns: Collection[int]) -> RunView:
        """Return the view without the entries of these turns."""
        return RunView(self.run, [entry for entry in self.log if self.turn(entry) not in turns]) if turns else self


def turn_of(run: RunRow, entry: Entry) -> int:
    """Return how often a run had resumed before an entry of its log."""
    return sum(one.told < entry.seq for one in run.submissions)


def states_in(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what of an event, as JSON, has a vendor's `state`: its reply, and messages. Nobody but the vendor is given
    that, so callers replace it."""
    for one in (data.get("reply"), *(data.get("history") or ()), *(data.get("messages") or ())):
        if isinstance(one, dict) and one.get("state"):
            yield one


def read_run(connection: Connection, scope: TenantView, run_id: str) -> RunView | None:
    """Return the tenant's run with its whole log, or `None`. Raises `DataError` if the log cannot be read."""
    if find_own_run(connection, scope, run_id) is None:
        return None
    log = read_events(connection, run_id)
    run = find_own_run(connection, scope, run_id)  # again: not older than the log
    if run is None:
        return None
    if run.rests:  # the last entries may have arrived in between
        log += read_events(connection, run_id, log[-1].seq if log else 0)
    return RunView(run, log)


def read_run_after(
    connection: Connection, scope: TenantView, run_id: str, after: int, limit: int
) -> tuple[RunView, bool] | None:
    """Return the tenant's run with the entries after number `after`, at most `limit` and as many as
    `read_page` gives, and whether more follow; `None` if there is no such run. Raises as `read_run` does."""
    run = find_own_run(connection, scope, run_id)
    if run is None:
        return None
    page = read_page(connection, run_id, after, limit)
    return RunView(run, page), bool(page) and length(connection, run_id) > page[-1].seq
