"""`POST /runs/{run_id}/replay`: whether the agent of today decides as the log of a run says. Nothing is called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ...core.events import Started
from ...errors import AgentChanged, LogMismatch, UsageError
from ...run.recorded_effects import NumberedEvent
from ...run.replay import ModelRequest, Recording, Replay, replay_run
from ...run.spec import RunSpec
from ...runs.run_view import read_run
from ...store.event_log import Entry
from ...store.run_queries import RunFilter, page_runs
from ...store.run_row import REGARDLESS, RunRow
from ...store.tenant_view import Page, TenantView
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.authentication import sees_prompts
from ..http.objects import Object
from ..http.request_body import JsonRoute
from .list import check_shown

router = APIRouter(prefix="/runs", route_class=JsonRoute)
_AT_ONCE = 100  # members that are listed


@router.post("/{run_id}/replay")
async def replay(run_id: str, context: ContextDep, stored: bool = False, members: bool = False) -> Response:
    """Replay a run with the agent that is served; with `stored`, as it was when the run began. With `members`, the runs
    of the agents that it called are replayed, too."""
    found = await _replayed(context, run_id, stored=stored)
    if members:
        found["members"] = await _of_members(context, run_id, stored=stored)
        found["agrees"] = found["agrees"] and all(one["agrees"] for one in found["members"])
    body = await run_in_thread(lambda: json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return Response(body, media_type="application/json")


async def replay_log(context: Context, spec: RunSpec, run: RunRow, recording: Recording) -> Replay:
    """Return the replay of a run's log, made in a thread of its own. Raises `ApiError` for a log that cannot be
    replayed."""
    async with context.server.shares.large.rested(run.tenant):
        try:
            return await run_in_thread(lambda: asyncio.run(replay_run(spec, recording)))
        except (LogMismatch, UsageError) as error:
            raise ApiError(400, f"The run '{run.id}' cannot be replayed: {error}.") from error


async def spec_of(context: Context, run: RunRow, *, stored: bool = False) -> RunSpec:
    """Return what the agent of a run is made of, as it is served, or as it was when the run began. Raises `ApiError` if
    it is gone."""
    begun = run._replace(progress=1, snapshot=run.snapshot if stored else REGARDLESS)
    try:
        resolving = asyncio.ensure_future(
            context.server.runs.assign(begun)
        )  # which sets what its task knows of the run
        return (await resolving).agent.run_spec()
    except (UsageError, AgentChanged) as error:
        message = f"The agent '{run.agent}' cannot replay the run '{run.id}': {error}"
        raise ApiError(409, message, headers={"x-should-retry": "false"}) from error


def numbered_entries(log: Sequence[Entry]) -> list[NumberedEvent]:
    """Return the events of a stored log with their numbers."""
    return [NumberedEvent(entry.seq, entry.event) for entry in log]


async def _replayed(context: Context, run_id: str, *, stored: bool) -> Object:
    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, Sequence[Entry]]:
        view = read_run(connection, scope, run_id)
        if view is None:
            raise not_found("run", run_id)
        check_shown(view.run)
        return view.run, view.log

    run, log = await context.read(work)
    spec = await spec_of(context, run, stored=stored)
    began = next((entry.event for entry in log if isinstance(entry.event, Started)), None)
    words = began.instructions if began is not None and stored else None
    kept = (run.request.get("imported_from") or run.request).get("forked_from") or {"step": -1}
    recording = Recording(numbered_entries(log), spec.budget, words, kept=kept["step"])
    found = await replay_log(context, spec, run, recording)
    return _object(run, found, shows=sees_prompts(context.scope.scopes))


async def _of_members(context: Context, run_id: str, *, stored: bool) -> list[Object]:
    """Return the replays of all runs below this one."""
    found: list[Object] = []
    above = [run_id]
    while above:
        caller, after, more = above.pop(), None, True
        while more:
            some, more = await context.read(_below(caller, after))
            for run in some:
                found.append({**await _replayed(context, run.id, stored=stored), "call_id": run.call_id})
                above.append(run.id)
            after = above[-1] if more else None
    return found


def _below(run_id: str, after: str | None) -> Callable[[Connection, TenantView], tuple[list[RunRow], bool]]:
    def work(connection: Connection, scope: TenantView) -> tuple[list[RunRow], bool]:
        return page_runs(connection, scope, Page(_AT_ONCE, "asc", after), RunFilter(parent_id=run_id))

    return work


def _object(run: RunRow, found: Replay, *, shows: bool) -> Object:
    differs = found.differs
    return {
        "object": "run.replay",
        "run_id": run.id,
        "agrees": found.agrees,
        "differs": None
        if differs is None
        else {
            "event": differs.event,
            "step": differs.step,
            "recorded": differs.recorded if shows or not differs.of_prompts else None,
            "now": differs.now if shows or not differs.of_prompts else None,
        },
        "requests": [_request(one, shows=shows) for one in found.requests],
        "withheld": [] if shows else ["constraint", "tools"],
    }


def _request(one: ModelRequest, *, shows: bool) -> Object:
    constrained = one.pattern is not None and shows
    return {
        "event": one.event,
        "step": one.step,
        "constraint": {"pattern": one.pattern, "schema": one.schema} if constrained else None,
        "stop": list(one.stop) if shows else [],
        "tools": list(one.tools) if shows else [],
        "max_tokens": one.max_tokens,
    }
