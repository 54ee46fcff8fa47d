"""Turns of a conversation: how many fit, and their text forms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.values import Message
from ..strategies.prompting.injection_guard import neutralize
from .stored_memory import StoredTurn

BYTES = 3  # UTF-8 bytes per token: a slight overestimate of tokens for English, accurate for most other scripts
_GAP = " … "


def count_tokens(text: str) -> int:
    """Estimate the number of tokens, rather too high than too low."""
    return -(-len(text.encode(errors="replace")) // BYTES)


def cut(text: str, most: int) -> str:
    """Return `text`, or its beginning and end within `most` tokens."""
    if count_tokens(text) <= most:
        return text
    half = max(0, (most * BYTES - len(_GAP.encode())) // 2)
    kept = text.encode(errors="replace")
    return kept[:half].decode(errors="ignore") + _GAP + kept[len(kept) - half :].decode(errors="ignore")


def make_turn(question: str, answer: str) -> StoredTurn:
    """Return a turn as stored: text that is valid for every file and engine."""
    said, replied = (text.encode(errors="replace").decode().strip() for text in (question, answer))
    return StoredTurn(said, replied)


def count_fitting(turns: Sequence[StoredTurn], most: int, budget: int) -> int:
    """Return how many of the last turns fit: at most `most`, and within `budget` tokens."""
    fit = 0
    for one in reversed(turns[max(0, len(turns) - most) :]):
        budget -= count_tokens(one.question) + count_tokens(one.answer)
        if budget < 0:
            break
        fit += 1
    return fit


def select_newest(turns: Sequence[StoredTurn], budget: int) -> list[StoredTurn]:
    """Return the last turns that fit within `budget` tokens, and the last one in any case."""
    return list(turns[-max(1, count_fitting(turns, len(turns), budget)) :])


def list_not_done(
    before: Sequence[StoredTurn], left: Sequence[StoredTurn], now: Sequence[StoredTurn]
) -> list[StoredTurn]:
    """Return what is left to do of the turns `now`, where of those `before` only `left` were not done."""
    done = list(before[: len(before) - len(left)])
    fallen = next((at for at in range(len(done)) if list(now[: len(done) - at]) == done[at:]), len(done))
    return list(now[len(done) - fallen :])  # the oldest of those done may have been dropped meanwhile


def make_messages(turns: Iterable[StoredTurn]) -> tuple[Message, ...]:
    """Return the turns as messages."""
    return tuple(
        message
        for one in turns
        for message in (Message("user", one.question), Message("assistant", one.answer))
        if message.content
    )


def format_transcript(turns: Iterable[StoredTurn], most: int) -> str:
    """Return the turns as lines of text, each side within `most` tokens; their content cannot imitate a line of its
    own.
    """
    return "".join(
        f"{speaker}: {' '.join(neutralize(cut(text, most)).split())}\n"
        for one in turns
        for speaker, text in (("User", one.question), ("Assistant", one.answer))
        if text
    )
