"""The log of a run: a closed union of events. Everything shown, stored or counted is derived from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ModelError, ModelUnavailable, NodeFailed, RetinueError, StrategyFailed
from .values import AgentAction, Capabilities, Decision, Image, Message, Observation, Reply, Step, StopReason, Usage


@dataclass(frozen=True, slots=True)
class Started:
    """The run began.

    `tools` are the names that the model may use; `abilities` are those of the engine and model. `instructions` is the
    system message, `None` in older logs. `images` are the question's; those of earlier turns are in `history`.
    """

    question: str
    agent: str
    strategy: str
    model: str
    tools: tuple[str, ...]
    abilities: Capabilities = field(default_factory=Capabilities)
    history: tuple[Message, ...] = ()
    instructions: str | None = None
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """The model is asked; `messages` are the new ones in this `prompt` (numbered from 0).

    `closing`: this is the last allowed step. `problem`: why the previous reply could not be parsed. `aside`: a check
    beside the steps. `shortened`: the prompt outgrew the context window, so its oldest observations were shortened
    until it had about this many characters.
    """

    step: int
    prompt: int
    messages: tuple[Message, ...]
    closing: bool = False
    problem: str = ""
    aside: bool = False
    shortened: int = 0


@dataclass(frozen=True, slots=True)
class Retried:
    """The engine failed and is asked again after `seconds`. Text already shown of this reply is void."""

    step: int
    problem: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Replied:
    """The model replied."""

    step: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Called:
    """A tool is about to be called: the intent, logged before the effect."""

    step: int
    action: AgentAction


@dataclass(frozen=True, slots=True)
class Observed:
    """The observation for the action with this `call_id`."""

    step: int
    observation: Observation


@dataclass(frozen=True, slots=True)
class Paused:
    """An action waits for a person; `problem` says why."""

    step: int
    action: AgentAction
    problem: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """A person decided on the action `call_id`."""

    step: int
    call_id: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Finished:
    """The strategy returned an answer."""

    answer: str
    return_values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run ended without a normal finish; `detail` explains it to a person.

    `answer` is the answer that the closing question produced, `best` the best one so far, `partial` the part of an
    answer already shown. `code` is that of the `ModelError` that ended the run; `retry_after` is the delay in seconds
    that the engine asked for.
    """

    reason: StopReason
    detail: str = ""
    answer: str = ""
    best: str = ""
    partial: str = ""
    code: str = ""
    retry_after: float = 0.0


def stopped_by(error: RetinueError, best: str = "", partial: str = "") -> Stopped:
    """Return the final event for an error."""
    cause = error.__cause__ if isinstance(error, NodeFailed) else error
    code = cause.code if isinstance(cause, ModelError | StrategyFailed) else "" if cause is error else "server_error"
    wait = cause.retry_after if isinstance(cause, ModelUnavailable) else None
    return Stopped(StopReason.ERROR, str(error), "", best, partial, code, wait or 0.0)


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the reply as it arrives. Only for live readers, never part of the log.

    `answer` is the piece of the run's answer in it, without reasoning or formatting. Text that may still turn out not
    to belong to the answer is held back, so the final answer may be longer than what was shown.
    """

    text: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A `Delta` shown to readers who may reconnect, persisted before it is sent so that they see the same again.

    Only persisted logs contain it; replay skips it. `offset` counts the characters of the answer that this reply had
    shown before.
    """

    text: str
    answer: str = ""
    offset: int = 0


