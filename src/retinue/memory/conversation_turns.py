"""Turns of a conversation: how many fit, and how they are written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.values import Message
from ..strategies.prompting.injection_guard import neutralize
from .state_file import StoredTurn

BYTES = 3  # of UTF-8 to a token, about: somewhat on the safe side for English, and right for most other scripts
_GAP = " … "


def tokens(text: str) -> int:
    """An estimate of its tokens, rather too many than too few."""
    return -(-len(text.encode(errors="replace")) // BYTES)


def cut(text: str, most: int) -> str:
    """`text`, or its beginning and end in at most so many tokens."""
    if tokens(text) <= most:
        return text
    half = max(0, (most * BYTES - len(_GAP.encode())) // 2)
    kept = text.encode(errors="replace")
    return kept[:half].decode(errors="ignore") + _GAP + kept[len(kept) - half :].decode(errors="ignore")


def turn(question: str, answer: str) -> StoredTurn:
    """A turn as it is kept: text that every file and every engine can take."""
    said, replied = (text.encode(errors="replace").decode().strip() for text in (question, answer))
    return StoredTurn(said, replied)


def fitting(turns: Sequence[StoredTurn], most: int, budget: int) -> int:
    """How many of the last turns there may be: `most` of them, and within `budget` tokens."""
    fit = 0
    for one in reversed(turns[max(0, len(turns) - most) :]):
        budget -= tokens(one.question) + tokens(one.answer)
        if budget < 0:
            break
        fit += 1
    return fit


def messages(turns: Iterable[StoredTurn]) -> tuple[Message, ...]:
    """The turns as a conversation."""
    return tuple(
        message
        for one in turns
        for message in (Message("user", one.question), Message("assistant", one.answer))
        if message.content
    )


def transcript(turns: Iterable[StoredTurn], most: int) -> str:
    """The turns as lines of text, each side in at most so many tokens; nothing said can pass for a line of its own."""
    return "".join(
        f"{speaker}: {' '.join(neutralize(cut(text, most)).split())}\n"
        for one in turns
        for speaker, text in (("User", one.question), ("Assistant", one.answer))
        if text
    )
