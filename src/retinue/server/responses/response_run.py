"""Responses as runs: starts a new run, or resumes the one that waits for the client's input."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ...runs.status import pending_calls
from ...runs.submissions import FurtherRequest
from ...store.event_log import read_events
from ...store.run_conversation import conversation_of
from ...store.run_queries import thread_holder
from ...store.run_row import RunRow
from ...store.run_store import find_own_run
from ...store.tenant_view import TenantView
from ..assistants.run_creation import NewRun, add_run
from ..context import Server, tier_of
from ..conversations.compaction import expand_compactions
from ..conversations.items import found_conversation, items_of
from ..file_intake import Place
from ..file_parts import Shown, shown_in
from ..overrides import inner_name, sampling_of
from ..run_acts import cancel_for, resume_run
from ..tool_outputs import check_decided, parse_submission, submission_digest
from ..wire.api_errors import ApiError
from ..wire.objects import Object, call_id, run_of_call
from .input import (
    OUTPUTS,
    answers_at_the_end,
    as_items,
    kept_items,
    last_answered,
    readable_items,
    rules,
    turns,
    unanswered,
)
from .options import options_of
from .response_lookup import previous_part, resolve_references, responses_from_log
from .response_parts import Part, part_of
from .schemas import InputTokens, ResponseCreate
from .views import request_view


class ResponseRun(NamedTuple):
    """The response to a request, whether its run must be started, and the run that was cancelled for it."""

    part: Part
    new: bool
    halted: RunRow | None = None


class Found(NamedTuple):
    """What a request names: items, by their ids, and the images that its model is shown, by their sources."""

    items: Mapping[str, Object]
    shown: Shown


class Continued(NamedTuple):
    """What a request continues: a response or a conversation, with the images of it that the model is shown."""

    previous: Part | None = None
    conversation_id: str | None = None
    shown: Shown | None = None


class PriorContext(NamedTuple):
    """The context of a request: the conversation before as turns, partly as items, and its rules."""

    items: Sequence[Mapping[str, Any]] = ()
    turns: Sequence[Mapping[str, Any]] = ()
    rules: Sequence[str] = ()


def start_response(
    connection: Connection,
    scope: TenantView,
    server: Server,
    body: ResponseCreate,
    found: Found,
    own: Collection[str] = (),
) -> ResponseRun:
    """Return the response to a request, with its run. It may continue responses in
    `own` although they are not stored. Raises `ApiError`."""
    conversation_id = conversation_named(body)
    previous = previous_part(connection, scope, body.previous_response_id, own)
    sent = body.sent()
    items = resolve_references(as_items(sent.get("input")), found.items)
    sent["model"] = body.model or next(iter(server.deployment.agents))
    sampled = sampling_of(server.deployment.agents[sent["model"]].model)
    asked = request_view({**sampled, **sent}, sent["model"], conversation_id)
    said = readable_items(connection, scope, items, found.shown)
    waiting = _waiting(connection, scope, said, previous, conversation_id)
    if waiting is not None:
        given = {"asked": asked, "input": said, "include": body.include}
        return _go_on(connection, scope, server, *waiting, given)
    check_decided(connection, scope, last_answered(said), "input")
    if conversation_id is not None:
        found_conversation(connection, scope, conversation_id, lock=True)
    continued = Continued(previous, conversation_id, found.shown)
    before = context_of(connection, scope, server, continued, items)  # first: checks ownership
    halted = None if conversation_id is None else _make_room(connection, scope, conversation_id, items)
    request = {
        **options_of(sent),
        **tier_of(sent),
        "model": sent["model"],
        "asked": asked,
        "input": items,
        "store": asked["store"],
        "include": body.include,
        "stream": bool(body.stream),
        **_conversation(
            before, expand_compactions(connection, scope.tenant, [*before.items, *said]), body.instructions
        ),
    }
    new = NewRun("response", request, conversation_id, body.metadata)
    run = add_run(connection, scope, new, server.options.run_ttl)
    return ResponseRun(Part(run), True, halted)


def conversation_named(body: InputTokens) -> str | None:
    """Return the id of the request's conversation, or `None`. Raises `ApiError` if it also continues a response."""
    if body.conversation is not None and body.previous_response_id is not None:
        message = (
            "The parameters 'previous_response_id' and 'conversation' are mutually exclusive. "
            "Ensure you are only providing one of: 'previous_response_id' or 'conversation'."
        )
        raise ApiError(400, message, code="mutually_exclusive_parameters")
    given = body.conversation
    return given if given is None or isinstance(given, str) else given.id


def context_of(
    connection: Connection,
    scope: TenantView,
    server: Server,
    continued: Continued,
    items: Sequence[Mapping[str, Any]],
) -> PriorContext:
    """Return the context that `items` continue. Raises `ApiError` if they do not fit it."""
    before, previous = PriorContext(), continued.previous
    if continued.conversation_id is not None:
        there = items_of(connection, scope, continued.conversation_id)
        before = PriorContext(kept_items(connection, scope, there, continued.shown))
    elif previous is not None:
        before = _chain(connection, server, previous)
        if previous.run.status == "requires_action" and not previous.over:
            _answered(previous.run, items)
    if (call := unanswered(expand_compactions(connection, scope.tenant, [*before.items, *items]))) is not None:
        message = f"No tool call found for function call output with call_id {call}."
        raise ApiError(400, message, param="input")
    for item in items[-1:]:
        if item["type"] == "mcp_approval_response":
            message = f"No approval request is waiting with id '{item['approval_request_id']}'."
            raise ApiError(400, message, param="input")
    return before


