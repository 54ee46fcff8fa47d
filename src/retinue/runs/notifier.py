"""Notifiers tell who follows a run that it has news: events in its log, or another status.

Within a process, what is written is handed to its readers. Between the processes of a PostgreSQL database, each tells
the others by notifications which runs it reads, and whoever writes to one of these tells that it has news.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from contextvars import Context
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from .._internal.concurrency import supervise
from ..errors import StoreUnavailable
from ..store.database import Database
from ..store.notifications import listening, notify
from ..store.run_queries import RunMark, marks_of

logger = logging.getLogger(__name__)
_IDS = 50  # at most so many runs are read, and have news, in a notification
Wake: TypeAlias = Callable[[], None]


class Notifier(Protocol):
    """Passes news of runs from those who write to those who read. A subscriber may be woken without news, and reads
    what there is from the database."""

    def publish(self, run_id: str) -> None:
        """Wake the run's subscribers."""
        ...

    def announce(self, run_id: str) -> None:
        """Wake the run's subscribers in other processes; those of this one have been told."""
        ...

    def listened(self, run_id: str) -> bool:
        """Whether a subscriber in another process wants deltas while the model generates."""
        ...

    def subscribe(self, run_id: str, wake: Wake, *, listens: bool = True) -> None:
        """Have `wake` called when the run has news, until `unsubscribe` is called with the same arguments. `listens`
        says whether the subscriber wants deltas while the model generates."""
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

    def announce(self, run_id: str) -> None:
        """Do nothing: there is no other process."""

    def listened(self, run_id: str) -> bool:
        """Return `False`: there is no other process."""
        return False

    def subscribe(self, run_id: str, wake: Wake, *, listens: bool = True) -> None:
        """Have `wake` called when the run has news."""
        self.subscribed.setdefault(run_id, []).append(wake)

    def unsubscribe(self, run_id: str, wake: Wake) -> None:
        """Stop calling `wake`."""
        wakes = self.subscribed[run_id]
        wakes.remove(wake)
        if not wakes:
            del self.subscribed[run_id]


