"""New runs on threads: one at a time on each, decided in one transaction."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select, update

from ..runs.halting import halt
from ..store.rows import RunRow
from ..store.scope import Scope
from ..store.tables import assistants, runs, threads
from .context import Options
from .deployment import Deployment
from .errors import ApiError, no_model, not_found
from .ids import new_id
from .messages import add_messages

_FROM_ASSISTANT = ("temperature", "top_p", "response_format", "reasoning_effort", "tools")
_AS_ASKED = (
    "max_prompt_tokens",
    "max_completion_tokens",
    "truncation_strategy",
    "tool_choice",
    "parallel_tool_calls",
)


def start_run(
    connection: Connection,
    scope: Scope,
    options: Options,
    deployment: Deployment,
    thread_id: str,
    asked: Mapping[str, Any],
) -> tuple[RunRow, RunRow | None]:
    """The new run, `queued`, and the one that was halted for it, if one was. Raises `ApiError`."""
    if scope.find(connection, threads, thread_id) is None:
        raise not_found("thread", thread_id)
    request = request_of(connection, scope, deployment, asked)
    active = active_run(connection, thread_id)
    strategy = asked.get("multitask_strategy") or "reject"
    if active is not None and strategy == "reject":
        raise ApiError(400, f"Thread {thread_id} already has an active run {active.id}.")
    halted = halt(connection, active) if active is not None and strategy == "interrupt" else None
    waits = active is not None and (halted is None or halted.active)
    added = asked.get("additional_messages") or ()
    if waits:
        request["additional_messages"] = list(added)
    elif added:
        add_messages(connection, scope, thread_id, added)
    row = scope.add(
        connection,
        runs,
        {
            "id": new_id("run"),
            "created_at": int(time.time()),
            "thread_id": thread_id,
            "status": "queued",
            "holds": not waits,
            "expires_at": None if waits else int(time.time()) + options.run_ttl,
            "request": request,
            "state": {"metadata": asked.get("metadata") or {}},
        },
    )
    return RunRow.of(row), halted


def request_of(
    connection: Connection, scope: Scope, deployment: Deployment, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """What a run is asked for: the assistant's settings, with those that the request replaces or adds to."""
    assistant = scope.find(connection, assistants, asked["assistant_id"])
    if assistant is None:
        raise not_found("assistant", asked["assistant_id"])
    own = assistant.body
    request = {name: asked[name] if asked.get(name) is not None else own.get(name) for name in _FROM_ASSISTANT}
    request |= {name: asked[name] for name in _AS_ASKED if asked.get(name) is not None}
    model = asked.get("model") or own["model"]
    if model not in deployment.agents:
        raise no_model(model)
    words = asked.get("instructions")
    said = [own.get("instructions") if words is None else words, asked.get("additional_instructions")]
    return {
        **{name: value for name, value in request.items() if value is not None},
        "assistant_id": assistant.id,
        "model": model,
        "instructions": "\n\n".join(filter(None, said)),
    }


def active_run(connection: Connection, thread_id: str) -> RunRow | None:
    """The run that holds a thread."""
    row = connection.execute(select(runs).where(runs.c.thread_id == thread_id, runs.c.holds)).first()
    return None if row is None else RunRow.of(row)


def promote(connection: Connection, thread_id: str, options: Options) -> str | None:
    """If a thread is free and a run waits for it, let the oldest have it; its id."""
    if active_run(connection, thread_id) is not None:
        return None
    waiting = (runs.c.thread_id == thread_id, runs.c.status == "queued")
    row = connection.execute(select(runs).where(*waiting).order_by(runs.c.number).limit(1)).first()
    if row is None:
        return None
    values = {"holds": True, "expires_at": int(time.time()) + options.run_ttl}
    connection.execute(update(runs).where(runs.c.id == row.id).values(values))
    if added := row.request.get("additional_messages"):
        add_messages(connection, Scope(row.tenant), thread_id, added)
    return str(row.id)
