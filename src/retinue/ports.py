"""The doors between the core and everything else, on one page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Protocol

from .events import Delta
from .prompt import Ask
from .schema import AgentAction, AgentFinish, Decision, Message, Observation, Reply
from .tooling import Tool


@dataclass(frozen=True, slots=True)
class Task:
    """What a strategy is given: the question, the tools it may name, and the conversation before.

    `constrained`: the engine can hold the model to a pattern, so every reply will fit what is asked.
    """

    question: str
    tools: tuple[Tool, ...] = ()
    history: tuple[Message, ...] = ()
    constrained: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """A strategy's request to run `actions`, side by side; it is sent their observations in this order."""

    actions: tuple[AgentAction, ...]


Flow = Generator[Ask | Act, Reply | tuple[Observation, ...], AgentFinish]


class Strategy(Protocol):
    """One way to reason: a pure generator that asks and acts, and returns what it came to.

    It does no I/O and reads no clock, so a recorded run can be replayed through it.
    """

    @property
    def name(self) -> str:
        """Its name in `STRATEGIES`, or your own."""
        ...

    def __call__(self, task: Task) -> Flow:
        """The reasoning itself: one generator for one run."""
        ...


def ask(request: Ask) -> Generator[Ask | Act, Reply | tuple[Observation, ...], Reply]:
    """`reply = yield from ask(...)`: a model's reply, typed."""
    sent = yield request
    assert isinstance(sent, Reply)
    return sent


def act(*actions: AgentAction) -> Generator[Ask | Act, Reply | tuple[Observation, ...], tuple[Observation, ...]]:
    """`seen = yield from act(...)`: the actions' observations, typed, in the order of the actions."""
    sent = yield Act(actions)
    assert isinstance(sent, tuple)
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

    async def constrains(self) -> bool:
        """Whether the engine can hold the model to a pattern. Raises `ModelError`."""
        ...

    def reply(self, request: Ask) -> Chunks:
        """The reply as it arrives; the last item is the whole `Reply`. Raises `ModelError`."""
        ...


class Effects(Protocol):
    """Everything a run does to the world: ask the model, call a tool, ask a person."""

    def ask(self, request: Ask) -> Chunks:
        """The model's reply to `request`, as `Model.reply` gives it."""
        ...

    async def call(self, action: AgentAction) -> Observation:
        """What came of `action`; never raises for what a tool does."""
        ...

    def must_ask(self, action: AgentAction, *, begun: bool) -> str:
        """Why a person must be asked before this action runs; empty if none need be.

        `begun`: it was begun before a crash and its outcome is unknown.
        """
        ...

    async def consult(self, action: AgentAction, problem: str) -> Decision | None:
        """A person's decision, or `None` if there is none yet: the run is parked."""
        ...

    def recall(self, action: AgentAction, observation: Observation) -> None:
        """Take note of an observation, also of a recorded one."""
        ...
