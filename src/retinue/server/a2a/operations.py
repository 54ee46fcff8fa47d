"""A2A's operations, whatever the binding: each takes what a client asks, and returns its result: JSON or a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import Request
from sqlalchemy import Connection

from ... import __version__
from ...agent import Agent
from ...errors import RetinueError
from ...runs import Followed
from ...runs.run_view import RunView, read_run
from ...runs.thread_messages import Speech
from ...store.event_log import Entry
from ...store.run_queries import RunFilter, count_runs, page_runs
from ...store.run_row import RunRow
from ...store.tenant_view import Page, TenantView
from ..content.threads import find_thread
from ..context import Context
from ..http.api_errors import ApiError
from ..http.objects import Object
from ..run_session import Projection, RunSession, cancel_for
from .errors import A2AError, Reason, a2a_error
from .schemas import INPUT_MODES, OUTPUT_MODES, A2ARequest, ListTasks, Nothing, SendMessage, TaskQuery
from .tasks import (
    STATES,
    artifact,
    check_supported,
    context_id,
    no_push_notifications,
    own_task,
    start_task,
    status_object,
    task_object,
)

_PROTOCOL = "1.0"
_WITH_ARTIFACTS = 20  # tasks of a page whose logs are read
Frames = Callable[[Any, str], str]


@dataclass(frozen=True, slots=True)
class Call:
    """A client's call of an operation of `agent`. `frame` formats an event of a stream, given by its name, or an
    `A2AError`."""

    context: Context
    request: Request
    agent: str
    frame: Frames


async def _send_message(call: Call, given: SendMessage) -> Object:
    """Return the task of a message: once it rests, or at once if the client wants that."""
    run, new = await _start(call, given, stream=False)
    session = RunSession(call.context.server, run)
    session.begin(new=new)
    if not given.configuration.return_immediately:
        await session.wait(Projection(run), call.request)
    return {"task": task_object(await _view(call, run.id), given.configuration.history_length)}


async def _stream_message(call: Call, given: SendMessage) -> AsyncIterator[str]:
    """Return the event stream of the task of a message."""
    call.context.begin_stream()
    run, new = await _start(call, given, stream=True)
    fresh = new and not given.message.task_id
    view = RunView(run, []) if fresh else await _view(call, run.id)
    session = RunSession(call.context.server, run)
    session.begin(new=new)
    return session.follow(TaskStream(view, call.frame, given.configuration.history_length))


async def _subscribe(call: Call, given: TaskQuery) -> AsyncIterator[str]:
    """Return the event stream of a task from now on. Raises `A2AError` if it has ended."""
    call.context.begin_stream()
    view = await _view(call, given.id)
    if not view.run.active:
        said = f"The task has ended ({STATES[view.run.status]}); there is nothing to follow."
        raise A2AError(Reason.UNSUPPORTED_OPERATION, said)
    return RunSession(call.context.server, view.run).follow(TaskStream(view, call.frame))


async def _get_task(call: Call, given: TaskQuery) -> Object:
    return task_object(await _view(call, given.id), given.history_length)


async def _list_tasks(call: Call, given: ListTasks) -> Object:
    """Return a page of the agent's tasks, newest first."""
    if given.status_timestamp_after:
        said = "'statusTimestampAfter' is not supported; filter by 'status'."
        raise A2AError(Reason.UNSUPPORTED_OPERATION, said)
    size = given.page_size or ListTasks.model_fields["page_size"].default  # 0 is how some write that it is not given
    size = min(size, _WITH_ARTIFACTS) if given.include_artifacts else size
    return await call.context.read(partial(_page, agent=call.agent, given=given, size=size))


def _page(connection: Connection, scope: TenantView, agent: str, given: ListTasks, size: int) -> Object:
    thread = find_thread(connection, scope, given.context_id) if given.context_id else None
    every = given.status == "TASK_STATE_UNSPECIFIED"
    statuses = () if every else [status for status, state in STATES.items() if state == given.status]
    if given.page_token:
        try:
            own_task(connection, scope, agent, given.page_token)
        except A2AError:
            raise A2AError(Reason.INVALID_PARAMS, f"'pageToken': there is no page '{given.page_token}'.") from None
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


async def _cancel_task(call: Call, given: TaskQuery) -> Object:
    """Cancel a task, and return it once it has ended."""

    def work(connection: Connection, scope: TenantView) -> RunRow:
        run = own_task(connection, scope, call.agent, given.id, lock=True)
        if not run.active:
            said = f"The task has ended ({STATES[run.status]}) and cannot be canceled."
            raise A2AError(Reason.TASK_NOT_CANCELABLE, said)
        return run if run.status == "cancelling" else cancel_for(connection, scope.author, run)

    run = await call.context.write(work)
    call.context.server.halted(run)
    if run.active:
        await RunSession(call.context.server, run).wait(Projection(run), call.request)
    return task_object(await _view(call, run.id), given.history_length)


