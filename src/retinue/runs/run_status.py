"""Derives a run's status, times and error from its last event, in the terms of OpenAI's run object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..core import events
from ..core.events import Event, Finished, Observed, Paused, Resumed, Stopped
from ..core.tool import Tool
from ..core.values import AgentAction, StopReason
from ..store.event_log import Entry
from ..store.run_row import RunRow, Status
from .submissions import Pending, arguments_of, stored_calls


def final_values(
    run: RunRow, log: Sequence[Entry], tools: Mapping[str, Tool], code: str = "server_error"
) -> dict[str, Any]:
    """Return the column values of a run whose `log` ends with `Finished` or `Stopped`. `tools` are its agent's tools by
    name; `code` is OpenAI's error code for failures without one of their own."""
    _, now, event = log[-1]
    assert isinstance(event, Finished | Stopped)
    status, problem = _status(run, event, code)
    time, state = int(now), {**run.state, "usage": usage_of(log)}
    if status == "requires_action":
        told = [entry.event for entry in log]
        asked = Counter(event.action.id for event in told if isinstance(event, Paused))
        waiting = [Pending(one, arguments_of(one, tools), asked[one.id]) for one in pending(told)]
        return {"status": status, "state": {**state, "waiting": stored_calls(waiting)}}
    at = {"cancelled": "cancelled_at", "failed": "failed_at", "expired": "expired_at"}.get(status, "completed_at")
    state |= problem | {at: time}
    return {"status": status, "holds": False, "expires_at": None, "state": state}


def _status(run: RunRow, event: Finished | Stopped, code: str) -> tuple[Status, dict[str, Any]]:
    if run.status == "cancelling":
        return "cancelled", {}
    if isinstance(event, Finished):
        return "completed", {}
    if run.state.get("ending") == "expired":
        return "expired", {}
    match event.reason:
        case StopReason.AWAITING_HUMAN:
            return "requires_action", {}
        case StopReason.CANCELLED:
            return "cancelled", {}
        case StopReason.INVALID_ANSWER if event.answer and run.request.get("kind") in _AS_REFUSAL:
            return "completed", {}
        case reason if reason in _INCOMPLETE:
            return "incomplete", {"incomplete_details": {"reason": _reason(event)}}
        case reason if event.answer and reason is not StopReason.INVALID_ANSWER:
            return "completed", {}
    code, message = _TOLD.get(event.code, (code, _words(event)))
    failure = {"code": event.code, "retry_after": event.retry_after}
    return "failed", {"last_error": {"code": code, "message": message}, "failure": failure}


def _reason(event: Stopped) -> str:
    """Return why a run is incomplete. For the token budget, `detail` says which limit was reached."""
    prompts = event.reason is StopReason.TOKEN_BUDGET_EXCEEDED and "input_tokens" in event.detail
    return "max_prompt_tokens" if prompts else _INCOMPLETE[event.reason]


_INCOMPLETE = {
    StopReason.TOKEN_BUDGET_EXCEEDED: "max_completion_tokens",
    StopReason.REPLY_TRUNCATED: "max_completion_tokens",
    StopReason.CONTENT_FILTERED: "content_filter",
}
_AS_REFUSAL = ("chat", "response")  # these APIs report an answer that violates the requested format as a refusal
_LATER = "Please try again later."
_TOLD: Mapping[str, tuple[str, str]] = {  # the engine's own error text and address go to the log only
    "rate_limit_exceeded": ("rate_limit_exceeded", f"The model behind this agent is at its rate limit. {_LATER}"),
    "context_length_exceeded": (
        "invalid_prompt",
        "This model's maximum context length is exceeded. Please reduce the length of the messages.",
    ),
    "invalid_request": ("invalid_prompt", "The model behind this agent does not accept this request."),
    "model_refused": ("server_error", "The model behind this agent cannot be used. Please contact the operator."),
    "server_error": ("server_error", "The run failed because of a server error. Please contact the operator."),
    "model_unavailable": ("server_error", f"The model behind this agent could not be reached, or failed. {_LATER}"),
}


def _words(event: Stopped) -> str:
    said = event.detail or f"the run was stopped: {event.reason}"
    return f"{said} (the best answer so far: {event.best})" if event.best else said


def usage_of(log: Sequence[Entry]) -> dict[str, int]:
    """Return the token usage summed over the run's model requests."""
    total = events.usage_of(entry.event for entry in log)
    return {
        "prompt_tokens": total.input_tokens,
        "completion_tokens": total.output_tokens,
        "total_tokens": total.total_tokens,
        "cached_tokens": total.cached_tokens,
    }


def pending(log: Sequence[Event]) -> list[AgentAction]:
    """Return the calls that wait for a person's decision or for the client's tool outputs."""
    waiting: dict[str, AgentAction] = {}
    for event in log:
        match event:
            case Paused(action=action):
                waiting[action.id] = action
            case Resumed(call_id=call_id):
                waiting.pop(call_id, None)
            case Observed(observation=observation):
                waiting.pop(observation.call_id, None)
    return list(waiting.values())
