"""What one tenant may have under way of something that all share, so that a part of it is left for the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

_REST = 3.0  # times as long as work took, before the next of the same tenant, but no more than
_LONGEST = 1.0  # seconds: it may have waited for something


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

    @asynccontextmanager
    async def rested(self, tenant: str) -> AsyncIterator[None]:
        """Take a share for work that holds up everybody while it is done.

        The share stays taken for three times as long afterwards, at most one second. So a tenant has a quarter of the
        time, or more where a single piece of its work takes longer than a third of a second.
        """
        share = self.of(tenant)
        await share.acquire()
        began = time.monotonic()
        try:
            yield
        finally:
            asyncio.get_running_loop().call_later(min(_REST * (time.monotonic() - began), _LONGEST), share.release)
