"""Projects a run's log to a response: its output items and stream events. The same log always gives the same items, and
the same events under the same numbers."""

from __future__ import annotations

import json
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ...core.events import (
    Called,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Said,
    Stopped,
    request_usage,
)
from ...core.tools.tool import Tool
from ...core.values import AgentAction, Observation, StopReason, Usage
from ...runs import Followed
from ...runs.citations import Citations
from ...runs.status import arguments_of
from ...runs.thread_messages import MessageDelta, Speech, Thoughts
from ...store.event_log import Entry
from ...store.run_row import RunRow
from ..conversations.views import item_view
from ..overrides import HUMAN, inner_name
from ..wire.api_errors import run_failed_error
from ..wire.objects import Object, call_id, question_for_a_person
from . import hosted_calls
from .annotations import annotate
from .client_functions import client_functions, text_input
from .response_parts import Part
from .views import error_event, problem_of, response_object

_STATUS = {"requires_action": "completed", "expired": "failed"}
_LAST = {"completed": "response.completed", "failed": "response.failed"}
_SAME = ("result", "repeated")  # outcomes that mean success


class ResponseProjection:
    """Folds a run's log, from its beginning or from where the response `before` ended, into the response `part`.

    `tools` are the agent's, by name. `output` holds the items so far, in full; the items and fields shown depend on the
    request's `include` and the one given here. `last` is the final response object; `told` counts the events.

    The calls of the agent's own tools are shown only to who asks for them by `include`, declares these tools or
    approved the call: many clients fail at an item that they do not know. A client that knows functions only, and
    declares one called `human_input`, is asked for approvals by calls of it. The model's reasoning is an item if the
    request asks for its summary, or for its encrypted content.
    """

    def __init__(
        self,
        part: Part,
        tools: Mapping[str, Tool],
        include: Collection[str] = (),
        before: ResponseProjection | None = None,
    ) -> None:
        self.output: list[Object] = []
        self.last: Object | None = None
        self.part = part
        self._tools = tools
        self._include = frozenset([*include, *part.include])
        self._hosted = hosted_calls.hosted_in(part.run.request)
        self._citations: Citations = before._citations if before else Citations(part.run.request)
        declared = part.asked["tools"]
        self._shows_calls = "mcp_call" in self._include or any(one["type"] == "mcp" for one in declared)
        self._asks_by_function = any(one["type"] == "function" and one["name"] == HUMAN for one in declared)
        begun_with = client_functions(part.run.request["asked"]["tools"])
        self._functions = {inner_name(one.function["name"]): one for one in begun_with}
        self._hidden: list[int] = []  # the positions of items that are not shown
        self.told = 0
        self._begun = False
        self._end: Entry | None = None  # the entry that ended this part of the log
        self._usage = Usage()
        # how often a call waited, by its id in the log
        self._asked: Counter[str] = before._asked if before else Counter()
        self._approved: dict[str, str] = {}  # approval request ids, by call id in the log
        self._calls: dict[str, int] = {}  # calls under way: their positions in the output
        self._speech = Speech()
        self._message: int | None = None  # the position of the open message
        self._summarizes = bool((part.asked.get("reasoning") or {}).get("summary"))
        self._reasons = self._summarizes or "reasoning.encrypted_content" in part.include
        self._reasoning: int | None = None  # the position of the open item of reasoning
        self._thoughts = Thoughts()
        self._text = ""  # of the open message, with its citation marks
        self._shown = ""  # the part of it already streamed
        self._cited: list[Object] = []  # its annotations

    def tell(self, item: Followed) -> Iterator[Object]:
        """Yield the events that follow from a log entry or a status change."""
        for event in self._told(item):
            at = event.get("output_index")
            if at not in self._hidden:
                place = {} if at is None else {"output_index": at - bisect(self._hidden, at)}
                yield {**event, "sequence_number": self.told, **place}
                self.told += 1

    def _told(self, item: Followed) -> Iterator[Object]:
        """Yield the events, those of hidden items among them."""
        if self.last is not None:
            return
        if not self.told:  # counted by `tell`, event by event
            status = "queued" if self.part.asked["background"] else "in_progress"
            yield self._event("response.created", response=response_object(self.part, status))
            if status == "queued":
                yield self._event("response.queued", response=response_object(self.part, status))
        if isinstance(item, RunRow):
            yield from self._row(item)
        elif item.seq <= self.part.begin:
            self._earlier(item)
        elif self._end is not None:  # it waited for its client; the run has since resumed or ended
            yield from self._over("completed")
        else:
            yield from self._begin()
            yield from self._entry(item)

    def now(self, run: RunRow) -> Object:
        """Return the response at this time, given the current row of its run."""
        if self.last is not None:
            return self.last
        waits = self.part.asked["background"] and run.status == "queued" and not self._begun
        status = "queued" if waits else "in_progress"
        return response_object(self.part, status, self._items, problem=problem_of(run))

    # ── the run ──────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> Iterator[Object]:
        if not self._begun:
            self._begun = True
            yield self._event("response.in_progress", response=response_object(self.part, "in_progress"))

    def _row(self, run: RunRow) -> Iterator[Object]:
        went_on = len(run.submissions) - self.part.number
        if went_on < 0 or (run.status == "queued" and not run.suspended):  # an outdated row, or nothing new
            return
        yield from self._begin()
        if self._end is not None and (went_on or run.status == "requires_action"):
            yield from self._over("completed")
        elif not run.active:
            yield from self._over(_STATUS.get(run.status, run.status), run)

    def _over(self, status: str, run: RunRow | None = None) -> Iterator[Object]:
        yield from self._closed()
        if run is not None and status == "failed":  # clients raise this event; most of them ignore the next one
            yield self._event("error", **error_event(run_failed_error(run).body["error"]))
        problem = {} if run is None else problem_of(run)
        at = int(self._end.at) if self._end is not None and status == "completed" else None
        self.last = response_object(self.part, status, self._items, self._usage, at, problem)
        yield self._event(_LAST.get(status, "response.incomplete"), response=self.last)

    def _closed(self) -> Iterator[Object]:
        """End the open items."""
        yield from self._thought_over()
        if self._message is not None:
            yield from self._said("incomplete")
        for at in self._calls.values():
            yield self._done(at, status="incomplete")
        self._calls = {}

    # ── the log ──────────────────────────────────────────────────────────────────────────────────

    def _earlier(self, entry: Entry) -> None:
        self._citations.see(entry.event)
        if isinstance(entry.event, Paused):
            self._asked[entry.event.action.id] += 1

    def _entry(self, entry: Entry) -> Iterator[Object]:
        self._citations.see(entry.event)
        self._usage += request_usage(entry.event) or Usage()
        if self._reasons:
            yield from self._think(entry.event)
        match entry.event:
            case Paused(action=action):
                self._asked[action.id] += 1
                yield from self._function(action) if action.tool in self._functions else self._approval(action)
            case Resumed(call_id=call) if not self._asks_by_function:
                self._approved[call] = self._request_id(call)
            case Called(action=action):
                yield from self._call(action)
            case Observed(observation=observation):
                yield from self._observed(observation)
        if isinstance(entry.event, Stopped) and entry.event.reason is StopReason.INVALID_ANSWER and entry.event.answer:
            yield from self._refused(entry.event.answer)
        else:
            for said in self._speech.hear(entry):
                yield from self._say(said)
        if isinstance(entry.event, Finished | Stopped):
            self._end = entry
            yield from self._closed()

    # ── reasoning ────────────────────────────────────────────────────────────────────────────────

    def _think(self, event: Event) -> Iterator[Object]:
        """Emit the model's reasoning as an item: as it was streamed, or with the reply."""
        told, more = self._thoughts.told, self._thoughts.hear(event)
        if more and self._summarizes:
            yield from self._summarize(more)
        elif isinstance(event, Replied) and not told and (event.reply.reasoning or event.reply.state):
            yield from self._begin_reasoning()
        if not isinstance(event, Said) or event.text:  # the reply itself, or another one
            yield from self._thought_over()

    def _begin_reasoning(self) -> Iterator[Object]:
        yield from self._added("reasoning", summary=[])
        self._reasoning = len(self.output) - 1

    def _summarize(self, more: str) -> Iterator[Object]:
        if self._reasoning is None:
            yield from self._begin_reasoning()
        at = self._reasoning
        assert at is not None
        summary = self.output[at]["summary"]
        if not summary:
            yield self._event("response.reasoning_summary_part.added", **self._summary(at), part=_summary_part(""))
        text = "".join(part["text"] for part in summary) + more
        self.output[at] = {**self.output[at], "summary": [_summary_part(text)]}
        yield self._event("response.reasoning_summary_text.delta", **self._summary(at), delta=more)

    def _thought_over(self) -> Iterator[Object]:
        """End the open item of reasoning. What the vendor wants back with it stays in the log, where the next request
        finds it by its calls; the encrypted content is no more than the item's id."""
        if (at := self._reasoning) is None:
            return
        self._reasoning = None
        for part in self.output[at]["summary"]:
            yield self._event("response.reasoning_summary_text.done", **self._summary(at), text=part["text"])
            yield self._event("response.reasoning_summary_part.done", **self._summary(at), part=part)
        yield self._done(at, encrypted_content=self.output[at]["id"])

    def _summary(self, at: int) -> Object:
        return {**self._place(at), "summary_index": 0}

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _say(self, said: MessageDelta) -> Iterator[Object]:
        if self._message is None:
            yield from self._added("message", status="in_progress", role="assistant", content=[])
            self._message = len(self.output) - 1
            yield self._event("response.content_part.added", **self._place(self._message), **_content(""))
        self._text = said.text
        yield from self._show(whole=False)
        if said.ended:
            yield from self._said("incomplete" if said.reason else "completed")

    def _show(self, *, whole: bool) -> Iterator[Object]:
        """Emit the new part of the open message's text."""
        assert self._message is not None
        place, before = self._place(self._message), len(self._cited)
        text, self._cited = annotate(self._text, self._citations.sources, whole=whole)
        more, self._shown = text[len(self._shown) :], text
        if more:
            yield self._event("response.output_text.delta", **place, **_TEXT, delta=more)
        for number, annotation in enumerate(self._cited[before:], before):
            where = {"content_index": 0, "annotation_index": number}
            yield self._event("response.output_text.annotation.added", **place, **where, annotation=annotation)

    def _said(self, status: str) -> Iterator[Object]:
        """End the open message."""
        yield from self._show(whole=True)
        at, text, annotations = self._message, self._shown, self._cited
        assert at is not None
        self._message, self._text, self._shown, self._cited = None, "", "", []
        yield self._event("response.output_text.done", **self._place(at), **_TEXT, text=text)
        yield self._event("response.content_part.done", **self._place(at), **_content(text, annotations))
        yield self._done(at, status=status, content=[_part(text, annotations)])

    def _refused(self, text: str) -> Iterator[Object]:
        """Emit the model's refusal, given instead of an answer in the requested format, as a message."""
        yield from self._added("message", status="in_progress", role="assistant", content=[])
        at, refusal = len(self.output) - 1, {"type": "refusal", "refusal": text}
        empty = {"content_index": 0, "part": {**refusal, "refusal": ""}}
        yield self._event("response.content_part.added", **self._place(at), **empty)
        yield self._event("response.refusal.delta", **self._place(at), content_index=0, delta=text)
        yield self._event("response.refusal.done", **self._place(at), content_index=0, refusal=text)
        yield self._event("response.content_part.done", **self._place(at), content_index=0, part=refusal)
        yield self._done(at, status="completed", content=[refusal])

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def _function(self, action: AgentAction) -> Iterator[Object]:
        """Emit a call of a client's function."""
        function, given = self._functions[action.tool], arguments_of(action, self._tools)
        named: Object = {"name": function.name, "status": "in_progress"}
        if function.namespace is not None:
            named["namespace"] = function.namespace
        if function.custom:
            return self._called("custom_tool_call", action, named, input=text_input(given))
        return self._called("function_call", action, named, arguments=json.dumps(given, ensure_ascii=False))

    def _called(self, kind: str, action: AgentAction, named: Object, **given: str) -> Iterator[Object]:
        """Emit a call that the client answers, whose input is the one text in `given`."""
        ((field, text),) = given.items()
        id_ = call_id(self.part.run.id, action.id, self._asked[action.id])
        yield from self._added(kind, call_id=id_, **named, **{field: ""})
        at, name = len(self.output) - 1, f"response.{kind}_{field}"
        told = {"name": named["name"]} if kind == "function_call" else {}
        yield self._event(f"{name}.delta", **self._place(at), delta=text)
        yield self._event(f"{name}.done", **self._place(at), **told, **given)
        yield self._done(at, **given, status="completed")

    def _approval(self, action: AgentAction) -> Iterator[Object]:
        """Emit a request for a person's approval."""
        if self._asks_by_function:
            asked = question_for_a_person(action, arguments_of(action, self._tools))
            yield from self._called("function_call", action, {"name": HUMAN, "status": "in_progress"}, arguments=asked)
            return
        shown = {"server_label": self._label, "name": action.tool, "arguments": self._arguments(action)}
        yield from self._added("mcp_approval_request", **shown, id=self._request_id(action.id))
        yield self._done(len(self.output) - 1)

    def _request_id(self, call: str) -> str:
        return f"mcpr_{call_id(self.part.run.id, call, self._asked[call]).removeprefix('call_')}"

    def _call(self, action: AgentAction) -> Iterator[Object]:
        """Emit a call of one of the agent's tools."""
        if action.id in self._calls:
            return
        if action.tool in self._hosted:
            yield from self._hosted_call(action)
            return
        arguments = self._arguments(action)
        shown = {"server_label": self._label, "name": action.tool, "arguments": ""}
        later = {"output": None, "error": None, "approval_request_id": self._approved.get(action.id)}
        yield from self._added("mcp_call", status="in_progress", **shown, **later)
        at = self._calls[action.id] = len(self.output) - 1
        yield self._event("response.mcp_call.in_progress", **self._place(at))
        yield self._event("response.mcp_call_arguments.delta", **self._place(at), delta=arguments)
        yield self._event("response.mcp_call_arguments.done", **self._place(at), arguments=arguments)
        self.output[at] = {**self.output[at], "arguments": arguments}

    def _hosted_call(self, action: AgentAction) -> Iterator[Object]:
        """Emit a call of a hosted tool."""
        arguments = arguments_of(action, self._tools)
        kind, given = hosted_calls.item_type(action.tool), hosted_calls.begun(self.part.run, action.tool, arguments)
        yield from self._added(kind, **given)
        at = self._calls[action.id] = len(self.output) - 1
        for name, more in hosted_calls.before(action.tool, arguments):
            yield self._event(name, **self._place(at), **more)
        self.output[at] = {**self.output[at], **hosted_calls.under_way(action.tool, arguments)}

    def _observed(self, seen: Observation) -> Iterator[Object]:
        at = self._calls.pop(seen.call_id, None)
        if at is None:  # the client's function, or a rejected call
            return
        kind, well = self.output[at]["type"], seen.outcome in _SAME
        if kind != "mcp_call":
            for name, more in hosted_calls.after(kind, well=well):
                yield self._event(name, **self._place(at), **more)
            yield self._done(at, **hosted_calls.ended(kind, seen, well=well))
            return
        if well:
            yield self._event("response.mcp_call.completed", **self._place(at))
            yield self._done(at, status="completed", output=seen.text)
            return
        error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": seen.text}]}
        yield self._event("response.mcp_call.failed", **self._place(at))
        yield self._done(at, status="failed", error=error)

    @property
    def _label(self) -> str:
        return self.part.run.agent

    def _arguments(self, action: AgentAction) -> str:
        return json.dumps(arguments_of(action, self._tools), ensure_ascii=False)

    # ── items and events ─────────────────────────────────────────────────────────────────────────

    def _added(self, kind: str, **more: Any) -> Iterator[Object]:
        at = len(self.output)
        self.output.append({"id": self.part.item_id(kind, at), "type": kind, **more})
        if kind == "mcp_call" and not self._shows_calls and more["approval_request_id"] is None:
            self._hidden.append(at)
        yield self._event("response.output_item.added", output_index=at, item=self.output[at])

    def _done(self, at: int, **changed: Any) -> Object:
        self.output[at] = {**self.output[at], **changed}
        return self._event("response.output_item.done", output_index=at, item=item_view(self.output[at], self._include))

    @property
    def _items(self) -> list[Object]:
        return [item_view(item, self._include) for at, item in enumerate(self.output) if at not in self._hidden]

    def _place(self, at: int) -> Object:
        return {"item_id": self.output[at]["id"], "output_index": at}

    def _event(self, kind: str, **more: Any) -> Object:
        return {"type": kind, "sequence_number": self.told, **more}


def _summary_part(text: str) -> Object:
    return {"type": "summary_text", "text": text}


_TEXT: Mapping[str, Any] = {"content_index": 0, "logprobs": []}


def _part(text: str, annotations: Sequence[Object] = ()) -> Object:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def _content(text: str, annotations: Sequence[Object] = ()) -> Object:
    return {"content_index": 0, "part": _part(text, annotations)}
