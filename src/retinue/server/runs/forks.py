"""`POST /v1/runs/{id}/fork`, a new run that begins with the log of another one; and `/replay`: whether the agent of
today decides as the log of a run says, for which nothing is called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ..._internal.message_text import suggest_name
from ...core.events import Started
from ...errors import AgentChanged, LogMismatch, UsageError
from ...run.fork import ForkPoint, fork_log
from ...run.recorded_effects import NumberedEvent, number_events
from ...run.replay import ModelRequest, Recording, Replay, replay_run
from ...run.spec import RunSpec
from ...runs.run_fork import ForkEdits, fork_run
from ...store.audit_log import record
from ...store.event_log import Entry
from ...store.run_queries import RunFilter, page_runs
from ...store.run_row import REGARDLESS, RunRow
from ...store.tenant_view import Page, TenantView
from ...store.usage_sums import bytes_used
from ..context import Context, ContextDep
from ..http.api_errors import ApiError
from ..http.authentication import has_scope, missing_scope, sees_prompts
from ..http.common_schemas import Id, Instructions, Metadata, Wire
from ..http.limits import check_texts
from ..http.objects import Object, own_run, own_view
from ..http.request_body import JsonRoute
from ..run_session import RunSession, check_room
from .views import check_shown, run_detail, summary_object

router = APIRouter(prefix="/runs", route_class=JsonRoute)
_AT_ONCE = 100  # members that are listed


class RunFork(Wire):
    """`POST /runs/{id}/fork`."""

    step: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    observations: Annotated[dict[Id, Instructions], Field(max_length=128)] | None = None
    instructions: Instructions | None = None
    model: Id | None = None
    tools: Annotated[list[Id], Field(max_length=1_000)] | None = None
    metadata: Metadata | None = None
    compacted: bool | None = None


@router.post("/{run_id}/fork")
async def fork(run_id: str, body: RunFork, context: ContextDep) -> Object:
    """Fork a run: a new one begins with its log up to the end of `step`, and goes on with the agent of today. Of a
    suspended run it takes the place; any other one stays as it is."""
    point = ForkPoint(body.step, body.observations or {}, body.instructions, compacted=body.compacted is not False)
    edits = ForkEdits(point, body.model, body.tools, metadata=body.metadata or {}, key_id=context.scope.key_id)
    agents = context.server.deployment.agents
    if body.model is not None and body.model not in agents:
        message = f"The model '{body.model}' does not exist; {suggest_name(body.model, agents)}"
        raise ApiError(400, message, param="model", code="model_not_found")
    edits = await _checked_edits(context, run_id, edits)

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, Object]:
        forked = own_run(connection, scope, run_id, lock=True)
        check_shown(forked)
        if forked.user != scope.user and not has_scope(scope.scopes, "act-as"):  # it goes on as that user
            raise missing_scope("act-as")
        check_room(connection, scope)
        before = bytes_used(connection, scope.tenant, "texts")
        try:
            run = fork_run(connection, run_id, context.server.options.run_ttl, edits)
        except UsageError as error:
            raise ApiError(400, f"{error}.") from error
        check_texts(connection, scope, before)
        record(connection, scope.author, scope.tenant, "run.forked", run.id, {"from": run_id})
        reads = has_scope(scope.scopes, "read")  # a fork holds what the run said and saw
        return run, run_detail(own_view(connection, scope, run.id)) if reads else summary_object(run)

    run, shown = await context.write(work)
    context.server.runs.followers.look(run_id)  # it may have been cancelled
    RunSession(context.server, run).begin()
    return shown


async def _checked_edits(context: Context, run_id: str, edits: ForkEdits) -> ForkEdits:
    """Return the edits with the tools that the agent has. Raise `ApiError` for a fork that could not go on: there is no
    such run, step, call or tool, the agent refuses what is edited, or another agent would not have come to where it
    begins."""
    run, log = await _read_log(context, run_id)
    if run.kind == "imported":
        raise ApiError(400, f"The run '{run.id}' was imported: nobody here decided what is in it, so it cannot go on.")
    if edits.agent is None and edits.tools is None and edits.point.instructions is None:
        return edits
    try:
        kept = [one.event for one in fork_log([entry.event for entry in log], edits.point)]
    except UsageError as error:
        raise ApiError(400, f"{error}.") from error
    request = dict(run.request)
    request |= {"model": edits.agent} if edits.agent else {}
    request |= {"instructions": edits.point.instructions} if edits.point.instructions is not None else {}
    spec = await _spec_of(context, run._replace(agent=edits.agent or run.agent, request=request, snapshot=""))
    known = [tool.name for tool in spec.tools]
    for name in edits.tools or ():
        if name not in known:
            message = f"The agent '{spec.name}' has no tool '{name}'; {suggest_name(name, known)}"
            raise ApiError(400, message, param="tools")
    if edits.agent is not None:
        found = await _replay_log(context, spec, run, Recording(number_events(kept), spec.budget, kept=2**31))
        if found.differs is not None:
            message = f"The agent '{edits.agent}' would not have come to that step: at event {found.differs.event}"
            raise ApiError(400, f"{message}, it decides otherwise.", param="model")
    return replace(edits, known_tools=known)


async def _read_log(context: Context, run_id: str) -> tuple[RunRow, Sequence[Entry]]:
    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, Sequence[Entry]]:
        view = own_view(connection, scope, run_id)
        check_shown(view.run)
        return view.run, view.log

    return await context.read(work)


async def _spec_of(context: Context, run: RunRow, *, stored: bool = False) -> RunSpec:
    """Return what the agent of a run is made of, as it is served, or as it was when the run began. Raises `ApiError` if
    it is gone."""
    begun = run._replace(progress=1, snapshot=run.snapshot if stored else REGARDLESS)
    try:  # in a task of its own: this sets what a task knows of its run
        return (await asyncio.ensure_future(context.server.runs.assign(begun))).agent.run_spec()
    except (UsageError, AgentChanged) as error:
        message = f"The agent '{run.agent}' cannot replay the run '{run.id}': {error}"
        raise ApiError(409, message, headers={"x-should-retry": "false"}) from error


async def _replay_log(context: Context, spec: RunSpec, run: RunRow, recording: Recording) -> Replay:
    """Return the replay of a run's log, made in a thread of its own. Raises `ApiError` for a log that cannot be
    replayed."""
    async with context.server.shares.large.rested(run.tenant):
        try:
            return await run_in_thread(lambda: asyncio.run(replay_run(spec, recording)))
        except (LogMismatch, UsageError) as error:
            raise ApiError(400, f"The run '{run.id}' cannot be replayed: {error}.") from error


# ── replays ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post("/{run_id}/replay")
async def replay(run_id: str, context: ContextDep, stored: bool = False, members: bool = False) -> Response:
    """Replay a run with the agent that is served; with `stored`, as it was when the run began. With `members`, the runs
    of the agents that it called are replayed, too."""
    found = await _replay_stored(context, run_id, stored=stored)
    if members:
        found["members"] = [
            {**await _replay_stored(context, run.id, stored=stored), "call_id": run.call_id}
            for run in await context.read(lambda connection, scope: _runs_below(connection, scope, run_id))
        ]
        found["agrees"] = found["agrees"] and all(one["agrees"] for one in found["members"])
    body = await run_in_thread(lambda: json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return Response(body, media_type="application/json")


def _runs_below(connection: Connection, scope: TenantView, run_id: str) -> list[RunRow]:
    """Return the runs of all members below this run."""
    found: list[RunRow] = []
    above = [run_id]
    while above:
        caller, after, more = above.pop(), None, True
        while more:
            page = Page(_AT_ONCE, "asc", after)
            some, more = page_runs(connection, scope, page, RunFilter(parent_id=caller))
            found += some
            above += [run.id for run in some]
            after = above[-1] if more else None
    return found


async def _replay_stored(context: Context, run_id: str, *, stored: bool) -> Object:
    run, log = await _read_log(context, run_id)
    spec = await _spec_of(context, run, stored=stored)
    began = next((entry.event for entry in log if isinstance(entry.event, Started)), None)
    words = began.instructions if began is not None and stored else None
    kept = (run.request.get("imported_from") or run.request).get("forked_from") or {"step": -1}
    events = [NumberedEvent(entry.seq, entry.event) for entry in log]
    found = await _replay_log(context, spec, run, Recording(events, spec.budget, words, kept=kept["step"]))
    return _replay_object(run, found, shows=sees_prompts(context.scope.scopes))


def _replay_object(run: RunRow, found: Replay, *, shows: bool) -> Object:
    differs: Object | None = None
    if (one := found.differs) is not None:
        may = shows or not one.of_prompts
        differs = {"event": one.event, "step": one.step}
        differs |= {"recorded": one.recorded if may else None, "now": one.now if may else None}
    return {
        "object": "run.replay",
        "run_id": run.id,
        "agrees": found.agrees,
        "differs": differs,
        "requests": [_request_object(one, shows=shows) for one in found.requests],
        "withheld": [] if shows else ["constraint", "tools"],
    }


def _request_object(one: ModelRequest, *, shows: bool) -> Object:
    constrained = one.pattern is not None and shows
    return {
        "event": one.event,
        "step": one.step,
        "constraint": {"pattern": one.pattern, "schema": one.schema} if constrained else None,
        "stop": list(one.stop) if shows else [],
        "tools": list(one.tools) if shows else [],
        "max_tokens": one.max_tokens,
    }
