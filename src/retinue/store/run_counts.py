"""Counts of the runs that are driven, and the runs that wait for room, by what limits concern."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import JSON, ColumnElement, Connection, Text, case, cast, func, select

from .processes import is_free
from .run_queries import DRIVEN, may_take
from .run_row import BY_MEMBERS
from .tables import runs

TIERS, USUAL = {"priority": 0, "flex": 2}, 1
"""Which of a tenant's runs that wait comes first, by OpenAI's `service_tier`: the lower, the sooner."""
_OF_EACH = 200  # runs of a tenant and an agent among which the next one is chosen


class Driven(NamedTuple):
    """How many runs of a tenant and an agent, by its path, living processes drive."""

    tenant: str
    agent: str
    number: int


class Waiting(NamedTuple):
    """A run that nobody drives. `tier` is the `service_tier` of its request."""

    run_id: str
    tenant: str
    agent: str
    ends: bool  # it only has to end
    tier: str | None


def driven_runs(connection: Connection, but: str = "") -> list[Driven]:
    """Return how many runs are driven, except the run `but`."""
    taken = ~is_free(runs.c.driver, "") & (runs.c.driver != BY_MEMBERS) & (runs.c.id != but)
    query = select(runs.c.tenant, runs.c.agent, func.count()).where(runs.c.status.in_(("in_progress", "cancelling")))
    return [Driven(*row) for row in connection.execute(query.where(taken).group_by(runs.c.tenant, runs.c.agent))]


def runs_that_wait(connection: Connection, process: str) -> list[Waiting]:
    """Return the runs that no living process drives, except `process` itself, oldest first: of each tenant and agent
    not all, but those that should begin first."""
    free = may_take(process)
    ends = case(((runs.c.status == "cancelling") | runs.c.ending.is_not(None), 1), else_=0)
    tier = _request(connection)["service_tier"].as_string()
    turn = (ends.desc(), case(*((tier == name, rank) for name, rank in TIERS.items()), else_=USUAL), runs.c.number)
    place = func.row_number().over(partition_by=(runs.c.tenant, runs.c.agent), order_by=turn)
    columns = (runs.c.id, runs.c.tenant, runs.c.agent, ends.label("ends"), tier.label("tier"))
    query = select(*columns, runs.c.number, place.label("place"))
    ranked = query.where(runs.c.holds, runs.c.status.in_(DRIVEN), free).subquery()
    first = select(*ranked.c[:5]).where(ranked.c.place <= _OF_EACH).order_by(ranked.c.number)
    return [Waiting(row.id, row.tenant, row.agent, bool(row.ends), row.tier) for row in connection.execute(first)]


def _request(connection: Connection) -> ColumnElement[Any]:
    """Return the request as JSON that can be looked into: PostgreSQL refuses to if a text in it has a NUL."""
    if connection.dialect.name == "sqlite":
        return runs.c.request
    return cast(func.replace(cast(runs.c.request, Text), "\\u0000", "\\u0001"), JSON)
