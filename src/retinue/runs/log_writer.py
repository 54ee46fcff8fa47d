"""Writes a drive's events to the run's log in the background; the run waits only where it must."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence, Set, Sized
from functools import partial
from typing import TYPE_CHECKING, overload

from ..core.events import Asked, Called, Delta, Event, Finished, Judged, Observed, Replied, Retried, Said, Started
from ..core.run_context import current_run
from ..core.values import Message
from ..errors import NotDone, StoreUnavailable
from ..limits.quotas import QuotaStop
from ..store.clock import CLOCK
from ..store.database import Database
from ..store.event_log import Change, Entry, Fenced, append_entries
from ..store.run_queries import find_run
from ..store.run_row import RunRow
from .failpoints import failpoint
from .follow import Subscriptions
from .run_traces import RunTrace

if TYPE_CHECKING:
    from .run_metrics import LogMetrics

logger = logging.getLogger(__name__)
_SAYS = 0.02  # minimum seconds between two writes of streamed deltas
_TELLS = 0.01  # seconds within which readers are told of a call that needs no intent on the disk; most end sooner
_LARGE = 50_000  # characters that take more than a few milliseconds to write
_UNCOUNTED = 100  # entries after which what they say was used is added to the tenant's sums, before the drive ends
_STALE = 1.0  # seconds after which what was read of a run is read again before an effect
_BACK_OFF = (0.1, 0.5, 2.0, 5.0)  # seconds between retries while the database is unavailable


class DeltaBuffer:
    """Merges adjacent deltas until they are taken. The answer, other text and reasoning are kept apart; reasoning is
    dropped unless it is `shown`, since the whole of it follows with the reply."""

    def __init__(self, *, shown: bool) -> None:
        self._begun: list[tuple[str, int, list[Delta]]] = []  # the kind, the offset in the answer, the deltas
        self._shown = shown
        self._answered = 0  # characters of the answer so far
        self._pieces = 0

    def __bool__(self) -> bool:
        return bool(self._begun)

    @property
    def has_begun(self) -> bool:
        """Whether any delta of the reply has arrived, published or not."""
        return self._pieces > 0

    def add(self, delta: Delta) -> bool:
        """Add a delta. Return whether it is the reply's first."""
        kind = "answer" if delta.answer else "text" if delta.text or not delta.reasoning else "reasoning"
        if kind != "reasoning" or self._shown:
            if not self._begun or self._begun[-1][0] != kind:
                self._begun.append((kind, self._answered, []))
            self._begun[-1][2].append(delta)
            self._answered += len(delta.answer)
        self._pieces += 1
        return self._pieces == 1

    def take(self) -> list[Said]:
        """Remove and return the buffered pieces."""
        said = [
            Said(
                "".join([one.text for one in deltas]),
                "".join([one.answer for one in deltas]),
                offset,
                "".join([one.reasoning for one in deltas]) if self._shown else "",
            )
            for _, offset, deltas in self._begun
        ]
        self._begun.clear()
        return said


def chars_of(event: Event) -> int:
    """Return the approximate size of an event in characters, and bytes of files."""
    match event:
        case Started(question, history=history, files=files):
            return len(question) + sum(map(_chars_of_message, history)) + sum(len(image.data) for image in files)
        case Asked(messages=messages):
            return sum(map(_chars_of_message, messages))
        case Observed(observation=observation):
            return len(observation.text) + sum(len(file.data) for file in observation.files)
        case Replied(reply=reply):
            return len(reply.text) + len(reply.reasoning) + (len(reply.state.turn) if reply.state else 0)
        case Finished(answer=answer):
            return len(answer)
    return 0


def _chars_of_message(message: Message) -> int:
    kept = len(message.state.turn) if message.state else 0
    return len(message.content) + kept + sum(len(image.data) for image in message.files)


class ParkedRuns:
    """Counts the runs that wait (`number`)."""

    def __init__(self) -> None:
        self.number = 0

    async def wait(self, run_id: str, error: StoreUnavailable, tries: int) -> None:
        """Wait before a run's work is tried again, which failed `tries` times before."""
        seconds = _BACK_OFF[min(tries, len(_BACK_OFF) - 1)]
        logger.warning("the run %s is parked for %.1f s: %s", run_id, seconds, error)
        self.number += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.number -= 1


