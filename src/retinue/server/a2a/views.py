"""Tasks, artifacts and messages: what A2A's clients are told of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ...runs.run_view import RunView
from ...runs.status import Pending, pending_calls
from ...runs.thread_messages import derived_id, message_id
from ...store.run_row import RunRow, Status
from ..wire.objects import Object, call_id
from .schemas import TaskState

STATES: Mapping[Status, TaskState] = {
    "queued": "TASK_STATE_SUBMITTED",
    "in_progress": "TASK_STATE_WORKING",
    "cancelling": "TASK_STATE_WORKING",
    "requires_action": "TASK_STATE_INPUT_REQUIRED",
    "completed": "TASK_STATE_COMPLETED",
    "incomplete": "TASK_STATE_FAILED",  # what there is of the answer is in its artifacts
    "failed": "TASK_STATE_FAILED",
    "expired": "TASK_STATE_FAILED",
    "cancelled": "TASK_STATE_CANCELED",
}


def task_object(view: RunView, history_length: int | None = None, *, artifacts: bool = True) -> Object:
    """Return a run as a task: with the last `history_length` messages of its client (`None`: all of them), and with
    what it has said as its `artifacts`."""
    run = view.run
    history = _history(run)
    kept = history if history_length is None else history[len(history) - min(history_length, len(history)) :]
    task: Object = {"id": run.id, "contextId": context_id(run), "status": status_object(run)}
    if artifacts:
        task["artifacts"] = [artifact(run, said.number, said.text) for said in view.messages]
    if kept:
        task["history"] = kept
    if metadata := run.request.get("request_metadata"):
        task["metadata"] = metadata
    return task


def context_id(run: RunRow) -> str:
    """Return the id of a run's context: the client's own, or that of its thread."""
    return str(run.request.get("context_id") or run.thread_id)


def status_object(run: RunRow) -> Object:
    """Return a task's status, with a message where there is something to say about it."""
    status: Object = {"state": STATES[run.status]}
    if text := _explanation(run):
        parts: list[Object] = [{"text": text, "mediaType": "text/plain"}]
        if run.status == "requires_action":
            parts.append({"data": {"calls": list(_questions(run))}, "mediaType": "application/json"})
        status["message"] = {
            "messageId": derived_id("msg_", run.id, "status", run.status, len(run.submissions)),
            "contextId": context_id(run),
            "taskId": run.id,
            "role": "ROLE_AGENT",
            "parts": parts,
        }
    at = run.ended_at or run.started_at or run.created_at
    return status | {"timestamp": f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"}


def artifact(run: RunRow, number: int, text: str) -> Object:
    """Return a text that a run said, as an artifact."""
    return {"artifactId": message_id(run.id, number), "parts": [{"text": text, "mediaType": "text/plain"}]}


def waiting_calls(run: RunRow) -> dict[str, Pending]:
    """Return the calls that a run waits for, by the ids that its client knows."""
    return {call_id(run.id, one.action.id, one.asked): one for one in pending_calls(run)}


def _explanation(run: RunRow) -> str:
    if run.status == "requires_action":
        return "\n".join(_question(run))
    if run.error is not None:
        return run.error.message
    if run.status == "incomplete":
        return f"The answer is incomplete ({run.incomplete})."
    return "The task took too long and has expired." if run.status == "expired" else ""


def _question(run: RunRow) -> Iterator[str]:
    waiting = waiting_calls(run)
    arguments = [call.arguments for call in waiting.values()]
    if len(arguments) == 1 and set(arguments[0]) == {"question"}:  # of a strategy, which wants to know something
        yield str(arguments[0]["question"])
        return
    for id_, (action, given, _) in waiting.items():
        named = f" ({id_})" if len(waiting) > 1 else ""
        yield f"May {action.tool} be called with {json.dumps(given, ensure_ascii=False)}?{named}"
    how = "Answer 'approve' or 'reject', or with a text that becomes the result of the call."
    several = 'Answer with data: {"outputs": {CALL ID: "approve", "reject" or the result of the call, …}}.'
    yield how if len(waiting) == 1 else several


def _questions(run: RunRow) -> Iterator[Object]:
    for id_, (action, arguments, _) in waiting_calls(run).items():
        yield {"id": id_, "tool": action.tool, "arguments": dict(arguments)}


def _history(run: RunRow) -> list[Mapping[str, Any]]:
    """Return the messages of the task's client, with the ids that they got."""
    said = [run.request.get("message"), *(one for turn in run.submissions for one in turn.input or ())]
    ids = {"contextId": context_id(run), "taskId": run.id}
    return [{**one, **ids} for one in said if one]
