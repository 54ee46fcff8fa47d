"""A question that names what it refers to in the conversation before it."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.grammar import line, optional, seq
from ...core.values import Message
from ..prompting.transcript import history_lines
from .sub_prompts import Part, Say, one_field, sub_prompt

_ALONE = one_field("question", seq(" ", line(300, but="?"), optional(seq("?")), "\n"))


def standalone(say: Say, question: str, history: Sequence[Message], window: int | None) -> Part[str]:
    """Return the question with names for what it refers to in the conversation. `window` is the model's."""
    if not history:
        return question
    text = sub_prompt("standalone", history=history_lines(history, window), question=question)
    said = yield from say(text, question, _ALONE, aside=True)
    return said.strip() or question
