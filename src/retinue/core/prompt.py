"""Prompts, which are append-only, and the requests that carry them to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from weakref import ref

from .schema.patterns import Constraint
from .tools.tool import Tool
from .values import AgentAction, AgentFinish, Message, Reply

T = TypeVar("T")
Decided = tuple[AgentAction, ...] | AgentFinish  # what a strategy parses from a reply


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Prompt:
    """An append-only conversation: a message, and the prompt it extends. `add` returns a longer prompt and leaves this
    one unchanged, so a client may cache what it encoded for this one and append to it. Chat engines send the messages;
    completion engines send their contents joined, so strategies put every line break into the messages."""

    message: Message
    before: Prompt | None = None

    def add(self, *messages: Message) -> Prompt:
        """Return this prompt extended by `messages`."""
        prompt = self
        for message in messages:
            prompt = Prompt(message, prompt)
        return prompt

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return all messages, oldest first."""
        found = []
        prompt: Prompt | None = self
        while prompt is not None:
            found.append(prompt.message)
            prompt = prompt.before
        return tuple(reversed(found))

    @property
    def text(self) -> str:
        """Return all contents joined, as a completion engine reads them."""
        return "".join(message.content for message in self.messages)


class _Known(ref[Prompt]):
    """A prompt that `kept` has an entry of, for as long as it is referenced."""

    __slots__ = ("kept",)
    kept: dict[ref[Prompt], Any]

    def forget(self) -> None:
        """Remove the entry."""
        self.kept.pop(self, None)


class PromptCache(Generic[T]):
    """Caches a value for the longest known prefix of each prompt, e.g. its encoded form. Lookup walks back from a
    prompt's end, so it costs as much as its new messages."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[ref[Prompt], T] = {}

    def extend(self, prompt: Prompt) -> tuple[T | None, tuple[Message, ...]]:
        """Return the cached value of the nearest known prefix of `prompt`, and the messages added since. The prefix's
        entry is removed; call `keep` for `prompt` instead."""
        new: list[Message] = []
        at: Prompt | None = prompt
        while at is not None and (known := ref(at)) not in self._kept:
            new.append(at.message)
            at = at.before
        new.reverse()
        return (None if at is None else self._kept.pop(known)), tuple(new)

    def keep(self, prompt: Prompt, value: T) -> None:
        """Cache `value` for as long as `prompt` is referenced."""
        known = _Known(prompt, _Known.forget)
        known.kept = self._kept
        self._kept[known] = value


@dataclass(frozen=True, slots=True)
class Ask:
    """A strategy's request for a model's reply to `prompt`.

    Args:
        stop: Texts before which the reply ends.
        constraint: What the reply must look like, for engines with constrained decoding.
        closing: Makes the question to ask instead if this is the last step within the budget.
        problem: Why the previous reply could not be parsed, if this asks again.
        tools: Offered to the engine for native tool calls; `tool_choice` says whether it may, must or must not call
            one.
        aside: This is a check or a rewording beside the run's steps, so it does not count as one. The strategy limits
            how many it makes.
        answer: Extracts the part of the run's answer known from an incomplete reply; it only grows. `None` if a reply
            to this request is not the run's answer.
        chat: The messages are turns of a conversation rather than a text to be continued.
        options: Sampling settings that override the model's own, by OpenAI's names (`temperature`, `top_p`, `seed`, …).
        tokens_left: Tokens that the budget still allows; an upper bound for `max_tokens`.
        news: What is new in the prompt without the strategy's wording: the question, or the tools' output.
        opening: This is the first request of a run without an earlier conversation, so the prompt up to `news` is the
            same in each run of the agent.
        model: The one of several in order that is asked, as the run fell to it; empty for the first.
        write: Formats a decision as the reply in which a model would express it. With `news` and `write`, a script can
            replace a model under any strategy.
    """

    prompt: Prompt
    news: str
    write: Callable[[Decided], Reply]
    stop: tuple[str, ...] = ()
    constraint: Constraint | None = None
    max_tokens: int | None = None
    closing: Callable[[], Ask] | None = None
    problem: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "required", "none"] = "auto"
    aside: bool = False
    answer: Callable[[str], str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tokens_left: int | None = None
    chat: bool = False
    opening: bool = False
    model: str = ""


def write_plain(decided: Decided) -> Reply:
    """Write an answer as it is, where no strategy asks for a format."""
    return Reply(decided.output if isinstance(decided, AgentFinish) else "")
