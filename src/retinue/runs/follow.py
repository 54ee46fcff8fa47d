"""Following runs: subscriptions to their logs, and the notifier that tells subscribers of news.

Within a process, what is written is handed to its readers. Between the processes of a PostgreSQL database, each tells
the others by notifications which runs it reads, and whoever writes to one of these tells that it has news.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection

from .._internal.concurrency import supervise
from ..errors import StoreUnavailable
from ..store.database import Database
from ..store.event_log import Entry, read_page
from ..store.notifications import listening, notify
from ..store.run_queries import RunMark, find_run, marks_of
from ..store.run_row import RunRow

logger = logging.getLogger(__name__)
Followed: TypeAlias = Entry | RunRow
Wake: TypeAlias = Callable[[], None]
_KEPT = 100  # items buffered for a slow subscriber; beyond that, it reads from the log again
_IDS = 50  # at most so many runs are read, and have news, in a notification
_GATHERS = 0.03  # seconds between two notifications of a process: what comes meanwhile goes into one
_ALONE = 1.0  # seconds between two looks at a file that only commands change beside this process


class Notifier:
    """Passes news of runs from those who write to those who read. A subscriber may be woken without news, and reads
    what there is from the database.

    Notifications may be lost, with a connection or behind a pooler. So a process with subscribers also looks at the
    database: seldom while its own notifications come back to it, and often while they do not.

    Args:
        here: The runs that this process drives. Their news are published; of them, only a drive by another process is
            looked for.
        often: Seconds between two looks at the database without notifications.
        seldom: Seconds between two looks with them. Twice as long after the last word of a reader, it is forgotten.
    """

    def __init__(self, database: Database, here: Collection[str], often: float = 0.25, seldom: float = 2.0) -> None:
        self.subscribed: dict[str, list[Wake]] = {}
        self.when_due: Wake = lambda: None  # called when another process says that runs are due
        self._database = database
        self._here = here
        self._often, self._seldom = often, seldom
        self._marks: dict[str, RunMark | None] = {}
        self._listens: dict[str, bool] = {}  # the runs that are read here, and whether for their deltas
        self._readers: dict[str, dict[str, _Elsewhere]] = {}  # by run and process
        self._arrives = False  # whether notifications do
        self._looking: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._reads: dict[str, bool] = {}  # to be sent
        self._news: dict[str, None] = {}  # to be sent
        self._due = False  # to be sent

    def announce(self, run_id: str) -> None:
        """Wake the run's subscribers in other processes."""
        if self._elsewhere(run_id):
            self._news[run_id] = None
            self._send()

    def announce_due(self) -> None:
        """Have other processes look for runs that are due."""
        self._due = True
        self._send()

    def listened(self, run_id: str) -> bool:
        """Whether a subscriber in another process wants deltas while the model generates."""
        return any(reader.listens for reader in self._elsewhere(run_id))

    def publish(self, run_id: str) -> None:
        """Wake the run's subscribers, in all processes."""
        self._wake(run_id)
        self.announce(run_id)

    def subscribe(self, run_id: str, wake: Wake, *, listens: bool = True) -> None:
        """Have `wake` called when the run has news. Call it in the server's event loop."""
        self.subscribed.setdefault(run_id, []).append(wake)
        self._listens[run_id] = self._listens.get(run_id, False) or listens
        if run_id not in self._here:
            self._reads[run_id] = self._listens[run_id]
            self._send()
        if self._looking is None or self._looking.done():
            self._looking = _beside("the watch of runs elsewhere", self._keep_looking)

    def unsubscribe(self, run_id: str, wake: Wake) -> None:
        """Stop calling `wake`."""
        wakes = self.subscribed[run_id]
        wakes.remove(wake)
        if not wakes:
            del self.subscribed[run_id], self._listens[run_id]

    def _wake(self, run_id: str) -> None:
        for wake in self.subscribed.get(run_id, ()):
            wake()

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
                    self._wake(run_id)
                self.when_due()
            return
        if message.due:
            self.when_due()
        now = asyncio.get_running_loop().time()
        for run_id in list(self._readers):
            self._elsewhere(run_id)
        for run_id, listens in message.reads.items():
            readers = self._readers.setdefault(run_id, {})
            new = message.process not in readers
            readers[message.process] = _Elsewhere(listens, now)
            if new and run_id in self._here:  # it may have had news before it was known who reads it
                self.announce(run_id)
        for run_id in message.news:
            self._wake(run_id)

    def _elsewhere(self, run_id: str) -> Collection[_Elsewhere]:
        """Return the other processes that read a run, and forget those that have not said so lately."""
        since = asyncio.get_running_loop().time() - 2 * self._seldom
        kept = {process: one for process, one in self._readers.get(run_id, {}).items() if one.heard_at >= since}
        if kept:
            self._readers[run_id] = kept
        else:
            self._readers.pop(run_id, None)
        return kept.values()

    def _send(self, *, always: bool = False) -> None:
        if self._database.notifies and (self._sending is None or self._sending.done()):
            self._sending = _beside("notifications", partial(self._keep_sending, always))

    async def _keep_sending(self, always: bool) -> None:
        while self._reads or self._news or self._due or always:
            always = False
            reads, self._reads = list(self._reads.items()), {}
            news, self._news = list(self._news), {}
            due, self._due = self._due, False
            said = [
                json.dumps(_Message(self._database.process, dict(reads[at : at + _IDS]), news[at : at + _IDS], due))
                for at in range(0, max(len(reads), len(news), 1), _IDS)
            ]
            try:
                await self._database.write_apart(partial(notify, said=said))
            except StoreUnavailable as error:  # readers look at the database as well
                logger.info("other servers cannot be notified at the moment: %s", error)
            await asyncio.sleep(_GATHERS)

    async def _keep_looking(self) -> None:
        if not self._database.is_shared:
            await asyncio.sleep(_ALONE)
        while self.subscribed:
            try:
                await self._look()
            except StoreUnavailable as error:
                logger.info("runs elsewhere cannot be followed at the moment: %s", error)
            if not self._database.is_shared:
                await asyncio.sleep(_ALONE)
                continue
            await asyncio.sleep(self._seldom if self._arrives else self._often)
            self._reads |= {run_id: listens for run_id, listens in self._listens.items() if run_id not in self._here}
            if self._reads:
                self._send()

    async def _look(self) -> None:
        shared = self._database.is_shared  # otherwise nobody else drives
        followed = [one for one in self.subscribed if shared or one not in self._here]
        found = await self._database.read(partial(marks_of, run_ids=followed))
        before, self._marks = self._marks, {}
        for run_id in followed:
            mark = found.get(run_id)
            if mark is not None and run_id in self._here:
                mark = RunMark(mark.epoch)
            self._marks[run_id] = mark
            if run_id not in before or mark != before[run_id]:  # the first time: it may have had news since it was read
                self._wake(run_id)


