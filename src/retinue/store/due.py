"""What ought to happen to runs and does not yet: one query, which names the reason of each, and the claim of those that
nobody drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Subquery,
    Text,
    bindparam,
    case,
    cast,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)

from .prepared_statements import Prepared
from .processes import is_free
from .run_row import BY_MEMBERS, Status
from .tables import runs

DRIVEN: tuple[Status, ...] = ("queued", "in_progress", "cancelling")
"""The statuses of runs that a process drives, or ought to."""
TIERS, USUAL = {"priority": 0, "flex": 2}, 1
"""Which of a tenant's runs that wait comes first, by OpenAI's `service_tier`: the lower, the sooner."""
_OF_EACH = 200  # runs of a tenant and an agent among which the next ones are chosen


class Reason(StrEnum):
    """Why something is to be done about a run."""

    INTERRUPT = "interrupt"  # this process drives it, and it was cancelled or expired elsewhere
    LATE = "late"  # its time is up
    LEFT = "left"  # its members have it, and none of them is at work
    ADMIT = "admit"  # it is the next one on a thread that nobody holds
    DRIVE = "drive"  # nobody drives it: it is new, answered, parked, or its process is dead
    SUSPENDED = "suspended"  # as before, but its agent had changed


class Due(NamedTuple):
    """A run about which something is to be done. `ends` says that it only has to end, `attempts` how often it was
    driven before without further progress, at most; `tier` is the `service_tier` of its request. `mine` says that the
    process that asks has acquired it: it is about to drive it, or does already, unless it lost the answer to that.
    `root` is the run at the top of its team, or itself."""

    reason: Reason
    run_id: str
    tenant: str = ""
    agent: str = ""
    key_id: str | None = None
    ends: bool = False
    tier: str | None = None
    attempts: int = 0
    mine: bool = False
    root: str = ""


class Driven(NamedTuple):
    """How many runs of a tenant, an agent (by its path) and an API key living processes drive."""

    tenant: str
    agent: str
    key_id: str | None
    number: int


def is_driven(status: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a status is one of `DRIVEN`, without IN, so that it can be prepared."""
    return or_(*(status == one for one in DRIVEN))


