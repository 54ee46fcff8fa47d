"""The values that everything else exchanges: frozen, plain, without behaviour."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

if TYPE_CHECKING:
    from pydantic import AliasChoices, Field

    UNSAID = Field(exclude_if=operator.not_)  # a log does not mention the default
    UNKNOWN = Field(exclude_if=lambda value: value is None)  # nor that something is not known

Role = Literal["system", "user", "assistant", "tool"]
ToolInput = str | dict[str, Any]
Finish = Literal["stop", "length", "content_filter"]
MAX_COUNT = 1_000_000_000
"""Tokens of one request; an engine that reports more is mistaken, and no sum of such counts could be stored."""


class StopReason(StrEnum):
    """Why a run ended (names of the ReAct tutorial, extended)."""

    ANSWER = "ANSWER"
    NO_APPROPRIATE_TOOL = "NO_APPROPRIATE_TOOL"
    MAX_ITERATION_EXCEEDED = "MAX_ITERATION_EXCEEDED"
    MAX_EXECUTION_TIME_EXCEEDED = "MAX_EXECUTION_TIME_EXCEEDED"
    TOKEN_BUDGET_EXCEEDED = "TOKEN_BUDGET_EXCEEDED"
    COST_BUDGET_EXCEEDED = "COST_BUDGET_EXCEEDED"
    STAGNATED = "STAGNATED"
    UNREADABLE_REPLY = "UNREADABLE_REPLY"
    INVALID_ANSWER = "INVALID_ANSWER"
    REPLY_TRUNCATED = "REPLY_TRUNCATED"
    CONTENT_FILTERED = "CONTENT_FILTERED"
    BLOCKED = "BLOCKED"
    CANCELLED = "CANCELLED"
    AWAITING_HUMAN = "AWAITING_HUMAN"
    AWAITING_MEMBER = "AWAITING_MEMBER"
    ERROR = "ERROR"


CUT_SHORT: Mapping[Finish, StopReason] = {
    "length": StopReason.REPLY_TRUNCATED,
    "content_filter": StopReason.CONTENT_FILTERED,
}
"""Why a run has only a part of its answer, by how its last reply ended."""


class WithFields:
    """Base class of dataclasses whose annotations name pydantic's `Field`: only who needs a schema imports pydantic,
    which takes as long as everything else."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return pydantic's schema of the class."""
        from pydantic import AliasChoices, Field

        unsaid = Field(exclude_if=operator.not_)
        unknown = Field(exclude_if=lambda value: value is None)
        names = {"Field": Field, "AliasChoices": AliasChoices, "UNSAID": unsaid, "UNKNOWN": unknown}
        vars(sys.modules[cls.__module__]).update(names)
        return handler(source)


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its source. `score` is the relevance assigned by a search, if any."""

    content: str
    id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    score: float | None = None


@dataclass(frozen=True, slots=True)
class AgentAction:
    """The decision to call `tool` with `tool_input` (text, or values by argument name). `log` is the model's text that
    led to it; `id` is assigned by the loop and unique within the run."""

    tool: str
    tool_input: ToolInput
    log: str = ""
    id: str = ""


Kind = Literal["image", "pdf", "audio"]


@dataclass(frozen=True, slots=True)
class File(WithFields):
    """An image, a PDF or a sound in a message or in a tool's result. `id` is the SHA-256 of its bytes; `detail` is
    OpenAI's for images (`auto`, `low` or `high`). `data` are its bytes. No log has them, so that it stays small: a log
    names the file, and whoever continues the run brings the bytes again."""

    id: str
    media_type: str
    detail: str = "auto"
    data: Annotated[bytes, Field(exclude=True)] = field(default=b"", repr=False, compare=False)
    name: Annotated[str, UNSAID] = ""

    @property
    def kind(self) -> Kind:
        """What a model must be able to do with it."""
        return (
            "pdf" if self.media_type == "application/pdf" else "audio" if self.media_type[:6] == "audio/" else "image"
        )


@dataclass(frozen=True, slots=True)
class ProviderState:
    """What a vendor wants back with the turn that it came with: signed or encrypted reasoning, and the like. `turn` is
    the turn as JSON in the vendor's own format, and is never changed. `origin` names the wire format and the server; no
    other is sent it."""

    origin: str
    turn: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Message(WithFields):
    """One turn of a conversation with a model. A user's message and a tool's result may have `files` (`images` in older
    logs). With native tool calls, an `assistant` message has the `calls` it made, and the `state` that its vendor wants
    back. Each result is a message of the role `tool` with that call's `call_id` and the name of the `tool`. In a text
    format, a user's message with the files of results names their `tool`, too."""

    role: Role
    content: str
    calls: tuple[AgentAction, ...] = ()
    call_id: str = ""
    tool: str = ""
    files: Annotated[
        tuple[File, ...], Field(exclude_if=operator.not_, validation_alias=AliasChoices("files", "images"))
    ] = field(default=(), repr=False)
    state: Annotated[ProviderState | None, UNSAID] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AgentFinish:
    """The decision to stop with `return_values`; the answer is under `"output"`."""

    return_values: Mapping[str, Any]
    log: str = ""
    reason: StopReason = StopReason.ANSWER

    @property
    def output(self) -> str:
        """The answer as text, or an empty string."""
        return str(self.return_values.get("output", ""))


