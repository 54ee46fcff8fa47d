"""The protocols between the core and everything else, on one page; and `ask_once`, a request without a strategy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from .._internal.containment import await_contained
from ..errors import ModelError, UsageError
from .budgets import Budget
from .events import Compacted, Delta, Event, Point, Started
from .hooks import Judgement
from .prompt import Ask, Prompt, write_plain
from .schema.patterns import Constraint
from .tools.helpers import RunHelpers
from .tools.tool import Tool
from .values import (
    UNUSED,
    AgentAction,
    AgentFinish,
    Capabilities,
    Decision,
    File,
    Kind,
    Message,
    Observation,
    Reply,
    StopReason,
    Usage,
)

# ── strategies ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Task:
    """Input of a strategy: the question, the tools it may name, and the earlier conversation.

    `files` are the question's. A strategy need not mind them: its prompts show them anyway.

    `constrained`: the engine constrains every reply to the requested pattern. `calls_tools`: its native tool calls were
    probed and work. `scripted`: its replies are scripted. `window`: its context window in tokens, `None` if unknown."""

    question: str
    tools: tuple[Tool, ...] = ()
    history: tuple[Message, ...] = ()
    constrained: bool = False
    calls_tools: bool = False
    scripted: bool = False
    files: tuple[File, ...] = ()
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """A strategy's request to run `actions` concurrently; it is sent their observations in the same order. `answer`:
    the best answer so far, in case the run ends here."""

    actions: tuple[AgentAction, ...]
    answer: str = ""


@dataclass(frozen=True, slots=True)
class HumanRequest:
    """A strategy's request for a person's `Decision` on something other than a tool call, e.g. a plan. `action` is
    shown to the person, who may edit its `tool_input`; `problem` says why it is asked."""

    action: AgentAction
    problem: str


Request = Ask | Act | HumanRequest
Sent = Reply | tuple[Observation, ...] | Decision
Flow = Generator[Request, Sent, AgentFinish]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that a hook blocked, the reason, and what tools gave before it: the question is asked again with it."""

    answer: str
    reason: str
    seen: tuple[str, ...] = ()


class Begin(Protocol):
    """Begins the reasoning about a run's question."""

    def __call__(self, started: Started, refusal: Refusal | None = None) -> tuple[Started, Flow]:
        """Return the first event, completed, and the strategy's generator. Raises `UsageError`."""
        ...


class Strategy(Protocol):
    """A reasoning strategy: a pure generator that yields requests and returns the result. It does no I/O and reads no
    clock, so recorded runs can be replayed through it. An attribute `native` that is true means that it can use native
    tool calls; they are probed before the run. One with `needs_tools` requires tools; an agent without tools converses
    instead."""

    @property
    def name(self) -> str:
        """Its name in `STRATEGIES`, or a custom one."""
        ...

    def __call__(self, task: Task) -> Flow:
        """Return the generator for one run."""
        ...


def can_call_natively(strategy: Strategy) -> bool:
    """Return whether the strategy can use native tool calls."""
    return bool(getattr(strategy, "native", False))


def needs_tools(strategy: Strategy) -> bool:
    """Return whether the strategy requires tools."""
    return bool(getattr(strategy, "needs_tools", False))


def ask(request: Ask) -> Generator[Request, Sent, Reply]:
    """Request a model's reply, typed: `reply = yield from ask(...)`."""
    sent = yield request
    assert isinstance(sent, Reply)
    return sent


def act(*actions: AgentAction, answer: str = "") -> Generator[Request, Sent, tuple[Observation, ...]]:
    """Request observations in the order of the actions, typed: `seen = yield from act(...)`."""
    sent = yield Act(actions, answer)
    assert isinstance(sent, tuple)
    return sent


def consult(action: AgentAction, problem: str) -> Generator[Request, Sent, Decision]:
    """Request a person's decision, typed: `decision = yield from consult(...)`."""
    sent = yield HumanRequest(action, problem)
    assert isinstance(sent, Decision)
    return sent


def advance(flow: Flow, sent: Sent | None) -> Request | AgentFinish:
    """Send `sent` (`None` at the start) and return the next request or the final result.

    Raises `UsageError` if the strategy does not return an `AgentFinish`.
    """
    try:
        return next(flow) if sent is None else flow.send(sent)
    except StopIteration as stop:
        if not isinstance(stop.value, AgentFinish):
            raise UsageError(f"the strategy returned a {type(stop.value).__name__}; want an AgentFinish") from None
        return stop.value


# ── models ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Retry:
    """An engine failed and is asked again in `seconds`; the text it has streamed of this reply is void. `usage` is what
    that used, if a log says so. `model` is the one that is asked instead, and for the rest of the run."""

    problem: str
    seconds: float
    usage: Usage = UNUSED
    model: str = ""


Chunks = AsyncGenerator[Delta | Retry | Reply, None]


