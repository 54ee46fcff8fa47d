"""Shortens prompts that outgrow the model's context window: the oldest results of tools first, then what the assistant
said earlier, then the oldest turns as a whole. System messages and the question are never shortened.

The strategy's own prompt stays whole; the model is sent a fitted copy, extended along with the original.
Shortening makes room for many steps at a time, so the prefix cached by a provider changes rarely, and only from the
first shortened message on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from weakref import ref

from ..prompt import Prompt, PromptCache
from ..values import Message, Reply, Usage

ROOM = 0.6  # fraction of the window for the prompt, after shortening
REPLY = 512  # tokens reserved for a reply that has no limit of its own
_KEPT = 240  # characters of a shortened message, two thirds from its beginning
_CUT = " … (shortened) … "
_IMAGE = 3_000  # characters that take about as many tokens as an image


class Window:
    """The model's context window of `tokens` (`None`: unknown), and the fitted copies of prompts."""

    __slots__ = ("_fitted", "_openings", "_per_token", "_sizes", "_tokens")

    def __init__(self, tokens: int | None) -> None:
        self._tokens = tokens
        self._per_token = 3.0  # characters per token; calibrated by the engine's counts
        self._openings: dict[ref[Prompt], int] = {}  # how many messages their conversations began with
        self._fitted: PromptCache[Prompt] | None = None  # a run that waits has neither
        self._sizes: PromptCache[int] | None = None

    def fit(self, prompt: Prompt) -> Prompt:
        """Return the fitted copy of `prompt`."""
        opening = self._count_opening(prompt)
        if self._fitted is None:
            return prompt
        kept, new = self._fitted.extend(prompt)
        fitted = Prompt(new[0]).add(*new[1:]) if kept is None else kept.add(*new)
        if kept is None:
            self._openings[ref(fitted)] = opening
        self._fitted.keep(prompt, fitted)
        return fitted

    def put(self, prompt: Prompt, fitted: Prompt) -> None:
        """Take `fitted` as the copy of `prompt` from now on."""
        opening = self._count_opening(prompt)
        if fitted is not prompt:
            self._openings[ref(fitted)] = opening
            self._fitted = self._fitted or PromptCache()
            self._fitted.keep(prompt, fitted)

    def _count_opening(self, prompt: Prompt) -> int:
        """Return how many messages of `prompt` its conversation began with: the earlier turns, up to the question."""
        at: Prompt | None = prompt
        more = 0
        while at is not None and ref(at) not in self._openings:
            at, more = at.before, more + 1
        found = self._openings[ref(prompt)] = more if at is None else self._openings[ref(at)]
        return found

    def size(self, fitted: Prompt) -> int:
        """Return its length in characters."""
        self._sizes = self._sizes or PromptCache()
        kept, new = self._sizes.extend(fitted)
        size = (kept or 0) + sum(map(_measure_message, new))
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
        messages, opening = fitted.messages, self._count_opening(fitted)
        short = _shorten_messages(messages, opening, characters)
        first = next((at for at, (old, new) in enumerate(zip(messages, short, strict=True)) if old != new), None)
        if first is None:
            return False
        kept: Prompt | None = fitted
        for _ in messages[first:]:
            kept = kept.before if kept else None
        head, *rest = [message for message in short[first:] if message is not None]
        again = (Prompt(head) if kept is None else kept.add(head)).add(*rest)
        self._openings[ref(again)] = opening - short.count(None)
        self._fitted = self._fitted or PromptCache()
        self._fitted.keep(prompt, again)
        return True

    def estimate(self, fitted: Prompt, characters: int) -> Usage:
        """Return about what a request used whose engine does not say so, for a reply of so many `characters`."""
        asked, said = (math.ceil(size / self._per_token) for size in (self.size(fitted), characters))
        return Usage(asked, said, requests=1)

    def learn(self, fitted: Prompt, reply: Reply) -> None:
        """Calibrate with the number of tokens that the engine counted in `fitted`."""
        if self._tokens is not None and reply.usage.input_tokens > 0:
            self._per_token = max(1.0, self.size(fitted) / reply.usage.input_tokens)


def _measure_message(message: Message) -> int:
    return (
        (len(message.state.turn) if message.state else len(message.content))
        + _IMAGE * len(message.files)
        + sum(len(call.tool) + len(str(call.tool_input)) for call in message.calls)
    )


def _shorten_messages(messages: Sequence[Message], opening: int, characters: int) -> list[Message | None]:
    """Return `messages` fitted into `characters` as well as possible; `None` stands for what is dropped. The
    conversation began with the first `opening` of them. The newest results of tools lose only as much as needed."""
    short: list[Message | None] = list(messages)
    excess = sum(map(_measure_message, messages)) - characters

    def cut(places: Sequence[int], kept: int, *, as_needed: bool = False) -> None:
        """Cut the middle out of messages, while there is too much."""
        nonlocal excess
        for at in places:
            message = short[at]
            content = "" if message is None else message.content
            keep = max(kept, len(content) - excess - len(_CUT)) if as_needed else kept
            if message is not None and excess > 0 and len(content) > keep + len(_CUT):
                text = content[: keep - keep // 3] + _CUT + content[-(keep // 3) :]
                short[at] = replace(message, content=text)
                excess -= len(content) - len(text)

    asked = next((at for at in reversed(range(opening)) if messages[at].role == "user"), opening - 1)
    seen = [at for at, one in enumerate(messages) if one.role == "tool" or (one.role == "user" and at > asked)]
    prose = [at for at in range(asked) if messages[at].role == "assistant" and not messages[at].state]
    old = [at for at in seen if at < len(messages) - 2]
    for kept in (_KEPT, _KEPT // 4):
        cut([*old, *prose], kept)
    for at in range(asked):  # the oldest turns before the question, each with all that answered it
        message = short[at]
        if message is None or message.role == "system":
            continue
        if message.role == "user" and excess <= 0:
            break
        short[at] = None
        excess -= _measure_message(message)
    cut(seen[len(old) :], _KEPT, as_needed=True)
    return short
