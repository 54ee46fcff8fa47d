"""A2A's operations, whatever the binding: each takes what a client asks, and returns the result as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from fastapi import Request
from sqlalchemy import Connection

from ...runs.run_view import RunView, read_run
from ...store.run_queries import RunFilter, count_runs, page_runs
from ...store.run_row import RunRow
from ...store.tenant_view import Page, TenantView
from ..content.threads import find_thread
from ..context import Context
from ..http.objects import Object
from ..run_session import Projection, RunSession, cancel_for
from .a2a_errors import A2AError
from .agent_card import agent_card
from .schemas import ListTasks, Nothing, SendMessage, TaskQuery
from .task_run import check_supported, own_task, task_run
from .task_stream import Framed, TaskStream
from .views import STATES, task_object

_WITH_ARTIFACTS = 20  # tasks of a page whose logs are read


@dataclass(frozen=True, slots=True)
class Call:
    """A client's call of an operation of `agent`."""

    context: Context
    request: Request
    agent: str


async def send_message(call: Call, given: SendMessage) -> Object:
    """Return the task of a message: once it rests, or at once if the client wants that."""
    run, new = await _begun(call, given, stream=False)
    session = RunSession(call.context.server, run)
    session.begin(new=new)
    if not given.configuration.return_immediately:
        await session.wait(Projection(run), call.request)
    return {"task": task_object(await _view(call, run.id), given.configuration.history_length)}


async def stream_message(call: Call, given: SendMessage, framed: Framed) -> AsyncIterator[str]:
    """Return the event stream of the task of a message."""
    call.context.begin_stream()
    run, new = await _begun(call, given, stream=True)
    fresh = new and not given.message.task_id
    view = RunView(run, []) if fresh else await _view(call, run.id)
    session = RunSession(call.context.server, run)
    session.begin(new=new)
    return session.follow(TaskStream(view, framed, given.configuration.history_length))


async def subscribe(call: Call, given: TaskQuery, framed: Framed) -> AsyncIterator[str]:
    """Return the event stream of a task from now on. Raises `A2AError` if it has ended."""
    call.context.begin_stream()
    view = await _view(call, given.id)
    if not view.run.active:
        said = f"The task has ended ({STATES[view.run.status]}); there is nothing to follow."
        raise A2AError("UNSUPPORTED_OPERATION", said)
    return RunSession(call.context.server, view.run).follow(TaskStream(view, framed))


async def get_task(call: Call, given: TaskQuery) -> Object:
    """Return a task."""
    return task_object(await _view(call, given.id), given.history_length)


async def list_tasks(call: Call, given: ListTasks) -> Object:
    """Return a page of the agent's tasks, newest first."""
    if given.status_timestamp_after:
        raise A2AError("UNSUPPORTED_OPERATION", "'statusTimestampAfter' is not supported; filter by 'status'.")
    size = given.page_size or ListTasks.model_fields["page_size"].default  # 0 is how some write that it is not given
    size = min(size, _WITH_ARTIFACTS) if given.include_artifacts else size
    return await call.context.read(partial(_page, agent=call.agent, given=given, size=size))


async def cancel_task(call: Call, given: TaskQuery) -> Object:
    """Cancel a task, and return it once it has ended."""

    def work(connection: Connection, scope: TenantView) -> RunRow:
        run = own_task(connection, scope, call.agent, given.id, lock=True)
        if not run.active:
            said = f"The task has ended ({STATES[run.status]}) and cannot be canceled."
            raise A2AError("TASK_NOT_CANCELABLE", said)
        return run if run.status == "cancelling" else cancel_for(connection, scope.author, run)

    run = await call.context.write(work)
    call.context.server.halted(run)
    if run.active:
        await RunSession(call.context.server, run).wait(Projection(run), call.request)
    return task_object(await _view(call, run.id), given.history_length)


async def extended_card(call: Call, given: Nothing) -> Object:
    """Return the agent's card with what only clients with a key may know."""
    agent = call.context.server.deployment.agents[call.agent]
    return agent_card(str(call.request.base_url), call.agent, agent, extended=True)


async def no_push_notifications(call: Call, given: Nothing) -> Object:
    """Refuse: tasks are followed by their streams."""
    raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "Push notifications are not supported; follow the stream.")


async def _begun(call: Call, given: SendMessage, *, stream: bool) -> tuple[RunRow, bool]:
    check_supported(given)
    options = call.context.server.options
    return await call.context.write(partial(task_run, options=options, agent=call.agent, given=given, stream=stream))


async def _view(call: Call, id_: str) -> RunView:
    def read(connection: Connection, scope: TenantView) -> RunView | None:
        own_task(connection, scope, call.agent, id_)
        return read_run(connection, scope, id_)

    view = await call.context.read(read)
    if view is None:
        raise A2AError("TASK_NOT_FOUND", f"No task found with id '{id_}'.")
    return view


def _page(connection: Connection, scope: TenantView, agent: str, given: ListTasks, size: int) -> Object:
    thread = find_thread(connection, scope, given.context_id) if given.context_id else None
    every = given.status == "TASK_STATE_UNSPECIFIED"
    statuses = () if every else [status for status, state in STATES.items() if state == given.status]
    if given.page_token:
        _known_token(connection, scope, agent, given.page_token)
    wanted = RunFilter(thread_id=thread.id if thread else None, kind="a2a", agent=agent, statuses=statuses)
    nothing = (given.context_id and thread is None) or not (every or statuses)
    page = Page(size, after=given.page_token or None)
    found, more = ([], False) if nothing else page_runs(connection, scope, page, wanted)
    views = [read_run(connection, scope, run.id) if given.include_artifacts else RunView(run, []) for run in found]
    shown = partial(task_object, history_length=given.history_length, artifacts=given.include_artifacts)
    return {
        "tasks": [shown(view) for view in views if view is not None],
        "nextPageToken": found[-1].id if more else "",
        "pageSize": size,
        "totalSize": 0 if nothing else count_runs(connection, scope, wanted),
    }


def _known_token(connection: Connection, scope: TenantView, agent: str, token: str) -> None:
    try:
        own_task(connection, scope, agent, token)
    except A2AError:
        raise A2AError("INVALID_PARAMS", f"'pageToken': there is no page '{token}'.") from None
