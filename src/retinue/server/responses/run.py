"""Responses as runs: starts a new run, or resumes the one that waits for the client's input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from fastapi import Request
from sqlalchemy import Connection

from ..._internal.concurrency import run_in_thread
from ...runs.status import pending_calls
from ...runs.submissions import FurtherRequest
from ...store.event_log import read_events
from ...store.run_belongings import conversation_of
from ...store.run_queries import find_own_run, thread_holder
from ...store.run_row import RunRow
from ...store.tenant_view import TenantView
from ..agents.overrides import check_declared_tools, check_functions, inner_name, sampling_of, tools_of
from ..content.message_files import FileLoader, Place, Shown, shown_in, take_in_files, take_in_history
from ..content.tool_outputs import check_decided, submission_digest
from ..context import Context, Server, tier_of
from ..conversations.compaction import expand_compactions
from ..conversations.items import find_conversation, items_of, locked_conversation
from ..http.api_errors import ApiError, missing_parameter
from ..http.objects import Object, call_id, run_of_call
from ..models.listing import no_agent
from ..run_session import Begun, NewRun, RunApi, RunSession, add_run, answer_calls, cancel_for, error_of_run
from .input import (
    OUTPUTS,
    Items,
    find_last_answered,
    find_orphan_output,
    list_last_answers,
    places_of,
    readable_history,
    readable_items,
    rules,
    turns,
)
from .options import client_functions, options_of
from .projection import ResponseProjection
from .response import Part, part_of, request_view
from .schemas import Compact, InputTokens, ResponseCreate
from .stored import find_previous, project_responses, read_input


class _Continued(NamedTuple):
    """What a request continues: a response or a conversation, with the images of it that the model is shown."""

    previous: Part | None = None
    conversation_id: str | None = None
    shown: Shown | None = None


class Dialogue(NamedTuple):
    """What was said up to a request and in it: system messages, and turns of a conversation."""

    rules: Sequence[str]
    turns: Sequence[Mapping[str, object]]


def read_conversation_id(body: InputTokens) -> str | None:
    """Return the id of the request's conversation, or `None`. Raises `ApiError` if it also continues a response."""
    if body.conversation is not None and body.previous_response_id is not None:
        message = (
            "The parameters 'previous_response_id' and 'conversation' are mutually exclusive. "
            "Ensure you are only providing one of: 'previous_response_id' or 'conversation'."
        )
        raise ApiError(400, message, code="mutually_exclusive_parameters")
    given = body.conversation
    return given if given is None or isinstance(given, str) else given.id


