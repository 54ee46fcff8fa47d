"""Tasks are runs: what a message begins or answers, and what A2A's clients are told of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from ...runs.run_view import RunView
from ...runs.status import Pending, pending_calls
from ...runs.submissions import FurtherRequest
from ...runs.thread_messages import derived_id, message_id
from ...store.run_queries import find_own_run
from ...store.run_row import RunRow, Status
from ...store.tenant_view import TenantView
from ..content.threads import add_messages, find_or_add_thread
from ..http.api_errors import ApiError
from ..http.objects import Object, call_id
from ..run_session import NewRun, add_run, answer_calls
from .errors import A2AError, Reason
from .schemas import INPUT_MODES, MAX_TEXT, OUTPUT_MODES, Message, SendMessage, TaskState

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
_ANY = ("*/*", "text/*", "text", "application/json")
_MAX_JSON = 400_000  # characters of a message with all its metadata; the run's row holds it
_NO_PUSH = "Push notifications are not supported; follow the stream."


def no_push_notifications() -> A2AError:
    """Return the error for push notifications: tasks are followed by their streams."""
    return A2AError(Reason.PUSH_NOTIFICATION_NOT_SUPPORTED, _NO_PUSH)


def check_supported(given: SendMessage) -> None:
    """Raise `A2AError` for what no agent here can do: other output than text, or push notifications."""
    if given.configuration.task_push_notification_config is not None:
        raise no_push_notifications()
    modes = given.configuration.accepted_output_modes
    if modes and not {*OUTPUT_MODES, *_ANY}.intersection(modes):
        said = f"Agents answer with {OUTPUT_MODES[0]}, not {', '.join(modes)}."
        raise A2AError(Reason.CONTENT_TYPE_NOT_SUPPORTED, said)
    if (size := len(json.dumps([given.message.sent(), given.metadata], ensure_ascii=False))) > _MAX_JSON:
        raise A2AError(
            Reason.INVALID_PARAMS, f"The message has {size:,} characters as JSON; the most is {_MAX_JSON:,}."
        )
    for part in given.message.parts:
        if part.kind in ("raw", "url"):
            said = f"A file ('{part.kind}') cannot be read here; send {' or '.join(INPUT_MODES)}."
            raise A2AError(Reason.CONTENT_TYPE_NOT_SUPPORTED, said)


def own_task(connection: Connection, scope: TenantView, agent: str, id_: str, *, lock: bool = False) -> RunRow:
    """Return the run of a task of this agent; `lock` locks it until the transaction ends. Raises `A2AError`."""
    run = find_own_run(connection, scope, id_, lock=lock)
    if run is None or run.kind != "a2a" or run.agent != agent:
        raise A2AError(Reason.TASK_NOT_FOUND, f"No task found with id '{id_}'.")
    return run


def start_task(
    connection: Connection, scope: TenantView, agent: str, given: SendMessage, *, stream: bool, ttl: int
) -> tuple[RunRow, bool]:
    """Return the run that a message starts or answers, and whether it must be driven. Raises `A2AError`, `ApiError`."""
    message = given.message
    if message.task_id:
        return _answer_task(
            connection, scope, own_task(connection, scope, agent, message.task_id, lock=True), message, ttl
        )
    text = _text_in(message)
    if not text.strip():
        raise A2AError(Reason.INVALID_PARAMS, "The message is empty.")
    try:
        thread = find_or_add_thread(connection, scope, message.context_id or None)
    except ApiError as error:
        reason = Reason.UNSUPPORTED_OPERATION if error.status == 400 else Reason.INVALID_PARAMS
        raise A2AError(reason, f"The context cannot be used: {error}") from error
    add_messages(connection, scope, thread, [{"role": "user", "content": text}])
    request = {"model": agent, "message": message.sent(), "context_id": message.context_id, "stream": stream}
    if given.metadata:
        request["request_metadata"] = given.metadata
    return add_run(connection, scope, NewRun("a2a", request, thread), ttl), True


def _answer_task(
    connection: Connection, scope: TenantView, run: RunRow, message: Message, ttl: int
) -> tuple[RunRow, bool]:
    """Resume a waiting run with the decisions that a message holds."""
    if message.context_id and message.context_id != context_id(run):
        raise A2AError(Reason.INVALID_PARAMS, f"The task {run.id} is in the context {context_id(run)}.")
    if run.status != "requires_action":
        said = f"The task is in the state {STATES[run.status]}, in which it takes no message; start a new one."
        raise A2AError(Reason.UNSUPPORTED_OPERATION, said)
    outputs = _read_outputs(run, message)
    further = FurtherRequest({}, [message.sent()], None, [call for call, _ in outputs])
    return answer_calls(connection, scope.author, run, outputs, ttl, further=further)


def _read_outputs(run: RunRow, message: Message) -> Sequence[tuple[str, str]]:
    """Return what a message says about each call that the run waits for."""
    waiting = list(_waiting_calls(run))
    data = message.parts[0].data if len(message.parts) == 1 else None
    by_call = data.get("outputs") if isinstance(data, dict) else None
    if isinstance(by_call, dict):
        return [(call, said if isinstance(said, str) else json.dumps(said)) for call, said in by_call.items()]
    if len(waiting) > 1:
        said = f'The task waits for {len(waiting)} answers: send data with {{"outputs": {{CALL ID: ANSWER}}}} for'
        raise A2AError(Reason.INVALID_PARAMS, f"{said} {', '.join(waiting)}.")
    return [(waiting[0], _text_in(message))]


def _text_in(message: Message) -> str:
    """Return a message's text: data is written as JSON. Raises `A2AError` if it is too long."""
    texts = [json.dumps(part.data, ensure_ascii=False) if part.text is None else part.text for part in message.parts]
    text = "\n\n".join(texts)
    if len(text) > MAX_TEXT:
        said = f"The message has {len(text):,} characters; the most is {MAX_TEXT:,}."
        raise A2AError(Reason.INVALID_PARAMS, said)
    return text


