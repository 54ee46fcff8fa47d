"""Notifiers tell who follows a run that it has news: events in its log, or another status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextvars import Context
from functools import partial
from typing import Protocol, TypeAlias

from .._internal.supervision import supervise
from ..errors import StoreUnavailable
from ..store.database import Database
from ..store.run_queries import RunMark, marks_of

logger = logging.getLogger(__name__)
_EVERY = 0.25  # seconds between two looks at the runs that other processes drive
Wake: TypeAlias = Callable[[], None]


class Notifier(Protocol):
    """Passes news of runs from those who write to those who read. A subscriber may be woken without news, and reads
    what there is from the database."""

    def publish(self, run_id: str) -> None:
        """Wake the run's subscribers."""
        ...

    def subscribe(self, run_id: str, wake: Wake) -> None:
        """Have `wake` called when the run has news, until `unsubscribe` is called with the same arguments."""
        ...

    def unsubscribe(self, run_id: str, wake: Wake) -> None:
        """Stop calling `wake`."""
        ...


class LocalNotifier:
    """Notifies within one process."""

    def __init__(self) -> None:
        self.subscribed: dict[str, list[Wake]] = {}

    def publish(self, run_id: str) -> None:
        """Wake the run's subscribers."""
        for wake in self.subscribed.get(run_id, ()):
            wake()

    def subscribe(self, run_id: str, wake: Wake) -> None:
        """Have `wake` called when the run has news."""
        self.subscribed.setdefault(run_id, []).append(wake)

    def unsubscribe(self, run_id: str, wake: Wake) -> None:
        """Stop calling `wake`."""
        wakes = self.subscribed[run_id]
        wakes.remove(wake)
        if not wakes:
            del self.subscribed[run_id]


class PollingNotifier(LocalNotifier):
    """Also notifies of what other processes write to the database, by looking at it while there are subscribers.

    `here` has the runs that this process drives. Their news are published; of them, only a drive by another process is
    looked for.
    """

    def __init__(self, database: Database, here: Collection[str]) -> None:
        super().__init__()
        self._database = database
        self._here = here
        self._marks: dict[str, RunMark | None] = {}
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, run_id: str, wake: Wake) -> None:
        """Have `wake` called when the run has news. Call it in the server's event loop."""
        super().subscribe(run_id, wake)
        if self._task is None or self._task.done():
            work = supervise("the watch of runs elsewhere", self._keep_looking)
            self._task = asyncio.create_task(work, name="notifier", context=Context())  # outlives the request

    async def _keep_looking(self) -> None:
        while self.subscribed:
            try:
                await self._look()
            except StoreUnavailable as error:
                logger.info("runs elsewhere cannot be followed at the moment: %s", error)
            await asyncio.sleep(_EVERY)

    async def _look(self) -> None:
        followed = list(self.subscribed)
        found = await self._database.read(partial(marks_of, run_ids=followed))
        before, self._marks = self._marks, {}
        for run_id in followed:
            mark = found.get(run_id)
            if mark is not None and run_id in self._here:
                mark = RunMark(mark.epoch)
            self._marks[run_id] = mark
            if run_id not in before or mark != before[run_id]:  # the first time: it may have had news since it was read
                self.publish(run_id)


def notifier_of(database: Database, here: Collection[str]) -> Notifier:
    """Return the notifier for a database; `here` has the runs that this process drives."""
    return PollingNotifier(database, here) if database.is_shared else LocalNotifier()
