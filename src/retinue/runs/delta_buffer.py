"""A reply that is arriving, as far as it has not been told."""

from __future__ import annotations

from ..core.events import Delta, Said


class DeltaBuffer:
    """Pieces of a reply, gathered until they are wanted: pieces of the answer together, and what is none together."""

    def __init__(self) -> None:
        self._begun: list[tuple[int, list[str], list[str]]] = []  # where in the answer, texts, answers
        self._answered = 0  # characters of the answer so far
        self._pieces = 0

    def __bool__(self) -> bool:
        return bool(self._begun)

    @property
    def has_begun(self) -> bool:
        """Whether anything of the reply has arrived, told or not."""
        return self._pieces > 0

    def add(self, delta: Delta) -> bool:
        """Another piece; whether it is the first."""
        if not self._begun or bool(self._begun[-1][2][0]) != bool(delta.answer):
            self._begun.append((self._answered, [], []))
        _, texts, answers = self._begun[-1]
        texts.append(delta.text)
        answers.append(delta.answer)
        self._answered += len(delta.answer)
        self._pieces += 1
        return self._pieces == 1

    def take(self) -> list[Said]:
        """What there is, which is then told."""
        said = [Said("".join(texts), "".join(answers), offset) for offset, texts, answers in self._begun]
        self._begun.clear()
        return said
