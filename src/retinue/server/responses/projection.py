"""Projects a run's log to a response: its output items and stream events. The same log always gives the same items, and
the same events under the same numbers, so that a client can resume a broken stream."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.events import Called, Event, Finished, Observed, Paused, Replied, Resumed, Said, Stopped, request_usage
from ...core.tools.tool import Tool
from ...core.values import AgentAction, Observation, StopReason, Usage
from ...runs import Followed
from ...runs.status import arguments_of
from ...runs.thread_messages import FILE_SEARCH, MARK, Citations, MessageDelta, Source, Speech, Thoughts, passages_in
from ...store.event_log import Entry
from ...store.run_row import RunRow
from ..agents.overrides import CODE_INTERPRETER, HUMAN, inner_name
from ..conversations.items import item_view
from ..http.api_errors import ApiError, run_failed_error
from ..http.objects import Object, call_id, question_for_a_person
from ..http.sse import frame
from ..run_session import Projection
from .options import client_functions, text_input
from .response import Part, error_event, problem_of, response_object

_STATUS = {"requires_action": "completed", "expired": "failed"}
_LAST = {"completed": "response.completed", "failed": "response.failed"}
_SAME = ("result", "repeated")  # outcomes that mean success
_TEXT: Mapping[str, Any] = {"content_index": 0, "logprobs": []}
_MARKED = re.compile(rf" ?({MARK.pattern})")
_BEGUN = re.compile(r" ?(?:【[^【】]{0,90})?\Z")  # a possible start of a mark, with the space before it


class ResponseProjection(Projection):
    """Folds a run's log, from its beginning or from where the response `before` ended, into the response `part`.

    `tools` are the agent's, by name. `output` holds the items so far, in full; the items and fields shown depend on the
    request's `include` and the one given here. `last` is the final response object; `told` counts the events.

    The calls of the agent's own tools are shown only to who asks for them by `include`, declares these tools or
    approved the call: many clients fail at an item that they do not know. A client that knows functions only, and
    declares one called `human_input`, is asked for approvals by calls of it. The model's reasoning is an item if the
    request asks for its summary, or for its encrypted content. A stream has the events after the one numbered `after`.
    """

    last: Object | None = None
    told = 0
    _begun = False
    _end: Entry | None = None  # the entry that ended this part of the log
    _usage = Usage()
    _reasoning: int | None = None  # the position of the open item of reasoning
    _message: int | None = None  # the position of the open message
    _text = ""  # of the open message, with its citation marks
    _shown = ""  # the part of it already streamed

    def __init__(
        self,
        part: Part,
        tools: Mapping[str, Tool],
        include: Collection[str] = (),
        before: ResponseProjection | None = None,
        after: int = -1,
    ) -> None:
        super().__init__(part.run)
        self.output: list[Object] = []
        self.part = part
        self._after = after
        self._tools = tools
        self._include = frozenset([*include, *part.include])
        types = {one.get("type") for one in part.run.request.get("tools") or ()}
        self._hosted = types & {FILE_SEARCH, CODE_INTERPRETER}
        self._citations: Citations = before._citations if before else Citations(part.run.request)
        declared = part.asked["tools"]
        self._shows_calls = "mcp_call" in self._include or any(one["type"] == "mcp" for one in declared)
        self._asks_by_function = any(one["type"] == "function" and one["name"] == HUMAN for one in declared)
        begun_with = client_functions(part.run.request["asked"]["tools"])
        self._functions = {inner_name(one.function["name"]): one for one in begun_with}
        self._hidden: list[int] = []  # the positions of items that are not shown
        # how often a call waited, by its id in the log
        self._asked: Counter[str] = before._asked if before else Counter()
        self._approved: dict[str, str] = {}  # approval request ids, by call id in the log
        self._calls: dict[str, int] = {}  # calls under way: their positions in the output
        self._speech = Speech()
        self._summarizes = bool((part.asked.get("reasoning") or {}).get("summary"))
        self._reasons = self._summarizes or "reasoning.encrypted_content" in part.include
        self._thoughts = Thoughts()
        self._cited: list[Object] = []  # the annotations of the open message

    def events(self, item: Followed) -> Iterator[Object]:
        """Yield the events that follow from a log entry or a status change."""
        for event in self._fold(item):
            at = event.get("output_index")
            if at not in self._hidden:
                place = {} if at is None else {"output_index": at - bisect(self._hidden, at)}
                yield {"type": event["type"], "sequence_number": self.told, **event, **place}
                self.told += 1

    def frames(self, item: Followed) -> Iterator[str]:
        """Yield the frames of the events that the client has not received yet."""
        for event in self.events(item):
            if event["sequence_number"] > self._after:
                yield frame(event, event["type"])

    def error_frame(self, error: Exception) -> str:
        """Return the event that reports `error`."""
        told = error if isinstance(error, ApiError) else ApiError(500, str(error), kind="server_error")
        fields = error_event(told.body["error"])
        return frame({"type": "error", "sequence_number": self.told, **fields}, "error")

    def now(self, run: RunRow) -> Object:
        """Return the response at this time, given the current row of its run."""
        if self.last is not None:
            return self.last
        waits = self.part.asked["background"] and run.status == "queued" and not self._begun
        return response_object(self.part, "queued" if waits else "in_progress", self._items, problem=problem_of(run))

    # ── the run ──────────────────────────────────────────────────────────────────────────────────

    def _fold(self, item: Followed) -> Iterator[Object]:
        """Yield the events, those of hidden items among them."""
        if self.last is not None:
            return
        if not self.told:  # counted by `events`, event by event
            status = "queued" if self.part.asked["background"] else "in_progress"
            for name in ("created", "queued") if status == "queued" else ("created",):
                yield _event(f"response.{name}", response=response_object(self.part, status))
        if isinstance(item, RunRow):
            yield from self._row(item)
        elif item.seq <= self.part.begin:  # of an earlier response
            self._see(item.event)
        elif self._end is not None:  # it waited for its client; the run has since resumed or ended
            yield from self._end_response("completed")
        else:
            yield from self._begin()
            yield from self._entry(item)

    def _begin(self) -> Iterator[Object]:
        if not self._begun:
            self._begun = True
            yield _event("response.in_progress", response=response_object(self.part, "in_progress"))

    def _row(self, run: RunRow) -> Iterator[Object]:
        went_on = len(run.submissions) - self.part.number
        if went_on < 0 or (run.status == "queued" and not run.suspended):  # an outdated row, or nothing new
            return
        yield from self._begin()
        if self._end is not None and (went_on or run.status == "requires_action"):
            yield from self._end_response("completed")
        elif not run.active:
            yield from self._end_response(_STATUS.get(run.status, run.status), run)

    def _end_response(self, status: str, run: RunRow | None = None) -> Iterator[Object]:
        yield from self._close()
        if run is not None and status == "failed":  # clients raise this event; most of them ignore the next one
            yield _event("error", **error_event(run_failed_error(run).body["error"]))
        problem = {} if run is None else problem_of(run)
        at = int(self._end.at) if self._end is not None and status == "completed" else None
        self.last = response_object(self.part, status, self._items, self._usage, at, problem)
        yield _event(_LAST.get(status, "response.incomplete"), response=self.last)

    def _close(self) -> Iterator[Object]:
        """End the open items."""
        yield from self._end_reasoning()
        if self._message is not None:
            yield from self._end_message("incomplete")
        for at in self._calls.values():
            yield self._finish(at, status="incomplete")
        self._calls = {}

    def _see(self, event: Event) -> None:
        self._citations.see(event)
        if isinstance(event, Paused):
            self._asked[event.action.id] += 1

    def _entry(self, entry: Entry) -> Iterator[Object]:
        self._see(entry.event)
        self._usage += request_usage(entry.event) or Usage()
        if self._reasons:
            yield from self._think(entry.event)
        match entry.event:
            case Paused(action=action):
                yield from self._function(action) if action.tool in self._functions else self._approval(action)
            case Resumed(call_id=call) if not self._asks_by_function:
                self._approved[call] = self._request_id(call)
            case Called(action=action) if action.id not in self._calls:
                yield from self._hosted_call(action) if action.tool in self._hosted else self._own_call(action)
            case Observed(observation=observation) if observation.call_id in self._calls:
                yield from self._end_call(observation)
        if isinstance(entry.event, Stopped) and entry.event.reason is StopReason.INVALID_ANSWER and entry.event.answer:
            yield from self._refuse(entry.event.answer)
        else:
            for said in self._speech.hear(entry):
                yield from self._say(said)
        if isinstance(entry.event, Finished | Stopped):
            self._end = entry
            yield from self._close()

    # ── reasoning ────────────────────────────────────────────────────────────────────────────────

    def _think(self, event: Event) -> Iterator[Object]:
        """Emit the model's reasoning as an item: as it was streamed, or with the reply."""
        told, more = self._thoughts.told, self._thoughts.hear(event)
        summary = more if self._summarizes else ""
        reasoned = isinstance(event, Replied) and not told and (event.reply.reasoning or event.reply.state)
        if (summary or reasoned) and self._reasoning is None:
            self._reasoning = len(self.output)
            yield self._add("reasoning", summary=[])
        if summary and (at := self._reasoning) is not None:
            former = self.output[at]["summary"]
            if not former:
                yield self._of("response.reasoning_summary_part.added", at, summary_index=0, part=_summary_part(""))
            self._change(at, summary=[_summary_part("".join(one["text"] for one in former) + summary)])
            yield self._of("response.reasoning_summary_text.delta", at, summary_index=0, delta=summary)
        if not isinstance(event, Said) or event.text:  # the reply itself, or another one
            yield from self._end_reasoning()

    def _end_reasoning(self) -> Iterator[Object]:
        """End the open item of reasoning. What the vendor wants back with it stays in the log, where the next request
        finds it by its calls; the encrypted content is no more than the item's id."""
        if (at := self._reasoning) is None:
            return
        self._reasoning = None
        for part in self.output[at]["summary"]:
            yield self._of("response.reasoning_summary_text.done", at, summary_index=0, text=part["text"])
            yield self._of("response.reasoning_summary_part.done", at, summary_index=0, part=part)
        yield self._finish(at, encrypted_content=self.output[at]["id"])

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _begin_message(self, empty: Object) -> Iterator[Object]:
        at = len(self.output)
        yield self._add("message", status="in_progress", role="assistant", content=[])
        yield self._of("response.content_part.added", at, content_index=0, part=empty)

    def _say(self, said: MessageDelta) -> Iterator[Object]:
        if self._message is None:
            self._message = len(self.output)
            yield from self._begin_message(_text_part(""))
        self._text = said.text
        yield from self._show(whole=False)
        if said.ended:
            yield from self._end_message("incomplete" if said.reason else "completed")

    def _show(self, *, whole: bool) -> Iterator[Object]:
        """Emit the new part of the open message's text."""
        at, before = self._message, len(self._cited)
        assert at is not None
        text, self._cited = annotate(self._text, self._citations.sources, whole=whole)
        more, self._shown = text[len(self._shown) :], text
        if more:
            yield self._of("response.output_text.delta", at, **_TEXT, delta=more)
        for number, annotation in enumerate(self._cited[before:], before):
            where = {"content_index": 0, "annotation_index": number}
            yield self._of("response.output_text.annotation.added", at, **where, annotation=annotation)

    def _end_message(self, status: str) -> Iterator[Object]:
        yield from self._show(whole=True)
        at, part = self._message, _text_part(self._shown, self._cited)
        assert at is not None
        self._message, self._text, self._shown, self._cited = None, "", "", []
        yield self._of("response.output_text.done", at, **_TEXT, text=part["text"])
        yield from self._end_part(at, part, status)

    def _end_part(self, at: int, part: Object, status: str) -> Iterator[Object]:
        yield self._of("response.content_part.done", at, content_index=0, part=part)
        yield self._finish(at, status=status, content=[part])

    def _refuse(self, text: str) -> Iterator[Object]:
        """Emit the model's refusal, given instead of an answer in the requested format, as a message."""
        at = len(self.output)
        yield from self._begin_message({"type": "refusal", "refusal": ""})
        yield self._of("response.refusal.delta", at, content_index=0, delta=text)
        yield self._of("response.refusal.done", at, content_index=0, refusal=text)
        yield from self._end_part(at, {"type": "refusal", "refusal": text}, "completed")

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def _function(self, action: AgentAction) -> Iterator[Object]:
        """Emit a call of a client's function."""
        function, given = self._functions[action.tool], arguments_of(action, self._tools)
        named = {"name": function.name} | ({"namespace": function.namespace} if function.namespace else {})
        if function.custom:
            return self._client_call("custom_tool_call", action, named, input=text_input(given))
        return self._client_call("function_call", action, named, arguments=json.dumps(given, ensure_ascii=False))

    def _client_call(self, kind: str, action: AgentAction, named: Object, **given: str) -> Iterator[Object]:
        """Emit a call that the client answers, whose input is the one text in `given`."""
        ((field, text),) = given.items()
        at, id_ = len(self.output), call_id(self.part.run.id, action.id, self._asked[action.id])
        yield self._add(kind, call_id=id_, status="in_progress", **named, **{field: ""})
        told = {"name": named["name"]} if kind == "function_call" else {}
        yield self._of(f"response.{kind}_{field}.delta", at, delta=text)
        yield self._of(f"response.{kind}_{field}.done", at, **told, **given)
        yield self._finish(at, **given, status="completed")

    def _approval(self, action: AgentAction) -> Iterator[Object]:
        """Emit a request for a person's approval."""
        given = arguments_of(action, self._tools)
        if self._asks_by_function:
            asked = question_for_a_person(action, given)
            yield from self._client_call("function_call", action, {"name": HUMAN}, arguments=asked)
            return
        at, arguments = len(self.output), json.dumps(given, ensure_ascii=False)
        named = {"server_label": self.part.run.agent, "name": action.tool, "arguments": arguments}
        yield self._add("mcp_approval_request", **named, id=self._request_id(action.id))
        yield self._finish(at)

    def _request_id(self, call: str) -> str:
        return f"mcpr_{call_id(self.part.run.id, call, self._asked[call]).removeprefix('call_')}"

    def _own_call(self, action: AgentAction) -> Iterator[Object]:
        """Emit a call of one of the agent's tools."""
        at, arguments = len(self.output), json.dumps(arguments_of(action, self._tools), ensure_ascii=False)
        named = {"server_label": self.part.run.agent, "name": action.tool, "arguments": ""}
        later = {"output": None, "error": None, "approval_request_id": self._approved.get(action.id)}
        self._calls[action.id] = at
        if not self._shows_calls and later["approval_request_id"] is None:
            self._hidden.append(at)
        yield self._add("mcp_call", status="in_progress", **named, **later)
        yield self._of("response.mcp_call.in_progress", at)
        yield self._of("response.mcp_call_arguments.delta", at, delta=arguments)
        yield self._of("response.mcp_call_arguments.done", at, arguments=arguments)
        self._change(at, arguments=arguments)

    def _hosted_call(self, action: AgentAction) -> Iterator[Object]:
        """Emit a call of a hosted tool. Plain text from a model is stored as `input`."""
        at, given = len(self.output), arguments_of(action, self._tools)
        self._calls[action.id] = at
        if action.tool == FILE_SEARCH:
            query = str(given.get("query", given.get("input", "")))
            yield self._add("file_search_call", status="in_progress", queries=[query], results=None)
            yield self._of("response.file_search_call.in_progress", at)
            yield self._of("response.file_search_call.searching", at)
            return
        code = str(given.get("code", given.get("input", "")))
        container = f"cntr_{self.part.run.id.partition('_')[2]}"  # one per run; programs share no files in it
        begun: Object = {"status": "in_progress", "code": "", "container_id": container, "outputs": None}
        yield self._add("code_interpreter_call", **begun)
        yield self._of("response.code_interpreter_call.in_progress", at)
        yield self._of("response.code_interpreter_call_code.delta", at, delta=code)
        yield self._of("response.code_interpreter_call_code.done", at, code=code)
        yield self._of("response.code_interpreter_call.interpreting", at)
        self._change(at, code=code)

    def _end_call(self, seen: Observation) -> Iterator[Object]:
        """Emit the end of a call. The failure of a hosted one shows only in its item."""
        at = self._calls.pop(seen.call_id)
        kind, well = self.output[at]["type"], seen.outcome in _SAME
        if well or kind == "mcp_call":
            yield self._of(f"response.{kind}.{'completed' if well else 'failed'}", at)
        match kind:
            case "mcp_call" if well:
                ended: Object = {"output": seen.text}
            case "mcp_call":
                content = [{"type": "text", "text": seen.text}]
                ended = {"error": {"type": "mcp_tool_execution_error", "content": content}}
            case "file_search_call":
                ended = {"results": [_search_result(one) for one in passages_in(seen.text)] if well else None}
            case _:
                ended = {"outputs": [{"type": "logs", "logs": seen.text}] if seen.text else []}
        yield self._finish(at, status="completed" if well else "failed", **ended)

    # ── items and events ─────────────────────────────────────────────────────────────────────────

    def _add(self, kind: str, **more: Any) -> Object:
        at = len(self.output)
        self.output.append({"id": self.part.item_id(kind, at), "type": kind, **more})
        return _event("response.output_item.added", output_index=at, item=self.output[at])

    def _change(self, at: int, **changed: Any) -> None:
        self.output[at] = {**self.output[at], **changed}  # a new object: an event has the former one

    def _finish(self, at: int, **changed: Any) -> Object:
        self._change(at, **changed)
        return _event("response.output_item.done", output_index=at, item=item_view(self.output[at], self._include))

    @property
    def _items(self) -> list[Object]:
        return [item_view(item, self._include) for at, item in enumerate(self.output) if at not in self._hidden]

    def _of(self, kind: str, at: int, **more: Any) -> Object:
        """Return an event of the item at this position."""
        return _event(kind, item_id=self.output[at]["id"], output_index=at, **more)


