"""Buffers the part of an arriving reply that has not been published yet."""

from __future__ import annotations

from ..core.events import Delta, Said


class DeltaBuffer:
    """Merges adjacent deltas until they are taken; answer text and other text are kept apart."""

    def __init__(self) -> None:
        self._begun: list[tuple[int, list[str], list[str]]] = []  # offset in the answer, texts, answers
        self._answered = 0  # characters of the answer so far
        self._pieces = 0

    def __bool__(self) -> bool:
        return bool(self._begun)

    @property
    def has_begun(self) -> bool:
        """Whether any delta of the reply has arrived, published or not."""
        return self._pieces > 0

    def add(self, delta: Delta) -> bool:
        """Add a delta. Return whether it is the reply's first."""
        if not self._begun or bool(self._begun[-1][2][0]) != bool(delta.answer):
            self._begun.append((self._answered, [], []))
        _, texts, answers = self._begun[-1]
        texts.append(delta.text)
        answers.append(delta.answer)
        self._answered += len(delta.answer)
        self._pieces += 1
        return self._pieces == 1

    def take(self) -> list[Said]:
        """Remove and return the buffered pieces."""
        said = [Said("".join(texts), "".join(answers), offset) for offset, texts, answers in self._begun]
        self._begun.clear()
        return said
