"""Shortens prompts that outgrow the model's context window, oldest observations first.

The strategy's own prompt stays whole; the model is sent a fitted copy, extended along with the original.
Shortening makes room for many steps at a time, so the prefix cached by a provider changes rarely, and only from the
first shortened message on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from .prompt import Prompt, PromptCache
from .values import Message, Reply, Usage

ROOM = 0.6  # fraction of the window for the prompt, after shortening
REPLY = 512  # tokens reserved for a reply that has no limit of its own
_KEPT = 240  # characters of a shortened message, two thirds from its beginning
_CUT = " … (shortened) … "
_IMAGE = 3_000  # characters that take about as many tokens as an image


class Window:
    """The model's context window of `tokens` (`None`: unknown), and the fitted copies of prompts."""

    def __init__(self, tokens: int | None) -> None:
        self._tokens = tokens
        self._per_token = 3.0  # characters per token; calibrated by the engine's counts
        self._any = False

    @cached_property
    def _fitted(self) -> PromptCache[Prompt]:  # not for each run that waits: few need it
        return PromptCache()

    @cached_property
    def _sizes(self) -> PromptCache[int]:
        return PromptCache()

    def fit(self, prompt: Prompt) -> Prompt:
        """Return the fitted copy of `prompt`."""
        if not self._any:
            return prompt
        kept, new = self._fitted.extend(prompt)
        fitted = Prompt(new[0]).add(*new[1:]) if kept is None else kept.add(*new)
        self._fitted.keep(prompt, fitted)
        return fitted

    def size(self, fitted: Prompt) -> int:
        """Return its length in characters."""
        kept, new = self._sizes.extend(fitted)
        size = (kept or 0) + sum(map(_length, new))
        self._sizes.keep(fitted, size)
        return size

    def target(self, fitted: Prompt, max_tokens: int | None) -> int:
        """Return the characters to shorten `fitted` to, so that a reply of `max_tokens` fits; 0 if it already does."""
        if self._tokens is None:
            return 0
        room = (self._tokens - min(max_tokens or REPLY, self._tokens // 2)) * self._per_token
        return int(room * ROOM) if self.size(fitted) > room else 0

    def shorten(self, prompt: Prompt, characters: int) -> bool:
        """Fit `prompt` into `characters` as well as possible; return whether anything changed."""
        fitted = self.fit(prompt)
        messages = list(fitted.messages)
        short = _shortened(messages, characters)
        first = next((at for at, (old, new) in enumerate(zip(messages, short, strict=True)) if old != new), None)
        if first is None:
            return False
        kept: Prompt | None = fitted
        for _ in messages[first:]:
            kept = kept.before if kept else None
        again = Prompt(short[first]) if kept is None else kept.add(short[first])
        self._any = True
        self._fitted.keep(prompt, again.add(*short[first + 1 :]))
        return True

    def estimate(self, fitted: Prompt, characters: int) -> Usage:
        """Return about how many tokens a request used whose engine has not said so: those of its prompt, and of so many
        `characters` of a reply."""
        asked, said = (math.ceil(size / self._per_token) for size in (self.size(fitted), characters))
        return Usage(asked, said, requests=1)

    def learn(self, fitted: Prompt, reply: Reply) -> None:
        """Calibrate with the number of tokens that the engine counted in `fitted`."""
        if self._tokens is not None and reply.usage.input_tokens > 0:
            self._per_token = max(1.0, self.size(fitted) / reply.usage.input_tokens)


def _length(message: Message) -> int:
    return (
        len(message.content)
        + _IMAGE * len(message.images)
        + sum(len(call.tool) + len(str(call.tool_input)) for call in message.calls)
    )


def _shortened(messages: Sequence[Message], characters: int) -> list[Message]:
    """Cut the middle out of messages, oldest first, except the opening and the model's own.

    If that is not enough, the cuts get larger; the newest messages come last and lose only as much as needed.
    """
    short = list(messages)
    excess = sum(map(_length, short)) - characters
    opening = next((at for at, message in enumerate(short) if message.role == "user"), 0)
    theirs = [at for at in range(opening + 1, len(short)) if short[at].role in ("user", "tool")]
    newest = [at for at in theirs if at >= len(short) - 2]
    old = [at for at in theirs if at < len(short) - 2]
    for places, kept in ((old, _KEPT), (old, _KEPT // 4), (newest, _KEPT)):
        for at in places:
            content = short[at].content
            keep = max(kept, len(content) - excess - len(_CUT)) if places is newest else kept
            if excess > 0 and len(content) > keep + len(_CUT):
                short[at] = replace(short[at], content=content[: keep - keep // 3] + _CUT + content[-(keep // 3) :])
                excess -= len(content) - len(short[at].content)
    return short
