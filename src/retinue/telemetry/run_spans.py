"""The spans of a run, as a fold of its events: `invoke_agent`, and below it `chat` for each request to the model and
`execute_tool` for each call.

A step gets no span of its own: it would only repeat the order of what is in it, and its number is an attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.events import Asked, Called, Event, Finished, Observed, Paused, Replied, Resumed, Retried, Started, Stopped
from ..core.run_context import TraceParent, derive_span_id
from ..core.run_result import RESTING, find_ending
from ..core.values import AgentAction, StopReason, Usage, sum_usages
from . import conventions as names
from .span_content import SpanTexts
from .span_record import CLIENT, INTERNAL, SpanEvent, SpanRecord, Value

Values = dict[str, Value]
_NO_ERROR = (StopReason.CANCELLED, *RESTING)
_GOOD = ("result", "repeated")  # outcomes of calls


class Traced(NamedTuple):
    """The place of a run in its trace.

    Args:
        name: From which the ids of its spans follow.
        run: The run's id.
        parent: Its trace, and the span that called it; that span's id is empty if there is none.
        conversation: The thread that it belongs to.
        rests: Whether it goes on under the same name after it has waited, so that it has only one span.
        part: If not, and it goes on as a new run: the number of events that it continues.
    """

    name: str
    run: str
    parent: TraceParent
    conversation: str = ""
    rests: bool = False
    part: int = 0

    @property
    def span(self) -> TraceParent:
        """The run's own span, which is the parent of those whom it calls over the network."""
        return self.parent._replace(span_id=derive_span_id("run", f"{self.name}@{self.part}"))


@dataclass(slots=True)
class _Open:
    """A request to the model, or a call of a tool, that has not ended. `number` counts requests, `retries` what was
    done again."""

    at: int
    step: int
    number: int = 0
    retries: int = 0
    closing: bool = False
    action: AgentAction | None = None


class RunSpans:
    """Folds the events of one run, and passes on each span that has ended (`emit`). `provider` is the model's; without
    `texts`, spans have no content."""

    def __init__(
        self, traced: Traced, emit: Callable[[SpanRecord], None], provider: str = "", texts: SpanTexts | None = None
    ) -> None:
        self.traced = traced
        self._emit = emit
        self._provider = provider
        self._texts = texts
        self._within = traced.span
        self._first_chat = int.from_bytes(derive_span_id("chats", traced.name))
        self._started: Started | None = None
        self._began = 0
        self._asked = self._steps = 0
        self._chat: _Open | None = None
        self._calls: dict[str, _Open] = {}
        self._actions: dict[str, AgentAction] = {}
        self._times: dict[str, int] = {}  # by call: how often it ended
        self._used: list[Usage] = []
        self._events: list[SpanEvent] = []
        self._chat_name = names.CHAT
        self._chats, self._tools = _collect_shared_values(traced.run, traced.conversation, provider, None)
        self._ended = self._replays = False
        self._unsure: list[SpanRecord] = []

    def see(self, at: int, event: Event) -> None:
        """Take note of the log's next event; `at` is its time in Unix nanoseconds."""
        self._began = self._began or at
        if (fold := _FOLDS.get(type(event))) is not None:
            fold(self, at, event)

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

    def _put_span(self, record: SpanRecord) -> None:
        if self._replays:
            self._unsure.append(record)
        else:
            self._emit(record)

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    def _start(self, at: int, event: Started) -> None:
        self._started = event
        self._chat_name = f"{names.CHAT} {event.model}"
        self._chats, self._tools = _collect_shared_values(
            self.traced.run, self.traced.conversation, self._provider, event
        )
        if self._texts is not None:
            self._texts.note(event)

    def _ask(self, at: int, event: Asked) -> None:
        self._end_chat(at, None, "context_length_exceeded")  # one that is open was too long for the window
        self._chat = _Open(at, event.step, self._asked, closing=event.closing)
        self._asked += 1
        if self._texts is not None:
            self._texts.note(event)

    def _retry(self, at: int, event: Retried) -> None:
        if self._chat is not None:
            self._chat.retries += 1
        self._used.append(event.usage)

    def _reply(self, at: int, event: Replied) -> None:
        self._used.append(event.reply.usage)
        self._steps = max(self._steps, event.step)
        self._end_chat(at, event)

    def _end_chat(self, at: int, event: Replied | None, error: str = "") -> None:
        chat, self._chat = self._chat, None
        if chat is None:
            return
        span = ((self._first_chat + chat.number) % 2**64 or 1).to_bytes(8)
        content = None if self._texts is None or event is None else self._texts.list_chat_texts(event)
        values = _collect_chat_values(chat, event)
        name, within = self._chat_name, self._within
        self._put_span(SpanRecord(within, span, name, CLIENT, chat.at, at, self._chats, values, error, "", (), content))

    def _call(self, at: int, event: Called) -> None:
        action = self._actions[event.action.id] = event.action
        if (before := self._calls.get(action.id)) is not None:  # its outcome was lost
            before.action, before.retries = action, before.retries + 1
        else:
            self._calls[action.id] = _Open(at, event.step, action=action)

    def _observe(self, at: int, event: Observed) -> None:
        seen = event.observation
        self._used.append(seen.usage)
        call = self._calls.pop(seen.call_id, None)
        if call is None:  # a person refused it, or gave its result
            action = self._actions.get(seen.call_id) or AgentAction("unknown", "", id=seen.call_id)
            call = _Open(at, event.step, action=action)
        self._end_call(at, call, seen.outcome, "" if seen.outcome in _GOOD else seen.outcome, event)

    def _end_call(self, at: int, call: _Open, outcome: str, error: str, event: Observed | None = None) -> None:
        if (action := call.action) is None:
            return
        times = self._times[action.id] = self._times.get(action.id, 0) + 1
        again = "" if times == 1 else f"#{times}"  # such a log is not ours, but ids have to differ
        span = derive_span_id("tool", f"{self.traced.name}/{action.id}{again}")
        name = f"{names.EXECUTE_TOOL} {action.tool}"
        content = None if self._texts is None else self._texts.list_call_texts(action, event)
        values = _call_values(call, action, outcome, event)
        within = self._within
        self._put_span(
            SpanRecord(within, span, name, INTERNAL, call.at, at, self._tools, values, error, "", (), content)
        )

    def _pause(self, at: int, event: Paused) -> None:
        action = event.action
        self._actions.setdefault(action.id, action)
        self._events.append(SpanEvent("retinue.paused", at, {names.TOOL_NAME: action.tool, names.TOOL_CALL: action.id}))

    def _resume(self, at: int, event: Resumed) -> None:
        values = {names.TOOL_CALL: event.call_id, names.DECISION: event.decision.kind}
        self._events.append(SpanEvent("retinue.resumed", at, values))

    # ── how it ends ──────────────────────────────────────────────────────────────────────────────

    def _finish(self, at: int, event: Finished) -> None:
        self._end(at, Stopped(StopReason.ANSWER), event)

    def _stop(self, at: int, event: Stopped) -> None:
        self._used.append(event.usage)
        if event.reason not in RESTING or not self.traced.rests:
            self._end(at, event, event)

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
        self._end_open(at, error or end.reason.value.lower())
        for record in self._unsure:
            self._emit(record)
        self._unsure.clear()
        content = None if self._texts is None or event is None else self._texts.list_run_texts(event)
        shared = self._chats | {names.OPERATION: names.INVOKE_AGENT}
        values = _run_values(self._started, end.reason, self._steps, self._used)
        name = names.INVOKE_AGENT if self._started is None else f"{names.INVOKE_AGENT} {self._started.agent}"
        place = self.traced.parent, self._within.span_id, name, INTERNAL, self._began, at, shared
        problem = end.detail if error else ""
        self._emit(SpanRecord(*place, values, error, problem, tuple(self._events), content))

    def _end_open(self, at: int, error: str) -> None:
        """End what is under way: the run has ended."""
        self._end_chat(at, None, error)
        if error.upper() in RESTING:  # they end when the run is continued
            return
        for call in self._calls.values():
            self._end_call(at, call, "cut_off", error)
        self._calls.clear()