def stored_places(connection: Connection, scope: TenantView, conversation_id: str) -> list[Place]:
    """Return the contents of the messages of a conversation, if it is there."""
    items = items_of(connection, scope, conversation_id)
    spoken = [(one["role"], one["content"]) for one in items if one["type"] == "message"]
    return [Place(f"conversation[{at}].content", *one) for at, one in enumerate(spoken)]


def _chain(connection: Connection, server: Server, previous: Part) -> PriorContext:
    """Return the conversation up to the end of a response: its run's history, and what was said and done in the run."""
    items: list[Object] = []
    run, log = previous.run, read_events(connection, previous.run.id)
    for progress in responses_from_log(server.deployment, run, log, previous.number):
        part = progress.part
        if progress.last is None:
            message = f"Previous response with id '{previous.id}' is still in progress."
            raise ApiError(400, message, param="previous_response_id")
        items += [*(part.input if part.number else ()), *progress.output]
    return PriorContext(items, conversation_of(connection, run) or (), run.request["rules"])


def _conversation(before: PriorContext, said: Sequence[Mapping[str, Any]], instructions: str | None) -> Object:
    kept = [*before.rules, *rules(said)]
    words = "\n\n".join(filter(None, [instructions, *kept]))
    return {"messages": [*before.turns, *turns(said)], "rules": kept, "instructions": words}


# ── going on with a run that waits ───────────────────────────────────────────────────────────────


def _waiting(
    connection: Connection,
    scope: TenantView,
    items: Sequence[Mapping[str, Any]],
    previous: Part | None,
    conversation_id: str | None,
) -> tuple[Part, list[tuple[str, str]]] | None:
    """Return the response whose calls the last items answer, and the answers, if its run waits for them or was already
    resumed by them."""
    answers = answers_at_the_end(items)
    run_id = run_of_call(answers[0][0]) if answers else None
    run = None if run_id is None else find_own_run(connection, scope, run_id, lock=True)
    if run is None or run.kind != "response" or run.thread_id != conversation_id:
        return None
    calls = frozenset(call_id(run.id, action.id, asked) for action, _, asked in pending_calls(run))
    answers = answers_at_the_end(items, {calls, *(frozenset(one.calls or ()) for one in run.submissions)})
    marks = [one.mark for one in run.submissions]
    mark = submission_digest(answers)
    number = marks.index(mark) if mark in marks else len(marks)
    if previous is not None and (previous.run.id, previous.number) != (run.id, number):
        return None
    part = part_of(run, number) if mark in marks or calls & {call for call, _ in answers} else None
    return None if part is None else (part, answers)


def _go_on(
    connection: Connection,
    scope: TenantView,
    server: Server,
    waiting: Part,
    answers: list[tuple[str, str]],
    given: Mapping[str, Any],
) -> ResponseRun:
    """Return the response that follows the waiting one. The run keeps its original settings; those in `given` are only
    echoed."""
    run = waiting.run
    if waiting.over:
        return ResponseRun(Part(run, waiting.number + 1), False)
    _answered(run, given["input"])
    files = {one["call_id"]: shown_in(one["output"]) for one in given["input"] if one["type"] in OUTPUTS}
    answer = parse_submission(run, answers, files)
    assert answer is not None
    asked = {**given["asked"], "model": run.agent}
    further = FurtherRequest(asked, given["input"], given["include"], [call for call, _ in answers])
    run = resume_run(connection, scope.author, run, answer, server.options.run_ttl, further)
    return ResponseRun(Part(run, waiting.number + 1), True)


def _answered(run: RunRow, items: Sequence[Mapping[str, Any]]) -> None:
    """Raise `ApiError` unless `items` have outputs for all client functions that `run` waits for."""
    given = {item["call_id"] for item in items if item["type"] in OUTPUTS}
    own = {inner_name(one["function"]["name"]) for one in run.request["tools"] if "function" in one}
    for action, _, asked in pending_calls(run):
        call = call_id(run.id, action.id, asked)
        if action.tool in own and call not in given:
            raise ApiError(400, f"No tool output found for function call {call}.", param="input")


def _make_room(
    connection: Connection, scope: TenantView, conversation_id: str, items: Sequence[Mapping[str, Any]]
) -> RunRow | None:
    """Cancel and return a run that waits on the conversation for other input than these items. Raises `ApiError` if a
    run is active, or if the items leave a call without output."""
    active = thread_holder(connection, conversation_id, lock=True)
    if active is None:
        return None
    if active.status != "requires_action":
        message = "Another process is currently operating on this conversation. Please retry in a few seconds."
        raise ApiError(400, message, param="conversation", code="conversation_locked")
    _answered(active, items)
    return cancel_for(connection, scope.author, active)
