"""Draws that are the same for a seed on every version of Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Draws from a seed. They stand on `Random.random` alone, whose numbers Python promises not to change."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + int(self._random() * (high - low + 1))

    def chance(self, share: float) -> bool:
        """Return true in `share` of the draws."""
        return self._random() < share

    def pick(self, things: Sequence[T]) -> T:
        """Return one of `things`."""
        return things[self.between(0, len(things) - 1)]

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """Return `things` in another order (Fisher and Yates)."""
        mixed = list(things)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.between(0, last)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed

    def sample(self, things: Sequence[T], count: int) -> list[T]:
        """Return `count` of `things`, each at most once."""
        return self.shuffled(things)[:count]
