"""A strategy with words before whatever it asks: a role, a way to behave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from ...core.flow import advance
from ...core.prompt import Ask, Prompt
from ...core.protocols import Flow, Sent, Strategy, Task
from ...core.values import AgentFinish, Message
from .wrapper import Wrapper


def with_instructions(strategy: Strategy, text: str) -> Strategy:
    """`strategy`, whose every prompt begins with `text`."""
    return Wrapper(strategy, Instructions(text.strip())) if text.strip() else strategy


@dataclass(frozen=True)
class Instructions:
    """The reasoning of a strategy with `text` before its prompts."""

    text: str

    def __call__(self, strategy: Strategy, task: Task) -> Flow:
        """The inner strategy's reasoning."""
        inner, words = strategy(task), _Words(self.text)
        sent: Sent | None = None
        try:
            while not isinstance(request := advance(inner, sent), AgentFinish):
                sent = yield words.before(request) if isinstance(request, Ask) else request
            return request
        finally:
            inner.close()


class _Words:
    """Puts the text before prompts. What grows out of a prompt grows out of the one with the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._made: WeakKeyDictionary[Prompt, Prompt] = WeakKeyDictionary()

    def before(self, request: Ask) -> Ask:
        closing = request.closing
        return replace(request, prompt=self._prompt(request.prompt), closing=closing and self._later(closing))

    def _later(self, closing: Callable[[], Ask]) -> Callable[[], Ask]:
        return lambda: self.before(closing())

    def _prompt(self, prompt: Prompt) -> Prompt:
        new: list[Prompt] = []
        at: Prompt | None = prompt
        while at is not None and at not in self._made:
            new.append(at)
            at = at.before
        for one in reversed(new):
            self._made[one] = self._made[one.before].add(one.message) if one.before else self._first(one.message)
        return self._made[prompt]

    def _first(self, message: Message) -> Prompt:
        if message.role == "system":
            return Prompt(replace(message, content=f"{self._text}\n\n{message.content}"))
        return Prompt(Message("system", f"{self._text}\n\n")).add(message)
