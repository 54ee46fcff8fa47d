"""A run in the assistants API: its steps and messages, projected from its log, and the events that stream them.

Events are numbered, so that a client can resume a broken stream. Calls of hosted tools have types of their own in a
step, instead of `function`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...core.events import Called, Event, Finished, Observed, Paused, Resumed, Stopped, request_usage
from ...core.run_result import pending
from ...core.tools.tool import Tool
from ...core.values import AgentAction, Usage
from ...runs import Followed
from ...runs.status import Pending, arguments_of, stored_calls
from ...runs.thread_messages import (
    FILE_SEARCH,
    Citations,
    MessageDelta,
    Speech,
    derived_id,
    message_body,
    message_id,
    passages_in,
)
from ...store.event_log import Entry
from ...store.run_row import RunRow, Status
from ..agents.overrides import CODE_INTERPRETER, tools_of
from ..context import Options, Server
from ..http.api_errors import ApiError, run_failed_error
from ..http.objects import Object, assistant_of, last_error, message_object, run_object, tool_call, usage_object
from ..http.sse import RETRY, frame
from ..run_session import Projection

Told = tuple[str, Object]  # event name and object

_SERVER_TOOLS = "step_details.tool_calls[*].server_tools"  # an extension: OpenAI's assistants have no server-side tools
_CONTENT = "step_details.tool_calls[*].file_search.results[*].content"
_CUT = {"code": "server_error", "message": "The reply was cut off; its continuation differs, and is a new message."}


class StepProjection(Projection):
    """Folds a run's log into stream events and run steps; the same log always gives the same events. `steps` are the
    run steps so far, oldest first; `tools` are the agent's, by name. `turn` counts how often the run resumed after
    waiting. The agent's own tools appear only if the request or `include` asks for them, or if a person was asked:
    clients take every function in a step for one that they run.

    The run's row supplies what the log lacks: its start, the answers it was given, and how it ended. The event that
    ends a turn is emitted together with the resulting row.
    """

    def __init__(self, run: RunRow, tools: Mapping[str, Tool], options: Options, include: Sequence[str] = ()) -> None:
        super().__init__(run)
        self.steps: list[Object] = []
        self.turn = 0
        self._citations = Citations(run.request)
        self._given = tools
        self._all = _SERVER_TOOLS in [*include, *(run.request.get("include") or ())]
        self._first: str | None = None  # the first call under way, which names their step
        self._pending: set[str] = set()  # the calls under way
        self._options = options
        self._status = ""  # the last one emitted
        self._last: Entry | None = None  # ended a turn, not emitted yet
        self._log: list[Event] = []  # pauses, and what became of them
        self._asked: Counter[str] = Counter()  # how often a call waited, by its id
        self._calls: dict[str, Object] = {}  # of the open step, by call id in the log
        self._tools: Object | None = None
        self._speech = Speech()
        self._message_step: Object | None = None
        self._message: Object | None = None
        self._usage = Usage()

    def needs_run(self, item: Followed) -> bool:
        """Whether the row may not say yet when the run began, or how it resumed."""
        begins = self._status in ("", "queued") and not self.run.started_at
        waited = self._last is not None or self._status == "requires_action"
        return isinstance(item, Entry) and (begins or (waited and len(self.run.submissions) <= self.turn))

    def events(self, item: Followed) -> Iterator[Told]:
        """Yield the events of a log entry, or of a new row."""
        for name, value in self._fold(item):
            yield name, step_view(self.run.request, value, self.run.request.get("include") or ())

    def _fold(self, item: Followed) -> Iterator[Told]:
        if not self._status:
            yield self._move_to("queued", "created")
            yield self._move_to("queued")
        if isinstance(item, RunRow):
            self.run = item
            yield from self._fold_row(item)
            self.last = item if item.rests else None
        else:
            yield from self._resume()
            if isinstance(item.event, Finished | Stopped):
                self._last = item
            else:
                if self._status == "queued":
                    yield self._move_to("in_progress")
                yield from self._fold_entry(item)

    # ── the run ──────────────────────────────────────────────────────────────────────────────────

    def _fold_row(self, run: RunRow) -> Iterator[Told]:
        if len(self.run.submissions) > self.turn:
            yield from self._resume()
        elif run.status == "requires_action":
            yield from self._end_turn()
        elif not run.active and self._status != run.status:
            yield from self._end(run)

    def _resume(self) -> Iterator[Told]:
        """End the previous turn, if that was not emitted, and begin the next one if the run resumed."""
        yield from self._end_turn()
        if self._status == "requires_action" and len(self.run.submissions) > self.turn:
            given = self.run.submissions[self.turn]
            self.turn += 1
            for call in given.answered:
                yield from self._observe(call, given.decisions[call].message, given.at)
            yield self._move_to("queued")

    def _end_turn(self) -> Iterator[Told]:
        if self._last is not None:
            yield from self._fold_entry(self._last)
            yield self._move_to("requires_action")
            self._last = None

    def _end(self, run: RunRow) -> Iterator[Told]:
        if self._status == "in_progress" and run.status == "cancelled":
            yield self._move_to("cancelling")
        if self._last is not None:
            yield from self._fold_entry(self._last, run.status)
            self._last = None
        yield from self._close_steps(run)
        self._status = run.status
        yield f"thread.run.{run.status}", run_object(run)

    def _move_to(self, status: Status, name: str = "") -> Told:
        """Return the run as it was on reaching this status, whatever happened since."""
        self._status = status
        run = self.run
        began: int | None = run.created_at
        started = run.started_at if self.turn or status != "queued" else None
        if self.turn:
            began = self.run.submissions[self.turn - 1].at
        elif "additional_messages" in run.request:  # its time started when the thread became free
            began = started
        until = None if began is None else began + self._options.run_ttl
        calls: Sequence[Mapping[str, Any]] = ()
        if status == "requires_action" and self._last is not None:
            until = int(self._last.at) + self._options.human_ttl
            waiting = [Pending(one, arguments_of(one, self._given), self._asked[one.id]) for one in pending(self._log)]
            calls = stored_calls(waiting)
        then = run._replace(status=status, expires_at=until, started_at=started, waiting=calls)
        return f"thread.run.{name or status}", run_object(then._replace(error=None, ended_at=None, incomplete=None))

    def _close_steps(self, run: RunRow) -> Iterator[Told]:
        """End the open steps of a run that ended without an answer."""
        status = {"incomplete": "failed"}.get(run.status, run.status)
        at = run.ended_at or 0
        for step in self.steps:
            if step["status"] == "in_progress":
                step["status"] = status
                step[f"{status}_at"] = at
                step["last_error"] = _of_step(run) if status == "failed" else None
                yield f"thread.run.step.{status}", step

    # ── the log ──────────────────────────────────────────────────────────────────────────────────

    def _fold_entry(self, entry: Entry, status: str = "") -> Iterator[Told]:
        self._citations.see(entry.event)
        if isinstance(entry.event, Paused | Resumed | Observed):
            self._log.append(entry.event)
        self._usage += request_usage(entry.event) or Usage()
        match entry.event:
            case Called(action=action) | Paused(action=action):
                yield from self._fold_call(action, entry)
            case Observed(observation=observation):
                yield from self._observe(observation.call_id, observation.text, entry.at)
        for said in self._speech.hear(entry, status):
            yield from self._tell_message(said, entry.at, over=status not in ("", "completed"))

    def _fold_call(self, action: AgentAction, entry: Entry) -> Iterator[Told]:
        if isinstance(entry.event, Paused):
            self._asked[action.id] += 1
        self._first = self._first or action.id
        self._pending.add(action.id)
        if isinstance(entry.event, Called) and not (
            self._all or action.id in self._calls or is_hosted(self.run.request, action.tool)
        ):
            return
        if action.id in self._calls:  # a person may have edited the arguments, or is asked once more
            shown = self._shown_call(action)
            self._calls[action.id]["id"] = shown["id"]
            self._calls[action.id]["function"]["arguments"] = shown["function"]["arguments"]
            return
        if self._tools is None:
            details: Object = {"type": "tool_calls", "tool_calls": []}
            yield from self._begin_step(self._first, details, entry.at)
            self._tools = self.steps[-1]
        call = self._shown_call(action)
        call["function"]["output"] = None
        calls = self._tools["step_details"]["tool_calls"]
        self._calls[action.id] = call
        calls.append(call)
        yield from call_deltas(self.run.request, self._tools, call)

    def _shown_call(self, action: AgentAction) -> Object:
        return tool_call(self.run, action, arguments_of(action, self._given), self._asked[action.id])

    def _observe(self, call: str, output: str, at: float) -> Iterator[Told]:
        self._pending.discard(call)
        self._first = self._first if self._pending else None
        if self._tools is None or call not in self._calls:
            return
        self._calls[call]["function"]["output"] = output
        yield from logs_delta(self._tools, self._calls[call])
        if all(one["function"]["output"] is not None for one in self._calls.values()):
            yield self._complete(self._tools, at)
            self._tools, self._calls = None, {}

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _tell_message(self, said: MessageDelta, at: float, *, over: bool) -> Iterator[Told]:
        """`over` means that the run ended without an answer, which ends the message's step, too."""
        if self._message is None:
            yield from self._begin_message(said)
        message, step = self._message, self._message_step
        assert message is not None
        assert step is not None
        if said.more:
            content = [{"index": 0, "type": "text", "text": {"value": said.more, "annotations": []}}]
            delta = {"id": message["id"], "object": "thread.message.delta", "delta": {"content": content}}
            yield "thread.message.delta", delta
        if not said.ended:
            return
        message |= message_body(self.run, said.text, int(at), said.reason, self._citations.annotations(said.text))
        yield f"thread.message.{'incomplete' if said.reason else 'completed'}", message
        if said.reason is None:
            yield self._complete(step, at)
        elif not over:
            step |= {"status": "failed", "failed_at": int(at), "last_error": _CUT}
            yield "thread.run.step.failed", step
        self._message = self._message_step = None

    def _begin_message(self, said: MessageDelta) -> Iterator[Told]:
        """Begin a message."""
        id_ = message_id(self.run.id, said.number)
        details = {"type": "message_creation", "message_creation": {"message_id": id_}}
        yield from self._begin_step(said.number, details, said.began)
        self._message_step = self.steps[-1]
        body = message_body(self.run, "", 0, None)
        body |= {"content": [], "status": "in_progress", "completed_at": None}
        ids = {"id": id_, "created_at": int(said.began), "thread_id": self.run.thread_id}
        self._message = message_object({**ids, "run_id": self.run.id, "body": body})
        yield "thread.message.created", self._message
        yield "thread.message.in_progress", self._message

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _begin_step(self, which: str | int, details: Object, at: float) -> Iterator[Told]:
        """Add a step to `steps`. `which` tells it from the others of its kind."""
        kind = "message" if details["type"] == "message_creation" else "tools"
        step = {
            "id": derived_id("step_", self.run.id, kind, which),
            "object": "thread.run.step",
            "created_at": int(at),
            "assistant_id": assistant_of(self.run),
            "thread_id": self.run.thread_id,
            "run_id": self.run.id,
            "type": details["type"],
            "status": "in_progress",
            "step_details": details,
            "metadata": {},
            "usage": None,
        }
        step |= dict.fromkeys(("last_error", "expires_at", "expired_at", "cancelled_at", "failed_at", "completed_at"))
        self.steps.append(step)
        yield "thread.run.step.created", step
        yield "thread.run.step.in_progress", step

    def _complete(self, step: Object, at: float) -> Told:
        usage, self._usage = usage_object(self._usage), Usage()
        step |= {"status": "completed", "completed_at": int(at), "usage": usage}
        return "thread.run.step.completed", step


