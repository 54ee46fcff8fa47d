"""The values that pass between everything else: frozen, plain, without behaviour of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
ToolInput = str | dict[str, Any]
Finish = Literal["stop", "length", "content_filter"]


class StopReason(StrEnum):
    """Why a run ended (names of the ReAct tutorial, extended)."""

    ANSWER = "ANSWER"
    NO_APPROPRIATE_TOOL = "NO_APPROPRIATE_TOOL"
    MAX_ITERATION_EXCEEDED = "MAX_ITERATION_EXCEEDED"
    MAX_EXECUTION_TIME_EXCEEDED = "MAX_EXECUTION_TIME_EXCEEDED"
    TOKEN_BUDGET_EXCEEDED = "TOKEN_BUDGET_EXCEEDED"
    STAGNATED = "STAGNATED"
    UNREADABLE_REPLY = "UNREADABLE_REPLY"
    INVALID_ANSWER = "INVALID_ANSWER"
    REPLY_TRUNCATED = "REPLY_TRUNCATED"
    CONTENT_FILTERED = "CONTENT_FILTERED"
    CANCELLED = "CANCELLED"
    AWAITING_HUMAN = "AWAITING_HUMAN"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Document:
    """A piece of text and where it comes from. `score` is the relevance a search gave it, if any."""

    content: str
    id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    score: float | None = None


@dataclass(frozen=True, slots=True)
class AgentAction:
    """The decision to use `tool` with `tool_input` (text, or values by argument name).

    `log` is what the model wrote when it decided; `id` is given by the loop, unique in the run.
    """

    tool: str
    tool_input: ToolInput
    log: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation with a model.

    Where an engine's own tool calls are used, an `assistant` message has the `calls` it made, and what
    came of each is a message of the role `tool` with that call's `call_id` and the name of the `tool`.
    """

    role: Role
    content: str
    calls: tuple[AgentAction, ...] = ()
    call_id: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class AgentFinish:
    """The decision to stop with `return_values`; the answer stands under `"output"`."""

    return_values: Mapping[str, Any]
    log: str = ""
    reason: StopReason = StopReason.ANSWER

    @property
    def output(self) -> str:
        """The answer as text; empty if there is none."""
        return str(self.return_values.get("output", ""))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the engine counts them. `input_tokens` includes the `cached_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.requests + other.requests,
        )


Outcome = Literal["result", "repeated", "unknown_tool", "invalid_input", "failed", "timed_out", "rejected", "unknown"]


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back for one action: `text` for the model, and in `outcome` how it came about.

    `text` is data, whoever wrote it; `note` is what the executor itself tells the model beside it (a
    budget nearly spent, a call that brings nothing new). `direct`: the text is the run's answer.
    `stale`: the run has seen as much before. `usage`: the tokens of agents that the tool asked. The outcome `unknown`
    is that of a call with the effects `once` that began, and nobody knows whether it took effect.
    """

    call_id: str
    text: str
    outcome: Outcome = "result"
    seconds: float = 0.0
    note: str = ""
    direct: bool = False
    stale: bool = False
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the loop: actions and, in the same order, their observations."""

    actions: tuple[AgentAction, ...]
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's word on an action that waits for one.

    `approve` runs it; `edit` runs it with `tool_input`; `reject` does not run it and tells the model
    why; `respond` does not run it and gives the model `message` as if the tool had said it.
    """

    kind: Literal["approve", "edit", "reject", "respond"]
    tool_input: ToolInput | None = None
    message: str = ""

    def lets(self, action: AgentAction) -> AgentAction | None:
        """What it lets begin of `action`, with the input as it was edited; `None` if nothing."""
        if self.kind not in ("approve", "edit"):
            return None
        if self.kind == "approve" or self.tool_input is None:
            return action
        return replace(action, tool_input=self.tool_input)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine and its model can do.

    `constrains`: it can hold the model to a pattern. `calls_tools`: native tool calls work, as a short
    probe has shown; if not, `problem` says what came instead. `window`: tokens of prompt and reply
    together, `None` if the engine does not say. `scripted`: its replies are written beforehand, and maybe in a
    text form, so that `auto` asks for one.
    """

    constrains: bool = False
    calls_tools: bool = False
    window: int | None = None
    problem: str = ""
    scripted: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered to one `Ask`: text, native tool `calls`, or both.

    `finish` is `length` when the text was cut at its token limit, `content_filter` when the engine withheld the rest
    of it. `closing` says that the loop asked
    the closing question because this was the last allowed step. `seconds` is the time to the end,
    `first_token_seconds` the time to the first text.
    """

    text: str
    usage: Usage = Usage()
    finish: Finish = "stop"
    closing: bool = False
    seconds: float = 0.0
    first_token_seconds: float = 0.0
    calls: tuple[AgentAction, ...] = ()


Abilities = Capabilities  # the former name
