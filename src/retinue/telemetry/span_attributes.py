"""The attributes of spans: what the events of a run say of it, its requests to the model and its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.events import Observed, Replied, Started
from ..core.values import AgentAction, Finish, StopReason, Usage, sum_of
from . import conventions as names
from .span_record import Shared, Value

Values = dict[str, Value]
_CALLS = ("tool_calls",)
_FINISH: Mapping[Finish, Value] = {"stop": ("stop",), "length": ("length",), "content_filter": ("content_filter",)}


@dataclass(slots=True)
class Open:
    """A request to the model, or a call of a tool, that has not ended. `number` counts requests, `retries` what was
    done again."""

    at: int
    step: int
    number: int = 0
    retries: int = 0
    closing: bool = False
    action: AgentAction | None = None


def shared_values(run: str, conversation: str, provider: str, started: Started | None) -> tuple[Shared, Shared]:
    """Return what all requests to the model have in common, and all calls."""
    common: Values = {names.RUN: run}
    if conversation:
        common[names.CONVERSATION] = conversation
    chats: Values = {names.OPERATION: names.CHAT, names.PROVIDER: provider or "unknown"}
    if started is not None:
        common[names.AGENT] = started.agent
        chats[names.REQUEST_MODEL] = started.model
    return Shared(chats | common), Shared({names.OPERATION: names.EXECUTE_TOOL, names.TOOL_TYPE: "function"} | common)


def chat_values(chat: Open, event: Replied | None) -> Values:
    """Return those of a request to the model; `event` is the reply, if there was one."""
    if event is None:
        values: Values = {names.STEP: chat.step}
    else:
        reply, usage = event.reply, event.reply.usage
        values = {
            names.STEP: chat.step,
            names.INPUT_TOKENS: usage.input_tokens,
            names.OUTPUT_TOKENS: usage.output_tokens,
            names.CACHED_TOKENS: usage.cached_tokens,
            names.FINISH_REASONS: _CALLS if reply.calls else _FINISH[reply.finish],
        }
        if reply.model:
            values[names.RESPONSE_MODEL] = reply.model
        if reply.first_token_seconds:
            values[names.FIRST_CHUNK] = reply.first_token_seconds
        if usage.reasoning_tokens:
            values[names.REASONING_TOKENS] = usage.reasoning_tokens
        if usage.cost:
            values[names.COST] = usage.cost
    if chat.closing:
        values[names.CLOSING] = True
    if chat.retries:
        values[names.RETRIES] = chat.retries
    return values


def call_values(call: Open, action: AgentAction, outcome: str, event: Observed | None) -> Values:
    """Return those of a call."""
    tool, step = action.tool, call.step
    values: Values = {names.TOOL_NAME: tool, names.TOOL_CALL: action.id, names.OUTCOME: outcome, names.STEP: step}
    if call.retries:
        values[names.RETRIES] = call.retries
    if event is not None and event.observation.usage.cost:
        values[names.COST] = event.observation.usage.cost
    return values


def run_values(started: Started | None, reason: StopReason, steps: int, used: Sequence[Usage]) -> Values:
    """Return those of a run that has ended: what it used counts its members'."""
    values: Values = {names.STOP_REASON: reason.value, names.STEPS: steps, **usage_values(sum_of(used))}
    if started is not None and started.strategy:
        values[names.STRATEGY] = started.strategy
    return values


def usage_values(usage: Usage) -> Values:
    """Return the tokens, and their cost if it is known."""
    values: Values = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHED_TOKENS: usage.cached_tokens,
    }
    values |= {names.REASONING_TOKENS: usage.reasoning_tokens} if usage.reasoning_tokens else {}
    return values | {names.COST: usage.cost} if usage.cost else values