def _of_step(run: RunRow) -> Object | None:
    """Return the error of a run's last step, which has fewer codes than a run."""
    error = last_error(run)
    return error and {**error, "code": "server_error" if error["code"] == "invalid_prompt" else error["code"]}


class RunEvents(StepProjection):
    """The event stream of a run until it rests.

    Args:
        server: The server.
        run: The run's row.
        before: Further events, which come first and have no numbers.
        turn: How often the run had resumed before the events that are streamed.
        after: The number of the last event that the client received; 0 for none.
    """

    tail = "event: done\ndata: [DONE]\n\n"

    def __init__(
        self, server: Server, run: RunRow, *, before: Iterable[Told] = (), turn: int = 0, after: int = 0
    ) -> None:
        super().__init__(run, tools_of(server.deployment, run), server.options)
        self.head = "" if after else RETRY + "".join(frame(value, name) for name, value in before)
        self._from_turn = turn
        self._after = after
        self._number = 0  # counts all events of the run from 1

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frames of the events. Raises `ApiError` if the client cannot have received an event with the number
        `after`, because the run has not emitted it."""
        for name, value in self.events(item):
            self._number += 1
            if self._number == self._after:
                yield RETRY
            elif self._number > self._after and self.turn >= self._from_turn:
                yield frame(value, name, self._number)
        if isinstance(item, RunRow):
            if self._number < self._after:
                raise ApiError(400, f"Invalid 'Last-Event-ID': the run {item.id} has no event {self._after}.")
            if item.suspended:
                yield frame(run_failed_error(item).body, "error")


# ── hosted tools ─────────────────────────────────────────────────────────────────────────────────────────────────────


def is_hosted(request: Mapping[str, Any], name: str) -> bool:
    """Whether the named tool is a hosted one that the request enabled."""
    return any(one.get("type") == name for one in request.get("tools") or ())


def step_view(request: Mapping[str, Any], thing: Object, include: Sequence[str]) -> Object:
    """Return a run step, or a step delta, with the request's hosted tool calls in OpenAI's shapes. `include` may ask
    for the text of file search results."""
    details = (thing.get("delta") or thing).get("step_details") or {}
    wishes = {one["type"]: one for one in request.get("tools") or () if one.get("type") != "function"}
    if not wishes or not details.get("tool_calls"):
        return thing
    calls = [_call_view(one, wishes, content=_CONTENT in include) for one in details["tool_calls"]]
    told = {"step_details": {**details, "tool_calls": calls}}
    return {**thing, "delta": told} if "delta" in thing else {**thing, **told}


def _call_view(call: Object, wishes: Mapping[str, Any], *, content: bool) -> Object:
    name = call.get("function", {}).get("name")
    if name not in wishes:
        return call
    own = {key: value for key, value in call.items() if key not in ("type", "function")}
    inner = _search_view(call, wishes[name], content=content) if name == FILE_SEARCH else _program_view(call)
    return {**own, "type": name, name: inner}


def _program_view(call: Object) -> Object:
    function = call["function"]
    number = {"index": 0} if "index" in call else {}  # in a delta
    logs = function.get("output")
    outputs = [] if logs is None else [{**number, "type": "logs", "logs": logs}]
    if "arguments" not in function:
        return {"outputs": outputs}
    given = json.loads(function["arguments"] or "{}")  # the arguments arrive after the call
    return {"input": str(given.get("code", given.get("input", ""))), "outputs": outputs}


def _search_view(call: Object, wish: Mapping[str, Any], *, content: bool) -> Object:
    output = call["function"].get("output")
    if output is None:
        return {}
    options: Mapping[str, Any] = (wish.get(FILE_SEARCH) or {}).get("ranking_options") or {}
    results = [{name: one[name] for name in ("file_id", "file_name", "score")} for one in passages_in(output)]
    if content:
        for result, one in zip(results, passages_in(output), strict=True):
            result["content"] = [{"type": "text", "text": one["text"]}]
    ranking = {"ranker": options.get("ranker") or "auto", "score_threshold": options.get("score_threshold") or 0.0}
    return {"ranking_options": ranking, "results": results}


def logs_delta(step: Object, call: Object) -> Iterator[tuple[str, Object]]:
    """Yield the delta for a call whose output has arrived; only the code interpreter has one."""
    function = call["function"]
    if function["name"] == CODE_INTERPRETER:
        yield _delta(step, call, function={"name": CODE_INTERPRETER, "output": function["output"]})


def call_deltas(request: Mapping[str, Any], step: Object, call: Object) -> Iterator[tuple[str, Object]]:
    """Yield the deltas for a call added to `step`: first the call, then its arguments. Clients accumulate only what
    follows the first delta."""
    function = call["function"]
    yield _delta(step, call, id=call["id"], function={**function, "arguments": ""})
    if not is_hosted(request, function["name"]):
        yield _delta(step, call, function={"arguments": function["arguments"]})
    elif function["name"] != FILE_SEARCH:
        yield _delta(step, call, function={"name": function["name"], "arguments": function["arguments"]})


def _delta(step: Object, call: Object, **told: Any) -> tuple[str, Object]:
    index = step["step_details"]["tool_calls"].index(call)
    details = {"type": "tool_calls", "tool_calls": [{"index": index, "type": "function", **told}]}
    delta = {"id": step["id"], "object": "thread.run.step.delta", "delta": {"step_details": details}}
    return "thread.run.step.delta", delta
