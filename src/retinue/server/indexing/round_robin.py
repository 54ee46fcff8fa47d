"""Round-robin scheduling: tenants take turns, and none occupies all slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class RoundRobin:
    """Tracks which tenants have slots, and when each last had a turn."""

    def __init__(self) -> None:
        self._has: Counter[str] = Counter()
        self._last: dict[str, int] = {}  # a tenant's last turn; only of tenants that wait or have a slot
        self._turn = 0

    def next(self, waiting: Mapping[str, int], places: int) -> list[int]:
        """Choose the next items from `waiting` (tenant to item) for the free `places`. Tenants with the fewest slots
        come first, then those whose last turn is longest ago. The last slot goes only to a tenant without one."""
        self._last = {one: turn for one, turn in self._last.items() if one in waiting or self._has[one]}
        chosen: list[int] = []
        for one in sorted(waiting, key=lambda one: (self._has[one], self._last.get(one, 0), waiting[one])):
            left = places - len(chosen)
            if left > 1 or (left == 1 and not self._has[one]):
                chosen.append(waiting[one])
        return chosen

    def begin(self, tenant: str) -> None:
        """Count one more slot of a tenant."""
        self._turn += 1
        self._has[tenant] += 1
        self._last[tenant] = self._turn

    def end(self, tenant: str) -> None:
        """Count one slot less."""
        self._has[tenant] -= 1
        if self._has[tenant] <= 0:
            del self._has[tenant]
