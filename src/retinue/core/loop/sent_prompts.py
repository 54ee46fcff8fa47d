"""What is sent of a run's prompts. A strategy's own prompts stay whole and only grow. The model is sent copies, in
which hooks may have changed messages, and less may stand in the place of old ones; what extends a prompt extends its
copy. So each message is judged once, and the prefix that a provider caches changes rarely."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..events import EARLIER, Compacted, Tier
from ..files import with_data
from ..prompt import Prompt, PromptCache
from ..values import AgentAction, Message, Observation

_IMAGE = 3_000  # characters that take about as many tokens as an image


class Result(NamedTuple):
    """A result in a prompt: of which tool and call, and how many characters it has as a whole."""

    tool: str
    call: str
    size: int
    good: bool


@dataclass(slots=True, eq=False)
class SentPrompt:
    """A prompt and what is sent of it.

    Args:
        number: Its number in the log.
        messages: All of its messages, as hooks left them.
        opening: How many of them its conversation began with: the earlier turns, up to the question.
        new: How many of them no request has had yet.
        results: The results in its messages, by place.
        shown: What is sent in the place of a message, if that is not the message; `None` for nothing.
        summary: The place of the summary, if there is one, and what it quotes of the user.
    """

    number: int
    messages: list[Message] = field(default_factory=list)
    opening: int = 0
    new: int = 0
    results: dict[int, list[Result]] = field(default_factory=dict)
    shown: dict[int, Message | None] = field(default_factory=dict)
    summary: int | None = None
    pinned: tuple[str, ...] = ()
    size: int = 0
    _prompt: Prompt | None = None
    _is_copy: bool = False

    @property
    def prompt(self) -> Prompt:
        """What is sent."""
        assert self._prompt is not None
        return self._prompt

    def extend(self, prompt: Prompt | None, new: Sequence[Message], results: Sequence[Result] = ()) -> None:
        """Add the messages that `prompt` has more, in which these results are new."""
        first = len(self.messages)
        self.messages += new
        self.opening, self.new = self.opening or len(new), self.new + len(new)
        self.size += sum(map(measure_message, new))
        self._prompt = self._prompt.add(*new) if self._prompt is not None and self._is_copy else prompt
        places = {one.call_id: first + at for at, one in enumerate(new) if one.call_id}
        last = max((first + at for at, one in enumerate(new) if one.role == "user"), default=None)
        for one in results:
            if (place := places.get(one.call, last)) is not None:
                self.results.setdefault(place, []).append(one)

    def list_new(self) -> tuple[Message, ...]:
        """Return the new messages as a log has them: a reply's state is in its own event."""
        new = self.messages[len(self.messages) - self.new :]
        return tuple([replace(one, state=None) if one.state else one for one in new])

    def change_new(self, judged: Sequence[Message]) -> None:
        """Put what hooks left of the new messages in their place."""
        first = len(self.messages) - self.new
        messages = [_restore(*both) for both in zip(self.messages[first:], judged, strict=True)]
        if any(one is not other for one, other in zip(messages, self.messages[first:], strict=True)):
            kept = self._cut(first)
            self.messages[first:] = messages
            self._send_again(kept, first)

    def show(self, place: int) -> Message | None:
        """Return what is sent in the place of a message."""
        return self.shown.get(place, self.messages[place])

    def measure(self, place: int) -> int:
        """Return the characters that are sent in the place of a message."""
        message = self.show(place)
        return 0 if message is None else measure_message(message)

    def apply(self, made: Compacted) -> None:
        """Show less from now on."""
        there = {at: text for at, text in zip(made.places, made.texts, strict=False) if 0 <= at < len(self.messages)}
        if not there:
            return
        kept = self._cut(first := min(there))
        for at, text in there.items():
            if made.tier == "summary":
                self.shown[at] = Message("user", text) if text else None
            else:
                self.shown[at] = replace(self.messages[at], content=text, files=()) if text else None
        if made.tier == "summary":
            self.summary, self.pinned = max((at for at, text in there.items() if text), default=None), made.pinned
        self._send_again(kept, first)

    def write_shown(self) -> list[Compacted]:
        """Return events that make of this prompt's messages what is sent of them now."""
        found = []
        tiers: tuple[tuple[Tier, bool], ...] = (("clear", True), ("summary", False))
        for tier, wanted in tiers:
            there = {at: one for at, one in sorted(self.shown.items()) if bool(one and one.role == "tool") is wanted}
            texts = tuple("" if one is None else one.content for one in there.values())
            pinned = self.pinned if tier == "summary" else ()
            found += [Compacted(0, self.number, tier, tuple(there), texts, pinned=pinned)] if there else []
        return found

    def list_sent(self) -> tuple[Message, ...]:
        """Return the messages that are sent."""
        return tuple([one for at in range(len(self.messages)) if (one := self.show(at)) is not None])

    def _cut(self, first: int) -> Prompt | None:
        """Return what is sent before this place, of which only that counts in the size from now on."""
        self.size -= sum(map(self.measure, range(first, len(self.messages))))
        kept = self._prompt
        for at in range(len(self.messages) - 1, first - 1, -1):
            if self.show(at) is not None and kept is not None:
                kept = kept.before
        return kept

    def _send_again(self, kept: Prompt | None, first: int) -> None:
        """Send what is shown from this place on after `kept`, what `_cut` returned."""
        left = [one for at in range(first, len(self.messages)) if (one := self.show(at)) is not None]
        if self.number != EARLIER:
            self._prompt = kept.add(*left) if kept else Prompt(left[0]).add(*left[1:])
        self._is_copy = True
        self.size += sum(map(self.measure, range(first, len(self.messages))))


class SentPrompts:
    """The prompts of a run, numbered. Each is `take`n for a request that extends it, and kept again."""

    __slots__ = ("_count", "_known", "_results")

    def __init__(self) -> None:
        self._known: PromptCache[SentPrompt] = PromptCache()
        self._count = 0
        self._results: list[Result] = []  # that the next prompt has

    def take(self, prompt: Prompt) -> SentPrompt:
        """Return what is sent of a strategy's prompt, and is known from its beginning."""
        known, new = self._known.extend(prompt)
        if known is None:
            known, self._count = SentPrompt(self._count), self._count + 1
        known.extend(prompt, new, self._results)
        self._results = []
        self._known.keep(prompt, known)
        return known

    def note(self, actions: Sequence[AgentAction], seen: Collection[Observation]) -> None:
        """Note the results that the strategy is sent."""
        for action, one in zip(actions, seen, strict=True):
            size = one.size or len(one.text)
            self._results.append(Result(action.tool, one.call_id, size, one.outcome == "result"))


def measure_message(message: Message) -> int:
    """Return the characters of a message."""
    return (
        (len(message.state.turn) if message.state else len(message.content))
        + _IMAGE * len(message.files)
        + sum(len(call.tool) + len(str(call.tool_input)) for call in message.calls)
    )


def _restore(before: Message, after: Message) -> Message:
    """Return a message of a judged request as it is sent: with its vendor's state if it is the same, and with the bytes
    of its files, which a log does not have."""
    if after == replace(before, state=None):
        return before
    return replace(after, files=with_data(after.files, {one.id: one.data for one in before.files}))
