"""The spans of a run, as a fold of its events: `invoke_agent`, and below it `chat` for each request to the model and
`execute_tool` for each call.

A step gets no span of its own: it would only repeat the order of what is in it, and its number is an attribute. The
names are those of OpenTelemetry's semantic conventions for generative AI; ours begin with `retinue.`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ..core.events import (
    Asked,
    Called,
    Compacted,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Retried,
    Started,
    Stopped,
)
from ..core.run_context import TraceParent, current_run, derive_span_id, derive_trace_id, idempotency_key
from ..core.run_result import RESTING, find_ending
from ..core.values import AgentAction, StopReason, Usage, sum_usages
from .span_content import SpanTexts

Value = str | int | float | bool | tuple[str, ...]
OpenedBy = TypeVar("OpenedBy", Asked, Called)
_NO_ERROR = (StopReason.CANCELLED, *RESTING)
_GOOD = ("result", "repeated")  # outcomes of calls


class SpanEvent(NamedTuple):
    """Something that happened at a moment within a span; `at` is in Unix nanoseconds."""

    name: str
    at: int
    values: Mapping[str, Value]


class SpanRecord(NamedTuple):
    """A span that has ended. Times are Unix nanoseconds.

    Args:
        parent: The trace, and the span's parent; `span_id` is empty if it has none.
        values: The attributes.
        error: The class of what went wrong, `error.type`, and `problem` says it in words.
        content: Texts of people, models and tools, by attribute, where they are wanted. The exporter writes them as
            JSON, redacted and shortened, in a thread of its own.
        again: It was probably exported before, by a process that has ended since. It is in no metric.
    """

    parent: TraceParent
    span_id: bytes
    name: str
    start: int
    end: int
    values: Mapping[str, Value]
    error: str = ""
    problem: str = ""
    events: Sequence[SpanEvent] = ()
    content: Mapping[str, object] | None = None
    again: bool = False


class Traced(NamedTuple):
    """The place of a run in its trace.

    Args:
        run: The run's id, from which the ids of its spans follow.
        parent: Its trace, and the span that called it; that span's id is empty if there is none.
        conversation: The thread that it belongs to.
        rests: Whether it goes on under the same id after it has waited, so that it has only one span.
        part: If not, and it goes on as a new run: the number of events that it continues.
    """

    run: str
    parent: TraceParent
    conversation: str = ""
    rests: bool = False
    part: int = 0

    @property
    def span(self) -> TraceParent:
        """The run's own span, which is the parent of those whom it calls over the network."""
        return self.parent._replace(span_id=derive_span_id("run", f"{self.run}@{self.part}"))


def place_of(key: str, *, member: bool, part: int) -> Traced:
    """Return the place of a run of the library. A member's caller is the call in its key. Otherwise it is the call of a
    tool within which the run begins, or the span of the app around it, if there is one. `part` is the number of events
    with which the run continues a former one."""
    call, outer = key if member else idempotency_key(), current_run().trace
    if call and outer is not None:
        return Traced(key, outer._replace(span_id=derive_span_id("tool", call)), part=part)
    api = sys.modules.get("opentelemetry.trace")  # the app may have a current span
    context = None if api is None else api.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        return Traced(key, TraceParent(derive_trace_id(key), b""), part=part)
    ids, sampled = (context.trace_id.to_bytes(16), context.span_id.to_bytes(8)), bool(context.trace_flags.sampled)
    return Traced(key, TraceParent(*ids, sampled, context.trace_state.to_header()), part=part)


@dataclass(slots=True)
class _Open(Generic[OpenedBy]):
    """A request to the model, or a call of a tool, that has not ended. `retries` counts what was done again."""

    at: int
    event: OpenedBy
    retries: int = 0


