"""Buffers the part of an arriving reply that has not been published yet."""

from __future__ import annotations

from ..core.events import Delta, Said


class DeltaBuffer:
    """Merges adjacent deltas until they are taken. The answer, other text and reasoning are kept apart; reasoning is
    dropped unless it is `shown`, since the whole of it follows with the reply."""

    def __init__(self, *, shown: bool) -> None:
        self._begun: list[tuple[str, int, list[Delta]]] = []  # the kind, the offset in the answer, the deltas
        self._shown = shown
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
        kind = "answer" if delta.answer else "text" if delta.text or not delta.reasoning else "reasoning"
        if kind != "reasoning" or self._shown:
            if not self._begun or self._begun[-1][0] != kind:
                self._begun.append((kind, self._answered, []))
            self._begun[-1][2].append(delta)
            self._answered += len(delta.answer)
        self._pieces += 1
        return self._pieces == 1

    def take(self) -> list[Said]:
        """Remove and return the buffered pieces."""
        said = [
            Said(
                "".join([one.text for one in deltas]),
                "".join([one.answer for one in deltas]),
                offset,
                "".join([one.reasoning for one in deltas]) if self._shown else "",
            )
            for _, offset, deltas in self._begun
        ]
        self._begun.clear()
        return said
