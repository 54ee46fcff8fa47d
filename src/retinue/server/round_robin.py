"""Whose turn it is: each tenant is served in turn, and none has all places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class RoundRobin:
    """Who has which places, and who had one last."""

    def __init__(self) -> None:
        self._has: Counter[str] = Counter()
        self._last: dict[str, int] = {}  # the number of a tenant's last turn, of those that wait or have a place
        self._turn = 0

    def next(self, waiting: Mapping[str, int], places: int) -> list[int]:
        """Of what each tenant waits for that which comes next, as many as there are `places`: first for those that have
        the fewest, and of these for those whose last turn is longest ago. The last place is for one who has none."""
        self._last = {one: turn for one, turn in self._last.items() if one in waiting or self._has[one]}
        chosen: list[int] = []
        for one in sorted(waiting, key=lambda one: (self._has[one], self._last.get(one, 0), waiting[one])):
            left = places - len(chosen)
            if left > 1 or (left == 1 and not self._has[one]):
                chosen.append(waiting[one])
        return chosen

    def begin(self, tenant: str) -> None:
        """A tenant has one more place."""
        self._turn += 1
        self._has[tenant] += 1
        self._last[tenant] = self._turn

    def end(self, tenant: str) -> None:
        """It has one less."""
        self._has[tenant] -= 1
        if self._has[tenant] <= 0:
            del self._has[tenant]