class _Elsewhere(NamedTuple):
    """A process that reads a run, perhaps for its deltas, and when it last said so, in loop time."""

    listens: bool
    heard_at: float


class _Message(NamedTuple):
    """What a process tells the others: the runs that it reads, and whether for their deltas; those with news; and
    whether there are runs that ought to be driven."""

    process: str
    reads: dict[str, bool]
    news: list[str]
    due: bool = False


def _beside(name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Start a task that outlives the request."""
    return asyncio.get_running_loop().create_task(supervise(name, work), name=name, context=Context())


class Subscriptions:
    """The subscribers of each run. A `RunRow` is published whenever the run's status changes."""

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier
        self._readers: dict[str, list[_Reader]] = {}
        self._starting: set[str] = set()

    @property
    def followed(self) -> list[str]:
        """The ids of the runs that have subscribers."""
        return list(self._readers)

    def starts(self, run_id: str) -> None:
        """Note that this process is about to drive the run: until it has news, a subscriber need not read its log."""
        self._starting.add(run_id)

    def has_ended(self, run_id: str) -> None:
        """Note that the drive is over. If it had no news, whoever waited for them reads the log."""
        if run_id in self._starting:
            self._starting.discard(run_id)
            self.look(run_id)

    def publish(self, run_id: str, items: Sequence[Followed]) -> None:
        """Publish committed items to the run's subscribers."""
        self._starting.discard(run_id)
        for reader in self._readers.get(run_id, ()):
            reader.put(items)
        self._notifier.announce(run_id)

    def look(self, run_id: str) -> None:
        """Make subscribers reread the log, after a write that came from outside a drive."""
        self._notifier.publish(run_id)

    def end(self, run_id: str, row: RunRow) -> None:
        """Have the run's subscribers get `row` and nothing more, whatever they have not read."""
        for reader in self._readers.get(run_id, ()):
            reader.end(row)

    def listen(self, run_id: str) -> bool:
        """Whether any subscriber wants deltas while the model generates."""
        return any(reader.listens for reader in self._readers.get(run_id, ())) or self._notifier.listened(run_id)

    async def follow(
        self, run_id: str, after: int = 0, *, listens: bool = True, run: RunRow | None = None
    ) -> AsyncGenerator[Followed, None]:
        """Yield the log entries after number `after`, live, and the run's row.

        The row comes after the entries so far, and whenever its status changes. The stream ends after the row of an
        inactive run.

        Args:
            run_id: The run to follow.
            after: The number of the last entry that the caller has.
            listens: Whether to receive deltas while the model generates. They are then written to the log; otherwise
                the text arrives with its reply.
            run: The run's row, if known; this saves reading its request, and everything if it is about to begin."""
        known = run if run is not None and not run.epoch and run_id in self._starting else None
        request = None if run is None else run.request
        with self._reading(run_id, _Reader(after, listens)) as reader:
            items: Sequence[Followed] | None = None if known is None else [known]
            while reader.last is None:
                if items is None:
                    reader.catch_up()
                    read = partial(_from, run_id, request, reader.after)
                    items = reader.note(await self._database.read(read, small=True))
                for item in items:
                    yield item
                if reader.over:
                    return
                items = await reader.take()
            yield reader.last

    @contextmanager
    def _reading(self, run_id: str, reader: _Reader) -> Iterator[_Reader]:
        self._readers.setdefault(run_id, []).append(reader)
        self._notifier.subscribe(run_id, reader.fall_behind, listens=reader.listens)
        try:
            yield reader
        finally:
            self._notifier.unsubscribe(run_id, reader.fall_behind)
            readers = self._readers[run_id]
            readers.remove(reader)
            if not readers:
                del self._readers[run_id]


def _from(run_id: str, request: Mapping[str, Any] | None, after: int, connection: Connection) -> Sequence[Followed]:
    """Return the next entries, and after them the run's row if no more follow; nothing if it does not exist."""
    entries = read_page(connection, run_id, after)
    run = find_run(connection, run_id, request)
    if run is None:
        return entries
    if entries or run.rests:  # more may follow, or have arrived in between
        further = read_page(connection, run_id, entries[-1].seq if entries else after)
        if further:
            return [*entries, *further]
    return [*entries, run]


class _Reader:
    """The unread items of one subscriber."""

    def __init__(self, after: int, listens: bool) -> None:
        self.after = after  # the number of the last entry delivered
        self.listens = listens
        self.over = False  # the row of an ended run was delivered
        self.last: RunRow | None = None  # with which this ends, as nobody is here any more
        self._items: list[Followed] = []
        self._behind = False
        self._more = asyncio.Event()

    def put(self, items: Sequence[Followed]) -> None:
        if len(self._items) + len(items) > _KEPT:
            self.fall_behind()
        if not self._behind:
            self._items.extend(items)
        self._more.set()

    def end(self, row: RunRow) -> None:
        """Deliver this row next, and nothing after it."""
        self.last = row
        self._more.set()

    def fall_behind(self) -> None:
        """Drop the buffered items; they are in the log."""
        self._behind = True
        self._items.clear()
        self._more.set()

    def catch_up(self) -> None:
        """Buffer new items from now on."""
        self._behind = False
        self._items.clear()
        self._more.clear()

    def note(self, items: Sequence[Followed]) -> Sequence[Followed]:
        """Note what was read and return it: entries, after which there may be more, unless the run's row follows."""
        last = items[-1] if items else None
        self.after = max((one.seq for one in items if isinstance(one, Entry)), default=self.after)
        if isinstance(last, Entry):
            self.fall_behind()
        else:
            self.over = last is None or not last.active
        return items

    async def take(self) -> Sequence[Followed] | None:
        """Wait for items and return the new ones; `None` if the buffer has overflowed, or lacks what another process
        wrote before this one took the run over."""
        await self._more.wait()
        self._more.clear()
        if self._behind or self.last is not None:
            return None
        items, self._items = self._items, []
        numbers = [self.after, *(item.seq for item in items if isinstance(item, Entry) and item.seq > self.after)]
        if any(number > before + 1 for before, number in pairwise(numbers)):
            return None
        return [item for item in items if not self.over and self._is_new(item)]

    def _is_new(self, item: Followed) -> bool:
        """Whether `item` was not delivered before; marks it as delivered."""
        if isinstance(item, RunRow):
            self.over = not item.active
            return True
        new = item.seq > self.after
        self.after = max(self.after, item.seq)
        return new