# ── what clients are told ────────────────────────────────────────────────────────────────────────


def task_object(view: RunView, history_length: int | None = None, *, artifacts: bool = True) -> Object:
    """Return a run as a task: with the last `history_length` messages of its client (`None`: all of them), and with
    what it has said as its `artifacts`."""
    run = view.run
    said = [run.request.get("message"), *(one for turn in run.submissions for one in turn.input or ())]
    history = [{**one, "contextId": context_id(run), "taskId": run.id} for one in said if one]
    if history_length is not None:
        history = history[max(0, len(history) - history_length) :]
    task: Object = {"id": run.id, "contextId": context_id(run), "status": status_object(run)}
    if artifacts:
        task["artifacts"] = [artifact(run, one.number, one.text) for one in view.messages]
    if history:
        task["history"] = history
    if metadata := run.request.get("request_metadata"):
        task["metadata"] = metadata
    return task


def context_id(run: RunRow) -> str:
    """Return the id of a run's context: the client's own, or that of its thread."""
    return str(run.request.get("context_id") or run.thread_id)


def artifact(run: RunRow, number: int, text: str) -> Object:
    """Return a text that a run said, as an artifact."""
    return {"artifactId": message_id(run.id, number), "parts": [{"text": text, "mediaType": "text/plain"}]}


def status_object(run: RunRow) -> Object:
    """Return a task's status, with a message where there is something to say about it."""
    status: Object = {"state": STATES[run.status]}
    if text := _explanation(run):
        parts: list[Object] = [{"text": text, "mediaType": "text/plain"}]
        if run.status == "requires_action":
            calls = [
                {"id": id_, "tool": action.tool, "arguments": dict(arguments)}
                for id_, (action, arguments, _) in _waiting_calls(run).items()
            ]
            parts.append({"data": {"calls": calls}, "mediaType": "application/json"})
        status["message"] = {
            "messageId": derived_id("msg_", run.id, "status", run.status, len(run.submissions)),
            "contextId": context_id(run),
            "taskId": run.id,
            "role": "ROLE_AGENT",
            "parts": parts,
        }
    at = run.ended_at or run.started_at or run.created_at
    return status | {"timestamp": f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"}


def _waiting_calls(run: RunRow) -> dict[str, Pending]:
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
    waiting = _waiting_calls(run)
    arguments: list[Mapping[str, Any]] = [call.arguments for call in waiting.values()]
    if len(arguments) == 1 and set(arguments[0]) == {"question"}:  # of a strategy, which wants to know something
        yield str(arguments[0]["question"])
        return
    for id_, (action, given, _) in waiting.items():
        named = f" ({id_})" if len(waiting) > 1 else ""
        yield f"May {action.tool} be called with {json.dumps(given, ensure_ascii=False)}?{named}"
    how = "Answer 'approve' or 'reject', or with a text that becomes the result of the call."
    several = 'Answer with data: {"outputs": {CALL ID: "approve", "reject" or the result of the call, …}}.'
    yield how if len(waiting) == 1 else several
