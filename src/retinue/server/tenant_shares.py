"""What one tenant may have under way of something that all share, so that a part of it is left for the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

_REST = 3.0  # times as long as work took, before the next of the same tenant, but no more than
LARGE = 100_000  # bytes that take a while to be written
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


@dataclass(frozen=True, slots=True)
class TenantShares:
    """The shares of a server: large bodies, images and schemas that are read or written; places in the database (of
    eight); writes (what waits is written together, in one transaction); requests that fetch images or tools; and speech
    that is heard or said, for all of which there are two processes."""

    large: Shares = field(default_factory=lambda: Shares(1))
    reading: Shares = field(default_factory=lambda: Shares(4))
    writing: Shares = field(default_factory=lambda: Shares(8))
    fetching: Shares = field(default_factory=lambda: Shares(4))
    sounding: Shares = field(default_factory=lambda: Shares(1))
    speech_processes: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))

    def of_write(self, tenant: str, size: float) -> AbstractAsyncContextManager[None]:
        """A tenant's share for a write of `size` bytes: after a large one, others' writes come first."""
        return self.large.rested(tenant) if size > LARGE else self.writing.of(tenant)
