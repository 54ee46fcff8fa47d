"""The result of a run, and what else is derived from its log: folds over its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, cast

from typing_extensions import TypeVar

from ..errors import NoAnswer
from .events import (
    ENDINGS,
    Asked,
    Called,
    Event,
    Finished,
    Observed,
    Paused,
    Replied,
    Resumed,
    Started,
    Stopped,
    request_usage,
)
from .schema.answers import Answer, AnswerType
from .values import AgentAction, Message, Observation, Step, StopReason, Usage, sum_usages

_UNICODE = json.JSONEncoder(ensure_ascii=False)
_Answer = TypeVar("_Answer", default=str, covariant=True)
_SHOWN = 200  # characters of an answer in a representation


@dataclass(frozen=True)
class RunResult(Generic[_Answer]):
    """The outcome of a run: a fold over its events.

    `text` is the answer as text, empty if there is none; `best_answer` is then the run's best attempt, possibly only a
    thought. An answer that was cut short is there as far as it goes, but the run is not `answered`. `error` says why it
    is not: the limit that ran out, the calls that wait for a person and why, or what failed. `return_values` is
    everything the strategy returned, with the answer under `output`. `events` is the log, from which the run can be
    resumed or replayed. `children` has the logs of agents that were called, by the paths of their calls. `answers` is
    the type of the answer, `None` if it is text. `run` is the run's key: its id in the store, if the agent has one."""

    question: str
    text: str
    stop_reason: StopReason
    steps: tuple[Step, ...]
    usage: Usage
    seconds: float
    error: str = ""
    events: tuple[Event, ...] = ()
    return_values: Mapping[str, Any] = field(default_factory=dict)
    best_answer: str = ""
    children: Mapping[str, tuple[Event, ...]] = field(default_factory=dict)
    run: str = field(default="", compare=False, repr=False)
    answers: AnswerType | None = field(default=None, repr=False, compare=False)

    @cached_property
    def answer(self) -> _Answer:
        """The answer: `text`, or the object that it says if the agent's answers have a type. Raises `NoAnswer` if there
        is no such object."""
        if self.answers is None:
            return cast(_Answer, self.text)
        if not self.answered:
            raise NoAnswer(f"the run has {self}")
        try:
            return cast(_Answer, self.answers.read(self.text))
        except ValueError as error:
            raise NoAnswer(f"the run's answer is not of this agent's type: {error}") from error

    @cached_property
    def transcript(self) -> str:
        """The full text as the model read and wrote it, prompt by prompt in order of creation."""
        texts: dict[int, str] = {}
        replies: dict[int, str] = {}  # by prompt: the reply that no later message has included yet
        prompt = 0
        for event in self.events:
            if isinstance(event, Asked):
                prompt = event.prompt
                replies.pop(prompt, None)
                texts[prompt] = texts.get(prompt, "") + "".join(map(_format_message, event.messages))
            elif isinstance(event, Replied):
                replies[prompt] = event.reply.text + "".join(map(_format_call, event.reply.calls))
        return "\n\n".join(text + replies.get(prompt, "") for prompt, text in texts.items())

    @property
    def waiting(self) -> tuple[AgentAction, ...]:
        """The calls that wait for a person's decision. Those of agents that were called have paths as ids, such as
        `call_1_0/call_2_0`."""
        logs = {"": self.events, **{f"{path}/": log for path, log in self.children.items()}}
        return tuple(replace(one, id=f"{path}{one.id}") for path, log in logs.items() for one in pending(log))

    @property
    def evidence(self) -> tuple[Observation, ...]:
        """The tools' observations, oldest first."""
        return tuple(seen for step in self.steps for seen in step.observations if seen.outcome == "result")

    @property
    def resumable(self) -> bool:
        """Whether `agent.resume(result.events)` can continue the run, as it is or with a larger budget."""
        return self.stop_reason in RESUMABLE

    @property
    def answered(self) -> bool:
        """Whether `text` is the run's answer, and the whole of it."""
        return find_ending(self.events).answered if self.events else self.stop_reason is StopReason.ANSWER

    def __repr__(self) -> str:
        told = (self.text or self.error)[:_SHOWN]
        return f"RunResult({told!r}, {self.stop_reason}, steps={len(self.steps)}, tokens={self.usage.total_tokens})"

    def _repr_html_(self) -> str:
        """Show a notebook the answer, with the transcript folded."""
        told, text = escape(str(self)), escape(self.transcript)
        heading = f"{self.stop_reason}, {len(self.steps)} steps, {self.usage.total_tokens} tokens"
        return f"<p>{told}</p><details><summary>{heading}</summary><pre>{text}</pre></details>"

    def __str__(self) -> str:
        why = f"({self.stop_reason}{': ' + self.error if self.error else ''})"
        if self.answered:
            return self.text
        return f"{self.text}\n(incomplete) {why}" if self.text else f"no answer {why}"


