"""Prompts as hooks left them. The strategy's own prompts stay as they are: the model is sent copies in which the
changed messages are, and whatever extends a prompt extends its copy. So each message is judged once, when it is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..events import Asked
from ..files import with_data
from ..prompt import Prompt, PromptCache
from ..values import Message
from .context_window import Window


class ChangedPrompts:
    """The copies of a run's prompts. `window` fits them, and is told of them."""

    __slots__ = ("_copies", "_new", "_strategy", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._copies: PromptCache[Prompt] = PromptCache()
        self._strategy: Prompt | None = None  # the strategy's prompt that is asked about
        self._new = 0  # how many messages of it were never judged

    def copy(self, prompt: Prompt) -> Prompt:
        """Return the copy of the strategy's next `prompt`, with its new messages as they are."""
        known, new = self._copies.extend(prompt)
        self._strategy, self._new = prompt, len(new)
        copy = prompt if known is None or known is _cut(prompt, len(new)) else known.add(*new)
        self._copies.keep(prompt, copy)
        return copy

    def change(self, copy: Prompt, fitted: Prompt, new: Sequence[Message], asked: Asked) -> tuple[Prompt, Prompt]:
        """Return the `copy` and its `fitted` form with the messages of a judged request. `new` are those that the
        request would have had: the last of `fitted`."""
        messages = [_restore(*both) for both in zip(new, asked.messages, strict=True)]
        if all(one is other for one, other in zip(messages, new, strict=True)):
            return copy, fitted
        sent = _extend(_cut(fitted, len(new)), messages)
        if fitted is copy:
            copy = sent
        elif len(new) == self._new:
            copy = _extend(_cut(copy, len(new)), messages)
        self._window.put(copy, sent)
        assert self._strategy is not None
        self._copies.keep(self._strategy, copy)
        return copy, sent


def _restore(before: Message, after: Message) -> Message:
    """Return a message of a judged request as it is sent: with its vendor's state if it is the same, and with the bytes
    of its files, which a log does not have."""
    if after == replace(before, state=None):
        return before
    return replace(after, files=with_data(after.files, {one.id: one.data for one in before.files}))


def _cut(prompt: Prompt, messages: int) -> Prompt | None:
    """Return a prompt without its last messages."""
    at: Prompt | None = prompt
    for _ in range(messages):
        at = at.before if at else None
    return at


def _extend(before: Prompt | None, messages: Sequence[Message]) -> Prompt:
    return (Prompt(messages[0]) if before is None else before.add(messages[0])).add(*messages[1:])
