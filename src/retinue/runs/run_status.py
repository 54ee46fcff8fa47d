"""What an event makes of a run: its status, times and error, in the words of OpenAI's run object."""

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
    """The values of the run's row once it has come to the end of `log`, `Finished` or `Stopped`. `tools` are those of
    its agent by name; `code` is OpenAI's for its error."""
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
    """Why a run is incomplete. Of its budget's tokens, `detail` says which ran out."""
    prompts = event.reason is StopReason.TOKEN_BUDGET_EXCEEDED and "input_tokens" in event.detail
    return "max_prompt_tokens" if prompts else _INCOMPLETE[event.reason]


_INCOMPLETE = {
    StopReason.TOKEN_BUDGET_EXCEEDED: "max_completion_tokens",
    StopReason.REPLY_TRUNCATED: "max_completion_tokens",
    StopReason.CONTENT_FILTERED: "content_filter",
}
_AS_REFUSAL = ("chat", "response")  # which tell an answer that is not in the form that was asked for as a refusal
_LATER = "Please try again later."
_TOLD: Mapping[str, tuple[str, str]] = {  # an engine's own words, and where it is, are for the log
    "rate_limit_exceeded": ("rate_limit_exceeded", f"The model behind this agent is at its rate limit. {_LATER}"),
    "context_length_exceeded": (
        "invalid_prompt",
        "This model's maximum context length is exceeded. Please reduce the length of the messages.",
    ),
    "invalid_request": ("invalid_prompt", "The model behind this agent does not take this request."),
    "model_refused": ("server_error", "The model behind this agent cannot be used. Please tell who runs the server."),
    "server_error": ("server_error", "The run failed by an error of the server. Please tell who runs it."),
    "model_unavailable": ("server_error", f"The model behind this agent could not be reached, or failed. {_LATER}"),
}


def _words(event: Stopped) -> str:
    said = event.detail or f"the run was stopped: {event.reason}"
    return f"{said} (the best answer so far: {event.best})" if event.best else said


def usage_of(log: Sequence[Entry]) -> dict[str, int]:
    """The tokens of all of the run's requests."""
    total = events.usage_of(entry.event for entry in log)
    return {
        "prompt_tokens": total.input_tokens,
        "completion_tokens": total.output_tokens,
        "total_tokens": total.total_tokens,
        "cached_tokens": total.cached_tokens,
    }


def pending(log: Sequence[Event]) -> list[AgentAction]:
    """The actions that wait for a person's decision, or for the client's own tools."""
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
