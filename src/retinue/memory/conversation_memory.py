"""`ConversationMemory`: the last turns of a conversation, and a summary of those before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..components import PromptNode, PromptTemplate
from ..core.protocols import Model, Recalled
from ..core.values import Message
from ..errors import ModelUnavailable, UsageError
from .stored_memory import (
    BYTES,
    StoredMemory,
    StoredTurn,
    ask_for_summary,
    build_summary_constraint,
    count_fitting,
    count_tokens,
    cut,
    format_transcript,
    list_not_done,
    make_turn,
    read_prompt,
    select_newest,
)

_SHARE = 4  # the summary may take 1/4 of the tokens
_WAITING = 8  # windows of turns that may wait for a summary if the model keeps failing
_LABEL = "What was said before: "
_LINE = 200  # tokens of each side of a turn that the summarizing model is shown
_PROMPT = PromptTemplate(prompt_text=read_prompt("conversation_summary"))


@dataclass(slots=True)
class Conversation:
    """The state: turns that are not yet summarized, oldest first, and the summary of those before."""

    turns: list[StoredTurn] = field(default_factory=list)
    summary: str = ""


class ConversationMemory(StoredMemory[Conversation]):
    """The last `window` turns of one conversation, within `max_tokens` (estimated at three bytes each).

    Raises `UsageError`, and `DataError` for a file that is not such a memory.

    Args:
        window: Number of turns kept verbatim.
        max_tokens: Limit for turns and summary together.
        summary: A `Model`, a name that `PromptModel` accepts, or a `PromptNode`. Turns that leave the window are merged
            into a running summary in the background, and stay verbatim until then. The summary takes at most a quarter
            of the tokens.
        path: A JSON file, replaced after each turn, from which the memory continues.
    """

    label = "the summary"

    def __init__(
        self,
        window: int = 10,
        *,
        max_tokens: int = 1_000,
        summary: Model | PromptNode | str | None = None,
        path: str | Path | None = None,
    ) -> None:
        if window < 1 or max_tokens < 40:
            raise UsageError("ConversationMemory: window must be at least 1, and max_tokens at least 40")
        self._window = window
        self._node = summary if isinstance(summary, PromptNode | None) else PromptNode(summary)
        self._for_summary = max_tokens // _SHARE if self._node else 0
        self._for_turns = max_tokens - self._for_summary - (count_tokens(_LABEL) if self._node else 0)
        self._form = build_summary_constraint(max(1, self._for_summary * BYTES))
        self._open(Conversation, path)

    @property
    def turns(self) -> tuple[StoredTurn, ...]:
        """The turns that are not summarized, oldest first."""
        with self._lock:
            return tuple(self._state.turns)

    @property
    def summary(self) -> str:
        """The summary of the turns before; empty if there is none."""
        return self._state.summary

    async def recall(self, question: str) -> Recalled:
        """Return the turns that fit, and the summary; the same for every question."""
        turns = self.turns
        last = turns[len(turns) - count_fitting(turns, len(turns), self._for_turns) :]
        if not last and turns:
            last = (StoredTurn(*(cut(text, self._for_turns // 2) for text in (turns[-1].question, turns[-1].answer))),)
        said = [
            message for one in last for message in (Message("user", one.question), Message("assistant", one.answer))
        ]
        summary = self.summary
        return Recalled(tuple(one for one in said if one.content), f"{_LABEL}{summary}" if summary else "")

    def note(self, question: str, answer: str) -> None:
        """Add a turn, without saving."""
        with self._lock:
            turns = self._state.turns
            turns.append(make_turn(question, answer))
            kept = self._window * (_WAITING if self._node else 1)
            del turns[: max(0, len(turns) - kept)]

    def shrink(self, most: int) -> None:
        """Drop the oldest turns that are more than `most` tokens together and are not recalled, without saving."""
        with self._lock:
            self._state.turns = select_newest(self._state.turns, max(most, self._for_turns))

    def _rebase(self, before: Conversation, now: Conversation) -> Conversation | None:
        if before.summary != now.summary:
            return None
        return replace(self._state, turns=list_not_done(before.turns, self._state.turns, now.turns))

    def _list_unsummarized_turns(self) -> Sequence[StoredTurn]:
        """Return the turns waiting for the summary."""
        turns = self.turns
        return turns[: len(turns) - count_fitting(turns, self._window, self._for_turns)] if self._node else ()

    def is_due(self) -> bool:
        """Return whether turns have left the window that the summary lacks."""
        return bool(self._list_unsummarized_turns())

    async def catch_up(self) -> None:
        """Merge the turns that have left the window into the summary. Raises `ModelError`."""
        assert self._node is not None
        fallen = self._list_unsummarized_turns()[: self._window]
        said = format_transcript(fallen, _LINE)
        prompt = (self._node.default_prompt_template or _PROMPT).fill(
            summary=self.summary or "(none)", conversation=said, words=self._for_summary // 2
        )
        summary = await ask_for_summary(self._node.model, prompt, self._form, self._for_summary * 2)
        if not summary:
            raise ModelUnavailable("the model returned no summary")
        with self._lock:
            self._state.summary = cut(summary, self._for_summary)
            done = {id(one) for one in fallen}
            self._state.turns = [one for one in self._state.turns if id(one) not in done]