class LogWriter:
    """Appends to the log of `run` under its epoch, and publishes committed events to subscribers.

    `found` are the calls of members that have ended, and are found by every drive until their answers are written.
    `trace` and `meter` are told of what is committed, and `quota` is asked before a model is. It waits among the
    `parked` while the database is unavailable. `live` are the drives of this process, as far as it is told.
    Methods that wait raise `Fenced` if another drive has taken over the run.
    """

    def __init__(
        self,
        database: Database,
        followers: Subscriptions,
        run: RunRow,
        log: Sequence[Entry],
        found: Set[str] = frozenset(),
        parked: ParkedRuns | None = None,
    ) -> None:
        self.log = list(log)
        self._found = found
        self._database = database
        self._followers = followers
        self.run = run
        self.trace: RunTrace | None = None
        self.meter: LogMetrics | None = None
        self.live: Sized = ()
        self._parked = parked or ParkedRuns()
        self.quota: QuotaStop | None = None
        self._counts_at_once = False
        self._written = len(self.log)
        self._verdicts: list[Judged] = []
        self._counted = 0  # of the log's entries; earlier drives may have counted more
        self._streamed = bool(run.request.get("stream"))
        self._shows_reasoning = bool(run.request.get("shows_reasoning"))
        self._writing: asyncio.Future[RunRow | None] | None = None
        self._planned = False
        self._unsure = False  # whether the last write may have been committed all the same
        self._arriving = DeltaBuffer(shown=self._shows_reasoning)
        self._saying: asyncio.TimerHandle | None = None
        self._telling: asyncio.TimerHandle | None = None  # a write that `_write_later` scheduled
        self._late = False  # deltas became due during another write
        self._said_at = 0.0  # in loop time

    def count_at_once(self) -> None:
        """Have each append count what it says was used."""
        self._counts_at_once = True

    async def note(self, event: Event | Delta, free: Set[str], members: Set[str]) -> bool:
        """Append an event of the run as it occurs, and write it when it must be: what a call may do to the world only
        after its intent is persisted, unless its tool is one of `free`; calls of `members` are written with the
        members' runs. Return whether the run may go on: no, if another process has cancelled it before that call, or
        the tenant's quota is used up."""
        goes_on = True
        match event:
            case Delta():
                failpoint("mid-reply")
                self.tell(event)
            case Asked():  # a step begins: what the previous one did must be persisted
                if not self._is_known_elsewhere():
                    await self.written()
                self.put(event)
                goes_on = self.quota is None or await self.quota.lets_ask()
                failpoint("before asking")
            case Replied() | Judged():
                failpoint("before reply is written")
                self.put(event)
            case Called(action=action):
                self.put(event)
                if action.tool in free:
                    self._write_later()
                elif action.tool not in members:  # the intent is persisted before the effect
                    failpoint("before intent")
                    goes_on = await self.may_act()
                    failpoint("after intent")
            case _:
                failpoint("before event")
                self.put(event)
                if self._is_known_elsewhere():
                    self._write_later()
                else:
                    self.write()
        return goes_on

    def _is_known_elsewhere(self) -> bool:
        """Whether a drive that lacks the unwritten events finds what they say: the run's input in its request, the
        answers of members in their runs."""
        for entry in self.log[self._written :]:
            match entry.event:
                case Started():
                    continue
                case Observed(observation=seen) if seen.call_id in self._found:
                    continue
            return False
        return True

    def put(self, event: Event) -> None:
        """Append `event`; it is persisted with the next write. Buffered deltas are appended before it. A verdict is
        appended with what follows from it, so that a log never ends with one."""
        if isinstance(event, Judged):
            self._verdicts.append(event)
            return
        if self._arriving.has_begun:
            self._put_said()
            if not isinstance(event, Retried):  # a retried reply continues from what was already streamed
                self._arriving = DeltaBuffer(shown=self._shows_reasoning)
        for verdict in self._verdicts:
            self._add(verdict)
        self._verdicts.clear()
        self._add(event)

    def tell(self, delta: Delta) -> None:
        """Persist and then stream a delta, if the run has subscribers; a reconnecting client reads the same text.
        Deltas are buffered while a write is under way or was just made, except for the first one."""
        first = self._arriving.add(delta)
        if not self._heard:
            return
        if first and self._put_said():
            self.write()
        elif self._saying is None and not self._late:
            loop = asyncio.get_running_loop()
            self._saying = loop.call_at(self._said_at + _SAYS, self._say)

    @property
    def _heard(self) -> bool:
        """Whether a subscriber reads the stream, or will: a client that asked for a stream may not have connected
        yet."""
        return self._streamed or self._followers.listen(self.run.id)

    def _say(self) -> None:
        self._saying = None
        if self._writing is not None:
            self._late = True  # `_go_on` handles it
        elif self._put_said():
            self._planned = True
            self._begin()

    def _put_said(self) -> bool:
        """Append the buffered deltas if the run has subscribers. Return whether there were any."""
        if self._saying is not None:
            self._saying.cancel()
            self._saying = None
        if not self._arriving or not self._heard:
            return False
        for said in self._arriving.take():
            self._add(said)
        self._said_at = asyncio.get_running_loop().time()
        return True

    def _add(self, event: Event) -> None:
        seq = self.log[-1].seq + 1 if self.log else 1
        self.log.append(Entry(seq, CLOCK.now(), event))

    def write(self) -> None:
        """Schedule a write without waiting; events appended in the same iteration of the loop join it."""
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _write_later(self) -> None:
        """Schedule a write of what must be told before long, but is mostly written together with what follows it."""
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_TELLS, self._tell_now)

    def _tell_now(self) -> None:
        self._telling = None
        self._planned = True
        self._begin()

    def _begin(self) -> None:
        if self._writing is not None or not self._planned:
            return  # the current write finishes first, and `_go_on` starts the next; or `written` was there before
        self._planned = False
        if self._written < len(self.log):
            self._writing = self._submit()
            self._writing.add_done_callback(self._go_on)

    async def may_act(self) -> bool:
        """Wait until all events are persisted, such as the intent of an effect. Return whether the effect may follow:
        no, if another process has cancelled the run by then. Raises `Fenced` if another process has taken the run over:
        this one may have been frozen since the intent was written."""
        await self.written()
        fresh = not self._database.is_shared
        while not fresh:
            began = time.monotonic()
            find = partial(find_run, run_id=self.run.id, request=self.run.request)
            run = await self._database.read(find, small=True)
            if run is None or run.status == "cancelling" or run.ending is not None:
                return False
            if run.epoch != self.run.epoch:
                raise Fenced(self.run.id)
            fresh = time.monotonic() - began < _STALE  # else it was frozen after the row was read
            if (here := current_run()).run == self.run.id:
                here.progress.fresh_until = began + _STALE
        return True

    async def confirm(self) -> None:
        """Look up whether this process still has the run, before an effect that begins late. Raises as `may_act` does,
        and `NotDone` if the run was cancelled."""
        if not await self.may_act():
            raise NotDone("the run was cancelled")

    @overload
    async def written(self) -> None: ...

    @overload
    async def written(self, change: Callable[[RunRow], Change]) -> RunRow: ...

    async def written(self, change: Callable[[RunRow], Change] | None = None) -> RunRow | None:
        """Wait until all events are persisted, together with the `change` to the run's row. Return the new row, if
        there is a change. While the database is unavailable, this is tried again; events stay in memory meanwhile."""
        tries = 0
        while True:
            try:
                self._planned = False
                while self._writing is not None:
                    await asyncio.shield(self._writing)
                    await asyncio.sleep(0)  # let the callbacks of a finished write run first
                if change is None and self._written == len(self.log):
                    return None
                self._writing = self._submit(change, lone=len(self.live) == 1)
                run = await asyncio.shield(self._writing)
                self._writing = None
                return run
            except asyncio.CancelledError:  # whoever ends the run waits for it, and nobody else
                if self._writing is not None:
                    self._writing.add_done_callback(self._go_on)
                raise
            except StoreUnavailable as error:
                self._writing = None
                await self._parked.wait(self.run.id, error, tries)
                tries += 1

    def _submit(
        self, change: Callable[[RunRow], Change] | None = None, *, lone: bool = False
    ) -> asyncio.Future[RunRow | None]:
        """Submit the unwritten events; `lone` as in `Database.submit`."""
        entries = self.log[self._written :]
        counts = change is not None or len(self.log) - self._counted >= _UNCOUNTED
        if counts or self._counts_at_once or (self.quota is not None and self.quota.is_limited):
            self._counted = len(self.log)
        work = partial(
            append_entries,
            holder=self.run,
            entries=[*self._said_before(entries), *entries],
            change=change,
            written=None if self._unsure else self._written,
            log=self.log if self._counted == len(self.log) else None,
        )
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        large = sum(chars_of(one.event) for one in entries) > _LARGE
        future = self._database.submit(work, large=large, lone=lone)
        if future.done():  # a callback would be called when the run has gone on
            self._pass_on(entries, future)
        else:
            future.add_done_callback(partial(self._pass_on, entries))
        return future

    def _said_before(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the pieces of the reply among `entries` that are written already."""
        first = self._written
        if any(isinstance(one.event, Replied) for one in entries):
            while first and isinstance(self.log[first - 1].event, Said):
                first -= 1
        return self.log[first : self._written]

    def _pass_on(self, entries: Sequence[Entry], future: asyncio.Future[RunRow | None]) -> None:
        if future.cancelled():
            return
        self._unsure = isinstance(future.exception(), StoreUnavailable)
        if future.exception() is None:
            self._written += len(entries)
            run = future.result()
            try:
                self._followers.publish(self.run.id, entries if run is None else [*entries, run])
                if self.trace is not None:  # after the readers, whom nothing that it does may hold up
                    self.trace.see(entries)
                if self.meter is not None:
                    self.meter.see(entries)
            except Exception:  # an exporter's, perhaps; the run goes on
                logger.exception("some of what was committed was not passed on")

    def _go_on(self, future: asyncio.Future[RunRow | None]) -> None:
        if future.cancelled() or future.exception() is not None:
            return  # kept, so that the waiting caller receives the error
        self._writing = None
        if self._late:
            self._late = False
            self._planned = self._put_said() or self._planned
        if self._planned:  # requested during the last write
            self._begin()
