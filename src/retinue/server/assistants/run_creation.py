"""Creates runs on threads: one at a time per thread, decided in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ...core.run_context import STORED_ID
from ...store.advisory_lock import COUNTING, lock_until_end
from ...store.clock import CLOCK
from ...store.run_belongings import is_beside, put_messages, shorten_request, show_files
from ...store.run_queries import count_of_key, find_run, insert_run, thread_holder, update_run
from ...store.run_row import Kind, RunRow
from ...store.tables import assistants, threads
from ...store.tenant_view import TenantView
from ...store.usage_sums import count_run
from ..context import Options, Server
from ..deployment import Deployment
from ..middleware.quota_limits import check_quota
from ..middleware.usage_limits import too_many
from ..model_list import no_agent
from ..overrides import check_functions, functions_in
from ..run_acts import cancel_for
from ..wire.api_errors import ApiError
from ..wire.ids import new_id
from ..wire.lookup import find_row
from .messages import add_messages
from .schemas import MessageCreate, RunCreate, ThreadRunCreate
from .tool_resources import check_attachments, check_images

_FROM_ASSISTANT = ("temperature", "top_p", "response_format", "reasoning_effort", "tools", "max_tokens", "max_steps")
_AS_ASKED = (
    "max_prompt_tokens",
    "max_completion_tokens",
    "truncation_strategy",
    "tool_choice",
    "parallel_tool_calls",
    "include",
)


def start_run_on_new_thread(
    connection: Connection, scope: TenantView, server: Server, thread_id: str, asked: ThreadRunCreate
) -> RunRow:
    """Create a run, `queued`, on a thread that the same transaction has created. Raises `ApiError`."""
    request = request_of(connection, scope, server.deployment, asked)
    return add_run(connection, scope, NewRun("assistant", request, thread_id, asked.metadata), server.options.run_ttl)


def start_run(
    connection: Connection, scope: TenantView, server: Server, thread_id: str, asked: RunCreate
) -> tuple[RunRow, RunRow | None]:
    """Create a run, `queued`. Return it, and the run that was cancelled for it, if any. Raises `ApiError`."""
    find_row(connection, scope, threads, thread_id, lock=True)
    request = request_of(connection, scope, server.deployment, asked)
    active = thread_holder(connection, thread_id, lock=True)
    strategy = asked.multitask_strategy or "reject"
    if active is not None and strategy == "reject":
        raise ApiError(400, f"Thread {thread_id} already has an active run {active.id}.")
    halted = cancel_for(connection, scope.author, active) if active is not None and strategy == "interrupt" else None
    waits = active is not None and (halted is None or halted.active)
    added = asked.additional_messages or ()
    if waits:
        check_attachments(connection, scope, thread_id, added)
        check_images(connection, scope, added)
        request["additional_messages"] = [one.sent() for one in added]
    else:
        add_messages(connection, scope, thread_id, added)
    ttl = None if waits else server.options.run_ttl
    return add_run(connection, scope, NewRun("assistant", request, thread_id, asked.metadata), ttl), halted


class NewRun(NamedTuple):
    """A run to be added: the API that requests it, its stored request, its thread or conversation, and its metadata."""

    kind: Kind
    request: Mapping[str, Any]
    thread_id: str | None = None
    metadata: Mapping[str, str] | None = None


def add_run(connection: Connection, scope: TenantView, new: NewRun, ttl: int | None) -> RunRow:
    """Insert a run, `queued`, that must end within `ttl` seconds. `None` means that it waits for its thread, and its
    time starts then. Raises `ApiError` (429) if the API key's queue is full, or the tenant's quota is used up."""
    check_room(connection, scope)
    now, request = int(CLOCK.now()), new.request
    if scope.incoming is not None:
        if problem := scope.incoming.describe_refusal(request["model"]):
            raise ApiError(400, problem, code="call_circle", headers={"x-should-retry": "false"})
        request = {**request, "callers": list(map(str, scope.incoming.callers))}
    if scope.trace:
        request = {**request, **scope.trace}
    if scope.author.request_id:
        request = {**request, STORED_ID: scope.author.request_id}
    run = RunRow(
        id=new_id("run"),
        tenant=scope.tenant,
        thread_id=new.thread_id,
        created_at=now,
        status="queued",
        holds=ttl is not None,
        expires_at=None if ttl is None else now + ttl,
        epoch=0,
        request=request,
        key_id=scope.key_id,
        kind=new.kind,
        agent=request["model"],
        metadata=new.metadata or {},
        stored=bool(request.get("store")),
    )
    turns = (*(new.request.get("messages") or ()), *(new.request.get("since") or ()))
    shown = [image["id"] for turn in turns for image in turn.get("images", ())]
    row = run._replace(request=shorten_request(run.request))
    insert_run(connection, row)
    if is_beside(row):
        put_messages(connection, row, run.request["messages"])
    if shown:
        show_files(connection, scope.tenant, run.id, shown)
    count_run(connection, scope.tenant, now, scope.process)
    return run


def check_room(connection: Connection, scope: TenantView) -> None:
    """Raise `ApiError` (429) if the tenant's quota or the API key's tokens are used up, or its queue is full. Every
    transaction that inserts a run calls it, whatever the request: `RateLimit` only refuses most of them earlier."""
    if scope.check_begin is not None:
        scope.check_begin()
    check_quota(connection, scope)
    if scope.room is not None:
        lock_until_end(connection, COUNTING)
        if count_of_key(connection, scope.key_id) >= scope.room:
            raise too_many("runs", scope.room)


def request_of(
    connection: Connection, scope: TenantView, deployment: Deployment, asked: RunCreate | ThreadRunCreate
) -> dict[str, Any]:
    """Return the stored request of a run: the assistant's settings, overridden and extended by those of the request."""
    assistant = find_row(connection, scope, assistants, asked.assistant_id)
    own, sent = assistant.body, {name: value for name, value in asked.sent().items() if value is not None}
    model = sent.get("model") or own["model"]
    if model not in deployment.agents:
        raise no_agent(model, deployment.agents)
    request = {name: own[name] for name in _FROM_ASSISTANT if own.get(name) is not None}
    request |= {name: sent[name] for name in (*_FROM_ASSISTANT, *_AS_ASKED) if name in sent}
    request |= {"stream": True} if sent.get("stream") else {}
    said = [sent.get("instructions", own.get("instructions")), sent.get("additional_instructions")]
    words = "\n\n".join(filter(None, said))
    check_functions(deployment.agents[model], functions_in(request.get("tools") or ()))
    if own.get("tool_resources") is not None:
        request["tool_resources"] = own["tool_resources"]
    return {**request, "assistant_id": assistant.id, "model": model, "instructions": words}


def admit_waiting_run(connection: Connection, run_id: str, options: Options) -> bool:
    """Let a waiting run have its thread. Return whether it was still waiting. Raises `ApiError` if its messages can no
    longer be added; an unreadable row may raise any exception."""
    run = find_run(connection, run_id, lock=True)
    if run is None or run.status != "queued" or run.thread_id is None or thread_holder(connection, run.thread_id):
        return False
    update_run(connection, run, holds=True, expires_at=int(CLOCK.now()) + options.run_ttl)
    if added := run.request.get("additional_messages"):
        given = [MessageCreate.model_validate(one) for one in added]
        add_messages(connection, TenantView(run.tenant), run.thread_id, given)
    return True