_FOLDS: dict[type[Event], Callable[[RunSpans, int, Any], None]] = {
    Started: RunSpans._start,
    Asked: RunSpans._ask,
    Retried: RunSpans._retry,
    Replied: RunSpans._reply,
    Called: RunSpans._call,
    Observed: RunSpans._observe,
    Paused: RunSpans._pause,
    Resumed: RunSpans._resume,
    Finished: RunSpans._finish,
    Stopped: RunSpans._stop,
}


# ── attributes ────────────────────────────────────────────────────────────────────────────────────


def _collect_shared_values(
    run: str, conversation: str, provider: str, started: Started | None
) -> tuple[Values, Values]:
    """Return what all requests to the model have in common, and all calls."""
    common: Values = {names.RUN: run}
    if conversation:
        common[names.CONVERSATION] = conversation
    chats: Values = {names.OPERATION: names.CHAT, names.PROVIDER: provider or "unknown"}
    if started is not None:
        common[names.AGENT] = started.agent
        chats[names.REQUEST_MODEL] = started.model
    return chats | common, {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_TYPE: "function"} | common


def _collect_chat_values(chat: _Open, event: Replied | None) -> Values:
    """Return those of a request to the model; `event` is the reply, if there was one."""
    values: Values = {names.STEP: chat.step}
    if event is not None:
        reply = event.reply
        values |= _collect_usage_values(reply.usage)
        values[names.FINISH_REASONS] = ("tool_calls",) if reply.calls else (reply.finish,)
        if reply.model:
            values[names.RESPONSE_MODEL] = reply.model
        if reply.first_token_seconds:
            values[names.FIRST_CHUNK] = reply.first_token_seconds
    if chat.closing:
        values[names.CLOSING] = True
    if chat.retries:
        values[names.RETRIES] = chat.retries
    return values


def _call_values(call: _Open, action: AgentAction, outcome: str, event: Observed | None) -> Values:
    """Return those of a call."""
    tool, step = action.tool, call.step
    values: Values = {names.TOOL_NAME: tool, names.TOOL_CALL: action.id, names.OUTCOME: outcome, names.STEP: step}
    if call.retries:
        values[names.RETRIES] = call.retries
    if event is not None and event.observation.usage.cost:
        values[names.COST] = event.observation.usage.cost
    return values


def _run_values(started: Started | None, reason: StopReason, steps: int, used: Sequence[Usage]) -> Values:
    """Return those of a run that has ended: what it used counts its members'."""
    values: Values = {names.STOP_REASON: reason.value, names.STEPS: steps, **_collect_usage_values(sum_usages(used))}
    if started is not None and started.strategy:
        values[names.STRATEGY] = started.strategy
    return values


def _collect_usage_values(usage: Usage) -> Values:
    """Return the tokens, and their cost if it is known."""
    values: Values = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHED_TOKENS: usage.cached_tokens,
    }
    values |= {names.REASONING_TOKENS: usage.reasoning_tokens} if usage.reasoning_tokens else {}
    return values | {names.COST: usage.cost} if usage.cost else values
