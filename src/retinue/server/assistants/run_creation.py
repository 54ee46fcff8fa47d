"""From a request to a run of an assistant: on a thread, on a new one, or one that goes on with what it waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from fastapi import Request
from sqlalchemy import Connection, Text, bindparam, cast, select

from ...runs.failpoints import failpoint
from ...store.prepared_statements import Prepared
from ...store.run_queries import thread_holder
from ...store.run_row import RunRow
from ...store.tables import assistants, messages, threads
from ...store.tenant_view import TenantView
from ..agents.deployment import Deployment
from ..agents.overrides import check_functions, functions_in
from ..content.file_intake import Place, check_kind
from ..content.file_parts import files_in
from ..content.threads import add_messages, add_thread, check_attachments, check_images
from ..context import Context, Server
from ..http.api_errors import ApiError, not_found
from ..http.common_schemas import SubmitToolOutputs
from ..http.objects import Object, find_row, own_run, run_object, thread_object
from ..models.list import no_agent
from ..run_session import Begun, NewRun, RunApi, RunSession, add_run, answer_calls, cancel_for
from .projection import RunEvents
from .schemas import RunCreate, ThreadRunCreate

_FROM_ASSISTANT = ("temperature", "top_p", "response_format", "reasoning_effort", "tools", "max_tokens", "max_steps")
_AS_ASKED = (
    "max_prompt_tokens",
    "max_completion_tokens",
    "truncation_strategy",
    "tool_choice",
    "parallel_tool_calls",
    "include",
)
_LATEST = 10  # messages of a thread that are looked at
_NEWEST = (
    select(messages.c.body)
    .where(messages.c.tenant == bindparam("tenant"), messages.c.thread_id == bindparam("thread"))
    .order_by(messages.c.number.desc())
    .limit(_LATEST)
)
_TEXT = cast(_NEWEST.subquery().c.body, Text)
_SHOWS = Prepared(select(bindparam("found", 1)).where(_TEXT.contains('"image', autoescape=True)))  # or says so
_NEW = Prepared(_NEWEST)


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

    async def write(self, *, small: bool = False) -> Begun:
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
        self._sighted = False  # whether the model sees the images that the run is about
        if isinstance(asked, ThreadRunCreate):
            self._thread = {} if asked.thread is None else asked.thread.sent()
            if asked.tool_resources is not None:
                self._thread["tool_resources"] = asked.tool_resources.sent()
        self._given: list[Object] = (
            asked.sent().get("additional_messages") if isinstance(asked, RunCreate) else self._thread.get("messages")
        ) or []

    def begin(self, connection: Connection, scope: TenantView) -> Begun:
        """Add the run."""
        thread_id, server = self._thread_id, self.context.server
        if not self._sighted and thread_id and _SHOWS.rows(connection, {"tenant": scope.tenant, "thread": thread_id}):
            raise _ShowsImages
        if isinstance(self._asked, RunCreate):
            run, halted = start_run(connection, scope, server, thread_id, self._asked)
            return Begun(run, halted=halted)
        thread = add_thread(connection, scope, self._thread)
        request = request_of(connection, scope, server.deployment, self._asked)
        new = NewRun("assistant", request, thread.id, self._asked.metadata)
        return Begun(add_run(connection, scope, new, server.options.run_ttl), more=thread_object(thread))

    async def write(self, *, small: bool = False) -> Begun:
        """Add the run. Raises `ApiError` if its model cannot see an image since the last answer: one in the messages
        that were sent with the request, or one on the thread."""
        begun = None
        if not any(True for one in self._given for _ in files_in(one["content"])):
            with suppress(_ShowsImages):  # rare; the model may have to be asked whether it sees: in no transaction
                begun = await super().write(small=True)
        if begun is None:
            await self._check_sight()
            self._sighted = True
            begun = await super().write()
        failpoint("after run is made")
        return begun

    async def _check_sight(self) -> None:
        name = "additional_messages" if isinstance(self._asked, RunCreate) else "thread.messages"
        sent = [Place(f"{name}[{at}].content", one["role"], one["content"]) for at, one in enumerate(self._given)]
        places = list(takewhile(lambda place: place.role == "user", reversed(sent)))
        model, there = await self.context.read(self._shown_before)
        agent = self.context.server.deployment.agents.get(model)
        for place in (*places, *there):
            for number, _ in files_in(place.content):
                if agent is not None:
                    await check_kind(agent, f"{place.where}[{number}]")

    def _shown_before(self, connection: Connection, scope: TenantView) -> tuple[str, list[Place]]:
        """Return the model that is asked, and what was said on the thread since the last answer. Raises `ApiError` if a
        file of the messages sent does not exist."""
        check_images(connection, scope, self._given)
        asked = self._asked
        model = asked.model or find_row(connection, scope, assistants, asked.assistant_id).body["model"]
        newest = _NEW.rows(connection, {"tenant": scope.tenant, "thread": self._thread_id})
        since = takewhile(lambda body: body["role"] == "user", (body for (body,) in newest))
        return model, [Place(f"messages[-{at}].content", "user", body["content"]) for at, body in enumerate(since, 1)]


class _ShowsImages(Exception):
    """Nothing was written, since there may be images on the thread."""


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
    request = {name: own[name] for name in (*_FROM_ASSISTANT, "tool_resources") if own.get(name) is not None}
    request |= {name: sent[name] for name in (*_FROM_ASSISTANT, *_AS_ASKED) if name in sent}
    request |= {"stream": True} if sent.get("stream") else {}
    said = [sent.get("instructions", own.get("instructions")), sent.get("additional_instructions")]
    check_functions(deployment.agents[model], functions_in(request.get("tools") or ()))
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