LIMITS = frozenset(
    {
        StopReason.MAX_ITERATION_EXCEEDED,
        StopReason.MAX_EXECUTION_TIME_EXCEEDED,
        StopReason.TOKEN_BUDGET_EXCEEDED,
        StopReason.COST_BUDGET_EXCEEDED,
        StopReason.STAGNATED,
    }
)
RESTING = frozenset({StopReason.AWAITING_HUMAN, StopReason.AWAITING_MEMBER})
RESUMABLE = frozenset(StopReason) - {
    StopReason.ANSWER,
    StopReason.NO_APPROPRIATE_TOOL,
    StopReason.UNREADABLE_REPLY,
    StopReason.INVALID_ANSWER,
    StopReason.REPLY_TRUNCATED,
    StopReason.CONTENT_FILTERED,
    StopReason.BLOCKED,
}


def fold_result(
    events: Sequence[Event],
    seconds: float = 0.0,
    children: Mapping[str, tuple[Event, ...]] = MappingProxyType({}),
    answers: AnswerType | None = None,
    run: str = "",
) -> RunResult[Answer]:
    """Fold events into a result. `seconds` is the wall-clock time that the caller measured; `children`,
    `answers` and `run` as there."""
    end = find_ending(events)
    question = next((event.question for event in reversed(events) if isinstance(event, Started)), "")
    return RunResult(
        question,
        end.answer,
        end.reason,
        tuple(list_steps(events)),
        sum_usage(events),
        seconds,
        "" if end.answered else end.detail,
        tuple(events),
        end.values,
        end.answer or end.best,
        children,
        run,
        answers,
    )


class Ending(NamedTuple):
    """How a run ended: why, its answer or best attempt, what explains it, and what the strategy returned."""

    reason: StopReason
    answer: str = ""
    best: str = ""
    detail: str = ""
    values: Mapping[str, Any] = MappingProxyType({})

    @property
    def answered(self) -> bool:
        """Whether the run has its answer, and the whole of it: every reader of an ending decides by this."""
        return self.reason is StopReason.ANSWER or (self.reason is StopReason.STAGNATED and bool(self.answer))


def find_ending(events: Sequence[Event]) -> Ending:
    """Return how a run ended last, or rests; "cancelled" if its events do not say."""
    match next((event for event in reversed(events) if isinstance(event, ENDINGS)), None):
        case Finished() as end:
            return Ending(StopReason.ANSWER, end.answer, values=dict(end.return_values))
        case Stopped(reason=StopReason.INVALID_ANSWER) as end:
            return Ending(end.reason, "", end.answer or end.best, end.detail)
        case Stopped() as end:
            return Ending(end.reason, end.answer, end.best, end.detail)
    return Ending(StopReason.CANCELLED)


def find_last_version(events: Iterable[Event]) -> int:
    """Return the version to which the calls of a run last brought its workspace; 0 if none changed it."""
    last = 0
    for event in events:
        if isinstance(event, Observed) and isinstance(event.observation.data, dict):
            said = event.observation.data.get("workspace")
            version = said.get("version") if isinstance(said, dict) else None
            last = max(last, version if isinstance(version, int) else 0)
    return last


def sum_usage(events: Iterable[Event]) -> Usage:
    """Sum the tokens of all requests to the model, and of agents used as its tools."""
    used = []
    for event in events:
        if isinstance(event, Observed):
            used.append(event.observation.usage)
        elif (usage := request_usage(event)) is not None:
            used.append(usage)
    return sum_usages(used)


def pending(events: Iterable[Event]) -> list[AgentAction]:
    """Return the calls that wait for a person's decision or for the client's tool outputs."""
    waiting: dict[str, AgentAction] = {}
    for event in events:
        match event:
            case Paused(action=action):
                waiting[action.id] = action
            case Resumed(call_id=call_id):
                waiting.pop(call_id, None)
            case Observed(observation=observation):
                waiting.pop(observation.call_id, None)
    return list(waiting.values())


def list_steps(events: Iterable[Event]) -> Iterator[Step]:
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


def _format_message(message: Message) -> str:
    shown = "".join(f"[{one.media_type} {one.id[:12]}]\n" for one in message.files)
    ends = message.calls or message.call_id or (message.role == "system" and not message.content.endswith("\n"))
    return shown + message.content + "".join(map(_format_call, message.calls)) + "\n" * bool(ends)


def _format_call(action: AgentAction) -> str:
    given = action.tool_input
    return f"\n{action.tool}({given if isinstance(given, str) else _UNICODE.encode(given)})"
