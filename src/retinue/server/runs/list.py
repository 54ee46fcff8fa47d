"""`/runs`: the runs of a tenant, whatever API they came from. These routes are an extension."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from ...core.events import Event, Stopped
from ...core.serialization import dump
from ...core.values import AgentAction, Observation
from ...runs.run_view import RunView, read_run, states_in
from ...runs.status import pending_calls
from ...runs.thread_messages import MessageDelta
from ...store.event_log import Entry
from ...store.run_queries import RunFigures, RunFilter, figures_of, page_runs, search_runs
from ...store.run_row import Kind, RunRow, Status
from ...store.tenant_view import TenantView
from ..agents.overrides import inner_name
from ..context import ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.objects import Object, Wanted, WantedMetadata, last_error, listed, own_run, required_action, usage_object
from ..http.request_body import JsonRoute

router = APIRouter(prefix="/runs", route_class=JsonRoute)
_WITHHELD = {  # for the operator alone: the agent's prompts, and an engine's own words, which may name its address
    "started": ("instructions",),
    "asked": ("messages",),
    "retried": ("problem",),
}
_Time = Annotated[int, Query(ge=0, lt=2**53)]


@router.get("")
async def list_all(  # noqa: PLR0913 -- one parameter for each filter
    context: ContextDep,
    page: Wanted,
    metadata: WantedMetadata,
    status: Annotated[Sequence[Status], Query()] = (),
    kind: Kind | None = None,
    model: str | None = None,
    parent: str | None = None,
    thread: str | None = None,
    forked_from: str | None = None,
    created_after: _Time | None = None,
    created_before: _Time | None = None,
    members: bool = True,
    figures: bool = False,
    q: Annotated[str, Query(max_length=200)] = "",
) -> Object:
    """List the runs, newest first: of those that were found, with `figures`, also questions and costs; without
    `members` only those that no other run called; with `q` only those whose question contains it."""
    wanted = RunFilter(
        kind=kind,
        parent_id=parent,
        thread_id=thread,
        forked_from=forked_from,
        agent=model,
        statuses=status,
        created_after=created_after,
        created_before=created_before,
        metadata=metadata,
        members=members,
    )
    if q and page.before is not None:
        raise ApiError(400, "A search goes forward only: give 'after' instead of 'before'.", param="before")

    def work(connection: Connection, scope: TenantView) -> Object:
        find = partial(search_runs, text=q, may_show=_shows_question) if q else page_runs
        found, more = find(connection, scope, page, wanted)
        told = figures_of(connection, [run.id for run in found]) if figures else {}
        return listed([summary_object(run) | _figures(run, told.get(run.id)) for run in found], more)

    return await context.read(work)


@router.get("/{run_id}")
async def retrieve(run_id: str, context: ContextDep, log: bool = True) -> Object:
    """Retrieve a run, with its steps and messages so far; without `log`, only what its row says."""
    if not log:
        return summary_object(await context.read(partial(own_run, id_=run_id), small=True))

    def work(connection: Connection, scope: TenantView) -> Object:
        view = read_run(connection, scope, run_id)
        if view is None:
            raise not_found("run", run_id)
        return run_detail(view)

    return await context.read(work)


def run_detail(view: RunView) -> Object:
    """Return a run with its steps and messages so far."""
    shown = view.without(hidden_turns(view.run))
    more = {"cost": view.usage.cost, "reasoning_tokens": view.usage.reasoning_tokens}
    return {
        **summary_object(view.run),
        "usage": {**usage_object(view.usage), **{name: value for name, value in more.items() if value}},
        "steps": [_step(step.actions, step.observations) for step in shown.steps],
        "messages": [_message(said) for said in shown.messages],
        "unsent": sorted(view.unsent),
    }


def summary_object(run: RunRow) -> Object:
    """Return what a run's row says."""
    waits = run.status == "requires_action" and len(run.submissions) not in hidden_turns(run)
    return {
        "id": run.id,
        "object": "run",
        "created_at": run.created_at,
        "kind": run.kind,
        "model": run.agent,
        "status": run.status,
        "thread_id": None if run.kind == "response" else run.thread_id,
        "conversation_id": run.thread_id if run.kind == "response" else None,
        "forked_from": run.request.get("forked_from"),
        "imported_from": run.request.get("imported_from"),
        "parent_run_id": run.parent_id,
        "root_run_id": run.root_id,
        "call_id": run.call_id,
        "callers": list(run.request.get("callers") or ()),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "expires_at": run.expires_at if run.active else None,
        "required_action": _required_action(run) if waits else None,
        "last_error": last_error(run),
        "incomplete_details": {"reason": run.incomplete} if run.incomplete else None,
        "usage": None if run.usage is None else usage_object(run.usage),
        "metadata": run.metadata,
    }