async def _extended_card(call: Call, given: Nothing) -> Object:
    """Return the agent's card with what only clients with a key may know."""
    agent = call.context.server.deployment.agents[call.agent]
    return agent_card(call.request, call.agent, agent, extended=True)


async def _refuse_push(call: Call, given: Nothing) -> Object:
    raise no_push_notifications()


OPERATIONS: Mapping[str, tuple[type[A2ARequest], Callable[[Call, Any], Awaitable[Object | AsyncIterator[str]]]]] = {
    "SendMessage": (SendMessage, _send_message),
    "GetTask": (TaskQuery, _get_task),
    "ListTasks": (ListTasks, _list_tasks),
    "CancelTask": (TaskQuery, _cancel_task),
    "GetExtendedAgentCard": (Nothing, _extended_card),
    "CreateTaskPushNotificationConfig": (Nothing, _refuse_push),
    "GetTaskPushNotificationConfig": (Nothing, _refuse_push),
    "ListTaskPushNotificationConfigs": (Nothing, _refuse_push),
    "DeleteTaskPushNotificationConfig": (Nothing, _refuse_push),
    "SendStreamingMessage": (SendMessage, _stream_message),
    "SubscribeToTask": (TaskQuery, _subscribe),
}
"""The operations by their names in JSON-RPC: what each takes, and what it does."""


async def _start(call: Call, given: SendMessage, *, stream: bool) -> tuple[RunRow, bool]:
    check_supported(given)
    ttl = call.context.server.options.run_ttl
    return await call.context.write(partial(start_task, agent=call.agent, given=given, stream=stream, ttl=ttl))


async def _view(call: Call, id_: str) -> RunView:
    def read(connection: Connection, scope: TenantView) -> RunView | None:
        own_task(connection, scope, call.agent, id_)
        return read_run(connection, scope, id_)

    view = await call.context.read(read)
    if view is None:
        raise A2AError(Reason.TASK_NOT_FOUND, f"No task found with id '{id_}'.")
    return view


# ── following a task ─────────────────────────────────────────────────────────────────────────────


class TaskStream(Projection):
    """Folds a run's log into the events of its task: the task as it is, then its updates until it rests. `view` is the
    run, with its log as far as the client is told of it at the beginning."""

    def __init__(self, view: RunView, frame: Frames, history_length: int | None = None) -> None:
        super().__init__(view.run)
        self.head = frame(task_object(view, history_length), "task")
        self.since = view.log[-1].seq if view.log else 0
        self._ids = {"taskId": view.run.id, "contextId": context_id(view.run)}
        self._frame = frame
        self._state = STATES[view.run.status]
        self._speech = Speech()
        for entry in view.log:
            list(self._speech.hear(entry))

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frames of a log entry, or of a new row."""
        if isinstance(item, Entry):
            for said in self._speech.hear(entry=item):
                told: Object = {**self._ids, "artifact": artifact(self.run, said.number, said.more)}
                told |= {"append": said.ended or said.more != said.text, "lastChunk": said.ended}
                yield self._frame(told, "artifactUpdate")
            return
        if STATES[item.status] != self._state or item.rests:
            self._state = STATES[item.status]
            yield self._frame({**self._ids, "status": status_object(item)}, "statusUpdate")
        self.last = item if item.rests else None

    def error_frame(self, error: RetinueError | ApiError) -> str:
        """Return the frame of the error that cuts the stream off."""
        return self._frame(a2a_error(error), "error")


# ── cards ────────────────────────────────────────────────────────────────────────────────────────


_KEYS = {
    "securitySchemes": {
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "An API key of this server."}}
    },
    "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
}


def agent_card(request: Request, name: str, agent: Agent, *, extended: bool = False) -> Object:
    """Return an agent's card: what it is, where it is (on the server of the `request`), and what a client needs to talk
    to it. Anybody may read it, so only the `extended` one, for clients with a key, has the agent's tools among its
    skills. How the application around the server has its users log in is not known."""
    url = f"{str(request.base_url).rstrip('/')}/a2a/{quote(name, safe='')}"
    said = f"The agent {name}, served by Retinue."
    skills = [_skill(name, said, "agent")]
    if extended:
        skills += [_skill(tool.name, tool.description or tool.name, "tool") for tool in agent.tools]
    return {
        "name": name,
        "description": said,
        "version": __version__,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": binding, "protocolVersion": _PROTOCOL}
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": True},
        **({} if request.app.state.own_login else _KEYS),
        "defaultInputModes": list(INPUT_MODES),
        "defaultOutputModes": list(OUTPUT_MODES),
        "skills": skills,
    }


def _skill(name: str, description: str, tag: str) -> Object:
    return {"id": name, "name": name, "description": description, "tags": [tag]}
