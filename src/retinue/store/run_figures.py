"""What lists say of runs beside their rows: their questions, their requests to models, and what these cost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from ..core.events import Observed, request_usage
from ..core.serialization import load
from ..core.values import Usage
from ..errors import DataError
from .run_queries import RunFilter, page_runs
from .run_row import RunRow
from .tables import events
from .tenant_view import Page, TenantView
from .usage_sums import USING

_SHOWN = 2_000  # characters of a stored question that are read
_PRICED = '%"cost":%'
_AT_ONCE = 200  # runs searched at a time
SEARCHED = 5_000
"""The most runs that a search looks at."""
_QUESTION = re.compile(
    r'\{"question":("(?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*)'
)  # the first field of a log's first event


class RunFigures(NamedTuple):
    """What is said of a run: its question (the beginning of a long one), the replies of models, and their cost."""

    question: str | None = None
    replies: int = 0
    cost: float = 0.0


def figures_of(connection: Connection, run_ids: Sequence[str]) -> dict[str, RunFigures]:
    """Return the figures of each run."""
    asked = _questions_of(connection, run_ids)
    counted = select(events.c.run_id, func.count()).where(events.c.run_id.in_(run_ids), events.c.kind == "replied")
    replies = {row[0]: row[1] for row in connection.execute(counted.group_by(events.c.run_id))}
    costs: dict[str, float] = {}
    for run_id, cost in _costs(connection, run_ids):
        costs[run_id] = costs.get(run_id, 0.0) + cost
    return {one: RunFigures(asked.get(one), replies.get(one, 0), costs.get(one, 0.0)) for one in run_ids}


def search_runs(
    connection: Connection,
    scope: TenantView,
    page: Page,
    wanted: RunFilter,
    text: str,
    may_show: Callable[[RunRow], bool],
) -> tuple[list[RunRow], bool]:
    """Return a page of the runs whose question contains `text`, whatever the case, and `may_show`, and whether more
    follow. At most `SEARCHED` runs are looked at."""
    found: list[RunRow] = []
    sought, after = text.casefold(), page.after
    for _ in range(SEARCHED // _AT_ONCE):
        some, more = page_runs(connection, scope, page._replace(limit=_AT_ONCE, after=after), wanted)
        asked = _questions_of(connection, [run.id for run in some])
        found += [run for run in some if sought in asked.get(run.id, "").casefold() and may_show(run)]
        if len(found) > page.limit or not more:
            break
        after = some[-1].id
    return found[: page.limit], len(found) > page.limit


def _questions_of(connection: Connection, run_ids: Sequence[str]) -> dict[str, str]:
    first = (events.c.run_id.in_(run_ids), events.c.seq == 1, events.c.kind == "started")
    rows = connection.execute(select(events.c.run_id, func.substr(events.c.payload, 1, _SHOWN)).where(*first))
    read = {run_id: _question(payload) for run_id, payload in rows}
    return {run_id: question for run_id, question in read.items() if question is not None}


def _question(payload: str) -> str | None:
    found = _QUESTION.match(payload)
    return None if found is None else str(json.loads(found[1] + '"', strict=False))


def _costs(connection: Connection, run_ids: Sequence[str]) -> Iterator[tuple[str, float]]:
    kinds = events.c.kind.in_(USING)
    priced = (events.c.run_id.in_(run_ids), kinds, events.c.payload.like(_PRICED))
    for run_id, kind, payload in connection.execute(
        select(events.c.run_id, events.c.kind, events.c.payload).where(*priced)
    ):
        with suppress(DataError):
            match load(kind, payload):
                case Observed(observation=seen):
                    yield run_id, seen.usage.cost
                case event:
                    yield run_id, (request_usage(event) or Usage()).cost