class RunSpans:
    """Folds the events of one run, and passes on each span that has ended (`emit`). `provider` is the model's; without
    `texts`, spans have no content."""

    def __init__(
        self, traced: Traced, emit: Callable[[SpanRecord], None], provider: str = "", texts: SpanTexts | None = None
    ) -> None:
        self._traced = traced
        self._emit = emit
        self._texts = texts
        self._of_run: dict[str, Value] = {"retinue.run.id": traced.run}
        if traced.conversation:
            self._of_run["gen_ai.conversation.id"] = traced.conversation
        self._of_model: dict[str, Value] = {"gen_ai.provider.name": provider or "unknown"}
        self._within = traced.span
        self._first_chat = int.from_bytes(derive_span_id("chats", traced.run))
        self._started: Started | None = None
        self._began = 0
        self._requests = self._steps = 0
        self._chat: _Open[Asked] | None = None
        self._calls: dict[str, _Open[Called]] = {}
        self._actions: dict[str, AgentAction] = {}
        self._times: dict[str, int] = {}  # by call: how often it ended
        self._used: list[Usage] = []
        self._events: list[SpanEvent] = []
        self._ended = self._replays = False
        self._unsure: list[SpanRecord] = []

    def replay(self, exported: Iterable[tuple[int, Event]], unsure: Iterable[tuple[int, Event]]) -> None:
        """Take note of the log so far, with the times: what is known to be `exported`, and what another process may
        have ended too early to export. Spans of the latter are sent again, with the same ids, when the run ends."""
        self._replays = True
        for at, event in exported:
            self.see(at, event)
        self._unsure.clear()
        for at, event in unsure:
            self.see(at, event)
        self._unsure = [record._replace(again=True) for record in self._unsure]
        self._replays = False

    def see(self, at: int, event: Event) -> None:
        """Take note of the log's next event; `at` is its time in Unix nanoseconds."""
        self._began = self._began or at
        match event:
            case Started() | Asked() | Compacted() | Retried() | Replied():
                self._see_request(at, event)
            case Called():
                self._actions[event.action.id] = event.action
                before = self._calls.get(event.action.id)  # its outcome was lost, if there is one
                start, retries = (at, 0) if before is None else (before.at, before.retries + 1)
                self._calls[event.action.id] = _Open(start, event, retries)
            case Observed(step, seen):
                self._used.append(seen.usage)
                call = self._calls.pop(seen.call_id, None)
                if call is None:  # a person refused it, or gave its result
                    unknown = AgentAction("unknown", "", id=seen.call_id)
                    call = _Open(at, Called(step, self._actions.get(seen.call_id, unknown)))
                self._end_call(at, call, seen.outcome, "" if seen.outcome in _GOOD else seen.outcome, event)
            case Paused(action=action):
                self._actions.setdefault(action.id, action)
                paused = {"gen_ai.tool.name": action.tool, "gen_ai.tool.call.id": action.id}
                self._events.append(SpanEvent("retinue.paused", at, paused))
            case Resumed(call_id=id, decision=decision):
                resumed = {"gen_ai.tool.call.id": id, "retinue.decision": decision.kind}
                self._events.append(SpanEvent("retinue.resumed", at, resumed))
            case Finished():
                self._end(at, Stopped(StopReason.ANSWER), event)
            case Stopped():
                self._used.append(event.usage)
                if event.reason not in RESTING or not self._traced.rests:
                    self._end(at, event, event)

    def _see_request(self, at: int, event: Started | Asked | Compacted | Retried | Replied) -> None:
        if self._texts is not None:
            self._texts.note(event)
        match event:
            case Started():
                self._started = event
                self._of_run["gen_ai.agent.name"] = event.agent
                self._of_model["gen_ai.request.model"] = event.model
            case Asked():
                self._end_chat(at, None, "context_length_exceeded")  # one that is open was too long for the window
                self._chat = _Open(at, event)
                self._requests += 1
            case Compacted():
                self._used.append(event.usage)
                values: dict[str, Value] = {"retinue.tier": event.tier, "retinue.before": event.before}
                values |= {"retinue.after": event.after} | _collect_usage_values(event.usage)
                self._events.append(SpanEvent("retinue.compacted", at, values))
            case Retried():
                self._used.append(event.usage)
                if self._chat is not None:
                    self._chat.retries += 1
            case Replied():
                self._used.append(event.reply.usage)
                self._steps = max(self._steps, event.step)
                self._end_chat(at, event)

    def _end_chat(self, at: int, event: Replied | None, error: str = "") -> None:
        chat, self._chat = self._chat, None
        if chat is None:
            return
        values: dict[str, Value] = {"retinue.step": chat.event.step}
        if event is not None:
            reply = event.reply
            values |= _collect_usage_values(reply.usage)
            values["gen_ai.response.finish_reasons"] = ("tool_calls",) if reply.calls else (reply.finish,)
            if reply.model:
                values["gen_ai.response.model"] = reply.model
            if reply.first_token_seconds:
                values["gen_ai.response.time_to_first_chunk"] = reply.first_token_seconds
        if chat.event.closing:
            values["retinue.closing"] = True
        if chat.retries:
            values["retinue.retries"] = chat.retries
        span = ((self._first_chat + self._requests - 1) % 2**64 or 1).to_bytes(8)
        name = "chat" if self._started is None else f"chat {self._started.model}"
        values = {"gen_ai.operation.name": "chat", **self._of_model, **self._of_run, **values}
        content = None if self._texts is None or event is None else self._texts.list_chat_texts(event)
        self._put_span(SpanRecord(self._within, span, name, chat.at, at, values, error, content=content))

    def _end_call(self, at: int, call: _Open[Called], outcome: str, error: str, event: Observed | None = None) -> None:
        action = call.event.action
        times = self._times[action.id] = self._times.get(action.id, 0) + 1
        again = "" if times == 1 else f"#{times}"  # such a log is not ours, but ids have to differ
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.type": "function",
            **self._of_run,
            "gen_ai.tool.name": action.tool,
            "gen_ai.tool.call.id": action.id,
            "retinue.tool.outcome": outcome,
            "retinue.step": call.event.step,
        }
        if call.retries:
            values["retinue.retries"] = call.retries
        if event is not None and event.observation.usage.cost:
            values["retinue.cost"] = event.observation.usage.cost
        span, name = derive_span_id("tool", f"{self._traced.run}/{action.id}{again}"), f"execute_tool {action.tool}"
        content = None if self._texts is None else self._texts.list_call_texts(action, event)
        self._put_span(SpanRecord(self._within, span, name, call.at, at, values, error, content=content))

    def _put_span(self, record: SpanRecord) -> None:
        if self._replays:
            self._unsure.append(record)
        else:
            self._emit(record)

    def leave(self, at: int, problem: str = "") -> None:
        """Take note that the run has ended, if its log does not say so: it failed, or nobody wanted it any more."""
        reason = StopReason.ERROR if problem else StopReason.CANCELLED
        self._end(at, Stopped(reason, problem, code="server_error"))

    def _end(self, at: int, end: Stopped, event: Finished | Stopped | None = None) -> None:
        if self._replays:  # an earlier end of a run that goes on
            self._chat = None
        if self._replays or self._ended:
            return
        self._ended, self._began = True, self._began or at
        error = "" if end.reason in _NO_ERROR or find_ending([end]).answered else end.reason.value.lower()
        if end.reason is StopReason.ERROR:
            error = end.code or "error"
        inner = error or end.reason.value.lower()
        self._end_chat(at, None, inner)
        if inner.upper() not in RESTING:  # else calls end when the run is continued
            for call in self._calls.values():
                self._end_call(at, call, "cut_off", inner)
            self._calls.clear()
        for record in self._unsure:
            self._emit(record)
        self._unsure.clear()
        values = {
            "gen_ai.operation.name": "invoke_agent",
            **self._of_model,
            **self._of_run,
            "retinue.stop_reason": end.reason.value,
            "retinue.steps": self._steps,
            **_collect_usage_values(sum_usages(self._used)),  # with its members'
        }
        if self._started is not None and self._started.strategy:
            values["retinue.strategy"] = self._started.strategy
        name = "invoke_agent" if self._started is None else f"invoke_agent {self._started.agent}"
        content = None if self._texts is None or event is None else self._texts.list_run_texts(event)
        said = error, end.detail if error else "", tuple(self._events), content
        self._emit(SpanRecord(self._traced.parent, self._within.span_id, name, self._began, at, values, *said))


def _collect_usage_values(usage: Usage) -> dict[str, Value]:
    """Return the tokens, and their cost if it is known."""
    values: dict[str, Value] = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
    }
    if usage.reasoning_tokens:
        values["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
    if usage.cost:
        values["retinue.cost"] = usage.cost
    return values
