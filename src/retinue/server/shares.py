"""What one tenant may have under way of something that all share, so that a part of it is left for the others."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Shares:
    """At most `most` at a time for each tenant; what is more waits: `async with shares.of(tenant): …`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, tenant: str) -> asyncio.Semaphore:
        """A tenant's share."""
        found = self._of.get(tenant)
        if found is None:
            found = self._of[tenant] = asyncio.Semaphore(self._most)
        return found
