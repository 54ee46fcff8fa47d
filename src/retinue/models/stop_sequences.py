"""Stop words for engines that do not support or honor them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


class StopCutter:
    """Passes text on up to the first stop word, and holds back text that may begin one.

    The stop word completed first wins, so the result does not depend on how the text is split.
    """

    __slots__ = ("_begun", "_ends", "_held", "_longest", "_stop", "stopped")

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = [word for word in stop if word]
        self._begun, self._ends, self._longest = _beginnings(tuple(stop))
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """Return the text that can be passed on now."""
        if self.stopped:
            return ""
        self._held += text
        found = [(at + len(word), at) for word in self._stop if (at := self._held.find(word)) >= 0]
        if found:
            self.stopped = True
            return self._release(min(found)[1])
        return self._release(len(self._held) - self._maybe_begun())

    def flush(self) -> str:
        """Return the rest at the end of the text."""
        return "" if self.stopped else self._release(len(self._held))

    def _maybe_begun(self) -> int:
        held = self._held
        if held[-1:] not in self._ends:
            return 0
        for size in range(min(self._longest, len(held)), 0, -1):
            if held[-size:] in self._begun:
                return size
        return 0

    def _release(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        return text


@lru_cache(maxsize=16)  # the same for each reply of a run
def _beginnings(words: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str], int]:
    """Return all beginnings of `words`, their last characters, and the length of the longest."""
    begun = frozenset(word[:size] for word in words for size in range(1, len(word)))
    return begun, frozenset(one[-1] for one in begun), max(map(len, begun), default=0)
