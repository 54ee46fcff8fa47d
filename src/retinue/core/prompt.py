"""What a model is asked: a prompt that only grows, and the request that carries it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

from .grammar import Constraint
from .tool import Tool
from .values import AgentAction, AgentFinish, Message, Reply

T = TypeVar("T")
Decided = tuple[AgentAction, ...] | AgentFinish  # what a strategy reads out of a reply


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Prompt:
    """An append-only conversation: a message, and the prompt it extends.

    `add` gives a longer prompt and leaves this one alone, so a client may keep what it encoded for
    this one and append. A chat engine sends the messages; a completion engine their contents joined,
    so strategies put every line break into the messages.
    """

    message: Message
    before: Prompt | None = None

    def add(self, *messages: Message) -> Prompt:
        """This prompt with `messages` at its end."""
        prompt = self
        for message in messages:
            prompt = Prompt(message, prompt)
        return prompt

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, oldest first."""
        found = []
        prompt: Prompt | None = self
        while prompt is not None:
            found.append(prompt.message)
            prompt = prompt.before
        return tuple(reversed(found))

    @property
    def text(self) -> str:
        """All contents joined: what a completion engine reads."""
        return "".join(message.content for message in self.messages)


class PromptCache(Generic[T]):
    """Something kept for the longest known form of each prompt, e.g. how it was encoded.

    A prompt is looked up by walking back from its end, so the work is that of its new messages.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Prompt, T] = WeakKeyDictionary()

    def extend(self, prompt: Prompt) -> tuple[T | None, tuple[Message, ...]]:
        """What is kept for the nearest known beginning of `prompt`, and the messages added since.

        That beginning is forgotten: keep something for `prompt` instead.
        """
        new: list[Message] = []
        at: Prompt | None = prompt
        while at is not None and at not in self._kept:
            new.append(at.message)
            at = at.before
        kept = None if at is None else self._kept.pop(at)
        return kept, tuple(reversed(new))

    def keep(self, prompt: Prompt, value: T) -> None:
        """Keep `value` for `prompt`, as long as somebody holds the prompt."""
        self._kept[prompt] = value


@dataclass(frozen=True, slots=True)
class Ask:
    """A strategy's request for a model's reply to `prompt`.

    `stop`: the reply ends before any of these texts. `constraint`: what the reply must look like, for
    engines that can hold a model to it. `closing` makes what is asked instead when this is the last step the
    budget allows. `problem`: why this is asked again, when the former reply could not be read.

    `tools` are offered to the engine for native tool calls; `tool_choice` says whether it may, must or
    must not call one. `aside`: this is no step of the run but a check or a rewording, of which whoever
    asks it asks only so many; the budget of steps does not count it.

    `answer` gives the piece of the run's answer that can already be told from so much of a reply, and only grows
    with it; `None` where a reply to this is not the run's answer.

    `chat`: the messages are turns of a conversation, and no text that the model goes on writing.

    `options`: sampling settings for this reply, over the model's own, in OpenAI's names (`temperature`, `top_p`,
    `seed`, …). `tokens_left`: what the budget still allows, over which nobody may raise `max_tokens`.

    `news` is what is new in the prompt, without the strategy's wording: the question, or what the tools
    said; and `write` gives the reply in which a model would say a decision in the strategy's form. With
    these two, a script can stand in for a model under any strategy.
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


Known = PromptCache  # the former name
