"""`/threads/{id}/runs`: creates, retrieves, streams, resumes and cancels runs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy import Connection

from ...runs.failpoints import failpoint
from ...store.run_queries import RunFilter, page_runs, set_metadata
from ...store.run_row import RunRow
from ...store.tables import threads
from ...store.tenant_view import TenantView
from ..content.tool_outputs import parse_submission
from ..context import ContextDep
from ..http.api_errors import ApiError, not_found
from ..http.lookup import Include, Wanted, find_row, own_run
from ..http.objects import Object, listed, run_object, thread_object
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED, event_stream
from ..run_acts import cancel_for, resume_run
from ..run_session import RunSession
from .run_creation import start_run, start_run_on_new_thread
from .run_stream import RunEvents, number_of, resumed
from .schemas import RunCreate, RunUpdate, SubmitToolOutputs, ThreadCreate, ThreadRunCreate
from .step_projection import Told
from .thread_files import write_if_seen
from .threads import add_thread

router = APIRouter(route_class=JsonRoute)


@router.post("/threads/{thread_id}/runs", responses=STREAMED)
async def create(thread_id: str, body: RunCreate, context: ContextDep, include: Include = ()) -> Any:
    """Run an assistant on a thread."""
    body = body.model_copy(update={"include": [*include]}) if include else body
    start = partial(start_run, server=context.server, thread_id=thread_id, asked=body)
    run, halted = await write_if_seen(context, start, body, thread_id)
    failpoint("after run is made")
    session = RunSession(context.server, run)
    session.begin(halted=halted)
    return _answer(session, stream=bool(body.stream))


@router.post("/threads/runs", responses=STREAMED)
async def create_with_thread(body: ThreadRunCreate, context: ContextDep) -> Any:
    """Create a thread and run an assistant on it."""
    given = body.thread or ThreadCreate()
    if body.tool_resources is not None:
        given = given.model_copy(update={"tool_resources": body.tool_resources})

    def start(connection: Connection, scope: TenantView) -> tuple[Object, RunRow]:
        thread = add_thread(connection, scope, given)
        return thread_object(thread), start_run_on_new_thread(connection, scope, context.server, thread.id, body)

    thread, run = await write_if_seen(context, start, body, "")
    failpoint("after run is made")
    session = RunSession(context.server, run)
    session.begin()
    return _answer(session, [("thread.created", thread)], stream=bool(body.stream))


def _answer(session: RunSession, before: Iterable[Told] = (), *, stream: bool, turn: int = 0) -> Any:
    """Return the run, or its events from a turn on, which those in `before` precede."""
    if not stream:
        return run_object(session.run)
    return event_stream(session.follow(RunEvents(session.server, session.run, before=before, turn=turn)))


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
    if streams:
        return event_stream(await resumed(context.server, run, number_of(last_event_id, starting_after)))
    response.headers.update(context.server.poll_after())
    return run_object(run)


@router.post("/threads/{thread_id}/runs/{run_id}")
async def update(thread_id: str, run_id: str, body: RunUpdate, context: ContextDep) -> Object:
    """Modify a run's metadata."""

    def work(connection: Connection, scope: TenantView) -> RunRow:
        run = run_of(connection, scope, thread_id, run_id)
        return set_metadata(connection, run, body.metadata or {}) if "metadata" in body.model_fields_set else run

    return run_object(await context.write(work))


@router.post("/threads/{thread_id}/runs/{run_id}/submit_tool_outputs", responses=STREAMED)
async def submit_tool_outputs(thread_id: str, run_id: str, body: SubmitToolOutputs, context: ContextDep) -> Any:
    """Submit the outputs of the calls that the run waits for. Repeating a submission has no effect."""
    outputs = [(one.tool_call_id, one.output or "") for one in body.tool_outputs]

    def work(connection: Connection, scope: TenantView) -> tuple[RunRow, bool]:
        run = run_of(connection, scope, thread_id, run_id, lock=True)
        answer = parse_submission(run, outputs)
        if answer is not None:
            run = resume_run(connection, scope.author, run, answer, context.server.options.run_ttl)
        return run, answer is not None

    failpoint("before decision")
    run, new = await context.write(work)
    failpoint("after decision")
    session = RunSession(context.server, run)
    session.begin(new=new)
    return _answer(session, stream=bool(body.stream), turn=len(run.submissions))


@router.post("/threads/{thread_id}/runs/{run_id}/cancel")
async def cancel(thread_id: str, run_id: str, context: ContextDep) -> Object:
    """Cancel a run."""

    def work(connection: Connection, scope: TenantView) -> RunRow:
        run = run_of(connection, scope, thread_id, run_id, lock=True)
        if not run.active or run.status == "cancelling":
            raise ApiError(400, f"Cannot cancel run with status '{run.status}'.")
        return cancel_for(connection, scope.author, run)

    run = await context.write(work)
    context.server.halted(run)
    return run_object(run)


def run_of(connection: Connection, scope: TenantView, thread_id: str, run_id: str, *, lock: bool = False) -> RunRow:
    """Return the run of a thread, locked until the transaction ends with `lock`. Raises `ApiError` (404) if either does
    not exist."""
    find_row(connection, scope, threads, thread_id)
    run = own_run(connection, scope, run_id, lock=lock)
    if run.thread_id != thread_id:
        raise not_found("run", run_id)
    return run