def _event(kind: str, **more: Any) -> Object:
    return {"type": kind, **more}


def _summary_part(text: str) -> Object:
    return {"type": "summary_text", "text": text}


def _text_part(text: str, annotations: Sequence[Object] = ()) -> Object:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def _search_result(passage: Mapping[str, Any]) -> Object:
    same = {name: passage[name] for name in ("file_id", "score", "text")}
    return {**same, "filename": passage["file_name"], "attributes": passage.get("attributes") or {}}


class AnnotatedText(NamedTuple):
    """Text without its marks, and the annotations in their places."""

    text: str
    annotations: list[Object]


def annotate(text: str, sources: Mapping[str, Source], *, whole: bool) -> AnnotatedText:
    """Convert the citation marks of `sources` in a model's text to OpenAI annotations; marks that the model made up
    stay. Unless the text is `whole`, a possible start of a mark at its end is held back, so that the visible part of a
    growing text only ever grows."""
    if not sources:
        return AnnotatedText(text, [])
    told, begin, annotations = "", 0, list[Object]()
    for found in _MARKED.finditer(text):
        source = sources.get(found[1])
        if source is not None:
            told, begin = told + text[begin : found.start()], found.end()
            about = {"file_id": source.file_id, "filename": source.file_name}
            annotations.append({"type": "file_citation", "index": len(told), **about})
    rest = text[begin:]
    return AnnotatedText(told + (rest if whole else _BEGUN.sub("", rest, count=1)), annotations)