def may_take(process: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Return the condition that `process` may drive a run: no other living one has it, and it has no members at
    work."""
    return is_free(runs.c.driver, process) & (func.coalesce(runs.c.driver, "") != BY_MEMBERS)


def due_runs(connection: Connection, process: str, now: int, most: int, *, thorough: bool = True) -> list[Due]:
    """Return what is due at `now`, in Unix seconds, as far as it concerns `process`.

    Args:
        connection: A connection.
        process: The process that asks.
        now: The time by the runs' clock.
        most: At most so many runs to drive: of each tenant and agent not all, but those that should begin first.
        thorough: Whether to look for callers left by their members, too.
    """
    given = {"process": process, "now": now, "most": most, "members": BY_MEMBERS if thorough else ""}
    rows = _DUE[connection.dialect.name == "postgresql"].rows(connection, given)
    return [
        Due(Reason(reason), run_id, tenant, agent, key_id, bool(ends), tier, attempts, bool(mine), root)
        for reason, run_id, tenant, agent, key_id, ends, tier, attempts, mine, root, _ in rows
    ]


def lock_free(connection: Connection, wanted: Sequence[Due], process: str) -> list[str]:
    """Lock those of the runs that `process` may drive until the transaction ends, and return their ids in the given
    order. Rows that another transaction has locked are skipped: it claims them, or the next look finds them again. So
    are those that the process has acquired since it found them."""
    if not wanted:
        return []
    free = (runs.c.id.in_([one.run_id for one in wanted]), runs.c.holds, runs.c.status.in_(DRIVEN), may_take(process))
    lost = (func.coalesce(runs.c.driver, "") != process) | runs.c.id.in_([one.run_id for one in wanted if one.mine])
    query = select(runs.c.id).where(*free, lost).with_for_update(key_share=True, skip_locked=True)
    found = set(connection.execute(query).scalars())
    return [one.run_id for one in wanted if one.run_id in found]


def driven_runs(connection: Connection, but: Sequence[str] = ()) -> list[Driven]:
    """Return how many runs are driven, except those in `but`."""
    taken = ~is_free(runs.c.driver, "") & (runs.c.driver != BY_MEMBERS) & runs.c.id.not_in(but)
    what = (runs.c.tenant, runs.c.agent, runs.c.key_id)
    query = select(*what, func.count()).where(runs.c.status.in_(("in_progress", "cancelling")), taken).group_by(*what)
    return [Driven(*row) for row in connection.execute(query)]


_PROCESS = bindparam("process", type_=runs.c.driver.type)
_other = runs.alias()
_below = select(_other.c.id).where(_other.c.parent_id == runs.c.id)
_holder = select(_other.c.id).where(_other.c.thread_id == runs.c.thread_id, _other.c.holds)
_earlier = select(_other.c.id).where(
    _other.c.thread_id == runs.c.thread_id, _other.c.status == "queued", _other.c.number < runs.c.number
)
_CONDITIONS: Mapping[Reason, Sequence[ColumnElement[bool]]] = {
    Reason.INTERRUPT: (
        runs.c.driver == _PROCESS,
        or_(runs.c.status == "cancelling", (runs.c.status == "in_progress") & runs.c.ending.is_not(None)),
    ),
    Reason.LATE: (
        runs.c.holds,
        runs.c.expires_at <= bindparam("now", type_=runs.c.expires_at.type),
        runs.c.ending.is_(None),
        runs.c.status != "cancelling",
    ),
    Reason.LEFT: (
        runs.c.driver == bindparam("members", type_=runs.c.driver.type),
        runs.c.status == "in_progress",
        ~exists(_below.where(is_driven(_other.c.status))) | exists(_below.where(_other.c.status == "requires_action")),
    ),
    Reason.ADMIT: (
        runs.c.status == "queued",
        runs.c.holds.is_(False),
        runs.c.thread_id.is_not(None),
        ~exists(_holder),
        ~exists(_earlier),
    ),
    Reason.SUSPENDED: (
        runs.c.status == "queued",
        runs.c.holds,
        runs.c.error.is_not(null()),
        may_take(_PROCESS),
    ),
}
_FREE = (runs.c.holds, is_driven(runs.c.status), runs.c.error.is_(null()), may_take(_PROCESS))
_ROOT = func.coalesce(runs.c.root_id, runs.c.id).label("root")
_ENDS = case(((runs.c.status == "cancelling") | runs.c.ending.is_not(None), 1), else_=0)


def _to_drive(dialect: str) -> Select[Any]:
    """Select the runs to drive: those that only have to end, then by tier, then the oldest."""
    request: Any = runs.c.request
    if dialect == "postgresql":  # which looks into no JSON with a NUL in one of its texts
        request = cast(func.replace(cast(runs.c.request, Text), "\\u0000", "\\u0001"), JSON)
    tier = request["service_tier"].as_string()
    turn = (_ENDS.desc(), case(*((tier == name, rank) for name, rank in TIERS.items()), else_=USUAL), runs.c.number)
    place = func.row_number().over(partition_by=(runs.c.tenant, runs.c.agent), order_by=turn)
    what = (runs.c.id, runs.c.tenant, runs.c.agent, runs.c.key_id, _ENDS.label("ends"), tier.label("tier"))
    mine = case((runs.c.driver == _PROCESS, 1), else_=0).label("mine")
    ranked = select(*what, runs.c.attempts, mine, _ROOT, runs.c.number, place.label("place")).where(*_FREE).subquery()
    first = ranked.c.ends.desc(), ranked.c.place, ranked.c.number
    columns = (
        getattr(ranked.c, name)
        for name in ("id", "tenant", "agent", "key_id", "ends", "tier", "attempts", "mine", "root")
    )
    return (
        select(literal(Reason.DRIVE.value).label("reason"), *columns, ranked.c.number)
        .where(ranked.c.place <= _OF_EACH)
        .order_by(*first)
        .limit(bindparam("most", type_=Integer()))
    )


def _simply(reason: Reason, conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    what = (runs.c.id, runs.c.tenant, runs.c.agent, runs.c.key_id, literal(0).label("ends"), null().label("tier"))
    mine = literal(0).label("mine")
    rest = (runs.c.attempts, mine, _ROOT, runs.c.number)
    return select(literal(reason.value).label("reason"), *what, *rest).where(*conditions)


def _due(dialect: str) -> Select[Any]:
    drives: Subquery = _to_drive(dialect).subquery()
    parts = union_all(select(drives), *(_simply(*one) for one in _CONDITIONS.items())).subquery()
    return select(parts).order_by(parts.c.number)


_DUE = (Prepared(_due("sqlite")), Prepared(_due("postgresql")))