class Model(Protocol):
    """A model at an engine. One that can be sent files has a coroutine method `sees`, which returns their kinds, or
    `True` for images."""

    @property
    def name(self) -> str:
        """The model's name at its engine."""
        ...

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return what engine and model support; `native` probes native tool calls, once. Raises `ModelError`."""
        ...

    def reply(self, request: Ask) -> Chunks:
        """Stream the reply; the last item is the complete `Reply`. Raises `ModelError`."""
        ...


async def list_readable_kinds(model: Model) -> frozenset[Kind]:
    """Return the kinds of files that `model` can be sent. Raises `ModelError`."""
    asked = getattr(model, "sees", None)
    return list_kinds(None if asked is None else await asked())


def list_kinds(said: bool | Iterable[Kind] | None) -> frozenset[Kind]:
    """Return the kinds of files in what a model or a setting says that it `sees`."""
    return frozenset(("image",) if said else ()) if isinstance(said, bool | None) else frozenset(said)


def describe_unreadable(model: str, kind: Kind) -> str:
    """Return what to say of a file of this kind for a model that is not known to read it."""
    reading = {"image": "see images", "pdf": "read PDFs", "audio": "hear sounds"}[kind]
    setting = "true" if kind == "image" else f"[image, {kind}]"
    return (
        f"the model {model!r} is not known to {reading}; leave them out, or ask a model that can "
        f"(if this one can, set `sees: {setting}` for it)"
    )


async def ask_once(
    model: Model,
    prompt: str | Sequence[Message],
    *,
    stop: Sequence[str] = (),
    max_tokens: int | None = None,
    constraint: Constraint | None = None,
) -> Reply:
    """Return the model's reply to a text or a conversation; `constraint` as in `Ask`. Raises `ModelError`."""
    chat = not isinstance(prompt, str)
    messages = [Message("user", prompt)] if isinstance(prompt, str) else list(prompt)
    if not messages:
        raise UsageError("the prompt is empty; give the model something to reply to")

    async def read_reply() -> Reply:
        async with aclosing(model.reply(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Reply):
                    return chunk
        raise ModelError("the model ended without a reply")

    prompted = Prompt(messages[0]).add(*messages[1:])
    request = Ask(prompted, messages[-1].content, write_plain, tuple(stop), constraint, max_tokens, chat=chat)
    return await await_contained(read_reply())


class Prompting(Protocol):
    """The part of `PromptNode` that an agent uses."""

    model: Model
    stop_words: tuple[str, ...]
    max_length: int | None
    default_prompt_template: Any


class Effects(Protocol):
    """Everything between a run and the outside world: model, tools, people and the reader of its events; also whatever
    depends on the clock or on earlier drives."""

    @property
    def elapsed(self) -> float:
        """The seconds that earlier drives took."""
        ...

    def tell(self, event: Event | Delta) -> Awaitable[None]:
        """Pass `event` to the run's reader; resumes when the reader wants the next one."""
        ...

    def ask(self, request: Ask) -> Chunks:
        """Stream the model's reply to `request`, as `Model.reply` does."""
        ...

    def limit(self, nearest: StopReason | None, *, closes: bool) -> StopReason | None:
        """Return the limit that forces an answer now, given the `nearest` one; `closes` says whether the run ends with
        a closing question."""
        ...

    async def compaction(self, prompt: int, make: Callable[[], Awaitable[Compacted | None]]) -> Compacted | None:
        """Return the next time that less is shown of this prompt: what the log has, or at its end what `make` makes."""
        ...

    async def summarize(self, task: SummaryTask) -> Summary:
        """Have a model summarize what hooks let it see. Errors of the model are no errors of the run."""
        ...

    def result_limit(self, tool: str) -> int:
        """Return how many characters of the tool's result a model is shown at once."""
        ...

    async def call(self, action: AgentAction, share: Callable[[], Budget]) -> Observation:
        """Run `action` and return its observation; errors of the tool become observations. `share` returns what it may
        use of the run's budget if it is of a member. Raises `Pending` if a member's run has not ended."""
        ...

    def must_ask(self, action: AgentAction, *, begun: bool) -> str:
        """Return why a person must approve this action, or an empty string. `begun`: it was begun before with an
        unknown outcome; an equal call with an unknown outcome counts, too."""
        ...

    async def consult(self, action: AgentAction, problem: str, asker: str = "") -> Decision | None:
        """Return a person's decision, or `None` if it is pending and the run parks. `asker` is the hook that asks, if
        one does."""
        ...

    def same(self, one: AgentAction, other: AgentAction) -> bool:
        """Return whether the two are equal calls: the same tool, with equivalent inputs."""
        ...

    def past(self, actions: Iterable[AgentAction]) -> Iterable[Event]:
        """Return what earlier drives logged about these actions, oldest first: calls, observations, and human
        decisions."""
        ...

    def restore(self, action: AgentAction, observation: Observation | None) -> None:
        """Restore a call begun in an earlier drive, with its outcome (`None`: unknown)."""
        ...

    def recall(self, action: AgentAction, observation: Observation) -> None:
        """Note an observation, live or recorded."""
        ...

    @property
    def helpers(self) -> RunHelpers:
        """The helpers of the run."""
        ...

    @property
    def points(self) -> Set[Point]:
        """The points at which hooks judge, or did in an earlier drive."""
        ...

    async def judge(self, point: Point, event: Any, step: int) -> Judgement:
        """Return what the hooks at `point` say of `event`, or said in an earlier drive."""
        ...


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """What is to be told in a summary of at most `tokens`: `messages`, the first of which may be a former summary.
    `users` are the texts of which it may quote, and `pinned` those it has quoted before."""

    messages: tuple[Message, ...]
    users: tuple[str, ...]
    pinned: tuple[str, ...]
    tokens: int
    step: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary, with the quotes in it; without a `text`, only what it used, since it cannot be used itself."""

    text: str = ""
    pinned: tuple[str, ...] = ()
    usage: Usage = UNUSED


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory's result for a question: the last turns, oldest first, and facts, one per line. All of it is untrusted
    data."""

    history: tuple[Message, ...] = ()
    facts: str = ""


class Memory(Protocol):
    """Memory of one conversation, carried from one question to the next."""

    async def recall(self, question: str) -> Recalled:
        """Return what is relevant to `question`, without asking a model."""
        ...

    async def remember(self, question: str, answer: str) -> None:
        """Store a completed turn; slow work happens in the background."""
        ...
