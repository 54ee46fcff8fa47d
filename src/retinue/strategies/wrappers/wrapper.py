"""Driving one strategy inside another: what it wants next, given what it was sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ...core.flow import advance
from ...core.prompt import Ask
from ...core.protocols import Act, Flow, Sent, Strategy, Task, calls_natively, needs_tools
from ...core.values import AgentFinish


@dataclass(frozen=True)
class Wrapper:
    """A strategy that stands around `inner`, under its name and with its needs; `reason` is what it does with it."""

    inner: Strategy
    reason: Callable[[Strategy, Task], Flow]

    @property
    def name(self) -> str:
        """The inner strategy's."""
        return self.inner.name

    @property
    def native(self) -> bool:
        """Whether the inner strategy can use an engine's native tool calls."""
        return calls_natively(self.inner)

    @property
    def needs_tools(self) -> bool:
        """Whether the inner strategy is of no use without tools."""
        return needs_tools(self.inner)

    def __call__(self, task: Task) -> Flow:
        """The reasoning for one run."""
        return self.reason(self.inner, task)


def without_visible_answer(request: Ask) -> Ask:
    """`request`, as one whose reply, also to its closing, is not the run's answer."""
    closing = request.closing
    return replace(request, answer=None, closing=closing and (lambda: without_visible_answer(closing())))


def with_tool_names(strategy: Strategy, names: Mapping[str, str]) -> Strategy:
    """`strategy`, in which a model may call tools by other names, too: `names` has the tools' own by these."""
    return Wrapper(strategy, partial(_renaming, names)) if names else strategy


def _renaming(names: Mapping[str, str], strategy: Strategy, task: Task) -> Flow:
    inner = strategy(task)
    sent: Sent | None = None
    try:
        while not isinstance(request := advance(inner, sent), AgentFinish):
            if isinstance(request, Act):
                actions = (replace(one, tool=names.get(one.tool, one.tool)) for one in request.actions)
                request = replace(request, actions=tuple(actions))
            sent = yield request
        return request
    finally:
        inner.close()
