"""`/threads/{id}/runs`: how a request becomes a run of an assistant, or lets one go on; and the routes that create,
retrieve, stream, resume and cancel runs, and show their steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import takewhile
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy import Connection

from ...runs import Followed
from ...runs.failpoints import failpoint
from ...store.run_queries import RunFilter, page_runs, set_metadata, thread_holder
from ...store.run_row import RunRow
from ...store.tables import assistants, threads
from ...store.tenant_view import TenantView
from ...store.thread_messages import newest_messages
from ..agents.deployment import Deployment
from ..agents.overrides import check_functions, placed_functions, tools_of
from ..content.message_files import check_kind, files_in
from ..content.threads import add_messages, add_thread, check_attachments, check_images
from ..context import Context, ContextDep, Server
from ..http.api_errors import ApiError, not_found
from ..http.common_schemas import MetadataUpdate, SubmitToolOutputs
from ..http.objects import (
    Include,
    Object,
    Wanted,
    find_row,
    list_objects,
    listed,
    own_run,
    own_view,
    run_object,
    thread_object,
)
from ..http.request_body import JsonRoute
from ..http.sse import STREAMED, event_stream
from ..models.listing import no_agent
from ..run_session import Begun, NewRun, RunApi, RunSession, add_run, answer_calls, cancel_active, cancel_for
from .projection import RunEvents, StepProjection, step_view
from .schemas import RunCreate, RunSettings, Settings, ThreadRunCreate

router = APIRouter(route_class=JsonRoute)
_FROM_ASSISTANT = (*Settings.model_fields, "tool_resources", "max_tokens", "max_steps")  # the last two are OPEA's
_LATEST = 10  # messages of a thread that are looked at


class _AssistantRun(RunApi):
    """A request whose answer is a run as it begins, or its events."""

    def __init__(self, context: Context, request: Request, *, stream: bool | None) -> None:
        super().__init__(context, request)
        self.streams = bool(stream)

    def projection(self, begun: Begun) -> RunEvents:
        """Return the events of the run, after those of a thread that was created with it."""
        before = [("thread.created", begun.more)] if begun.more else []
        return RunEvents(self.context.server, begun.run, before=before, turn=len(begun.run.submissions))

    async def answer(self, session: RunSession, begun: Begun) -> Object:
        """Return the run."""
        return run_object(begun.run)


class SubmittedOutputs(_AssistantRun):
    """Tool outputs for a waiting run."""

    def __init__(
        self, context: Context, request: Request, thread_id: str, run_id: str, asked: SubmitToolOutputs
    ) -> None:
        super().__init__(context, request, stream=asked.stream)
        self._place = thread_id, run_id
        self._outputs = asked.outputs

    def begin(self, connection: Connection, scope: TenantView) -> Begun:
        """Let the run go on."""
        run = run_of(connection, scope, *self._place, lock=True)
        ttl = self.context.server.options.run_ttl
        return Begun(*answer_calls(connection, scope.author, run, self._outputs, ttl))

    async def write(self) -> Begun:
        """Write, between two points at which tests kill the server."""
        failpoint("before decision")
        begun = await super().write()
        failpoint("after decision")
        return begun


class CreatedRun(_AssistantRun):
    """A new run: on the thread `thread_id`, or with `ThreadRunCreate` on a new one."""

    def __init__(
        self, context: Context, request: Request, asked: RunCreate | ThreadRunCreate, thread_id: str = ""
    ) -> None:
        super().__init__(context, request, stream=asked.stream)
        self._asked = asked
        self._thread_id = thread_id
        sent = asked.sent()
        self._thread = {**(sent.get("thread") or {}), **{n: sent[n] for n in ("tool_resources",) if sent.get(n)}}
        self._given: list[Object] = (
            sent.get("additional_messages") if isinstance(asked, RunCreate) else self._thread.get("messages")
        ) or []

    async def prepare(self) -> None:
        """Raise `ApiError` if the model cannot see an image since the last answer: one in the messages that were sent
        with the request, or one on the thread."""
        model, images = await self.context.read(self._shown_images)
        agent = self.context.server.deployment.agents.get(model)
        for where in images:
            if agent is not None:
                await check_kind(agent, where)

    def _shown_images(self, connection: Connection, scope: TenantView) -> tuple[str, list[str]]:
        """Return the model that is asked, and where there are images since the last answer. Raises `ApiError` if a file
        of the messages sent does not exist."""
        check_images(connection, scope, self._given)
        name = "additional_messages" if isinstance(self._asked, RunCreate) else "thread.messages"
        sent = [(f"{name}[{at}].content", one) for at, one in enumerate(self._given)][::-1]
        newest = newest_messages(connection, scope.tenant, self._thread_id, _LATEST) if self._thread_id else []
        there = [(f"messages[-{at}].content", body) for at, body in enumerate(newest, 1)]
        since = [one for said in (sent, there) for one in takewhile(lambda one: one[1]["role"] == "user", said)]
        images = [f"{where}[{number}]" for where, body in since for number, _ in files_in(body["content"])]
        if self._asked.model or not images:
            return self._asked.model or "", images
        return find_row(connection, scope, assistants, self._asked.assistant_id).body["model"], images

    def begin(self, connection: Connection, scope: TenantView) -> Begun:
        """Add the run."""
        server = self.context.server
        if isinstance(self._asked, RunCreate):
            run, halted = start_run(connection, scope, server, self._thread_id, self._asked)
            return Begun(run, halted=halted)
        thread = add_thread(connection, scope, self._thread)
        request = request_of(connection, scope, server.deployment, self._asked)
        new = NewRun("assistant", request, thread.id, self._asked.metadata)
        return Begun(add_run(connection, scope, new, server.options.run_ttl), more=thread_object(thread))

    async def write(self) -> Begun:
        """Add the run, before a point at which tests kill the server."""
        begun = await super().write()
        failpoint("after run is made")
        return begun


def start_run(
    connection: Connection, scope: TenantView, server: Server, thread_id: str, asked: RunCreate
) -> tuple[RunRow, RunRow | None]:
    """Create a run, `queued`, on a thread, which has one at a time. Return it, and the run that was cancelled for it.
    Raises `ApiError`."""
    find_row(connection, scope, threads, thread_id, lock=True)
    request = request_of(connection, scope, server.deployment, asked)
    active = thread_holder(connection, thread_id, lock=True)
    strategy = asked.multitask_strategy or "reject"
    if active is not None and strategy == "reject":
        raise ApiError(400, f"Thread {thread_id} already has an active run {active.id}.")
    halted = cancel_for(connection, scope.author, active) if active is not None and strategy == "interrupt" else None
    waits = active is not None and (halted is None or halted.active)
    added: Sequence[Mapping[str, Any]] = asked.sent().get("additional_messages") or ()
    if waits:
        check_attachments(connection, scope, thread_id, added)
        check_images(connection, scope, added)
        request["additional_messages"] = added
    else:
        add_messages(connection, scope, thread_id, added)
    ttl = None if waits else server.options.run_ttl
    return add_run(connection, scope, NewRun("assistant", request, thread_id, asked.metadata), ttl), halted


def request_of(
    connection: Connection, scope: TenantView, deployment: Deployment, asked: RunCreate | ThreadRunCreate
) -> Object:
    """Return the stored request of a run: the assistant's settings, overridden and extended by those of the request."""
    assistant = find_row(connection, scope, assistants, asked.assistant_id)
    own, sent = assistant.body, {name: value for name, value in asked.sent().items() if value is not None}
    model = sent.get("model") or own["model"]
    if model not in deployment.agents:
        raise no_agent(model, deployment.agents)
    request = {name: own[name] for name in _FROM_ASSISTANT if own.get(name) is not None}
    request |= {name: sent[name] for name in RunSettings.model_fields if name in sent}
    request |= {"stream": True} if sent.get("stream") else {}
    said = [sent.get("instructions", own.get("instructions")), sent.get("additional_instructions")]
    check_functions(deployment.agents[model], placed_functions(request.get("tools") or ()))
    words = "\n\n".join(filter(None, said))
    return {**request, "assistant_id": assistant.id, "model": model, "instructions": words}


def run_of(connection: Connection, scope: TenantView, thread_id: str, run_id: str, *, lock: bool = False) -> RunRow:
    """Return the run of a thread, locked until the transaction ends with `lock`. Raises `ApiError` (404) if either does
    not exist."""
    find_row(connection, scope, threads, thread_id)
    run = own_run(connection, scope, run_id, lock=lock)
    if run.thread_id != thread_id:
        raise not_found("run", run_id)
    return run


# ── routes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        return [step_view(run.request, step, include) for step in progress.steps]

    return await context.read(work)
