"""Tasks as runs: a message starts one, or answers one that waits for a person."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection

from ...runs.submissions import FurtherRequest
from ...store.run_queries import find_own_run
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..content.threads import add_messages, find_or_add_thread
from ..context import Options
from ..http.api_errors import ApiError
from ..run_session import NewRun, add_run, answer_calls
from .a2a_errors import A2AError, Reason
from .agent_card import INPUT_MODES, OUTPUT_MODES
from .schemas import MAX_JSON, MAX_TEXT, Message, SendMessage
from .views import STATES, context_id, waiting_calls

_ANY = ("*/*", "text/*", "text")


def check_supported(given: SendMessage) -> None:
    """Raise `A2AError` for what no agent here can do: other output than text, or push notifications."""
    wanted = given.configuration
    if wanted.task_push_notification_config is not None:
        raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "Push notifications are not supported; follow the stream.")
    modes = wanted.accepted_output_modes
    if modes and not {*OUTPUT_MODES, *_ANY, "application/json"}.intersection(modes):
        raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", f"Agents answer with {OUTPUT_MODES[0]}, not {', '.join(modes)}.")
    if (size := len(json.dumps([given.message.sent(), given.metadata], ensure_ascii=False))) > MAX_JSON:
        raise A2AError("INVALID_PARAMS", f"The message has {size:,} characters as JSON; the most is {MAX_JSON:,}.")
    for part in given.message.parts:
        if part.kind in ("raw", "url"):
            said = f"A file ('{part.kind}') cannot be read here; send {' or '.join(INPUT_MODES)}."
            raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", said)


def task_run(
    connection: Connection, scope: TenantView, options: Options, agent: str, given: SendMessage, *, stream: bool
) -> tuple[RunRow, bool]:
    """Return the run that a message starts or answers, and whether it must be driven. Raises `A2AError`, `ApiError`."""
    message = given.message
    if message.task_id:
        run = own_task(connection, scope, agent, message.task_id, lock=True)
        if message.context_id and message.context_id != context_id(run):
            raise A2AError("INVALID_PARAMS", f"The task {run.id} is in the context {context_id(run)}.")
        return _answered(connection, scope, run, message, options.run_ttl)
    text = text_in(message)
    if not text.strip():
        raise A2AError("INVALID_PARAMS", "The message is empty.")
    try:
        thread = find_or_add_thread(connection, scope, message.context_id or None)
    except ApiError as error:
        reason: Reason = "UNSUPPORTED_OPERATION" if error.status == 400 else "INVALID_PARAMS"
        raise A2AError(reason, f"The context cannot be used: {error}") from error
    add_messages(connection, scope, thread, [{"role": "user", "content": text}])
    request = {"model": agent, "message": message.sent(), "context_id": message.context_id, "stream": stream}
    if given.metadata:
        request["request_metadata"] = given.metadata
    return add_run(connection, scope, NewRun("a2a", request, thread), options.run_ttl), True


def own_task(connection: Connection, scope: TenantView, agent: str, id_: str, *, lock: bool = False) -> RunRow:
    """Return the run of a task of this agent; `lock` locks it until the transaction ends. Raises `A2AError`."""
    run = find_own_run(connection, scope, id_, lock=lock)
    if run is None or run.kind != "a2a" or run.agent != agent:
        raise A2AError("TASK_NOT_FOUND", f"No task found with id '{id_}'.")
    return run


def text_in(message: Message) -> str:
    """Return a message's text: data is written as JSON. Raises `A2AError` if it is too long."""
    texts = [json.dumps(part.data, ensure_ascii=False) if part.text is None else part.text for part in message.parts]
    text = "\n\n".join(texts)
    if len(text) > MAX_TEXT:
        raise A2AError("INVALID_PARAMS", f"The message has {len(text):,} characters; the most is {MAX_TEXT:,}.")
    return text


def _answered(
    connection: Connection, scope: TenantView, run: RunRow, message: Message, ttl: int
) -> tuple[RunRow, bool]:
    """Resume a waiting run with the decisions that a message holds."""
    if run.status != "requires_action":
        said = f"The task is in the state {STATES[run.status]}, in which it takes no message; start a new one."
        raise A2AError("UNSUPPORTED_OPERATION", said)
    outputs = _outputs(run, message)
    further = FurtherRequest({}, [message.sent()], None, [call for call, _ in outputs])
    return answer_calls(connection, scope.author, run, outputs, ttl, further=further)


def _outputs(run: RunRow, message: Message) -> Sequence[tuple[str, str]]:
    """Return what a message says about each call that the run waits for."""
    waiting = list(waiting_calls(run))
    data = message.parts[0].data if len(message.parts) == 1 else None
    by_call = data.get("outputs") if isinstance(data, dict) else None
    if isinstance(by_call, dict):
        return [(call, said if isinstance(said, str) else json.dumps(said)) for call, said in by_call.items()]
    if len(waiting) > 1:
        said = f'The task waits for {len(waiting)} answers: send data with {{"outputs": {{CALL ID: ANSWER}}}} for'
        raise A2AError("INVALID_PARAMS", f"{said} {', '.join(waiting)}.")
    return [(waiting[0], text_in(message))]
