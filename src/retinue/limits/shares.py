"""What one tenant may have under way of something that all share, and whose turn is next: so that whoever asks for much
leaves a part of it to the others."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from .._internal.concurrency import run_in_thread

T = TypeVar("T")
LARGE = 100_000  # bytes that take a while to be written
_REST = 3.0  # times as long as work took, before the next of the same tenant, but no more than
_LONGEST = 1.0  # seconds: it may have waited for something
_UNLIMITED = 2**31
_REMEMBERED = 10_000  # tenants whose last turns are known


class Shares:
    """At most `each` at a time for each tenant, and `total` for all; what is more waits: `async with shares.of(NAME)`.

    Next is always a tenant that has the fewest, and of these the one whose last turn is longest ago. The last `spare`
    of all places are for tenants that have none."""

    def __init__(self, each: int = _UNLIMITED, total: int = _UNLIMITED, spare: int = 0) -> None:
        self._each = each
        self._total = total
        self._spare = spare
        self._held: Counter[str] = Counter()
        self._last: dict[str, int] = {}  # each tenant's last turn
        self._turn = 0
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}  # by tenant, the one that came first first

    def waiting(self, tenant: str) -> int:
        """Return how many turns of a tenant are awaited."""
        return sum(not turn.done() for turn in self._queues.get(tenant, ()))

    def choose(self, tenants: Iterable[str]) -> list[str]:
        """Return those of `tenants` that may begin one more now, the next one first."""
        free, chosen = self._total - self._held.total(), list[str]()
        for tenant in sorted(tenants, key=lambda one: (self._held[one], self._last.get(one, 0))):
            held = self._held[tenant]
            if held < self._each and free - len(chosen) > (self._spare if held else 0):
                chosen.append(tenant)
        return chosen

    def begin(self, tenant: str) -> None:
        """Take a share for a tenant that was chosen."""
        self._turn += 1
        self._held[tenant] += 1
        if len(self._last) >= _REMEMBERED:
            self._last.clear()
        self._last[tenant] = self._turn

    def release(self, tenant: str) -> None:
        """Give a share back."""
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._call()

    async def acquire(self, tenant: str) -> None:
        """Take a share, when it is the tenant's turn."""
        turn = self._queue(tenant)
        try:
            await turn
        except BaseException:
            self._abandon(tenant, turn)
            raise

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """Hold a share within the block."""
        await self.acquire(tenant)
        try:
            yield
        finally:
            self.release(tenant)

    @asynccontextmanager
    async def rested(self, tenant: str) -> AsyncIterator[None]:
        """Hold a share for work that holds up everybody while it is done.

        The share stays taken for three times as long afterwards, at most one second. So a tenant has a quarter of the
        time, or more where a single piece of its work takes longer than a third of a second.
        """
        await self.acquire(tenant)
        began = time.monotonic()
        try:
            yield
        finally:
            rest = min(_REST * (time.monotonic() - began), _LONGEST)
            asyncio.get_running_loop().call_later(rest, self.release, tenant)

    async def run(self, tenant: str, pieces: Sequence[Callable[[], T]]) -> list[T]:
        """Run `pieces` of long work in a thread, each in a turn of its own. Return their results in order.

        The first exception is raised, and the other pieces are dropped. One that is under way keeps its share until it
        ends, also if nobody waits for it any more."""
        turns, results = deque(self._queue(tenant) for _ in pieces), list[T]()
        try:
            for piece in pieces:
                await turns[0]
                turns.popleft()
                work = asyncio.ensure_future(run_in_thread(piece))
                work.add_done_callback(lambda _: self.release(tenant))
                results.append(await asyncio.shield(work))
        finally:
            for turn in turns:
                self._abandon(tenant, turn)
        return results

    def _queue(self, tenant: str) -> asyncio.Future[None]:
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(turn)
        self._call()
        return turn

    def _abandon(self, tenant: str, turn: asyncio.Future[None]) -> None:
        """Give up a turn that was not used."""
        if not turn.cancel() and not turn.cancelled():  # it has come
            self.release(tenant)

    def _call(self) -> None:
        """Give turns to those who wait, while there is room."""
        while chosen := self.choose(self._waiting_tenants()):
            for tenant in chosen:
                self.begin(tenant)
                self._queues[tenant].popleft().set_result(None)

    def _waiting_tenants(self) -> list[str]:
        for tenant, queue in list(self._queues.items()):
            while queue and queue[0].done():  # abandoned
                queue.popleft()
            if not queue:
                del self._queues[tenant]
        return list(self._queues)


@dataclass(frozen=True, slots=True)
class TenantShares:
    """The shares of a server: large bodies, images and schemas that are read or written; places in the database (of
    eight); writes (what waits is written together, in one transaction); requests that fetch images or tools; speech
    that is heard or said, for all of which there are two processes; texts that are embedded, one batch at a time."""

    large: Shares = field(default_factory=lambda: Shares(1))
    reading: Shares = field(default_factory=lambda: Shares(4))
    writing: Shares = field(default_factory=lambda: Shares(8))
    fetching: Shares = field(default_factory=lambda: Shares(4))
    speech: Shares = field(default_factory=lambda: Shares(1, total=2))
    embedding: Shares = field(default_factory=lambda: Shares(total=1))

    def of_write(self, tenant: str, size: float) -> AbstractAsyncContextManager[None]:
        """A tenant's share for a write of `size` bytes: after a large one, others' writes come first."""
        return self.large.rested(tenant) if size > LARGE else self.writing.of(tenant)
