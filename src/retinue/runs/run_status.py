"""Derives a run's status, times and error from its last event, in the terms of OpenAI's run object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..core import run_result
from ..core.events import Event, Finished, Paused, Stopped
from ..core.run_result import pending
from ..core.tools.tool import Tool
from ..core.values import Decision, StopReason
from ..store.event_log import Entry
from ..store.run_row import RunError, RunRow, RunValues
from .submissions import Pending, arguments_of, stored_calls


def final_values(run: RunRow, log: Sequence[Entry], tools: Mapping[str, Tool], code: str = "server_error") -> RunValues:
    """Return the values of a run whose `log` ends with `Finished` or `Stopped`. `tools` are its agent's tools by name;
    `code` is OpenAI's error code for failures without one of their own."""
    _, now, event = log[-1]
    assert isinstance(event, Finished | Stopped)
    used = run_result.sum_usage(entry.event for entry in log)
    values = _outcome(run, event, code)
    values["prompt_tokens"], values["completion_tokens"] = used.input_tokens, used.output_tokens
    values["cached_tokens"] = used.cached_tokens
    if values["status"] == "requires_action":
        told = [entry.event for entry in log]
        asked = Counter(event.action.id for event in told if isinstance(event, Paused))
        waiting = [Pending(one, arguments_of(one, tools), asked[one.id]) for one in pending(told)]
        return values | RunValues(waiting=stored_calls(waiting, tools))
    return values | RunValues(holds=False, expires_at=None, ended_at=int(now))


def _outcome(run: RunRow, event: Finished | Stopped, code: str) -> RunValues:
    """Return the status, and the error or the reason for which the run is incomplete."""
    if run.status == "cancelling":
        return RunValues(status="cancelled")
    if isinstance(event, Finished):
        return RunValues(status="completed")
    if run.ending == "expired":
        return RunValues(status="expired")
    match event.reason:
        case StopReason.AWAITING_HUMAN:
            return RunValues(status="requires_action")
        case StopReason.CANCELLED:
            return RunValues(status="cancelled")
        case StopReason.INVALID_ANSWER if event.answer and run.kind in _AS_REFUSAL:
            return RunValues(status="completed")
        case reason if reason in _INCOMPLETE:
            return RunValues(status="incomplete", incomplete=_reason(event))
        case _ if run_result.find_ending([event]).answered:
            return RunValues(status="completed")
    if event.code == "invalid_prompt":
        code = event.code
    code, message = TOLD.get(event.code, (code, _words(event)))
    cause = event.code or ("" if event.reason is StopReason.ERROR else event.reason.lower())
    return RunValues(status="failed", error=RunError(code, message, cause, event.retry_after))


def _reason(event: Stopped) -> str:
    """Return why a run is incomplete. For the token budget, `detail` says which limit was reached."""
    prompts = event.reason is StopReason.TOKEN_BUDGET_EXCEEDED and "input_tokens" in event.detail
    return "max_prompt_tokens" if prompts else _INCOMPLETE[event.reason]


_INCOMPLETE = {
    StopReason.TOKEN_BUDGET_EXCEEDED: "max_completion_tokens",
    StopReason.COST_BUDGET_EXCEEDED: "max_completion_tokens",
    StopReason.REPLY_TRUNCATED: "max_completion_tokens",
    StopReason.CONTENT_FILTERED: "content_filter",
}
_AS_REFUSAL = ("chat", "response")  # these APIs report an answer that violates the requested format as a refusal
_LATER = "Please try again later."
TOLD: Mapping[str, tuple[str, str]] = {  # the engine's own error text and address go to the log only
    "rate_limit_exceeded": ("rate_limit_exceeded", f"The model behind this agent is at its rate limit. {_LATER}"),
    "context_length_exceeded": (
        "invalid_prompt",
        "This model's maximum context length is exceeded. Please reduce the length of the messages.",
    ),
    "invalid_request": ("invalid_prompt", "The model behind this agent does not accept this request."),
    "model_refused": ("server_error", "The model behind this agent cannot be used. Please contact the operator."),
    "server_error": ("server_error", "The run failed because of a server error. Please contact the operator."),
    "model_unavailable": ("server_error", f"The model behind this agent could not be reached, or failed. {_LATER}"),
    "model_unreachable": ("server_error", f"The model behind this agent could not be reached, or failed. {_LATER}"),
}


_ENDED = {
    StopReason.UNREADABLE_REPLY: "the model's replies were empty or could not be read, also when it was asked again",
    StopReason.MAX_ITERATION_EXCEEDED: "it is out of steps",
    StopReason.MAX_EXECUTION_TIME_EXCEEDED: "its time is up",
    StopReason.NO_APPROPRIATE_TOOL: "no tool of the agent fits the question",
}


def _words(event: Stopped) -> str:
    said = event.detail or f"the run was stopped: {_ENDED.get(event.reason, event.reason)}"
    return f"{said} (the best answer so far: {event.best})" if event.best else said


def decisions(run: RunRow, log: Sequence[Event]) -> dict[str, Decision]:
    """Return the decisions on pending calls, by call id. Each decision counts for one pause only, not for later
    ones."""
    given = run.decisions
    return {action.id: given[action.id] for action in pending(log) if action.id in given}