def _required_action(run: RunRow) -> Object | None:
    """Return what a run waits for, and of each call for whom: a `person` who approves, or the `client` whose function
    it is."""
    action = required_action(run)
    if action is None:
        return None
    own = {inner_name(one["function"]["name"]) for one in run.request.get("tools") or () if "function" in one}
    for call, waiting in zip(action["submit_tool_outputs"]["tool_calls"], pending_calls(run), strict=True):
        call["waits_for"] = "client" if waiting.action.tool in own else "person"
    return action


def _figures(run: RunRow, told: RunFigures | None) -> Object:
    if told is None:
        return {}
    question = told.question if _shows_question(run) else None
    return {"question": question, "replies": told.replies, "cost": told.cost or None}


def _shows_question(run: RunRow) -> bool:
    return 0 not in hidden_turns(run)


def hidden_turns(run: RunRow) -> frozenset[int]:
    """Return the turns of a run whose contents are not shown: those that the client deleted, or asked not to be
    stored."""
    asked = [run.request, *((one.asked or {}) for one in run.submissions)]
    unstored = [turn for turn, given in enumerate(asked) if given.get("store") is False]
    if run.kind == "chat" and unstored:
        unstored = list(range(len(asked)))
    return frozenset([*run.deleted, *unstored])


def _step(actions: Sequence[AgentAction], observations: Sequence[Observation]) -> Object:
    calls = [
        {"id": one.id, "tool": one.tool, "input": one.tool_input, "output": seen.text, "outcome": seen.outcome}
        for one, seen in zip(actions, observations, strict=True)
    ]
    return {"object": "run.step", "calls": calls}


def _message(said: MessageDelta) -> Object:
    status = ("incomplete" if said.reason else "completed") if said.ended else "in_progress"
    return {"object": "run.message", "created_at": int(said.began), "content": said.text, "status": status}


def event_object(entry: Entry, *, hidden: bool, prompts: bool) -> Object:
    """Return an event. `withheld` names the fields that are left out; with `prompts`, only those that nobody sees. Of
    what a vendor wants back, its size is shown."""
    kind, payload = dump(entry.event)
    data: dict[str, Any] = json.loads(payload)
    for one in states_in(data):
        one["state"] = {"origin": one["state"]["origin"], "characters": len(one["state"]["turn"])}
    kept = () if prompts else withheld_fields(entry.event)
    withheld = sorted(data) if hidden else list(kept)
    return {
        "id": str(entry.seq),
        "object": "run.event",
        "created_at": entry.at,
        "type": kind,
        "data": {name: value for name, value in data.items() if name not in withheld},
        "withheld": withheld,
    }


def withheld_fields(event: Event) -> list[str]:
    """Return the fields of an event that are only for keys with the scope `prompts`."""
    foreign = ("detail",) if isinstance(event, Stopped) and event.code else ()
    return [*_WITHHELD.get(type(event).__name__.lower(), ()), *foreign]


def check_shown(run: RunRow) -> None:
    """Raise `ApiError` for a run of which some turn is not shown: its log is not for anything else, either."""
    if hidden_turns(run):
        raise ApiError(400, f"The run '{run.id}' cannot be used: its contents were deleted, or not to be stored.")