class ResponseRequest(RunApi):
    """`POST /responses`: a run, or the further response of a run that waits for the client's input."""

    def __init__(self, context: Context, request: Request, body: ResponseCreate) -> None:
        super().__init__(context, request)
        self.streams = bool(body.stream)
        self.lasting = (
            bool(body.background) or context.repeat is not None
        )  # else it ends with its connection, as at OpenAI
        self._body = body
        self._model = body.model or next(iter(context.server.deployment.agents))
        self._items: Sequence[Object] = ()
        self._shown: Shown = {}

    async def prepare(self) -> None:
        """Check the request, and take in the images of its input and of its conversation."""
        body, context = self._body, self.context
        await check_request(body, context.server, self.request)
        if body.background and body.store is False:
            raise ApiError(400, "Background responses must be stored: 'store' must be true.", param="background")
        conversation_id, agent = read_conversation_id(body), context.server.deployment.agents[self._model]
        self._items = await read_input(context, body.sent().get("input"), conversation_id)
        self._shown = await take_in_files(context, agent, places_of(self._items))
        if conversation_id is not None:
            there = await context.read(partial(items_of, conversation_id=conversation_id))
            spoken = [(one["role"], one["content"]) for one in there if one["type"] == "message"]
            places = [Place(f"conversation[{at}].content", *one) for at, one in enumerate(spoken)]
            self._shown = {**await take_in_history(FileLoader.of(context), agent, places), **self._shown}

    def begin(self, connection: Connection, scope: TenantView) -> Begun:
        """Add the run, or let the one that waits for this request go on. Raises `ApiError`."""
        body, server = self._body, self.context.server
        conversation_id = read_conversation_id(body)
        previous = find_previous(connection, scope, body.previous_response_id, self.context.own)
        sent = body.sent() | {"model": self._model}
        sampled = sampling_of(server.deployment.agents[self._model].model)
        asked = request_view({**sampled, **sent}, self._model, conversation_id)
        said = readable_items(connection, scope, self._items, self._shown)
        continued = _Continued(previous, conversation_id, self._shown)
        waiting = _find_waiting(connection, scope, said, continued)
        if waiting is not None:
            part, answers = waiting
            calls = [call for call, _ in answers]
            further = FurtherRequest({**asked, "model": part.run.agent}, said, body.include, calls)
            return _go_on(connection, scope, part, answers, further, server.options.run_ttl)
        check_decided(connection, scope, find_last_answered(said), "input")
        if conversation_id is not None:
            find_conversation(connection, scope, conversation_id, lock=True)
        dialogue = _dialogue_of(connection, scope, server, continued, said)  # first: checks ownership
        halted = None if conversation_id is None else _make_room(connection, scope, conversation_id, said)
        request = {
            **options_of(sent),
            **tier_of(sent),
            "model": self._model,
            "asked": asked,
            "input": self._items,
            "store": asked["store"],
            "include": body.include,
            "stream": self.streams,
            "continues": None if previous is None else previous.run.id,
            "messages": dialogue.turns,
            "rules": dialogue.rules,
            "instructions": "\n\n".join(filter(None, [body.instructions, *dialogue.rules])),
        }
        new = NewRun("response", request, conversation_id, body.metadata)
        return Begun(add_run(connection, scope, new, server.options.run_ttl), True, halted, 0)

    def projection(self, begun: Begun) -> ResponseProjection:
        """Return the response of this request, which is the one numbered `more` of its run."""
        return ResponseProjection(Part(begun.run, begun.more), tools_of(self.context.server.deployment, begun.run))

    async def answer(self, session: RunSession, begun: Begun) -> Object:
        """Return the response once it has ended, or as it is if it runs in the background."""
        progress = self.projection(begun)
        if self._body.background:
            return progress.now(begun.run)
        run = await session.wait(progress, self.request)
        response = progress.now(run)
        if run.suspended or response["status"] in ("failed", "cancelled"):
            raise await error_of_run(self.context.server, run)
        return response


async def check_request(body: InputTokens, server: Server, request: Request) -> None:
    """Raise `ApiError` for parameters that are invalid whatever the context."""
    agents = server.deployment.agents
    name = body.model or next(iter(agents))
    if name not in agents:
        raise no_agent(name, agents)
    tools = body.sent().get("tools") or ()
    check_declared_tools(tools, name, agents[name], request.headers.get("host", ""))
    if functions := client_functions(tools):
        placed = [(f"tools[{one.number}]", one.function) for one in functions]
        await run_in_thread(check_functions, agents[name], placed)
    if body.input is None and body.previous_response_id is None and body.conversation is None:
        raise missing_parameter("input")


async def read_dialogue(context: Context, body: InputTokens | Compact, conversation_id: str | None = None) -> Dialogue:
    """Return what was said up to a request that begins no run, and in it. Raises `ApiError`."""
    items = await read_input(context, body.sent().get("input"), conversation_id)

    def read(connection: Connection, scope: TenantView) -> Dialogue:
        previous = find_previous(connection, scope, body.previous_response_id, context.own)
        said = readable_items(connection, scope, items)
        return _dialogue_of(connection, scope, context.server, _Continued(previous, conversation_id), said)

    return await context.read(read)


