"""`/threads/{id}/runs`: creates, retrieves, streams, resumes and cancels runs, and shows their steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy import Connection

from ...runs import Followed
from ...store.run_queries import RunFilter, page_runs, set_metadata
from ...store.run_row import RunRow
from ...store.tables import threads
from ...store.tenant_view import TenantView
from ..agents.overrides import tools_of
from ..context import Context, ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.common_schemas import MetadataUpdate, SubmitToolOutputs
from ..http.objects import Include, Object, Wanted, find_row, list_objects, listed, own_view, run_object
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED, event_stream
from ..run_session import RunSession, cancel_active
from .projection import RunEvents, StepProjection, included, step_view
from .run_creation import CreatedRun, SubmittedOutputs, run_of
from .schemas import RunCreate, ThreadRunCreate

router = APIRouter(route_class=JsonRoute)


@router.post("/threads/{thread_id}/runs", responses=STREAMED)
async def create(thread_id: str, body: RunCreate, context: ContextDep, request: Request, include: Include = ()) -> Any:
    """Run an assistant on a thread."""
    body = body.model_copy(update={"include": [*include]}) if include else body
    return await CreatedRun(context, request, body, thread_id).respond()


@router.post("/threads/runs", responses=STREAMED)
async def create_with_thread(body: ThreadRunCreate, context: ContextDep, request: Request) -> Any:
    """Create a thread and run an assistant on it."""
    return await CreatedRun(context, request, body).respond()


@router.get("/threads/{thread_id}/runs")
async def list_all(thread_id: str, context: ContextDep, page: Wanted) -> Object:
    """List the runs of a thread."""

    def work(connection: Connection, scope: TenantView) -> Object:
        find_row(connection, scope, threads, thread_id)
        found, more = page_runs(connection, scope, page, RunFilter(thread_id))
        return listed([run_object(run) for run in found], more)

    return await context.read(work)


@router.get("/threads/{thread_id}/runs/{run_id}", responses=STREAMED)
async def retrieve(  # noqa: PLR0913 -- a stream's position can be given in two ways
    thread_id: str,
    run_id: str,
    context: ContextDep,
    request: Request,
    response: Response,
    stream: bool = False,
    starting_after: Annotated[int | None, Query(ge=0)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Any:
    """Retrieve a run, or stream its events after the last one that the client received."""
    streams = stream or "text/event-stream" in request.headers.get("accept", "")
    if streams:
        context.begin_stream()
    run = await context.read(partial(run_of, thread_id=thread_id, run_id=run_id), small=True)
    if not streams:
        response.headers.update(context.server.poll_after())
        return run_object(run)
    after = starting_after or 0
    if starting_after is None and last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10):
            raise ApiError(400, f"Invalid 'Last-Event-ID': '{last_event_id[:100]}' is not a number.")
        after = int(last_event_id)
    events = RunEvents(context.server, run, after=after)
    frames = RunSession(context.server, run).follow(events)
    return event_stream(await _begin(frames) if after else frames)


@router.post("/threads/{thread_id}/runs/{run_id}")
async def update(thread_id: str, run_id: str, body: MetadataUpdate, context: ContextDep) -> Object:
    """Modify a run's metadata."""

    def work(connection: Connection, scope: TenantView) -> RunRow:
        run = run_of(connection, scope, thread_id, run_id)
        return set_metadata(connection, run, body.metadata or {}) if "metadata" in body.model_fields_set else run

    return run_object(await context.write(work))


@router.post("/threads/{thread_id}/runs/{run_id}/submit_tool_outputs", responses=STREAMED)
async def submit_tool_outputs(
    thread_id: str, run_id: str, body: SubmitToolOutputs, context: ContextDep, request: Request
) -> Any:
    """Submit the outputs of the calls that the run waits for. Repeating a submission has no effect."""
    return await SubmittedOutputs(context, request, thread_id, run_id, body).respond()


@router.post("/threads/{thread_id}/runs/{run_id}/cancel")
async def cancel(thread_id: str, run_id: str, context: ContextDep) -> Object:
    """Cancel a run."""

    def work(connection: Connection, scope: TenantView) -> RunRow:
        return cancel_active(connection, scope.author, run_of(connection, scope, thread_id, run_id, lock=True))

    run = await context.write(work)
    context.server.halted(run)
    return run_object(run)


@router.get("/threads/{thread_id}/runs/{run_id}/steps")
async def list_steps(thread_id: str, run_id: str, context: ContextDep, page: Wanted, include: Include = ()) -> Object:
    """List the steps of a run."""
    return list_objects(await _steps(context, thread_id, run_id, include), page)


@router.get("/threads/{thread_id}/runs/{run_id}/steps/{step_id}")
async def retrieve_step(
    thread_id: str, run_id: str, step_id: str, context: ContextDep, include: Include = ()
) -> Object:
    """Retrieve a step of a run."""
    steps = await _steps(context, thread_id, run_id, include)
    found = next((step for step in steps if step["id"] == step_id), None)
    if found is None:
        raise not_found("run step", step_id)
    return found


async def _begin(frames: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    """Return the frames, of which the first is there: what is wrong with the request is an error response."""
    first = await anext(frames)

    async def all_of_them() -> AsyncIterator[str]:
        async with aclosing(frames):
            yield first
            async for text in frames:
                yield text

    return all_of_them()


async def _steps(context: Context, thread_id: str, run_id: str, include: Sequence[str]) -> list[Object]:
    """Return the run's steps so far, oldest first."""

    def work(connection: Connection, scope: TenantView) -> list[Object]:
        run_of(connection, scope, thread_id, run_id)
        view = own_view(connection, scope, run_id)
        run = view.run
        progress = StepProjection(run, tools_of(context.server.deployment, run), context.server.options, include)
        items: list[Followed] = [*view.log, run]
        for item in items:
            list(progress.events(item))
        return [step_view(run.request, step, content=included(include)) for step in progress.steps]

    return await context.read(work)