class SharedNotifier(LocalNotifier):
    """Also passes news between the processes that have a PostgreSQL database open.

    Notifications may be lost, with a connection or behind a pooler. So a process with subscribers also looks at the
    database: seldom while its own notifications come back to it, and often while they do not.

    Args:
        here: The runs that this process drives. Their news are published; of them, only a drive by another process is
            looked for.
        often: Seconds between two looks at the database without notifications.
        seldom: Seconds between two looks with them. Twice as long after the last word of a reader, it is forgotten.
    """

    def __init__(self, database: Database, here: Collection[str], often: float = 0.25, seldom: float = 2.0) -> None:
        super().__init__()
        self._database = database
        self._here = here
        self._often, self._seldom = often, seldom
        self._marks: dict[str, RunMark | None] = {}
        self._listens: dict[str, bool] = {}  # the runs that are read here, and whether for their deltas
        self._readers: dict[str, dict[str, _Reader]] = {}  # elsewhere, by run and process
        self._arrives = False  # whether notifications do
        self._looking: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._reads: dict[str, bool] = {}  # to be sent
        self._news: dict[str, None] = {}  # to be sent

    def announce(self, run_id: str) -> None:
        """Wake the run's subscribers in other processes."""
        if self._elsewhere(run_id):
            self._news[run_id] = None
            self._send()

    def listened(self, run_id: str) -> bool:
        """Whether a subscriber in another process wants deltas while the model generates."""
        return any(reader.listens for reader in self._elsewhere(run_id))

    def publish(self, run_id: str) -> None:
        """Wake the run's subscribers, in all processes."""
        super().publish(run_id)
        self.announce(run_id)

    def subscribe(self, run_id: str, wake: Wake, *, listens: bool = True) -> None:
        """Have `wake` called when the run has news. Call it in the server's event loop."""
        super().subscribe(run_id, wake)
        self._listens[run_id] = self._listens.get(run_id, False) or listens
        if run_id not in self._here:
            self._reads[run_id] = self._listens[run_id]
            self._send()
        if self._looking is None or self._looking.done():
            self._looking = _beside("the watch of runs elsewhere", self._keep_looking)

    def unsubscribe(self, run_id: str, wake: Wake) -> None:
        """Stop calling `wake`."""
        super().unsubscribe(run_id, wake)
        if run_id not in self.subscribed:
            del self._listens[run_id]

    async def keep_listening(self) -> None:
        """Take notifications until this is cancelled."""
        try:
            while True:
                await self._listen()
                self._arrives = False
                await asyncio.sleep(self._often)
        finally:
            if self._sending is not None:
                await asyncio.wait([self._sending])

    async def _listen(self) -> None:
        """Take notifications until the connection is lost."""
        try:
            async with listening(self._database.engine, self._heard) as lost:
                self._reads |= self._listens
                self._send(always=True)
                await lost
        except StoreUnavailable as error:
            logger.info("no notifications of runs elsewhere at the moment: %s", error)

    def _heard(self, said: str) -> None:
        message = _Message(*json.loads(said))
        if message.process == self._database.process:
            if not self._arrives:
                self._arrives = True
                for run_id in list(self.subscribed):  # they may have had news in between
                    super().publish(run_id)
            return
        now = asyncio.get_running_loop().time()
        for run_id in list(self._readers):
            self._elsewhere(run_id)
        for run_id, listens in message.reads.items():
            readers = self._readers.setdefault(run_id, {})
            new = message.process not in readers
            readers[message.process] = _Reader(listens, now)
            if new and run_id in self._here:  # it may have had news before it was known who reads it
                self.announce(run_id)
        for run_id in message.news:
            super().publish(run_id)

    def _elsewhere(self, run_id: str) -> Collection[_Reader]:
        """Return the other processes that read a run, and forget those that have not said so lately."""
        since = asyncio.get_running_loop().time() - 2 * self._seldom
        kept = {process: one for process, one in self._readers.get(run_id, {}).items() if one.heard_at >= since}
        if kept:
            self._readers[run_id] = kept
        else:
            self._readers.pop(run_id, None)
        return kept.values()

    def _send(self, *, always: bool = False) -> None:
        if self._sending is None or self._sending.done():
            self._sending = _beside("notifications", partial(self._keep_sending, always))

    async def _keep_sending(self, always: bool) -> None:
        while self._reads or self._news or always:
            always = False
            reads, self._reads = list(self._reads.items()), {}
            news, self._news = list(self._news), {}
            said = [
                json.dumps(_Message(self._database.process, dict(reads[at : at + _IDS]), news[at : at + _IDS]))
                for at in range(0, max(len(reads), len(news), 1), _IDS)
            ]
            try:
                await self._database.write_apart(partial(notify, said=said))
            except StoreUnavailable as error:  # readers look at the database as well
                logger.info("other servers cannot be notified at the moment: %s", error)

    async def _keep_looking(self) -> None:
        while self.subscribed:
            try:
                await self._look()
            except StoreUnavailable as error:
                logger.info("runs elsewhere cannot be followed at the moment: %s", error)
            await asyncio.sleep(self._seldom if self._arrives else self._often)
            self._reads |= {run_id: listens for run_id, listens in self._listens.items() if run_id not in self._here}
            if self._reads:
                self._send()

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
                super().publish(run_id)


class _Reader(NamedTuple):
    """A process that reads a run, perhaps for its deltas, and when it last said so, in loop time."""

    listens: bool
    heard_at: float


class _Message(NamedTuple):
    """What a process tells the others: the runs that it reads, and whether for their deltas, and those with news."""

    process: str
    reads: dict[str, bool]
    news: list[str]


def _beside(name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Start a task that outlives the request."""
    return asyncio.get_running_loop().create_task(supervise(name, work), name=name, context=Context())


def notifier_of(database: Database, here: Collection[str]) -> SharedNotifier | LocalNotifier:
    """Return the notifier for a database; `here` has the runs that this process drives."""
    return SharedNotifier(database, here) if database.is_shared else LocalNotifier()