def _dialogue_of(
    connection: Connection, scope: TenantView, server: Server, continued: _Continued, said: Items
) -> Dialogue:
    """Return what was said up to the items of a request and in them. Raises `ApiError` if they do not fit what they
    continue."""
    previous, before, former = continued.previous, list[Object](), Dialogue((), ())
    if continued.conversation_id is not None:
        there = items_of(connection, scope, continued.conversation_id)
        before = readable_history(connection, scope, there, continued.shown)
    elif previous is not None:
        log = read_events(connection, previous.run.id)
        for progress in project_responses(server.deployment, previous, log):
            part = progress.part
            if progress.last is None:
                message = f"Previous response with id '{previous.id}' is still in progress."
                raise ApiError(400, message, param="previous_response_id")
            before += [*(part.input if part.number else ()), *progress.output]
        former = Dialogue(previous.run.request["rules"], conversation_of(connection, previous.run) or ())
        if previous.run.status == "requires_action" and not previous.over:
            _check_answered(previous.run, said)
    whole = expand_compactions(connection, scope.tenant, [*before, *said])
    if (call := find_orphan_output(whole)) is not None:
        raise ApiError(400, f"No tool call found for function call output with call_id {call}.", param="input")
    if said and said[-1]["type"] == "mcp_approval_response":
        message = f"No approval request is waiting with id '{said[-1]['approval_request_id']}'."
        raise ApiError(400, message, param="input")
    return Dialogue([*former.rules, *rules(whole)], [*former.turns, *turns(whole)])


# ── going on with a run that waits ───────────────────────────────────────────────────────────────


def _find_waiting(
    connection: Connection, scope: TenantView, items: Items, continued: _Continued
) -> tuple[Part, list[tuple[str, str]]] | None:
    """Return the response whose calls the last items answer, and the answers, if its run waits for them or was already
    resumed by them."""
    answers = list_last_answers(items)
    run_id = run_of_call(answers[0][0]) if answers else None
    run = None if run_id is None else find_own_run(connection, scope, run_id, lock=True)
    if run is None or run.kind != "response" or run.thread_id != continued.conversation_id:
        return None
    calls = frozenset(call_id(run.id, action.id, asked) for action, _, asked in pending_calls(run))
    answers = list_last_answers(items, {calls, *(frozenset(one.calls or ()) for one in run.submissions)})
    marks = [one.mark for one in run.submissions]
    mark = submission_digest(answers)
    number = marks.index(mark) if mark in marks else len(marks)
    previous = continued.previous
    if previous is not None and (previous.run.id, previous.number) != (run.id, number):
        return None
    part = part_of(run, number) if mark in marks or calls & {call for call, _ in answers} else None
    return None if part is None else (part, answers)


def _go_on(
    connection: Connection,
    scope: TenantView,
    waiting: Part,
    answers: list[tuple[str, str]],
    further: FurtherRequest,
    ttl: int,
) -> Begun:
    """Return the response that follows the waiting one. The run keeps its original settings; those of the `further`
    request are only echoed."""
    run, items = waiting.run, further.input or ()
    if waiting.over:
        return Begun(run, False, more=waiting.number + 1)
    _check_answered(run, items)
    files = {one["call_id"]: shown_in(one["output"]) for one in items if one["type"] in OUTPUTS}
    run, _ = answer_calls(connection, scope.author, run, answers, ttl, files=files, further=further)
    return Begun(run, more=waiting.number + 1)


def _check_answered(run: RunRow, items: Items) -> None:
    """Raise `ApiError` unless `items` have outputs for all client functions that `run` waits for."""
    given = {item["call_id"] for item in items if item["type"] in OUTPUTS}
    own = {inner_name(one["function"]["name"]) for one in run.request["tools"] if "function" in one}
    for action, _, asked in pending_calls(run):
        call = call_id(run.id, action.id, asked)
        if action.tool in own and call not in given:
            raise ApiError(400, f"No tool output found for function call {call}.", param="input")


def _make_room(connection: Connection, scope: TenantView, conversation_id: str, items: Items) -> RunRow | None:
    """Cancel and return a run that waits on the conversation for other input than these items. Raises `ApiError` if a
    run is active, or if the items leave a call without output."""
    active = thread_holder(connection, conversation_id, lock=True)
    if active is None:
        return None
    if active.status != "requires_action":
        raise locked_conversation()
    _check_answered(active, items)
    return cancel_for(connection, scope.author, active)