@dataclass(frozen=True, slots=True)
class Usage(WithFields):
    """Token counts as reported by the engine. `input_tokens` includes the `cached_tokens` and those that the engine
    wrote to its cache (`cache_write_tokens`, where it tells), and `output_tokens` the `reasoning_tokens`. `runs` counts
    the runs of agents that were called, at any depth. `cost` is what models with prices cost, in the currency of the
    prices."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    runs: Annotated[int, UNSAID] = 0
    cost: Annotated[float, UNSAID] = 0.0
    reasoning_tokens: Annotated[int, UNSAID] = 0
    cache_write_tokens: Annotated[int, UNSAID] = 0

    @property
    def total_tokens(self) -> int:
        """The sum of input and output."""
        return self.input_tokens + self.output_tokens

    def __bool__(self) -> bool:
        return self != UNUSED

    @property
    def is_possible(self) -> bool:
        """Whether one request can have used this: a foreign engine may report anything."""
        read = (self.cached_tokens, self.cache_write_tokens)
        tokens = (self.input_tokens, self.output_tokens, self.reasoning_tokens, *read)
        whole = all(isinstance(count, int) and 0 <= count <= MAX_COUNT for count in tokens)
        return whole and 0 <= self.cost < math.inf and sum(read) <= self.input_tokens

    def __add__(self, other: Usage) -> Usage:
        return sum_usages((self, other))


UNUSED = Usage()
_COUNTS = operator.attrgetter(*Usage.__slots__)


def sum_usages(used: Iterable[Usage]) -> Usage:
    """Return the sum."""
    return Usage(*map(sum, zip(*map(_COUNTS, used), strict=True)))


Outcome = Literal["result", "repeated", "unknown_tool", "invalid_input", "failed", "timed_out", "rejected", "unknown"]


@dataclass(frozen=True, slots=True)
class HelperState(WithFields):
    """What an observation says of the helper that the call `call` made, and that works in the background: it begins,
    with a `share` of its caller's budget (limits by their names), or it has `ended`."""

    call: str
    ended: bool = False
    share: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Observation(WithFields):
    """The result of one action: `text` for the model, and how it came about in `outcome`.

    The outcome `unknown` means that a call with the effects `once` began and may or may not have taken effect.

    Args:
        text: Untrusted data, whatever its source.
        note: The executor's own remark to the model (a budget nearly spent, a call that brings nothing new).
        direct: The text is the run's answer.
        stale: The run has seen the same before.
        usage: Tokens of agents that the tool called.
        files: What the tool returned beside text, for a model that can read it.
        data: What the tool returned for the application, as JSON. No model is shown it.
        helpers: What became of helpers in the background. Of those that have ended, `usage` has what they used.
        size: The characters of the whole result, if it is kept beside the log and `text` only has its beginning.
    """

    call_id: str
    text: str
    outcome: Outcome = "result"
    seconds: float = 0.0
    note: str = ""
    direct: bool = False
    stale: bool = False
    usage: Usage = Usage()
    files: Annotated[tuple[File, ...], UNSAID] = field(default=(), repr=False)
    data: Annotated[Any, UNKNOWN] = field(default=None, repr=False, hash=False)
    helpers: Annotated[tuple[HelperState, ...], UNSAID] = ()
    size: Annotated[int, UNSAID] = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the loop: actions and their observations, in the same order."""

    actions: tuple[AgentAction, ...]
    observations: tuple[Observation, ...]


Always = Literal["", "call", "tool"] | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Decision(WithFields):
    """A person's decision on an action that waits for approval. `approve` runs it, and `edit` runs it with
    `tool_input`. `reject` skips it and tells the model why. `respond` skips it and gives the model `message` and
    `files` as the tool's output.

    With `always`, such calls are allowed to this user from now on: `call`, with the same input; `tool`, with any; or
    with arguments that fit patterns, by their names. `policy` is the id of what was so decided before, if nobody was
    asked this time."""

    kind: Literal["approve", "edit", "reject", "respond"]
    tool_input: ToolInput | None = None
    message: str = ""
    files: Annotated[tuple[File, ...], UNSAID] = field(default=(), repr=False)
    always: Annotated[Always, UNSAID] = ""
    policy: Annotated[str, UNSAID] = ""

    def lets(self, action: AgentAction) -> AgentAction | None:
        """Return the action that may run, with edited input if any, or `None`."""
        if self.kind not in ("approve", "edit"):
            return None
        if self.kind == "approve" or self.tool_input is None:
            return action
        return replace(action, tool_input=self.tool_input)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine and its model support. `constrains`: constrained decoding. `calls_tools`: a short probe showed
    that native tool calls work; otherwise `problem` says what happened instead. `window`: context window in tokens of
    prompt and reply, `None` if unknown. `scripted`: its replies are scripted, possibly in a text format, so `auto`
    chooses one."""

    constrains: bool = False
    calls_tools: bool = False
    window: int | None = None
    problem: str = ""
    scripted: bool = False


@dataclass(frozen=True, slots=True)
class Reply(WithFields):
    """A model's reply to one `Ask`: text, native tool `calls`, or both.

    `reasoning` is what may be shown of the model's thoughts, which are never part of the `text`. `state` is what the
    vendor wants back with this turn. `unsent` names the origin of another vendor's state in the prompt, which this one
    was not sent. `model` is the one of several in order that replied.

    `finish` is `length` if the text was truncated at its token limit, `content_filter` if the engine withheld the rest.
    `closing`: this replies to the closing question of the last allowed step. `seconds` is the time to the end of the
    reply, `first_token_seconds` the time to its first text."""

    text: str
    usage: Usage = Usage()
    finish: Finish = "stop"
    closing: bool = False
    seconds: float = 0.0
    first_token_seconds: float = 0.0
    calls: tuple[AgentAction, ...] = ()
    reasoning: Annotated[str, UNSAID] = ""
    state: Annotated[ProviderState | None, UNSAID] = None
    unsent: Annotated[str, UNSAID] = ""
    model: Annotated[str, UNSAID] = ""
