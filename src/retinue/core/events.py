"""The log of a run: a closed union of events. Everything shown, stored or counted is derived from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from ..errors import ModelError, ModelUnavailable, NodeFailed, RetinueError, StrategyFailed
from .values import (
    UNUSED,
    AgentAction,
    Capabilities,
    Decision,
    File,
    Message,
    Observation,
    Reply,
    StopReason,
    Usage,
    WithFields,
)

if TYPE_CHECKING:
    from pydantic import AliasChoices, Field

    from .values import UNKNOWN, UNSAID


@dataclass(frozen=True, slots=True)
class Started(WithFields):
    """The run began. `tools` are the names that the model may use; `abilities` are those of the engine and model.
    `instructions` is the system message, `None` in older logs. `files` (`images` in older logs) are the question's;
    those of earlier turns are in `history`. `user`, `thread` and `metadata` are what the run was given in Python; a
    server has them in the run's row."""

    question: str
    agent: str
    strategy: str
    model: str
    tools: tuple[str, ...]
    abilities: Capabilities = field(default_factory=Capabilities)
    history: tuple[Message, ...] = ()
    instructions: str | None = None
    files: Annotated[tuple[File, ...], Field(validation_alias=AliasChoices("files", "images"))] = field(
        default=(), repr=False
    )
    user: Annotated[str, UNSAID] = ""
    thread: Annotated[str, UNSAID] = ""
    metadata: Annotated[Mapping[str, str], UNSAID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """The model is asked; `messages` are the new ones in this `prompt` (numbered from 0). `closing`: this is the last
    allowed step. `problem`: why the previous reply could not be parsed. `aside`: a check beside the steps. `shortened`
    is that of a former version: the messages are those of a prompt that was shortened to so many characters."""

    step: int
    prompt: int
    messages: tuple[Message, ...]
    closing: bool = False
    problem: str = ""
    aside: bool = False
    shortened: int = 0


Tier = Literal["clear", "summary", "drop"]
EARLIER = -1
"""The number of the conversation before a run, among its prompts."""


@dataclass(frozen=True, slots=True)
class Compacted(WithFields):
    """From the next request on, the model is shown less of the `prompt` with this number.

    `tier` is how: old results of tools are `clear`ed to a line, turns are told in a `summary`, or `drop`ped whole.
    `places` are the messages concerned, by their numbers in the prompt as hooks left it (the `messages` of its `Asked`
    events, one after the other), and `texts` what stands in the place of each (empty: nothing). The prompt `EARLIER` is
    the conversation before the run: the places are those of `Started.history`, and the strategy is given what is left.
    `before` and `after` are the prompt's sizes in tokens, about. `usage` is what the summary's model used, and `pinned`
    what it quoted of the user word for word, which each later summary repeats. The log has the messages themselves, so
    whoever reads it sees what is gone."""

    step: int
    prompt: int
    tier: Tier
    places: tuple[int, ...]
    texts: tuple[str, ...]
    before: int = 0
    after: int = 0
    usage: Annotated[Usage, UNSAID] = UNUSED
    pinned: Annotated[tuple[str, ...], UNSAID] = ()

    def describe(self) -> str:
        """Return what happened, for a person."""
        what = {
            "clear": "cleared old results",
            "summary": "summarized earlier turns",
            "drop": "dropped the oldest turns",
        }
        return f"{what[self.tier]}: {len(self.places)} messages, {self.before:,} → {self.after:,} tokens"


@dataclass(frozen=True, slots=True)
class Retried(WithFields):
    """The engine failed and is asked again after `seconds`. Text already shown of this reply is void; `usage` is what
    it used, as far as that is known. `model` is the one that is asked instead, if the failed one gave way to it."""

    step: int
    problem: str
    seconds: float
    usage: Annotated[Usage, UNSAID] = UNUSED
    model: Annotated[str, UNSAID] = ""


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
class Reported(WithFields):
    """Code of the run said how far it is: with `done` of `total`, if they are numbers, in a unit of its own. `call_id`
    is the call in which it did, if it was a tool's. Replay skips it."""

    step: int
    text: str
    call_id: Annotated[str, UNSAID] = ""
    done: Annotated[float | None, UNKNOWN] = None
    total: Annotated[float | None, UNKNOWN] = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The strategy returned an answer."""

    answer: str
    return_values: Mapping[str, Any]


Point = Literal["before_run", "before_model", "after_model", "before_tool", "after_tool", "before_answer", "after_run"]
Verdict = Literal["pass", "change", "block", "ask"]


@dataclass(frozen=True, slots=True)
class Judged(WithFields):
    """A hook did not let pass what is at this `point`: it changed it, blocked it, or asks a person about it. What
    follows from that is logged next, and is stored with it. `reason` is why; `call_id` names the call that it is about.
    `about` is what a person is asked about, where the log has it only once they agree. `usage` is what the hook used of
    models; a hook that used some is logged also if it lets the event pass."""

    step: int
    point: Point
    hook: str
    verdict: Verdict
    reason: str = ""
    call_id: str = ""
    about: Annotated[Started | Asked | Replied | Called | Observed | Finished | None, UNSAID] = None
    usage: Annotated[Usage, UNSAID] = UNUSED


@dataclass(frozen=True, slots=True)
class Stopped(WithFields):
    """The run ended without a normal finish; `detail` explains it to a person.

    `answer` is the answer that the closing question produced, the part of an answer that was cut short, or one that
    does not fit the schema; no other ending has one. `best` is the best attempt so far, `partial` the part of an
    answer already shown. `code` is that of the `ModelError` that ended the run, or `invalid_prompt`; `retry_after` is
    the delay in seconds that the engine asked for. `usage` is what a reply used that was cut off."""

    reason: StopReason
    detail: str = ""
    answer: str = ""
    best: str = ""
    partial: str = ""
    code: str = ""
    retry_after: float = 0.0
    usage: Annotated[Usage, UNSAID] = UNUSED


def request_usage(event: Event) -> Usage | None:
    """Return what a request to the model used, whole or cut off, or `None` if `event` is about none."""
    match event:
        case Replied(reply=reply):
            return reply.usage
        case Retried(usage=usage) | Stopped(usage=usage) | Judged(usage=usage) | Compacted(usage=usage) if usage:
            return usage
    return None


def make_stopped(error: RetinueError, best: str = "", partial: str = "") -> Stopped:
    """Return the final event for an error."""
    cause = error.__cause__ if isinstance(error, NodeFailed) else error
    code = cause.code if isinstance(cause, ModelError | StrategyFailed) else "" if cause is error else "server_error"
    wait = cause.retry_after if isinstance(cause, ModelUnavailable) else None
    return Stopped(StopReason.ERROR, str(error), "", best, partial, code, wait or 0.0)


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the reply as it arrives. Only for live readers, never part of the log. `answer` is the piece of the
    run's answer in it, without reasoning or formatting. Text that may still turn out not to belong to the answer is
    held back, so the final answer may be longer than what was shown. `reasoning` is a piece of the model's thoughts,
    which are not part of the text."""

    text: str
    answer: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Said(WithFields):
    """A `Delta` shown to readers who may reconnect, persisted before it is sent so that they see the same again. Only
    persisted logs contain it; replay skips it. `offset` counts the characters of the answer that this reply had shown
    before."""

    text: str
    answer: str = ""
    offset: int = 0
    reasoning: Annotated[str, UNSAID] = ""


Event = (
    Started
    | Asked
    | Compacted
    | Retried
    | Replied
    | Called
    | Observed
    | Paused
    | Resumed
    | Judged
    | Finished
    | Stopped
    | Reported
    | Said
)
ENDINGS = (Finished, Stopped)
KINDS: Mapping[str, type[Event]] = {kind.__name__.lower(): kind for kind in get_args(Event)}


def call_of(event: Event) -> str:
    """Return the id of the call that an event is about, or an empty string."""
    match event:
        case Called(action=AgentAction(id=call)) | Paused(action=AgentAction(id=call)) | Resumed(call_id=call):
            return call
        case Judged(call_id=call) | Reported(call_id=call):
            return call
        case Observed(observation=seen):
            return seen.call_id
    return ""


def find_started(log: Iterable[Event]) -> Started | None:
    """Return the log's `Started` event, if there is one."""
    return next((event for event in log if isinstance(event, Started)), None)
