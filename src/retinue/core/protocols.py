"""The doors between the core and everything else, on one page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from .events import Delta, Event
from .prompt import Ask
from .tool import Tool
from .values import AgentAction, AgentFinish, Capabilities, Decision, Message, Observation, Reply, StopReason


@dataclass(frozen=True, slots=True)
class Task:
    """What a strategy is given: the question, the tools it may name, and the conversation before.

    `constrained`: the engine can hold the model to a pattern, so every reply will fit what is asked.
    `calls_tools`: its native tool calls were tried and work. `scripted`: its replies are written beforehand.
    """

    question: str
    tools: tuple[Tool, ...] = ()
    history: tuple[Message, ...] = ()
    constrained: bool = False
    calls_tools: bool = False
    scripted: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """A strategy's request to run `actions`, side by side; it is sent their observations in this order.

    `answer`: the best answer so far, should the run end here.
    """

    actions: tuple[AgentAction, ...]
    answer: str = ""


@dataclass(frozen=True, slots=True)
class HumanRequest:
    """A strategy's request for a person's `Decision` on something that is no tool's call, e.g. a plan.

    `action` is what the person is shown (and may edit: its `tool_input`); `problem` says why.
    """

    action: AgentAction
    problem: str


Request = Ask | Act | HumanRequest
Sent = Reply | tuple[Observation, ...] | Decision
Flow = Generator[Request, Sent, AgentFinish]


class Strategy(Protocol):
    """One way to reason: a pure generator that asks and acts, and returns what it came to.

    It does no I/O and reads no clock, so a recorded run can be replayed through it. One that can use an
    engine's native tool calls has an attribute `native` that is true: they are tried before the run. One that is
    of no use without tools has `needs_tools`: an agent that has none just converses.
    """

    @property
    def name(self) -> str:
        """Its name in `STRATEGIES`, or your own."""
        ...

    def __call__(self, task: Task) -> Flow:
        """The reasoning itself: one generator for one run."""
        ...


def calls_natively(strategy: Strategy) -> bool:
    """Whether it can use an engine's native tool calls."""
    return bool(getattr(strategy, "native", False))


def needs_tools(strategy: Strategy) -> bool:
    """Whether it is of no use without tools."""
    return bool(getattr(strategy, "needs_tools", False))


def ask(request: Ask) -> Generator[Request, Sent, Reply]:
    """`reply = yield from ask(...)`: a model's reply, typed."""
    sent = yield request
    assert isinstance(sent, Reply)
    return sent


def act(*actions: AgentAction, answer: str = "") -> Generator[Request, Sent, tuple[Observation, ...]]:
    """`seen = yield from act(...)`: the actions' observations, typed, in the order of the actions."""
    sent = yield Act(actions, answer)
    assert isinstance(sent, tuple)
    return sent


def consult(action: AgentAction, problem: str) -> Generator[Request, Sent, Decision]:
    """`decision = yield from consult(...)`: a person's decision, typed."""
    sent = yield HumanRequest(action, problem)
    assert isinstance(sent, Decision)
    return sent


@dataclass(frozen=True, slots=True)
class Retry:
    """An engine failed and is asked again in `seconds`; what it said so far of this reply is void."""

    problem: str
    seconds: float


Chunks = AsyncGenerator[Delta | Retry | Reply, None]


class Model(Protocol):
    """One model at one engine."""

    @property
    def name(self) -> str:
        """The model's name at its engine."""
        ...

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """What engine and model can do; `native`: find out whether tool calls work, once. Raises `ModelError`."""
        ...

    def reply(self, request: Ask) -> Chunks:
        """The reply as it arrives; the last item is the whole `Reply`. Raises `ModelError`."""
        ...


class Prompting(Protocol):
    """What an agent needs of a `PromptNode`."""

    model: Model
    stop_words: tuple[str, ...]
    max_length: int | None
    default_prompt_template: Any


class Effects(Protocol):
    """Everything between a run and the world: ask the model, call a tool, ask a person, tell what happens; and what
    depends on the clock, or on what was done before."""

    def ask(self, request: Ask) -> Chunks:
        """The model's reply to `request`, as `Model.reply` gives it."""
        ...

    async def call(self, action: AgentAction) -> Observation:
        """What came of `action`; never raises for what a tool does."""
        ...

    def must_ask(self, action: AgentAction, *, begun: bool) -> str:
        """Why a person must be asked before this action runs; empty if none need be.

        `begun`: it was begun before, and its outcome is unknown; an equal call of unknown outcome counts alike.
        """
        ...

    def same(self, one: AgentAction, other: AgentAction) -> bool:
        """Whether the two are equal calls: of one tool, with inputs that mean the same."""
        ...

    def restore(self, action: AgentAction, observation: Observation | None) -> None:
        """Take note of a call that a former drive began: of what came of it, `None` if that is not known."""
        ...

    async def consult(self, action: AgentAction, problem: str) -> Decision | None:
        """A person's decision, or `None` if there is none yet: the run is parked."""
        ...

    def recall(self, action: AgentAction, observation: Observation) -> None:
        """Take note of an observation, also of a recorded one."""
        ...

    def tell(self, event: Event | Delta) -> Awaitable[None]:
        """Hand `event` to the reader of the run; comes back when the reader wants the next."""
        ...

    def past(self, actions: Iterable[AgentAction]) -> Iterable[Event]:
        """What former drives did of these actions, oldest first: what they called, observed, and asked a person."""
        ...

    def limit(self, nearest: StopReason | None, *, closes: bool) -> StopReason | None:
        """The limit because of which the answer must come now, given the `nearest` one, and whether a run `closes`
        with a question when it comes near one."""
        ...

    def room(self, characters: int) -> int:
        """The characters to shorten a prompt to (0: it is sent as it is), given those that it should have now."""
        ...

    @property
    def elapsed(self) -> float:
        """The seconds that former drives took."""
        ...


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a memory has for a question: the last turns, oldest first, and facts, a line each. All of it is data."""

    history: tuple[Message, ...] = ()
    facts: str = ""


class Memory(Protocol):
    """What one conversation leaves behind for its next question."""

    async def recall(self, question: str) -> Recalled:
        """What there is for `question`; asks no model."""
        ...

    async def remember(self, question: str, answer: str) -> None:
        """Take note of a turn, once it is over; what takes long is done in the background."""
        ...


Consult = HumanRequest  # the former name