Event = Started | Asked | Retried | Replied | Called | Observed | Paused | Resumed | Finished | Stopped | Said
KINDS: Mapping[str, type[Event]] = {
    kind.__name__.lower(): kind
    for kind in (Started, Asked, Retried, Replied, Called, Observed, Paused, Resumed, Finished, Stopped, Said)
}


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a run: a fold over its events.

    `answer` is empty if there is none; `best_answer` is then the run's best attempt, possibly only a thought.
    `return_values` is everything the strategy returned, with the answer under `output`. `transcript` is the full text
    as the model read and wrote it. `error` explains the stop reason `ERROR`. `events` is the log, from which the run
    can be resumed or replayed.
    """

    question: str
    answer: str
    stop_reason: StopReason
    steps: tuple[Step, ...]
    transcript: str
    usage: Usage
    seconds: float
    error: str = ""
    events: tuple[Event, ...] = ()
    return_values: Mapping[str, Any] = field(default_factory=dict)
    best_answer: str = ""

    @property
    def evidence(self) -> tuple[Observation, ...]:
        """The tools' observations, oldest first."""
        return tuple(seen for step in self.steps for seen in step.observations if seen.outcome == "result")

    @property
    def resumable(self) -> bool:
        """Whether `agent.resume(result.events)` can continue the run, as it is or with a larger budget."""
        return self.stop_reason in RESUMABLE

    def __str__(self) -> str:
        return self.answer or f"no answer ({self.stop_reason}{': ' + self.error if self.error else ''})"


RESUMABLE = frozenset(StopReason) - {
    StopReason.ANSWER,
    StopReason.NO_APPROPRIATE_TOOL,
    StopReason.UNREADABLE_REPLY,
    StopReason.INVALID_ANSWER,
    StopReason.REPLY_TRUNCATED,
    StopReason.CONTENT_FILTERED,
}


# ── folds ────────────────────────────────────────────────────────────────────────────────────────


def result(events: Sequence[Event], seconds: float = 0.0) -> RunResult:
    """Fold events into a result. `seconds` is the wall-clock time that the caller measured."""
    question, answer, best, reason, detail = "", "", "", StopReason.CANCELLED, ""
    values = dict[str, Any]()
    for event in events:
        match event:
            case Started():
                question = event.question
            case Finished():
                answer, reason, values = event.answer, StopReason.ANSWER, dict(event.return_values)
            case Stopped():
                answer, best, reason, detail = event.answer, event.best, event.reason, event.detail
            case _:
                pass
    return RunResult(
        question,
        answer,
        reason,
        tuple(steps(events)),
        transcript(events),
        usage_of(events),
        seconds,
        detail if reason is StopReason.ERROR else "",
        tuple(events),
        values,
        answer or best,
    )


def usage_of(events: Iterable[Event]) -> Usage:
    """Sum the tokens of all requests to the model, and of agents used as its tools."""
    total = Usage()
    for event in events:
        if isinstance(event, Replied):
            total += event.reply.usage
        elif isinstance(event, Observed):
            total += event.observation.usage
    return total


def steps(events: Iterable[Event]) -> Iterator[Step]:
    """Yield the turns in which tools were used, with observations in the order of the actions."""
    called: dict[int, dict[str, AgentAction]] = {}
    seen: dict[str, Observation] = {}
    for event in events:
        if isinstance(event, Called | Paused):
            called.setdefault(event.step, {})[event.action.id] = event.action
        elif isinstance(event, Observed):
            seen[event.observation.call_id] = event.observation
    for actions in called.values():
        done = [action for action in actions.values() if action.id in seen]
        if done:
            yield Step(tuple(done), tuple(seen[action.id] for action in done))


def transcript(events: Iterable[Event]) -> str:
    """Return everything the model read and wrote, prompt by prompt in order of creation."""
    texts: dict[int, str] = {}
    replies: dict[int, str] = {}  # by prompt: the reply that no later message has included yet
    prompt = 0
    for event in events:
        if isinstance(event, Asked):
            prompt = event.prompt
            replies.pop(prompt, None)
            texts[prompt] = texts.get(prompt, "") + "".join(map(_said, event.messages))
        elif isinstance(event, Replied):
            replies[prompt] = event.reply.text + "".join(map(_call, event.reply.calls))
    return "\n\n".join(text + replies.get(prompt, "") for prompt, text in texts.items())


def _said(message: Message) -> str:
    shown = "".join(f"[{one.media_type} {one.id[:12]}]\n" for one in message.images)
    return shown + message.content + "".join(map(_call, message.calls)) + "\n" * bool(message.calls or message.call_id)


def _call(action: AgentAction) -> str:
    given = action.tool_input
    return f"\n{action.tool}({given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)})"
