"""What wrappers of strategies are made of: `Wrapper`, which stands for the inner strategy; `relay`, which drives its
reasoning; and `PromptMapper`, which changes its prompts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ...core.prompt import Ask, Prompt
from ...core.protocols import (
    Act,
    Flow,
    Request,
    Sent,
    Strategy,
    Task,
    act,
    advance,
    ask,
    can_call_natively,
    needs_tools,
)
from ...core.values import AgentFinish, Message, Observation, Reply

S = TypeVar("S")
T = TypeVar("T")
Part = Generator[Request, Sent, T]  # of a flow: it makes requests and returns a value
OnAsk = Callable[[Ask], Part[Reply]]
OnAct = Callable[[Act], Part[tuple[Observation, ...]]]


@dataclass(frozen=True)
class Wrapper:
    """A strategy around `inner`, under its name and with its needs; `reason` is what it does with it."""

    inner: Strategy
    reason: Callable[[Strategy, Task], Flow]

    @property
    def name(self) -> str:
        """The inner strategy's."""
        return self.inner.name

    @property
    def native(self) -> bool:
        """Whether the inner strategy can use an engine's native tool calls."""
        return can_call_natively(self.inner)

    @property
    def needs_tools(self) -> bool:
        """Whether the inner strategy requires tools."""
        return needs_tools(self.inner)

    def __call__(self, task: Task) -> Flow:
        """Return the reasoning for one run."""
        return self.reason(self.inner, task)


def perform(request: Act) -> Part[tuple[Observation, ...]]:
    """Request what `request` does; return the observations."""
    return (yield from act(*request.actions, answer=request.answer))


def relay(inner: Flow, on_ask: OnAsk = ask, on_act: OnAct = perform) -> Flow:
    """Drive `inner` and return its result. It is closed whatever happens.

    `on_ask` and `on_act` make its requests: each gets one, yields it as it is, changed, or with others around it, and
    returns what `inner` is sent for it. What is no generator is returned as it is, since the run refuses it.
    """
    return _relay(inner, on_ask, on_act) if isinstance(inner, Generator) else inner


def _relay(inner: Flow, on_ask: OnAsk, on_act: OnAct) -> Flow:
    sent: Sent | None = None
    try:
        while not isinstance(request := advance(inner, sent), AgentFinish):
            if isinstance(request, Ask):
                sent = yield from on_ask(request)
            elif isinstance(request, Act):
                sent = yield from on_act(request)
            else:
                sent = yield request
        return request
    finally:
        inner.close()


class PromptMapper(Generic[S]):
    """Maps prompts to changed copies: the copy of what extends a prompt extends that prompt's copy. A prompt in which
    nothing changes is its own copy.

    `change` gets the messages that are new, and its state after those before them, which is `None` at a prompt's
    beginning. For each message it yields those in its place, and its state after them.
    """

    def __init__(self, change: Callable[[Sequence[Message], S | None], Iterable[tuple[Sequence[Message], S]]]) -> None:
        self._change = change
        # No copy where that is the prompt itself: it would keep itself alive.
        self._mapped: WeakKeyDictionary[Prompt, tuple[Prompt | None, S]] = WeakKeyDictionary()

    def map(self, prompt: Prompt) -> Prompt:
        """Return the copy of `prompt`."""
        new: list[Prompt] = []
        at: Prompt | None = prompt
        while at is not None and at not in self._mapped:
            new.append(at)
            at = at.before
        new.reverse()
        copy, before = (None, None) if at is None else self._mapped[at]
        copy = copy or at
        for one, (messages, state) in zip(new, self._change([one.message for one in new], before), strict=True):
            if copy is one.before and list(map(id, messages)) == [id(one.message)]:
                copy = one
            else:
                copy = copy.add(*messages) if copy else Prompt(messages[0]).add(*messages[1:])
            self._mapped[one] = None if copy is one else copy, state
        assert copy is not None
        return copy

    def map_request(self, request: Ask) -> Ask:
        """Return `request` with the copy of its prompt, also in its closing."""
        prompt, closing = self.map(request.prompt), request.closing
        if prompt is request.prompt and closing is None:
            return request
        return replace(request, prompt=prompt, closing=closing and (lambda: self.map_request(closing())))

    def ask(self, request: Ask) -> Part[Reply]:
        """Make `request` with the copy of its prompt; return the reply."""
        return (yield from ask(self.map_request(request)))


def without_visible_answer(request: Ask) -> Ask:
    """Return `request` as one whose reply, also to its closing, is not the run's answer."""
    closing = request.closing
    return replace(request, answer=None, closing=closing and (lambda: without_visible_answer(closing())))


def with_tool_names(strategy: Strategy, names: Mapping[str, str]) -> Strategy:
    """Return `strategy` for a model that may call tools by other names, too: `names` has the tools' own by these."""

    def rename(request: Act) -> Part[tuple[Observation, ...]]:
        actions = tuple(replace(one, tool=names.get(one.tool, one.tool)) for one in request.actions)
        return (yield from perform(replace(request, actions=actions)))

    return Wrapper(strategy, lambda inner, task: relay(inner(task), on_act=rename)) if names else strategy
