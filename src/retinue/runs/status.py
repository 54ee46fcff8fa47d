"""The state machine of runs: which status may follow which, and what each step sets; and how a log's end decides it.

Every change of a stored run's status is one of `STEPS`. `update_run` in the store guards it against whoever was first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, Unpack

from sqlalchemy import Connection

from ..core import run_result
from ..core.events import Event, Finished, Paused, Stopped
from ..core.run_result import pending
from ..core.tools.tool import Tool
from ..core.values import AgentAction, Decision, StopReason
from ..errors import StoreConflict
from ..store.due import DRIVEN
from ..store.event_log import Entry
from ..store.run_queries import update_run
from ..store.run_row import ACTIVE, BY_MEMBERS, ENDED, RunError, RunRow, RunValues, Status

StepName: TypeAlias = Literal[
    "admit", "acquire", "park", "leave", "return", "pause", "answer", "decide", "suspend", "resume", "cancel", "expire",
    "fence", "end",
]  # fmt: skip


class Step(NamedTuple):
    """A step of a run.

    Args:
        before: The statuses in which it may be taken.
        after: Those that may follow; a step that names none leaves the status as it is.
        sets: What it always sets. The last status of `after` is set unless the caller gives another.
        given: What its caller has to give, besides.
        fences: Whether it takes the next epoch, so that a drive under way writes no more.
    """

    before: frozenset[Status]
    after: tuple[Status, ...] = ()
    sets: RunValues = RunValues()
    given: frozenset[str] = frozenset()
    fences: bool = False


_DRIVEN: frozenset[Status] = frozenset(DRIVEN)
_QUEUED: frozenset[Status] = frozenset({"queued"})
_UNDER_WAY: frozenset[Status] = frozenset({"in_progress", "cancelling"})
_ASKS: frozenset[Status] = frozenset({"requires_action"})
_FREE = RunValues(driver=None, attempts=0, progress=None)  # whichever process is first drives it, and none has died
_HELD = frozenset({"driver", "attempts", "progress"})

STEPS: Mapping[StepName, Step] = {
    # it waited for its thread, and has it now
    "admit": Step(_QUEUED, sets=RunValues(holds=True), given=frozenset({"expires_at"})),
    # a process drives it
    "acquire": Step(_DRIVEN, ("cancelling", "in_progress"), RunValues(error=None), _HELD, fences=True),
    # its process stops, and leaves it to others
    "park": Step(_DRIVEN, sets=_FREE),
    # its members have it
    "leave": Step(frozenset({"in_progress"}), sets=RunValues(driver=BY_MEMBERS)),
    # its members have ended
    "return": Step(frozenset({"in_progress", "requires_action"}), ("in_progress",), _FREE | RunValues(waiting=())),
    # it waits for a person or its client
    "pause": Step(_UNDER_WAY | _QUEUED, ("requires_action",), given=frozenset({"waiting"})),
    # it was given all that it waits for
    "answer": Step(_ASKS, ("queued",), _FREE | RunValues(waiting=()), frozenset({"expires_at", "turns"})),
    # its members were given what they wait for
    "decide": Step(_ASKS, ("in_progress",), RunValues(waiting=()), frozenset({"expires_at", "turns"})),
    # its agent has changed
    "suspend": Step(_DRIVEN, ("queued",), _FREE, frozenset({"error", "expires_at"})),
    # it may go on after that
    "resume": Step(_QUEUED, sets=RunValues(error=None), given=frozenset({"expires_at"})),
    # the process that drives it has to end it
    "cancel": Step(_UNDER_WAY, ("cancelling",)),
    "expire": Step(_UNDER_WAY, sets=RunValues(ending="expired")),
    # somebody else than a drive writes its log
    "fence": Step(ACTIVE, fences=True),
    "end": Step(ACTIVE, ENDED, RunValues(holds=False, expires_at=None), frozenset({"status", "ended_at"})),
}


def step_values(run: RunRow, name: StepName, **given: Unpack[RunValues]) -> RunValues:
    """Return what a step sets of `run`, with what its caller gives. Raises `StoreConflict` if it cannot be taken in the
    run's status."""
    step = STEPS[name]
    if run.status not in step.before:
        raise StoreConflict(f"the run {run.id} is {run.status}, so that {name!r} is too late")
    assert step.given <= given.keys(), f"{name} needs {step.given - given.keys()}"
    status = RunValues(status=step.after[-1]) if step.after else RunValues()
    if name == "acquire" and run.status == "cancelling":
        status = RunValues()  # it only has to end
    epoch = RunValues(epoch=run.epoch + 1) if step.fences else RunValues()
    values = status | step.sets | epoch | RunValues(**given)
    assert values.get("status", run.status) in (*step.after, run.status), f"{name} cannot lead there"
    return values


def take_step(connection: Connection, run: RunRow, name: StepName, **given: Unpack[RunValues]) -> RunRow:
    """Take a step of a run. Return its new row. Raises `StoreConflict` if the run is no longer as it was read, or the
    step cannot be taken."""
    return update_run(connection, run, **step_values(run, name, **given))


def final_values(run: RunRow, log: Sequence[Entry], tools: Mapping[str, Tool], code: str = "server_error") -> RunValues:
    """Return the values of a run whose `log` ends with `Finished` or `Stopped`. `tools` are its agent's tools by name;
    `code` is OpenAI's error code for failures without one of their own."""
    _, now, event = log[-1]
    assert isinstance(event, Finished | Stopped)
    used = run_result.sum_usage(entry.event for entry in log)
    values = _outcome(run, event, code)
    values["prompt_tokens"], values["completion_tokens"] = used.input_tokens, used.output_tokens
    values["cached_tokens"] = used.cached_tokens
    if values["status"] != "requires_action":
        return step_values(run, "end", **(values | RunValues(ended_at=int(now))))
    told = [entry.event for entry in log]
    asked = Counter(event.action.id for event in told if isinstance(event, Paused))
    waiting = [Pending(one, arguments_of(one, tools), asked[one.id]) for one in pending(told)]
    return step_values(run, "pause", **(values | RunValues(waiting=stored_calls(waiting, tools))))


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
    StopReason.BLOCKED: "content_filter",
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


class Pending(NamedTuple):
    """A pending call: its action, its arguments by name, and how often a person was asked about it so far. It is asked
    again whenever its outcome was lost; an answer counts only for the time it was given for."""

    action: AgentAction
    arguments: Mapping[str, Any]
    asked: int = 1


def pending_calls(run: RunRow) -> list[Pending]:
    """Return the calls that a run waits for."""
    return [
        Pending(AgentAction(one["tool"], one["tool_input"], id=one["id"]), one["arguments"], one["asked"])
        for one in run.waiting
    ]


def stored_calls(waiting: Iterable[Pending], tools: Mapping[str, Tool] = {}) -> list[dict[str, Any]]:
    """Convert pending calls to the JSON stored in the run's row, with the schemas of their arguments as far as their
    tools are among `tools`."""
    return [
        {"id": one.id, "tool": one.tool, "tool_input": one.tool_input, "arguments": arguments, "asked": asked}
        | ({"schema": tools[one.tool].signature.parameters} if one.tool in tools else {})
        for one, arguments, asked in waiting
    ]


def arguments_of(action: AgentAction, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Return a call's arguments by name. Plain text becomes the tool's text argument."""
    given, tool = action.tool_input, tools.get(action.tool)
    if isinstance(given, dict):
        return given
    name = tool.signature.text_argument if tool is not None else None
    return {name or "input": given}
